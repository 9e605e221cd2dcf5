# SPDX-License-Identifier: Apache-2.0
"""Proposals: boxes of 8 elements x1 y1 x2 y2 score label - -, their areas and overlaps, suppression for NMS."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import BLOCK_BYTES, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, codes, require, unsupported
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, ranged
from ms_custom_ops.tik.gather import check_operand, known
from ms_custom_ops.tik.sort import GROUP, PROPOSAL
from ms_custom_ops.tik.special import mode_register, read_special, set_mode_register, special
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT
from ms_custom_ops.where import user_location

_FIELDS = 6
_LAST_EXTRACTED_310 = 3
_OFFSET = ("rpn_offset", "float32", 1.0)
OFFSET_FAMILIES = ("910A", "310P", "310PV")
_MAX_STRIDE = 65535
_KEPT = 32


class SuppressionState:
    """The suppression bits of the current 16 boxes (RPN_COR_IR)."""


class ProposalMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vconcat(self, dst, src, repeat_times, mode_number):
        """Field ``mode_number`` (0 x1, 1 y1, 2 x2, 3 y2, 4 score, 5 label) of 16 proposals per repeat = src."""
        self._field("vconcat", dst, src, repeat_times, mode_number, _FIELDS - 1)

    def vextract(self, dst, src, repeat_times, mode_number):
        """dst = field ``mode_number`` of 16 proposals per repeat; fields 0..3 on Ascend310."""
        top = _LAST_EXTRACTED_310 if self._b.family == "310" else _FIELDS - 1
        self._field("vextract", dst, src, repeat_times, mode_number, top)

    def _field(self, api: str, dst: Any, src: Any, repeat: Any, mode: Any, top: int) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = self._boxes(api, api, dst, src)
        field = ranged(mode, api, "mode_number", 0, top)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        size = SIZE[dst.dtype]
        wide, narrow = (src, dst) if api == "vextract" else (dst, src)
        names = ("src", "dst") if api == "vextract" else ("dst", "src")
        check_operand(b, wide, api, names[0], r * GROUP * PROPOSAL * size if known(r) else None)
        check_operand(b, narrow, api, names[1], r * GROUP * size if known(r) else None)
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (r, field), (), b.loc()))

    def _boxes(self, api: str, instruction: str, *operands: Any) -> list[Tensor]:
        b = self._b
        names = ("dst", "src") if len(operands) == 2 else ("dst", "src0", "src1")
        tensors = [as_tensor(t, api, n) for t, n in zip(operands, names, strict=True)]
        for t, n in zip(tensors[1:], names[1:], strict=True):
            if t.dtype != tensors[0].dtype:
                raise b.fail(TikError, api, f"dtype of {n}", t.dtype, f"dtype of dst, {tensors[0].dtype}")
        require(b, api, instruction, SHORT[tensors[0].dtype], tensors[0].dtype)
        return tensors

    # ---- areas and overlaps ----
    def set_rpn_offset(self, offset, offset_dtype="float16"):
        """What vrpac and viou add to the sides of a box from here on; 1 before the first call."""
        b, api = self._b, "set_rpn_offset"
        if b.dead:
            return
        if b.family not in OFFSET_FAMILIES:
            raise TikSupportError(
                f"{api}: {b.soc.name} does not have this instruction; chips that have it: {', '.join(OFFSET_FAMILIES)}",
                user_location(),
            )
        if offset_dtype not in ("float16", "float32"):
            raise b.fail(TikError, api, "offset_dtype", offset_dtype, "float16, float32")
        if isinstance(offset, bool) or not isinstance(offset, (int, float)):
            raise b.fail(TikError, api, "offset", type(offset).__name__, "a Python number")
        set_mode_register(b, *_OFFSET, const(float(const(float(offset), offset_dtype).value), "float32"))

    def vrpac(self, dst, src, repeat_times):
        """Areas of 16 proposals per repeat: (x2 - x1 + offset) * (y2 - y1 + offset)."""
        b, api = self._b, "vrpac"
        if b.dead:
            return
        dst, src = self._boxes(api, api, dst, src)
        self._areas(api, (dst, src), (GROUP, GROUP * PROPOSAL), repeat_times, True)

    def viou(self, dst, src0, src1, repeat_times):
        """Intersection areas of 16 proposals of src0 per repeat (rows) with the 16 of src1 (columns)."""
        b, api = self._b, "viou"
        if b.dead:
            return
        tensors = self._boxes(api, api, dst, src0, src1)
        self._areas(api, tensors, (GROUP * GROUP, GROUP * PROPOSAL, GROUP * PROPOSAL), repeat_times, True)

    def vaadd(self, dst, src0, src1, repeat_times):
        """Sums of 16 elements of src0 per repeat (rows) with the 16 of src1 (columns)."""
        b, api = self._b, "vaadd"
        if b.dead:
            return
        tensors = self._boxes(api, api, dst, src0, src1)
        self._areas(api, tensors, (GROUP * GROUP, GROUP, GROUP), repeat_times, False)

    def _areas(self, api: str, tensors: Any, counts: tuple, repeat: Any, offset: bool) -> None:
        b = self._b
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        names = ("dst", "src") if len(tensors) == 2 else ("dst", "src0", "src1")
        for t, name, count in zip(tensors, names, counts, strict=True):
            times = 1 if name == "src1" else r
            check_operand(b, t, api, name, times * count * SIZE[t.dtype] if known(times) else None)
        args = (r, mode_register(b, *_OFFSET)) if offset else (r,)
        b.body.append(ir.Instr(api, tuple(t.ref() for t in tensors), args, (), b.loc()))

    def vmrgch(self, dst, src, repeat_times):
        """The first 4 elements of 8 blocks of 32 bytes per repeat, dense."""
        b, api = self._b, "vmrgch"
        if b.dead:
            return
        dst, src = self._boxes(api, "vmergech", dst, src)
        r = ranged(repeat_times, api, "repeat_times", 1, MAX_REPEAT)
        check_operand(b, src, api, "src", r * VECTOR_BYTES if known(r) else None)
        check_operand(b, dst, api, "dst", r * _KEPT * SIZE[dst.dtype] if known(r) else None)
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (r,), (), b.loc()))

    # ---- suppression ----
    def _need_suppression(self, api: str) -> None:
        b = self._b
        if not codes("vrpac", b.family):
            raise unsupported(b, api, "vrpac", "f16", "")

    def set_rpn_cor_ir(self, number_):
        """Set the suppression bits to a number (0..65535); the result is their state."""
        b, api = self._b, "set_rpn_cor_ir"
        if b.dead:
            return SuppressionState()
        self._need_suppression(api)
        value = ranged(number_, api, "number", 0, 65535)
        b.body.append(ir.Store(special(b, "suppression"), const(value, "uint16") if known(value) else value, b.loc()))
        return SuppressionState()

    def rpn_cor(self, src0, src1, src0_rep_stride, src1_rep_stride, repeat_times):
        """Join the rows of src0 (16 uint16 per repeat: which boxes each box suppresses) whose box stands (src1 is 0)
        to the suppression bits. Strides in 32-byte blocks."""
        b, api = self._b, "rpn_cor"
        if b.dead:
            return SuppressionState()
        self._need_suppression(api)
        tensors = [self._words(api, t, n) for t, n in ((src0, "src0"), (src1, "src1"))]
        r = ranged(repeat_times, api, "repeat_times", 1, MAX_REPEAT)
        reps = [
            ranged(v, api, n, 0, _MAX_STRIDE) * BLOCK_BYTES
            for v, n in ((src0_rep_stride, "src0_rep_stride"), (src1_rep_stride, "src1_rep_stride"))
        ]
        for t, name, rep in zip(tensors, ("src0", "src1"), reps, strict=True):
            check_operand(b, t, api, name, (r - 1) * rep + GROUP * 2 if known(r, rep) else None)
        refs = (special(b, "suppression"), *[t.ref() for t in tensors])
        b.body.append(ir.Instr(api, refs, (r, *reps), (), b.loc()))
        return SuppressionState()

    def rpn_cor_diag(self, dst, src, src_register):
        """dst (16 uint16) = 1 for the boxes that are suppressed, by the bits so far or by a box of the 16 before it
        that stands (src: 16 uint16, row i the boxes that box i suppresses)."""
        b, api = self._b, "rpn_cor_diag"
        if b.dead:
            return
        self._need_suppression(api)
        if not isinstance(src_register, SuppressionState):
            raise b.fail(
                TikError, api, "src_register", type(src_register).__name__, "the value of rpn_cor or set_rpn_cor_ir"
            )
        dst, src = self._words(api, dst, "dst"), self._words(api, src, "src")
        for t, name in ((dst, "dst"), (src, "src")):
            check_operand(b, t, api, name, GROUP * 2)
        refs = (dst.ref(), src.ref(), special(b, "suppression"))
        b.body.append(ir.Instr(api, refs, (), (), b.loc()))

    def mov_rpn_cor_ir_to_scalar(self, scalar, rpn_cor_ir):
        """A Scalar = the suppression bits."""
        b, api = self._b, "mov_rpn_cor_ir_to_scalar"
        if b.dead:
            return
        self._need_suppression(api)
        if not isinstance(rpn_cor_ir, SuppressionState):
            raise b.fail(
                TikError, api, "rpn_cor_ir", type(rpn_cor_ir).__name__, "the value of rpn_cor or set_rpn_cor_ir"
            )
        scalar.set_as(read_special(b, "suppression"))

    def _words(self, api: str, t: Any, name: str) -> Tensor:
        tensor = as_tensor(t, api, name)
        if tensor.dtype != "uint16":
            raise self._b.fail(TikError, api, f"dtype of {name}", tensor.dtype, "uint16")
        return tensor
