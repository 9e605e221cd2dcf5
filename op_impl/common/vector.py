# SPDX-License-Identifier: Apache-2.0
"""Vector instructions over any number of contiguous elements: full repeats first, then one partial repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.soc.table import BLOCK_BYTES, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import DTYPE_BYTES


def lanes_of(*dtypes: str) -> int:
    """Lanes of one repeat; the widest operand decides."""
    return VECTOR_REPEAT_BYTES // max(DTYPE_BYTES[d] for d in dtypes)


def pieces(count: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """``(offset, mask, repeat)`` that cover ``count`` elements."""
    offset = 0
    while count - offset >= lanes:
        repeat = min(MAX_REPEAT, (count - offset) // lanes)
        yield offset, lanes, repeat
        offset += repeat * lanes
    if offset < count:
        yield offset, count - offset, 1


class VectorUnit:
    """``dst``, ``src*`` are tiles of UB; ``count`` elements are handled. ``row=True`` re-reads the one repeat of the
    last source for every repeat (a constant or a pattern of one repeat)."""

    def __init__(self, tik_instance: Any):
        self._tik = tik_instance

    def _binary(self, call: Callable, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool) -> None:
        lanes = lanes_of(dst.dtype)
        full = VECTOR_REPEAT_BYTES // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes):
            second = src1[0] if row else src1[offset]
            call(mask, dst[offset], src0[offset], second, repeat, full, full, 0 if row else full)

    def add(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = src0 + src1."""
        self._binary(self._tik.vec_add, dst, src0, src1, count, row)

    def sub(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = src0 - src1."""
        self._binary(self._tik.vec_sub, dst, src0, src1, count, row)

    def mul(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = src0 * src1."""
        self._binary(self._tik.vec_mul, dst, src0, src1, count, row)

    def max(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = max(src0, src1)."""
        self._binary(self._tik.vec_max, dst, src0, src1, count, row)

    def min(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = min(src0, src1)."""
        self._binary(self._tik.vec_min, dst, src0, src1, count, row)

    def div(self, dst: Tile, src0: Tile, src1: Tile, count: int) -> None:
        """dst = src0 / src1."""
        self._blocked(self._tik.vdiv, dst, src0, src1, count, False)

    def mul_add(self, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool = False) -> None:
        """dst = src0 * src1 + dst."""
        self._blocked(self._tik.vmla, dst, src0, src1, count, row)

    def _blocked(self, call: Callable, dst: Tile, src0: Tile, src1: Tile, count: int, row: bool) -> None:
        full = VECTOR_REPEAT_BYTES // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes_of(dst.dtype)):
            second = src1[0] if row else src1[offset]
            call(mask, dst[offset], src0[offset], second, repeat, 1, 1, 1, full, full, 0 if row else full)

    def _scalar(self, call: Callable, dst: Tile, src: Tile, scalar: Any, count: int, row: bool = False) -> None:
        full = VECTOR_REPEAT_BYTES // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes_of(dst.dtype)):
            call(mask, dst[offset], src[0] if row else src[offset], scalar, repeat, full, 0 if row else full)

    def adds(self, dst: Tile, src: Tile, scalar: Any, count: int, row: bool = False) -> None:
        """dst = src + scalar."""
        self._scalar(self._tik.vec_adds, dst, src, scalar, count, row)

    def muls(self, dst: Tile, src: Tile, scalar: Any, count: int) -> None:
        """dst = src * scalar."""
        self._scalar(self._tik.vec_muls, dst, src, scalar, count)

    def exp(self, dst: Tile, src: Tile, count: int) -> None:
        """dst = e ** src."""
        full = VECTOR_REPEAT_BYTES // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes_of(dst.dtype)):
            self._tik.vec_exp(mask, dst[offset], src[offset], repeat, full, full)

    def dup(self, dst: Tile, scalar: Any, count: int) -> None:
        """dst = scalar everywhere."""
        full = VECTOR_REPEAT_BYTES // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes_of(dst.dtype)):
            self._tik.vec_dup(mask, dst[offset], scalar, repeat, full)

    def convert(self, dst: Tile, src: Tile, count: int, round_mode: str = "none") -> None:
        """dst = src in the dtype of dst."""
        lanes = lanes_of(dst.dtype, src.dtype)
        dst_rep = lanes * DTYPE_BYTES[dst.dtype] // BLOCK_BYTES
        src_rep = lanes * DTYPE_BYTES[src.dtype] // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes):
            self._tik.vec_conv(mask, round_mode, dst[offset], src[offset], repeat, dst_rep, src_rep)

    def accumulate_half(self, dst: Tile, src: Tile, count: int) -> None:
        """float32 dst += float16 src (``vec_axpy`` with scalar 1)."""
        lanes = lanes_of(dst.dtype)
        dst_rep = lanes * DTYPE_BYTES[dst.dtype] // BLOCK_BYTES
        src_rep = lanes * DTYPE_BYTES[src.dtype] // BLOCK_BYTES
        for offset, mask, repeat in pieces(count, lanes):
            self._tik.vec_axpy(mask, dst[offset], src[offset], 1.0, repeat, dst_rep, src_rep)
