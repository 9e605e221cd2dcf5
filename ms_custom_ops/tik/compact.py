# SPDX-License-Identifier: Apache-2.0
"""Compaction: vreduce and vreducev2 keep the elements a pattern selects, densely."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_COUNT, MASK_COUNTER, MASK_PER_REPEAT, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_same_dtype, ranged, vector_need
from ms_custom_ops.tik.gather import check_operand, known
from ms_custom_ops.tik.special import read_special, special
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import COUNTER_FAMILIES, MAX_REPEAT, canonical_strides

_HALF = 65535
_ALL_PATTERN = 7
_PATTERN_DTYPE = {1: "uint8", 2: "uint16", 4: "uint32"}


class CompactMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vreduce(
        self,
        mask,
        dst,
        src0,
        src1_pattern,
        repeat_times,
        src0_blk_stride,
        src0_rep_stride,
        src1_rep_stride,
        stride_unit=0,
        rsvd_scalar=None,
        mask_mode="normal",
    ):
        """dst = the elements of src0 that ``src1_pattern`` keeps, dense: 1 even, 2 odd, 3..6 one of four, or a
        tensor of bits (uint16 for 16-bit, uint32 for 32-bit elements). ``mask`` counts in counter mode alone:
        elements in all. ``rsvd_scalar`` (uint32) receives how many were kept."""
        self._compact(
            "vreduce",
            mask,
            dst,
            src0,
            src1_pattern,
            repeat_times,
            src0_blk_stride,
            src0_rep_stride,
            src1_rep_stride,
            stride_unit,
            rsvd_scalar,
            mask_mode,
            MASK_COUNTER,
        )

    def vreducev2(
        self,
        mask,
        dst,
        src0,
        src1_pattern,
        repeat_times,
        src0_blk_stride,
        src0_rep_stride,
        src1_rep_stride,
        rsvd_scalar=None,
        mask_mode="normal",
    ):
        """vreduce; pattern 7 keeps all, and in counter mode ``mask`` is the number of elements of every
        repeat."""
        self._compact(
            "vreducev2",
            mask,
            dst,
            src0,
            src1_pattern,
            repeat_times,
            src0_blk_stride,
            src0_rep_stride,
            src1_rep_stride,
            0,
            rsvd_scalar,
            mask_mode,
            MASK_PER_REPEAT,
        )

    def _compact(
        self,
        api: str,
        mask: Any,
        dst: Any,
        src: Any,
        pattern: Any,
        repeat: Any,
        blk: Any,
        rep: Any,
        bits_rep: Any,
        stride_unit: Any,
        kept: Any,
        mask_mode: Any,
        counter: int,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src0")
        check_same_dtype(b, api, dst, src, "src0")
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        size = SIZE[dst.dtype]
        lanes = VECTOR_BYTES // size
        if mask_mode not in ("normal", "counter"):
            raise b.fail(TikError, api, "mask_mode", repr(mask_mode), "'normal' or 'counter'")
        if mask_mode == "counter" and b.family not in COUNTER_FAMILIES:
            raise b.fail(TikError, api, f"mask_mode on {b.soc.name}", "'counter'", "'normal'")
        kind = counter if mask_mode == "counter" else MASK_COUNT
        count = ranged(mask, api, "mask", 1, 2**32 - 1) if kind else 0
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT if api == "vreduce" else _HALF)
        su = ranged(stride_unit, api, "stride_unit", 0, 3)
        strides = [
            ranged(v, api, n, 0, _HALF)
            for v, n in ((blk, "src0_blk_stride"), (rep, "src0_rep_stride"), (bits_rep, "src1_rep_stride"))
        ]
        blk_b, rep_b = canonical_strides(strides[0], strides[1], su, VECTOR_BYTES // BLOCK_BYTES, size)
        bits_b = strides[2] * BLOCK_BYTES
        number, bits = self._pattern(api, pattern, size, src)
        self._compact_bounds(api, (dst, src, bits), kind, count, r, lanes, (blk_b, rep_b, bits_b), number)
        refs = (dst.ref(), src.ref(), (src if bits is None else bits).ref(), special(b, "count"))
        b.body.append(ir.Instr("vreduce", refs, (count, r, blk_b, rep_b, bits_b), (kind, number), b.loc()))
        if kept is not None:
            if not hasattr(kept, "set_as"):
                raise b.fail(TikError, api, "rsvd_scalar", type(kept).__name__, "a uint32 Scalar")
            kept.set_as(read_special(b, "count"))

    def _pattern(self, api: str, pattern: Any, size: int, src: Tensor) -> tuple[int, Tensor | None]:
        """Number of a fixed pattern, or 0 and the tensor of bits."""
        b = self._b
        if isinstance(pattern, Tensor):
            if pattern.dtype != _PATTERN_DTYPE[size]:
                raise b.fail(
                    TikError, api, f"dtype of src1_pattern for {src.dtype}", pattern.dtype, _PATTERN_DTYPE[size]
                )
            return 0, pattern
        top = _ALL_PATTERN if api == "vreducev2" else _ALL_PATTERN - 1
        number = ranged(pattern, api, "src1_pattern", 1, top)
        if not known(number):
            raise b.fail(TikError, api, "src1_pattern", "a Scalar", f"1..{top} or a tensor of bits")
        return number, None

    def _compact_bounds(
        self, api: str, tensors: tuple, kind: int, count: Any, r: Any, lanes: int, strides: tuple, pattern: int
    ) -> None:
        b = self._b
        dst, src, bits = tensors
        per_repeat, repeats = lanes, r
        if kind == MASK_PER_REPEAT:
            per_repeat = count
        elif kind == MASK_COUNTER and known(count):
            repeats = -(-count // lanes)
            per_repeat = min(count, lanes)
        blk, rep, bits_rep = strides
        static = known(per_repeat, repeats, blk, rep)
        need = vector_need(per_repeat, repeats, blk, rep, SIZE[src.dtype]) if static else None
        check_operand(b, src, api, "src0", None if kind == MASK_COUNTER else need)
        written = None
        if static and pattern and kind != MASK_COUNTER:
            share = {1: (per_repeat + 1) // 2, 2: per_repeat // 2, _ALL_PATTERN: per_repeat}
            each = share.get(pattern, (per_repeat + 3 - (pattern - 3)) // 4)
            written = repeats * each * SIZE[dst.dtype]
        check_operand(b, dst, api, "dst", written)
        if bits is not None:
            reads = (repeats - 1) * bits_rep + -(-per_repeat // 8) if static and known(bits_rep) else None
            check_operand(b, bits, api, "src1_pattern", reads)
