# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes: vconv, and the ones on the way out of L0C."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.lanes import lanes_per_repeat, run_repeats, selected, vector_access
from ms_custom_ops.engine.reference.numbers import (
    int_to_float64_odd,
    narrow,
    round_float,
    round_integral,
    saturate_to_int,
    saturated,
    widen,
    wrap_to_int,
)
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE

_DEQ_SCALE = np.float32(2.0**17)


def convert(x: np.ndarray, source: str, target: str, mode: int, saturate: bool, wrap: bool = False) -> np.ndarray:
    """Values of dtype ``source`` as dtype ``target`` by a rounding mode; ``wrap`` keeps low bits of integers."""
    if source not in FLOATS and target not in FLOATS:
        if wrap:
            return x.astype(DTYPES[target].numpy)
        low, high = INT_RANGE[target]
        limits = np.iinfo(x.dtype)
        return np.clip(x, max(low, limits.min), min(high, limits.max)).astype(DTYPES[target].numpy)
    wide = x.astype(np.float64) if source in FLOATS else int_to_float64_odd(x)
    if target not in FLOATS:
        whole = round_integral(wide, mode)
        return wrap_to_int(whole, target) if wrap else saturate_to_int(whole, target)
    if source == target == "float32" and mode:
        wide = round_integral(wide, mode)
    result = round_float(wide, target, mode)
    return saturated(result, target) if saturate else result


def dequantized(x: np.ndarray, deqscale: np.ndarray, saturate: bool) -> np.ndarray:
    """int32 to float16 of vconv: scaled down, multiplied, scaled up, rounded to float16 after each step."""
    result = x.astype(np.float32)
    for factor in (1 / _DEQ_SCALE, widen(deqscale, "float16"), _DEQ_SCALE):
        result = narrow(result * factor, "float16", saturate).astype(np.float32)
    return result.astype(np.float16)


@instruction("vconv")
def vconv(call: Call) -> None:
    """Conversion lane by lane; the wider dtype decides the lanes of a repeat."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    mode, has_deq = call.attrs["round_mode"], call.attrs["has_deq"]
    for operand in (dst, src):
        call.need_dtype(operand, set(DTYPES) - {"bool"})
    if has_deq:
        call.need(
            (src.dtype, dst.dtype) == ("int32", "float16"),
            "conversion with deqscale",
            f"{src.dtype} to {dst.dtype}",
            "int32 to float16",
        )
    deqscale = narrow(np.asarray(call.args["deqscale"], np.float64), "float16", False)
    on = selected(call, lanes_per_repeat(dst, src))
    source, target = vector_access(call, "src", on), vector_access(call, "dst", on)

    def body(rows: slice, x: np.ndarray) -> np.ndarray:
        if has_deq:
            return dequantized(x, deqscale, call.saturate)
        return convert(x, src.dtype, dst.dtype, mode, call.saturate, call.block.wrap)

    run_repeats(target, [source], body)


def from_l0c(call: Call, x: np.ndarray, source: str, target: str, deqscale: np.ndarray, relu: bool) -> np.ndarray:
    """A move through L0C with conversion: nearest even, int32 times a float16 ``deqscale``, then relu."""
    if source == target:
        result = x
    elif (source, target) == ("int32", "float16"):
        result = narrow(x.astype(np.float32) * widen(deqscale, "float16"), "float16", call.saturate)
    else:
        call.need(
            (source, target) in (("float32", "float16"), ("float16", "float32")),
            "conversion",
            f"{source} to {target}",
            "equal dtypes, float32 to float16, float16 to float32, int32 to float16",
        )
        result = narrow(widen(x, source), target, call.saturate)
    return np.where(result > 0, result, result.dtype.type(0)) if relu else result
