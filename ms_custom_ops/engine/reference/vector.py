# SPDX-License-Identifier: Apache-2.0
"""Element-wise vector instructions. The body of a definition sees whole lanes as arrays.

16-bit floats are computed in float32 and rounded once; for + - * / that equals rounding the exact result.
exp, ln, 1/x, sqrt and 1/sqrt are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.lanes import lanes_per_repeat, run_repeats, selected, vector_access
from ms_custom_ops.engine.reference.numbers import narrow, widen
from ms_custom_ops.program.dtypes import FLOATS

INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"})
WORDS_16 = frozenset({"int16", "uint16"})
NUMERIC = FLOATS | INTEGERS


def elementwise(name: str, accepted: frozenset[str], *sources: str) -> Callable:
    """Define ``dst lane = body(source lanes)``; a scalar argument comes last. All operands have one dtype."""

    def register(body: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def definition(call: Call) -> None:
            operands = [call[s] for s in sources]
            call.need_dtype(call["dst"], accepted)
            call.need_same_dtype(*operands)
            call.need_same_dtype(call["dst"], operands[0])
            _lanewise(call, list(sources), body)

        instruction(name)(definition)
        return body

    return register


def _lanewise(call: Call, sources: list[str], body: Callable[..., np.ndarray]) -> None:
    dst = call["dst"]
    operands = [call[s] for s in sources]
    call.need_on_chip(dst, *operands)
    on = selected(call, lanes_per_repeat(dst, *operands))
    access = {s: vector_access(call, s, on) for s in sources if s != "dst"}
    target = access["dst"] = vector_access(call, "dst", on)
    reads = [access[s] for s in sources]
    scalars: tuple[np.ndarray, ...] = ()
    if "scalar" in call.args:
        kind = operands[0] if sources and sources[0] != "dst" else dst
        scalars = (widen(call.value("scalar", kind), kind.dtype),)

    def compute(rows: slice, *values: np.ndarray) -> np.ndarray:
        wide = [widen(v, o.dtype) for v, o in zip(values, operands, strict=True)]
        return narrow(body(*wide, *scalars), dst.dtype, call.saturate)

    run_repeats(target, reads, compute)


def _above_zero(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, x.dtype.type(0))


@elementwise("vadd", NUMERIC, "src0", "src1")
def vadd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y


@elementwise("vsub", NUMERIC, "src0", "src1")
def vsub(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x - y


@elementwise("vmul", NUMERIC, "src0", "src1")
def vmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * y


@elementwise("vdiv", FLOATS, "src0", "src1")
def vdiv(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x / y


@elementwise("vmax", NUMERIC, "src0", "src1")
def vmax(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x > y, x, y)


@elementwise("vmin", NUMERIC, "src0", "src1")
def vmin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x < y, x, y)


@elementwise("vand", WORDS_16, "src0", "src1")
def vand(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x & y


@elementwise("vor", WORDS_16, "src0", "src1")
def vor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x | y


@elementwise("vnot", WORDS_16, "src")
def vnot(x: np.ndarray) -> np.ndarray:
    return ~x


@elementwise("vabs", NUMERIC, "src")
def vabs(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


@elementwise("vrelu", NUMERIC, "src")
def vrelu(x: np.ndarray) -> np.ndarray:
    return _above_zero(x)


@elementwise("vexp", FLOATS, "src")
def vexp(x: np.ndarray) -> np.ndarray:
    return np.exp(x.astype(np.float64))


@elementwise("vln", FLOATS, "src")
def vln(x: np.ndarray) -> np.ndarray:
    return np.log(x.astype(np.float64))


@elementwise("vrec", FLOATS, "src")
def vrec(x: np.ndarray) -> np.ndarray:
    return 1 / x.astype(np.float64)


@elementwise("vsqrt", FLOATS, "src")
def vsqrt(x: np.ndarray) -> np.ndarray:
    return np.sqrt(x.astype(np.float64))


@elementwise("vrsqrt", FLOATS, "src")
def vrsqrt(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x.astype(np.float64))


@elementwise("vadds", NUMERIC, "src")
def vadds(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    return x + scalar


@elementwise("vmuls", NUMERIC, "src")
def vmuls(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    return x * scalar


@elementwise("vmaxs", NUMERIC, "src")
def vmaxs(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    return np.where(x > scalar, x, scalar)


@elementwise("vmins", NUMERIC, "src")
def vmins(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    return np.where(x < scalar, x, scalar)


@elementwise("vlrelu", FLOATS, "src")
def vlrelu(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, x, x * scalar)


@instruction("vaddrelu", "vsubrelu")
def add_sub_relu(call: Call) -> None:
    """max(s0 +- s1, 0) of the rounded sum."""
    dst = call["dst"]
    call.need_dtype(dst, NUMERIC)
    call.need_same_dtype(dst, call["src0"], call["src1"])
    combine = np.add if call.op == "vaddrelu" else np.subtract
    _lanewise(call, ["src0", "src1"], lambda x, y: _above_zero(_step(combine(x, y), call)))


def _step(x: np.ndarray, call: Call) -> np.ndarray:
    """An intermediate result rounded to the dtype of dst, widened again."""
    kind = call["dst"].dtype
    return widen(narrow(x, kind, call.saturate), kind)


def _accumulate_dtypes(call: Call, *sources: str) -> None:
    dst, operands = call["dst"], [call[s] for s in sources]
    call.need_dtype(dst, NUMERIC)
    call.need_same_dtype(*operands)
    if dst.dtype != "float32" or operands[0].dtype != "float16":
        call.need_same_dtype(dst, *operands)


@instruction("vmla")
def vmla(call: Call) -> None:
    """s0 * s1 + dst, each step rounded; float16 products are exact in a float32 dst."""
    _accumulate_dtypes(call, "src0", "src1")
    _lanewise(call, ["src0", "src1", "dst"], lambda x, y, d: _step(x * y, call) + d)


@instruction("vmadd", "vmaddrelu")
def vmadd(call: Call) -> None:
    """s0 * dst + s1, each step rounded, clamped at 0 by the relu form."""
    call.need_dtype(call["dst"], NUMERIC)
    call.need_same_dtype(call["dst"], call["src0"], call["src1"])
    after = _above_zero if call.op == "vmaddrelu" else np.asarray
    _lanewise(call, ["src0", "dst", "src1"], lambda x, d, y: after(_step(_step(x * d, call) + y, call)))


@instruction("vaxpy")
def vaxpy(call: Call) -> None:
    """src * scalar + dst, each step rounded; float16 products are exact in a float32 dst."""
    _accumulate_dtypes(call, "src")
    _lanewise(call, ["src", "dst"], lambda x, d, scalar: _step(x * scalar, call) + d)


@instruction("vshl", "vshr")
def shift(call: Call) -> None:
    """x * 2**scalar modulo the width, or floor((x + half of the last place) / 2**scalar)."""
    call.need_dtype(call["dst"], INTEGERS)
    call.need_same_dtype(call["dst"], call["src"])
    count = min(int(call.args["scalar"]), 63)
    half = 1 << count - 1 if call.attrs.get("round_en") and count else 0

    def body(x: np.ndarray, _: np.ndarray) -> np.ndarray:
        wide = x.astype(np.int64)
        return wide << count if call.op == "vshl" else (wide + half) >> count

    _lanewise(call, ["src"], body)


@instruction("vector_dup")
def vector_dup(call: Call) -> None:
    """Every lane of dst = scalar."""
    dst = call["dst"]
    call.need_on_chip(dst)
    target = vector_access(call, "dst", selected(call, lanes_per_repeat(dst)))
    scalar = call.value("scalar", dst)
    run_repeats(target, [], lambda rows: scalar)
