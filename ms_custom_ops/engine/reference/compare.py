# SPDX-License-Identifier: Apache-2.0
"""Compare and select: bits are packed little endian, one per lane, repeat after repeat."""

from __future__ import annotations

import operator

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.lanes import (
    Access,
    dense_access,
    lanes_per_repeat,
    run_repeats,
    selected,
    vector_access,
)
from ms_custom_ops.engine.reference.numbers import widen
from ms_custom_ops.engine.reference.vector import NUMERIC
from ms_custom_ops.program.isa import COMPARES

_RELATIONS = {COMPARES[name]: getattr(operator, name) for name in COMPARES}
_BYTE_BITS = 8


def _packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits, axis=1, bitorder="little")


@instruction("vcmpv", "vcmpvs")
def vcmpv(call: Call) -> None:
    """Bit (r*lanes + L) of dst = s0 <compare> s1 (or scalar), for every lane of every repeat."""
    names = ["src0", "src1"] if call.op == "vcmpv" else ["src"]
    operands = [call[n] for n in names]
    call.need_dtype(operands[0], NUMERIC)
    call.need_same_dtype(*operands)
    relation = call.attrs["compare"]
    lanes, repeat = lanes_per_repeat(*operands), int(call.args["repeat"])
    count = lanes // _BYTE_BITS
    call.need_on_chip(call["dst"], *operands)
    on = np.ones((repeat, lanes), bool)
    sources = [vector_access(call, n, on) for n in names]
    target = dense_access(call["dst"], np.arange(repeat) * count, count, np.uint8)
    kind = operands[0].dtype
    scalars = () if call.op == "vcmpv" else (widen(call.value("scalar", operands[0]), kind),)

    def body(rows: slice, *values: np.ndarray) -> np.ndarray:
        return _packed(_RELATIONS[relation](*[widen(v, kind) for v in values], *scalars))

    run_repeats(target, sources, body)


@instruction("vcmp")
def vcmp(call: Call) -> None:
    """Bit (r*lanes + L) of dst = s0 <compare> s1 for the lanes that are on; the others keep their bits."""
    operands = [call["src0"], call["src1"]]
    call.need_dtype(operands[0], NUMERIC)
    call.need_same_dtype(*operands)
    relation = call.attrs["compare"]
    lanes = lanes_per_repeat(*operands)
    call.need_on_chip(call["dst"], *operands)
    on = selected(call, lanes)
    if not on.any():
        return
    count = lanes // _BYTE_BITS
    target = dense_access(call["dst"], np.arange(on.shape[0]) * count, count, np.uint8)
    kind = operands[0].dtype
    sources = [vector_access(call, name, on) for name in ("src0", "src1")]

    def body(rows: slice, old: np.ndarray, *values: np.ndarray) -> np.ndarray:
        keep = _packed(on[rows])
        return old & ~keep | _packed(_RELATIONS[relation](*[widen(v, kind) for v in values])) & keep

    run_repeats(target, [target, *sources], body)


@instruction("vsel", "vsels")
def vsel(call: Call) -> None:
    """s0 where the bit of sel is 1, else s1 or scalar; in mode 0 every repeat reads the same bits."""
    dst = call["dst"]
    names = ["src0", "src1"] if call.op == "vsel" else ["src0"]
    operands = [call[n] for n in names]
    call.need_on_chip(dst, call["sel"], *operands)
    call.need_same_dtype(dst, *operands)
    mode = call.attrs["mode"]
    lanes = lanes_per_repeat(dst, *operands)
    on = selected(call, lanes)
    count = lanes // _BYTE_BITS
    heads = np.arange(on.shape[0]) * (count if mode else 0)
    sel = dense_access(call["sel"], heads, count, np.uint8)
    scalar: tuple[np.ndarray, ...] = () if call.op == "vsel" else (call.value("scalar", dst),)
    sources: list[Access] = [sel, *[vector_access(call, n, on) for n in names]]
    target = vector_access(call, "dst", on)

    def body(rows: slice, bits: np.ndarray, *values: np.ndarray) -> np.ndarray:
        chosen = np.unpackbits(bits, axis=1, bitorder="little").astype(bool)
        first, second = (*values, *scalar)
        return np.where(chosen, first, second)

    run_repeats(target, sources, body)
