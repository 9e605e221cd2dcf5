# SPDX-License-Identifier: Apache-2.0
"""Comparison into packed bits, selection by packed bits, the compare-mask register."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import COMPARES, VECTOR_BYTES
from ms_custom_ops.program.isa.row import CMPMASK_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder, Storage
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    as_tensor,
    check_extent,
    check_scope,
    check_start,
    mask_of,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT, Row, assemble, check_operands

# Instruction of a selection by which of its sources are tensors.
_SELECTS = {("src0", "src1"): "vsel", ("src0",): "vsels", ("src1",): "vsels0", (): "vselss"}


class CmpMask:
    """The compare-mask register (128 bits), as vcmp_* and mov_tensor_to_cmpmask return it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class CompareMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    # ---- comparison ----
    def _cmpv(self, api: str, mode: str, dst: Any, src0: Any, src1: Any, repeat: Any, blks: tuple, reps: tuple) -> None:
        b = self._b
        if b.dead:
            return
        dst, src0, src1 = (as_tensor(t, api, n) for t, n in ((dst, "dst"), (src0, "src0"), (src1, "src1")))
        if src0.dtype != src1.dtype:
            raise b.fail(TikError, api, "dtype of src1", src1.dtype, src0.dtype)
        self._compare(api, f"vcmpv_{mode}", "vcmpv", mode, dst, (src0, src1), repeat, blks, reps, None)

    def _cmpvs(self, api: str, mode: str, dst: Any, src: Any, scalar: Any, repeat: Any, blk: Any, rep: Any) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        value = scalar_operand(b, scalar, src.dtype, api)
        self._compare(api, f"vcmpvs_{mode}", "vcmpvs", mode, dst, (src,), repeat, (blk,), (rep,), value)

    def _compare(
        self,
        api: str,
        instruction: str,
        op: str,
        mode: str,
        dst: Tensor,
        sources: tuple,
        repeat: Any,
        blks: tuple,
        reps: tuple,
        value: Any,
    ) -> None:
        b = self._b
        dtype = sources[0].dtype
        require(b, api, instruction, SHORT[dtype], dtype)
        if dst.dtype not in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "bool"):
            raise b.fail(TikError, api, "dtype of dst", dst.dtype, "uint8, uint16, uint32, uint64")
        lanes = VECTOR_BYTES // SIZE[dtype]
        names = ("src0", "src1") if len(sources) == 2 else ("src",)
        row = Row(api, op, instruction, 255, 255, False, names)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        plan = assemble(row, (dtype,) * len(sources), mask_of(lanes, lanes, api), r, blks, reps, 0, lanes, ())
        check_scope(b, dst, api, "dst", (ir.SMASK,) if dst is b.cmpmask else VECTOR_SCOPES)
        check_start(dst, api, "dst")
        if r.__class__ is int:
            check_extent(dst, r * lanes // 8, api, "dst")
        for t, name, need in zip(sources, names, plan.needs, strict=False):
            check_scope(b, t, api, name, VECTOR_SCOPES)
            check_start(t, api, name)
            check_extent(t, need, api, name)
        args = (r, *plan.tail) if value is None else (r, value, *plan.tail)
        b.body.append(ir.Instr(op, tuple(t.ref() for t in (dst, *sources)), args, (COMPARES[mode],), b.loc()))

    def _masked_compare(
        self, api: str, mode: str, register: Tensor, mask: Any, src0: Any, src1: Any, blks: tuple
    ) -> None:
        """A comparison of some lanes into the compare mask: the bits of the others keep what they are."""
        b = self._b
        src0, src1 = as_tensor(src0, api, "src0"), as_tensor(src1, api, "src1")
        if src0.dtype != src1.dtype:
            raise b.fail(TikError, api, "dtype of src1", src1.dtype, src0.dtype)
        require(b, api, f"vcmpv_{mode}", SHORT[src0.dtype], src0.dtype)
        lanes = VECTOR_BYTES // SIZE[src0.dtype]
        row = Row(api, "vcmp", "vcmpv", 255, 255, False, ("src0", "src1"))
        plan = assemble(row, (src0.dtype,) * 2, mask_of(mask, lanes, api), 1, blks, (0, 0), 0, lanes, ())
        check_operands(b, row, (src0, src1), plan)
        register.storage.used = True
        refs = tuple(t.ref() for t in (register, src0, src1))
        attrs = (plan.attrs[0], COMPARES[mode])
        b.body.append(ir.Instr("vcmp", refs, (*plan.head, *plan.tail), attrs, b.loc()))

    # ---- selection ----
    def vec_sel(
        self, mask, mode, dst, sel, src0, src1, repeat_times, dst_rep_stride=0, src0_rep_stride=0, src1_rep_stride=0
    ):
        """Lane: src0 where the bit of sel is 1, else src1. Mode 0: the same bits every repeat; 1: src1 is a
        scalar, bits go on; 2: two tensors, bits go on. The repeat strides default to 0."""
        self._select(
            "vec_sel",
            mask,
            mode,
            dst,
            sel,
            src0,
            src1,
            repeat_times,
            (1, 1, 1),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
        )

    def vsel(
        self,
        mask,
        mode,
        dst,
        sel,
        src0,
        src1,
        repeat_times,
        dst_blk_stride,
        src0_blk_stride,
        src1_blk_stride,
        dst_rep_stride=0,
        src0_rep_stride=0,
        src1_rep_stride=0,
        name="vsel",
        mask_o=None,
    ):
        """vec_sel with block strides; mode 0 takes a compare mask from vcmp_* or mov_tensor_to_cmpmask."""
        self._select(
            "vsel",
            mask,
            mode,
            dst,
            sel,
            src0,
            src1,
            repeat_times,
            (dst_blk_stride, src0_blk_stride, src1_blk_stride),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
        )

    def _select(
        self,
        api: str,
        mask: Any,
        mode: Any,
        dst: Any,
        sel: Any,
        src0: Any,
        src1: Any,
        repeat: Any,
        blks: tuple,
        reps: tuple,
    ) -> None:
        b = self._b
        if b.dead:
            return
        if mode not in (0, 1, 2) or mode.__class__ is not int:
            raise b.fail(TikError, api, "mode", mode, "0, 1, 2")
        if mode and b.family in ("310", "910A"):
            raise b.fail(TikSupportError, api, f"mode on {b.soc.name}", mode, "0")
        dst = as_tensor(dst, api, "dst")
        if mode:
            src0 = as_tensor(src0, api, "src0")
        bits = sel.tensor if isinstance(sel, CmpMask) else as_tensor(sel, api, "sel")
        if isinstance(sel, CmpMask) and mode:
            raise b.fail(TikError, api, f"sel in mode {mode}", "a compare mask", "a tensor of bits")
        sources = {"src0": src0, "src1": src1}
        given = {n: t for n, t in sources.items() if isinstance(t, Tensor)}
        tensors = [dst, *given.values()]
        if mode == 1 and len(tensors) == 3 or mode == 2 and len(tensors) == 2:
            raise b.fail(
                TikError, api, f"src1 in mode {mode}", type(src1).__name__, "a scalar" if mode == 1 else "a Tensor"
            )
        names = ("dst", *given)
        for t, name in zip(tensors, names, strict=False):
            if t.dtype != dst.dtype:
                raise b.fail(TikError, api, f"dtype of {name}", t.dtype, dst.dtype)
        require(b, api, "vsel", SHORT[dst.dtype], dst.dtype)
        lanes = VECTOR_BYTES // SIZE[dst.dtype]
        row = Row(api, "vsel", "vsel", 255, 255, False, names)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        place = [0, *(1 + ("src0", "src1").index(n) for n in given)]
        blks, reps = (tuple(v[k] for k in place) for v in (blks, reps))
        plan = assemble(row, (dst.dtype,) * len(tensors), mask_of(mask, lanes, api), r, blks, reps, 0, lanes, ())
        check_operands(b, row, tuple(tensors), plan)
        check_scope(b, bits, api, "sel", (ir.UB, ir.SMASK))
        check_start(bits, api, "sel")
        if r.__class__ is int:
            check_extent(bits, (r if mode else 1) * lanes // 8, api, "sel")
        values = [scalar_operand(b, v, dst.dtype, api, n) for n, v in sources.items() if n not in given]
        op = _SELECTS[tuple(given)]
        refs = (dst.ref(), bits.ref(), *(t.ref() for t in given.values()))
        b.body.append(ir.Instr(op, refs, (*plan.head, *values, *plan.tail), (plan.attrs[0], mode), b.loc()))

    # ---- compare mask ----
    def _mask_register(self) -> Tensor:
        b = self._b
        if b.cmpmask is None:
            buffer = ir.Buffer(len(b.program.buffers), "cmpmask", ir.SMASK, "uint8", (CMPMASK_BYTES,), CMPMASK_BYTES)
            b.program.buffers.append(buffer)
            b.cmpmask = Tensor(Storage(b, buffer, 0, None), "uint8", (CMPMASK_BYTES,), (1,), 0, CMPMASK_BYTES)
        return b.cmpmask

    def mov_tensor_to_cmpmask(self, src):
        """The compare mask loaded from the first 16 bytes of a UB tensor."""
        register = self._mask_register()
        self._move_mask("mov_tensor_to_cmpmask", "src", src, register, True)
        return CmpMask(register)

    def mov_cmpmask_to_tensor(self, dst, src_cmpmask):
        """The 16 bytes of the compare mask stored into a UB tensor."""
        api = "mov_cmpmask_to_tensor"
        if not isinstance(src_cmpmask, CmpMask) and not self._b.dead:
            raise self._b.fail(TikError, api, "src_cmpmask", type(src_cmpmask).__name__, "a compare mask")
        self._move_mask(api, "dst", dst, self._mask_register(), False)

    def _move_mask(self, api: str, name: str, tensor: Any, register: Tensor, load: bool) -> None:
        b = self._b
        if b.dead:
            return
        tensor = as_tensor(tensor, api, name)
        check_scope(b, tensor, api, name, VECTOR_SCOPES)
        check_start(tensor, api, name, CMPMASK_BYTES)
        check_extent(tensor, CMPMASK_BYTES, api, name)
        register.storage.used = True
        refs = (register.ref(), tensor.ref()) if load else (tensor.ref(), register.ref())
        b.body.append(ir.Instr("data_move", refs, (1, CMPMASK_BYTES, 0, 0), (), b.loc()))


def _cmpv_new(api: str, mode: str) -> Any:
    def method(self, dst, src0, src1, repeat_times, src0_rep_stride, src1_rep_stride):
        self._cmpv(api, mode, dst, src0, src1, repeat_times, (1, 1), (src0_rep_stride, src1_rep_stride))

    return method


def _cmpv_old(api: str, mode: str) -> Any:
    def method(self, dst, src0, src1, repeat_times, src0_blk_stride, src1_blk_stride, src0_rep_stride, src1_rep_stride):
        self._cmpv(
            api,
            mode,
            dst,
            src0,
            src1,
            repeat_times,
            (src0_blk_stride, src1_blk_stride),
            (src0_rep_stride, src1_rep_stride),
        )

    return method


def _cmpvs_old(api: str, mode: str) -> Any:
    def method(self, dst, src, scalar, repeat_times, src_blk_stride, src_rep_stride):
        self._cmpvs(api, mode, dst, src, scalar, repeat_times, src_blk_stride, src_rep_stride)

    return method


def _vcmp(api: str, mode: str) -> Any:
    def method(self, mask, src0, src1, src0_stride, src1_stride):
        register = self._mask_register()
        if self._b.dead:
            return CmpMask(register)
        lanes = VECTOR_BYTES // SIZE[as_tensor(src0, api, "src0").dtype]
        if mask.__class__ is int and mask == lanes:
            self._cmpv(api, mode, register, src0, src1, 1, (src0_stride, src1_stride), (0, 0))
        else:
            self._masked_compare(api, mode, register, mask, src0, src1, (src0_stride, src1_stride))
        return CmpMask(register)

    return method


COMPARE_METHODS: dict[str, Any] = {}
for _mode in COMPARES:
    for _api, _make in (
        (f"vec_cmpv_{_mode}", _cmpv_new),
        (f"vcmpv_{_mode}", _cmpv_old),
        (f"vcmpvs_{_mode}", _cmpvs_old),
        (f"vcmp_{_mode}", _vcmp),
    ):
        _method = _make(_api, _mode)
        _method.__name__ = _api
        _method.__qualname__ = f"Tik.{_api}"
        _method.__doc__ = f"Comparison ``{_mode}`` of all lanes into packed bits, see ``vcmpv`` of the isa module."
        setattr(CompareMixin, _api, _method)
        COMPARE_METHODS[_api] = _method
