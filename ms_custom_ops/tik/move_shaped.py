# SPDX-License-Identifier: Apache-2.0
"""Moves that shape data on the way: data_move_pad (any number of bytes), data_move_multi_nd2nz."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.addresses import sides
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.move import MAX_BURSTS
from ms_custom_ops.tik.tensor import Tensor

MAX_PAD_BURST = 2097151


class ShapedMoveMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def data_move_pad(
        self, dst, src, nburst, burst, dst_gap, src_gap, right_padding=0, left_padding=0, padding_value=None
    ):
        """GM<->UB with ``burst`` in bytes. Gaps: bytes on the GM side, 32-byte blocks on the UB side; each
        burst starts at a 32-byte boundary of UB. Paddings (GM to UB only) in elements."""
        b = self._b
        if b.dead:
            return
        api = "data_move_pad"
        dst, src = sides(dst, src, api)
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_scope(b, dst, api, "dst", (ir.GM, ir.UB))
        check_scope(b, src, api, "src", (ir.UB,) if dst.storage.buffer.scope == ir.GM else (ir.GM,))
        to_ub = dst.storage.buffer.scope == ir.UB
        size = SIZE[dst.dtype]
        nburst = ranged(nburst, api, "nburst", 1, MAX_BURSTS)
        burst = ranged(burst, api, "burst", 1, MAX_PAD_BURST)
        gaps = [ranged(v, api, n, 0, 2**32 - 1) for v, n in ((src_gap, "src_gap"), (dst_gap, "dst_gap"))]
        gaps[1 if to_ub else 0] = gaps[1 if to_ub else 0] * BLOCK_BYTES
        left = ranged(left_padding, api, "left_padding", 0, BLOCK_BYTES // size)
        right = ranged(right_padding, api, "right_padding", 0, BLOCK_BYTES // size)
        value = self._pad_value(api, dst.dtype, to_ub, left, right, padding_value)
        for t, name in ((dst, "dst"), (src, "src")):
            check_start(t, api, name)
        if all(v.__class__ is int for v in (nburst, burst, left, right, *gaps)):
            whole = -(-(burst + (left + right) * size) // BLOCK_BYTES) * BLOCK_BYTES
            gm, ub = (src, dst) if to_ub else (dst, src)
            gm_gap, ub_gap = gaps if to_ub else (gaps[1], gaps[0])
            check_extent(gm, (nburst - 1) * (burst + gm_gap) + burst, api, "src" if to_ub else "dst")
            check_extent(
                ub, (nburst - 1) * (whole + ub_gap) + (whole if to_ub else burst), api, "dst" if to_ub else "src"
            )
        b.body.append(
            ir.Instr("data_move_pad", (dst.ref(), src.ref()), (nburst, burst, *gaps, left, right, value), (), b.loc())
        )

    def _pad_value(self, api: str, dtype: str, to_ub: bool, left: Any, right: Any, value: Any) -> Any:
        b = self._b
        padded = not (left.__class__ is int and left == 0 and right.__class__ is int and right == 0)
        if not to_ub and (padded or value is not None):
            raise b.fail(TikError, api, "padding of ub->gm", f"{left}, {right}, {value}", "0, 0, None")
        if padded != (value is not None):
            raise b.fail(
                TikError, api, "padding_value", value, "a number" if padded else "None when both paddings are 0"
            )
        return scalar_operand(b, 0 if value is None else value, dtype, api, "padding_value")

    def data_move_multi_nd2nz(
        self, dst, src, nd_num, nd_n, nd_d, src_nd_stride, src_n_stride, dst_c0_stride, dst_n_stride, dst_nd_stride
    ):
        """GM to L1, ``nd_num`` matrices of nd_n x nd_d elements into fractals: see ``nd2nz`` of the isa
        module."""
        b = self._b
        if b.dead:
            return
        api = "data_move_multi_nd2nz"
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_scope(b, dst, api, "dst", (ir.L1,))
        check_scope(b, src, api, "src", (ir.GM,))
        limits = (
            ("nd_num", nd_num, 0, 4095),
            ("nd_n", nd_n, 0, 16384),
            ("nd_d", nd_d, 0, 65535),
            ("src_nd_stride", src_nd_stride, 0, 65535),
            ("src_n_stride", src_n_stride, 1, 65535),
            ("dst_c0_stride", dst_c0_stride, 1, 16384),
            ("dst_n_stride", dst_n_stride, 1, 16384),
            ("dst_nd_stride", dst_nd_stride, 1, 65535),
        )
        args = tuple(ranged(v, api, n, low, high) for n, v, low, high in limits)
        check_start(dst, api, "dst")
        if all(a.__class__ is int for a in args):
            self._check_nd2nz(api, dst, src, args)
        b.body.append(ir.Instr("nd2nz", (dst.ref(), src.ref()), args, (), b.loc()))

    def _check_nd2nz(self, api: str, dst: Tensor, src: Tensor, args: tuple[int, ...]) -> None:
        num, n, d, src_nd, src_n, dst_c0, dst_n, dst_nd = args
        if 0 in (num, n, d):
            return
        size = SIZE[dst.dtype]
        columns = -(-d // (BLOCK_BYTES // size))
        check_extent(src, ((num - 1) * src_nd + (n - 1) * src_n + d) * size, api, "src")
        last_block = (columns - 1) * dst_c0 + (n - 1) * dst_n
        check_extent(dst, (num - 1) * dst_nd * size + (last_block + 1) * BLOCK_BYTES, api, "dst")
        # Two (row, column) pairs share a block when one stride's multiples meet the other's.
        blocks = {c * dst_c0 + r * dst_n for c in range(min(columns, 64)) for r in range(min(n, 64))}
        if len(blocks) != min(columns, 64) * min(n, 64):
            raise self._b.fail(
                TikError,
                api,
                "dst_c0_stride and dst_n_stride",
                f"{dst_c0}, {dst_n}",
                f"strides that keep {columns} x {n} blocks apart",
            )
