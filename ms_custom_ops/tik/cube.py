# SPDX-License-Identifier: Apache-2.0
"""Cube: loads of L0A/L0B, mmad, matmul from L1."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, binary, cast
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ELEMENTS
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_dense,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    number,
    ranged,
)
from ms_custom_ops.tik.tensor import Tensor

MAX_MKN = 4095
MAX_MATMUL_MN = 4096
MAX_MATMUL_K_BYTES = 32768
FRACTAL_ROWS = 16


def round_up(value: int, unit: int) -> int:
    """Smallest multiple of ``unit`` that is at least ``value``."""
    return -(-value // unit) * unit


def product_code(fm: str, weight: str, result: str) -> str:
    """Support-table code of a cube product."""
    return SHORT[fm] + SHORT[weight] + SHORT[result]


class CubeMixin:
    """``Tik`` methods of this module."""

    _b: Builder
    _bias: Any  # of L0cMixin

    def load2dv1(self, dst, src, index, repeat_times, src_stride, sid, if_transpose=False, addr_mode=None):
        """``repeat_times`` fractals of 512 bytes from GM or L1: source fractal index + r * src_stride, dst
        dense."""
        self._load2d("load2dv1", dst, src, index, repeat_times, 0, src_stride, sid, if_transpose, addr_mode)

    def load2dv2(
        self, dst, src, start_index, repeat_times, dst_gap, src_stride, sid, if_transpose=False, addr_mode=None
    ):
        """load2dv1 with ``dst_gap`` fractals left out between destination fractals."""
        self._load2d("load2dv2", dst, src, start_index, repeat_times, dst_gap, src_stride, sid, if_transpose, addr_mode)

    def _load2d(
        self,
        api: str,
        dst: Any,
        src: Any,
        index: Any,
        repeat: Any,
        dst_gap: Any,
        src_stride: Any,
        sid: Any,
        transpose: Any,
        addr_mode: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_scope(b, dst, api, "dst", (ir.L0A, ir.L0B, ir.L1))
        check_scope(b, src, api, "src", (ir.GM, ir.L1) if dst.storage.buffer.scope != ir.L1 else (ir.GM,))
        if addr_mode not in (None, 0, "inc"):
            raise b.fail(TikSupportError, api, "addr_mode", addr_mode, "None, 0, 'inc'")
        ranged(sid, api, "sid", 0, 15)
        index = ranged(index, api, "index", 0, 65535)
        r = ranged(repeat, api, "repeat_times", 1, 255)
        gap = ranged(dst_gap, api, "dst_gap", 0, 65535)
        stride = ranged(src_stride, api, "src_stride", 0, 65535)
        turn = flag(transpose, api, "if_transpose")
        if turn and (SIZE[dst.dtype] != 2 or dst.storage.buffer.scope == ir.L1):
            raise b.fail(
                TikError,
                api,
                "if_transpose",
                f"{dst.dtype} into {dst.storage.buffer.scope}",
                "16-bit dtypes into l0a, l0b",
            )
        check_start(dst, api, "dst", 512)
        check_start(src, api, "src")
        if r.__class__ is int:
            if gap.__class__ is int:
                check_extent(dst, ((r - 1) * (1 + gap) + 1) * FRACTAL_BYTES, api, "dst")
            if index.__class__ is int and stride.__class__ is int:
                check_extent(src, (index + (r - 1) * stride + 1) * FRACTAL_BYTES, api, "src")
        b.body.append(ir.Instr("load2d", (dst.ref(), src.ref()), (index, r, stride, gap), (int(turn),), b.loc()))

    def mmad(
        self,
        dst_fm,
        src_fm,
        src_filter,
        matrix_m,
        matrix_k,
        matrix_n,
        is_bias,
        fm_offset=0,
        en_weight_offset=False,
        smask=None,
        en_small_channel=False,
        en_small_k=False,
        en_ssparse=False,
        en_winograd_a=False,
        en_winograd_b=False,
        bias_tensor=None,
    ):
        """L0C[m, n] = L0A[m, k] @ L0B[k, n], added to L0C with ``is_bias`` 1. Layouts: see ``mmad`` of the
        isa module. ``bias_tensor`` (910B): a row of n values, n rounded up to 16, in L1 or BT that L0C starts
        from, whatever ``is_bias`` is."""
        b = self._b
        if b.dead:
            return
        api = "mmad"
        extras = {
            "fm_offset": fm_offset,
            "en_weight_offset": en_weight_offset,
            "smask": smask,
            "en_small_channel": en_small_channel,
            "en_small_k": en_small_k,
            "en_ssparse": en_ssparse,
            "en_winograd_a": en_winograd_a,
            "en_winograd_b": en_winograd_b,
        }
        for name, value in extras.items():
            if isinstance(value, Tensor) or value not in (None, False, 0):
                raise b.fail(TikSupportError, api, name, value, "the default")
        self._mmad(dst_fm, src_fm, src_filter, matrix_m, matrix_k, matrix_n, is_bias, bias_tensor)

    def _mmad(
        self,
        dst_fm: Any,
        src_fm: Any,
        src_filter: Any,
        matrix_m: Any,
        matrix_k: Any,
        matrix_n: Any,
        is_bias: Any,
        bias: Any,
    ) -> None:
        b = self._b
        api = "mmad"
        dst, fm, weight = (
            as_tensor(t, api, n) for t, n in ((dst_fm, "dst_fm"), (src_fm, "src_fm"), (src_filter, "src_filter"))
        )
        require(
            b, api, api, product_code(fm.dtype, weight.dtype, dst.dtype), f"{fm.dtype} x {weight.dtype} to {dst.dtype}"
        )
        for t, n, scope in ((dst, "dst_fm", ir.L0C), (fm, "src_fm", ir.L0A), (weight, "src_filter", ir.L0B)):
            check_scope(b, t, api, n, (scope,))
            check_start(t, api, n)
        m, k, n = (
            ranged(v, api, name, 0, MAX_MKN)
            for v, name in ((matrix_m, "matrix_m"), (matrix_k, "matrix_k"), (matrix_n, "matrix_n"))
        )
        if m.__class__ is int and k.__class__ is int and n.__class__ is int:
            self._check_mmad(api, dst, fm, weight, m, k, n)
        refs = (dst.ref(), fm.ref(), weight.ref())
        accumulate = number(is_bias, api, "is_bias")
        if bias is not None:
            self._mmad_bias(api, dst, bias, m, n)
            accumulate = 1
        loc = b.loc()
        if isinstance(accumulate, Expr):
            b.body.append(
                ir.If(
                    binary("!=", accumulate, 0),
                    [ir.Instr("mmad", refs, (m, k, n), (1,), loc)],
                    [ir.Instr("mmad", refs, (m, k, n), (0,), loc)],
                    loc,
                )
            )
            return
        if accumulate not in (0, 1):
            raise b.fail(TikError, api, "is_bias", accumulate, "0, 1")
        b.body.append(ir.Instr("mmad", refs, (m, k, n), (accumulate,), loc))

    def _mmad_bias(self, api: str, dst: Tensor, bias: Any, m: Any, n: Any) -> None:
        b = self._b
        if b.family != "910B":
            accepted = "None (910B and 910_93 have it)"
            raise b.fail(TikSupportError, api, f"bias_tensor on {b.soc.name}", "a tensor", accepted)
        if m.__class__ is int and m == 0 or n.__class__ is int and n == 0:
            return
        sides = (v if v.__class__ is int else cast(v, "int64") for v in (m, n))
        rows, columns = ((v + FRACTAL_ROWS - 1) // FRACTAL_ROWS * FRACTAL_ROWS for v in sides)
        self._bias(api, dst, bias, rows, columns, (ir.L1, ir.BT))

    def _check_mmad(self, api: str, dst: Tensor, fm: Tensor, weight: Tensor, m: int, k: int, n: int) -> None:
        if 0 in (m, k, n):
            return
        k1 = -(-k * SIZE[fm.dtype] // BLOCK_BYTES)
        m1, n1 = -(-m // FRACTAL_ROWS), -(-n // FRACTAL_ROWS)
        check_extent(fm, k1 * BLOCK_BYTES if m == 1 else m1 * k1 * FRACTAL_BYTES, api, "src_fm")
        check_extent(weight, k1 * n1 * FRACTAL_BYTES, api, "src_filter")
        check_extent(dst, m1 * n1 * FRACTAL_ELEMENTS * SIZE[dst.dtype], api, "dst_fm")

    def matmul(self, dst, a, b, m, k, n, init_l1out=True, bias=None):
        """dst [N1, M, 16] (L0C) = a [K1, M, K0] @ b [K1, N, K0] (both L1); ``init_l1out=False`` adds to dst.
        M and N are rounded up to 16, K0 is 32 bytes. float16 operands give float32. ``bias``: a row of N values
        (rounded up to 16) in UB or L1 that dst starts from."""
        builder = self._b
        if builder.dead:
            return
        api = "matmul"
        dst, a, b = (as_tensor(t, api, name) for t, name in ((dst, "dst"), (a, "a"), (b, "b")))
        require(builder, api, api, product_code(a.dtype, b.dtype, dst.dtype), f"{a.dtype} x {b.dtype} to {dst.dtype}")
        sizes = []
        for value, name, top in (
            (m, "m", MAX_MATMUL_MN),
            (k, "k", MAX_MATMUL_K_BYTES // SIZE[a.dtype]),
            (n, "n", MAX_MATMUL_MN),
        ):
            v = ranged(value, api, name, 1, top)
            if v.__class__ is not int:
                raise builder.fail(TikError, api, name, "a Scalar", f"a Python int 1..{top}")
            sizes.append(v)
        init = flag(init_l1out, api, "init_l1out")
        k0 = BLOCK_BYTES // SIZE[a.dtype]
        rows, columns, depth = (
            round_up(sizes[0], FRACTAL_ROWS),
            round_up(sizes[2], FRACTAL_ROWS),
            round_up(sizes[1], k0),
        )
        for t, name, scope, need, align in (
            (dst, "dst", ir.L0C, rows * columns, 1024),
            (a, "a", ir.L1, depth * rows, self._l1_align()),
            (b, "b", ir.L1, depth * columns, self._l1_align()),
        ):
            check_scope(builder, t, api, name, (scope,))
            check_start(t, api, name, align)
            check_dense(self._b, t, api, name, need)
        init = self._product_bias(api, dst, bias, rows, columns, init)
        builder.body.append(
            ir.Instr(
                "matmul", (dst.ref(), a.ref(), b.ref()), (), (sizes[0], sizes[1], sizes[2], int(init)), builder.loc()
            )
        )

    def _product_bias(self, api: str, dst: Tensor, bias: Any, rows: int, columns: int, init: bool) -> bool:
        """Start dst from its bias, if there is one; whether the product overwrites dst."""
        if bias is None:
            return init
        if not init:
            raise self._b.fail(TikError, api, "bias with init_l1out=False", "a tensor", "None")
        scopes = (ir.L1, ir.BT) if self._b.family == "910B" else (ir.UB, ir.L1)
        self._bias(api, dst, bias, rows, columns, scopes)
        return False

    def _l1_align(self) -> int:
        return 512 if self._b.family in ("310", "910A") else 32
