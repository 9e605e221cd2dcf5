# SPDX-License-Identifier: Apache-2.0
"""Gather and scatter by byte offsets, copies, broadcasts of elements, index ramps, border blocks, interpolation."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import binary, cast, const
from ms_custom_ops.program.isa import BLOCK_BYTES, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    as_tensor,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    number,
    ranged,
    vector_need,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT, Row, check_operands, emit_vector, make_plan, plan_for

_HALF, _BYTE = 65535, 255
_MAX_BASE = 2**31 - 1
_BLOCKS = VECTOR_BYTES // BLOCK_BYTES
_OFFSET_BYTES = 4
_COPY = Row("vcopy", "vcopy", "vcopy", _HALF, _HALF, False, ("dst", "src"))
_PAD = Row("vpadding", "vpadding", "vpadding", _HALF, _BYTE, False, ("dst", "src"))
_VCI = Row("vci", "vci", "vci", _HALF, _BYTE, False, ("dst_index",))
_VBI = Row("vbi", "vbi", "vbi", _HALF, _HALF, False, ("dst", "src0", "src1"))
VBI_MAX_OFFSET = 65535


def check_operand(b: Builder, t: Tensor, api: str, name: str, need: int | None, align: int | None = None) -> None:
    """Scope (UB), start address and bytes of an operand."""
    check_scope(b, t, api, name, VECTOR_SCOPES)
    check_start(t, api, name, align)
    check_extent(t, need, api, name)


def known(*values: Any) -> bool:
    """Whether every value is known while tracing."""
    return all(v.__class__ is int for v in values)


class GatherMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vgather(
        self, mask, dst, src, src_offset, repeat_times, dst_rep_stride, base_addr=0, stride_unit=0, mask_mode="normal"
    ):
        """dst lane = the element at byte ``base_addr + src_offset[lane]`` of src; one uint32 or int32 offset
        per lane, contiguous."""
        self._gather(
            "vgather",
            "dst",
            mask,
            dst,
            src,
            src_offset,
            repeat_times,
            dst_rep_stride,
            base_addr,
            stride_unit,
            mask_mode,
        )

    def vscatter(
        self, mask, dst, src, dst_offset, repeat_times, src_rep_stride, base_addr=0, stride_unit=0, mask_mode="normal"
    ):
        """The element at byte ``base_addr + dst_offset[lane]`` of dst = src lane; of equal offsets the last
        lane stays."""
        self._gather(
            "vscatter",
            "src",
            mask,
            dst,
            src,
            dst_offset,
            repeat_times,
            src_rep_stride,
            base_addr,
            stride_unit,
            mask_mode,
        )

    def _gather(
        self,
        api: str,
        side: str,
        mask: Any,
        dst: Any,
        src: Any,
        offset: Any,
        repeat: Any,
        rep: Any,
        base: Any,
        stride_unit: Any,
        mask_mode: str,
    ) -> None:
        b = self._b
        if b.dead:
            return
        other = "src_offset" if side == "dst" else "dst_offset"
        dst, src, offset = (as_tensor(t, api, n) for t, n in ((dst, "dst"), (src, "src"), (offset, other)))
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        if offset.dtype not in ("uint32", "int32"):
            raise b.fail(TikError, api, f"dtype of {other}", offset.dtype, "uint32, int32")
        lane = dst if side == "dst" else src
        row = Row(api, api, "", _BYTE, _BYTE, False, (side, "", ""))
        blk = 0 if number(stride_unit, api, "stride_unit") in (2, 3) else 1  # with a gap of 0 or a distance of 1
        plan = make_plan(b, row, (lane.dtype,), mask, repeat, (blk,), (rep,), stride_unit, mask_mode)
        check_operand(b, lane, api, side, plan.needs[0])
        check_operand(b, src if side == "dst" else dst, api, "src" if side == "dst" else "dst", None)
        lanes = VECTOR_BYTES // SIZE[lane.dtype]
        need = None
        if plan.shapes[0] is not None:
            last = plan.head[0] if plan.attrs[0] == 2 else (plan.repeat - 1) * lanes + self._last_lane(plan)
            need = last * _OFFSET_BYTES
        check_operand(b, offset, api, other, need)
        start = ranged(base, api, "base_addr", 0, _MAX_BASE)
        refs = (dst.ref(), src.ref(), offset.ref())
        b.body.append(ir.Instr(api, refs, (*plan.head, start, *plan.tail), plan.attrs, b.loc()))

    @staticmethod
    def _last_lane(plan: Any) -> int:
        low, high, _ = plan.head
        return low if plan.attrs[0] == 0 else (high << 64 | low).bit_length()

    def vgatherb(self, dst, src, src_offsets, repeat_times, dst_blk_stride, dst_rep_stride):
        """8 blocks of 32 bytes per repeat, each from its uint32 byte offset in src."""
        b, api = self._b, "vgatherb"
        if b.dead:
            return
        dst, src, offset = (as_tensor(t, api, n) for t, n in ((dst, "dst"), (src, "src"), (src_offsets, "src_offsets")))
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype] * 2, dst.dtype)
        if offset.dtype != "uint32":
            raise b.fail(TikError, api, "dtype of src_offsets", offset.dtype, "uint32")
        self._blocks(api, dst, (src, None), repeat_times, dst_blk_stride, dst_rep_stride, offset)

    def vbcb(self, dst, src, repeat_times, dst_blk_stride, dst_rep_stride):
        """8 consecutive elements of src per repeat, each filling one block of 32 bytes."""
        b, api = self._b, "vbcb"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, "vbrcb", SHORT[dst.dtype] * 2, dst.dtype)
        self._blocks(api, dst, (src, _BLOCKS * SIZE[src.dtype]), repeat_times, dst_blk_stride, dst_rep_stride, None)

    def _blocks(self, api: str, dst: Tensor, source: tuple, repeat: Any, blk: Any, rep: Any, offset: Any) -> None:
        b = self._b
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        blk_b = ranged(blk, api, "dst_blk_stride", 0, _HALF) * BLOCK_BYTES
        rep_b = ranged(rep, api, "dst_rep_stride", 0, _BYTE) * BLOCK_BYTES
        whole = (r - 1) * rep_b + (_BLOCKS - 1) * blk_b + BLOCK_BYTES if known(r, blk_b, rep_b) else None
        check_operand(b, dst, api, "dst", whole)
        src, per_repeat = source
        check_operand(b, src, api, "src", r * per_repeat if per_repeat and known(r) else None)
        refs = [dst.ref(), src.ref()]
        if offset is not None:
            check_operand(b, offset, api, "src_offsets", r * _BLOCKS * _OFFSET_BYTES if known(r) else None)
            refs.append(offset.ref())
        b.body.append(ir.Instr(api, tuple(refs), (r, blk_b, rep_b), (), b.loc()))

    def vci(
        self,
        mask,
        dst_index,
        start_point,
        repeat_times,
        dst_blk_stride,
        dst_rep_stride,
        stride_unit=0,
        mask_mode="normal",
    ):
        """dst lane = start_point + number of the element."""
        emit_vector(
            self._b,
            _VCI,
            mask,
            (dst_index,),
            repeat_times,
            (dst_blk_stride,),
            (dst_rep_stride,),
            stride_unit,
            start_point,
            mask_mode,
        )

    def vcopy(
        self,
        mask,
        dst,
        src,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        mask_mode="normal",
    ):
        """dst = src in UB. In counter mode ``mask`` is the number of elements of every repeat."""
        b, api = self._b, "vcopy"
        blks, reps = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        if b.dead or mask_mode != "counter":
            emit_vector(b, _COPY, mask, (dst, src), repeat_times, blks, reps, 0, mask_mode=mask_mode)
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        count = ranged(mask, api, "mask", 1, 2**32 - 1)
        strides = [ranged(v, api, f"{n}_blk_stride", 0, _HALF) for v, n in zip(blks, ("dst", "src"), strict=True)]
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        lanes = VECTOR_BYTES // SIZE[dst.dtype]
        if not known(count, *strides):
            self._copy_later(count, lanes, (dst, src), repeat_times, strides, reps)
            return
        for first in range(0, count, lanes):
            # 8 blocks further on, each operand by its own block stride.
            step = [first // lanes * _BLOCKS * s * BLOCK_BYTES // SIZE[dst.dtype] for s in strides]
            pair = tuple(t.shifted(s) if s else t for t, s in zip((dst, src), step, strict=True))
            emit_vector(b, _COPY, min(lanes, count - first), pair, repeat_times, blks, reps)

    def _copy_later(self, count: Any, lanes: int, pair: Any, repeat: Any, strides: list[Any], reps: Any) -> None:
        """vcopy of a number of elements, or with block strides, known only at run time."""
        b = self._b
        per_block = BLOCK_BYTES // SIZE[pair[0].dtype]
        pieces = -(-count // lanes) if known(count) else binary("/", cast(count, "int64") + (lanes - 1), lanes)
        with self.for_range(0, pieces) as piece:  # type: ignore[attr-defined]
            first = binary("*", piece, const(lanes, "int64"))
            step = [binary("*", binary("*", piece, const(_BLOCKS * per_block, "int64")), s) for s in strides]
            operands = tuple(t.shifted(s) for t, s in zip(pair, step, strict=True))
            part = binary("min", binary("-", count, first), lanes)
            emit_vector(b, _COPY, part, operands, repeat, tuple(strides), reps)

    def vpadding(
        self,
        mask,
        pad_mode,
        pad_side,
        dst,
        src,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
        mask_mode="normal",
    ):
        """Each block of dst = the block beside the block of src: pad_mode 0 nearest element, 1 mirrored, 2
        mirrored without the edge; pad_side False left, True right."""
        b, api = self._b, "vpadding"
        if b.dead:
            return
        mode = ranged(pad_mode, api, "pad_mode", 0, 2)
        if not known(mode):
            raise b.fail(TikError, api, "pad_mode", "a Scalar", "0, 1, 2")
        side = int(flag(pad_side, api, "pad_side"))
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        plan = plan_for(
            b,
            _PAD,
            (dst.dtype, src.dtype),
            mask,
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
            mask_mode,
            (mode, side),
        )
        check_operands(b, _PAD, (dst, src), plan)
        if plan.needs[1] is not None:  # blocks of src are read whole
            check_extent(src, -(-plan.needs[1] // BLOCK_BYTES) * BLOCK_BYTES, api, "src")
        refs = (dst.ref(), src.ref())
        b.body.append(ir.Instr(api, refs, (*plan.head, *plan.tail), plan.attrs, b.loc()))

    def vbi(
        self,
        mask,
        dst,
        src0,
        src1,
        src0_offset,
        dst_blk_stride,
        vertical_repeat_times,
        horizontal_repeat_times,
        repeat_mode,
        vertical_repeat_offset,
    ):
        """Bilinear interpolation, see the isa module: ``vertical_repeat_offset`` in elements, ``repeat_mode`` 0
        takes one weight of src1 per horizontal repeat, 1 one per block."""
        b, api = self._b, "vbi"
        if b.dead:
            return
        names = ("dst", "src0", "src1", "src0_offset")
        dst, src0, src1, offset = (
            as_tensor(t, api, n) for t, n in zip((dst, src0, src1, src0_offset), names, strict=True)
        )
        for t, n in ((src0, "src0"), (src1, "src1")):
            check_same_dtype(b, api, dst, t, n)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        if offset.dtype not in ("uint32", "int32"):
            raise b.fail(TikError, api, "dtype of src0_offset", offset.dtype, "uint32, int32")
        size = SIZE[dst.dtype]
        steps = ranged(horizontal_repeat_times, api, "horizontal_repeat_times", 1, MAX_REPEAT)
        step = ranged(vertical_repeat_offset, api, "vertical_repeat_offset", 0, VBI_MAX_OFFSET) * size
        per_block = int(flag(repeat_mode, api, "repeat_mode"))
        row = _VBI._replace(instruction="")
        r = ranged(vertical_repeat_times, api, "vertical_repeat_times", 1, MAX_REPEAT)
        plan = make_plan(b, row, (dst.dtype,), mask, r, (dst_blk_stride,), (0,), 0, "normal")
        blk = plan.tail[0]
        last = plan.shapes[0] and self._last_lane(plan)
        static = known(r, step, blk) and last is not None
        check_operand(b, dst, api, "dst", vector_need(last, r, blk, step, size) if static else None)
        weights = r * steps * (_BLOCKS if per_block else 1) * size
        check_operand(b, src0, api, "src0", None)
        check_operand(b, src1, api, "src1", weights if known(weights) else None)
        heads = r * steps * _BLOCKS * _OFFSET_BYTES
        check_operand(b, offset, api, "src0_offset", heads if known(heads) else None)
        refs = (dst.ref(), src0.ref(), src1.ref(), ir.Ref(offset.storage.buffer, "uint32", offset.offset))
        b.body.append(ir.Instr(api, refs, (*plan.head, steps, blk, step), (plan.attrs[0], per_block), b.loc()))

    def set_vbi_options(self, enable_double_buffer=False):
        """A compiler option of vbi; no effect on results."""
        if not self._b.dead:
            flag(enable_double_buffer, "set_vbi_options", "enable_double_buffer")
