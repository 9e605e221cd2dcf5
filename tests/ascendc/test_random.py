# SPDX-License-Identifier: Apache-2.0
"""Random vector programs: Ascend C and the same instructions written in TIK give the same bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops import ascendc, tik
from ms_custom_ops.errors import TikSupportError

need_ascendc()

BYTES, REGION = 48 * 1024, 8 * 1024
TYPES = ("float16", "float32", "int16", "int32")
BINARY = {0: "vadd", 1: "vsub", 2: "vmul", 3: "vmax", 4: "vmin", 10: "vdiv", 11: "vmadd", 12: "vmaddrelu",
          13: "vaddrelu", 14: "vsubrelu", 15: "vmla", 27: "vand", 28: "vor"}  # fmt: skip
UNARY = {16: "vexp", 17: "vln", 18: "vabs", 19: "vrec", 20: "vsqrt", 21: "vrsqrt", 22: "vrelu"}
SCALAR = {5: "vadds", 6: "vmuls", 7: "vmaxs", 8: "vmins", 23: "vlrelu", 24: "vaxpy", 25: "vshl"}
REDUCE = {30: "vcadd", 31: "vcmax", 32: "vcmin", 33: "vcgadd", 34: "vcgmax", 35: "vcpadd"}
CASTS = (("float32", "float16"), ("float16", "float32"), ("int32", "float32"), ("float32", "int32"),
         ("int32", "float16"), ("float16", "int16"), ("int16", "float16"), ("int8", "float16"),
         ("bfloat16", "float32"), ("float32", "bfloat16"))  # fmt: skip
MODES = ("none", "round", "floor", "ceil", "away-zero", "to-zero", "odd")
ALLOWED = ((0,), (0, 1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5),
           (1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (0,))  # fmt: skip
COMPARES = ("lt", "gt", "eq", "le", "ge", "ne")
SIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "int16": 2, "int32": 4, "int8": 1, "uint16": 2, "uint8": 1}


class Call(dict):
    """One call: words by name."""

    NAMES = ("op", "type", "dst", "src0", "src1", "form", "count", "repeat", "dst_blk", "src0_blk", "src1_blk",
             "dst_rep", "src0_rep", "src1_rep", "scalar", "extra", "low0", "low1", "high0", "high1")  # fmt: skip

    def __getattr__(self, name: str) -> int:
        return self.get(name, 0)

    def words(self) -> list[int]:
        return [self.get(name, 0) for name in self.NAMES]


def random_call(rng: np.random.Generator) -> Call:
    """Places in regions of their own, so that no operand meets another."""
    regions = [int(r) * REGION // 32 for r in rng.permutation(6)[:4]]
    c = Call(dst=regions[0], src0=regions[1], src1=regions[2], extra=0)
    c["op"] = int(rng.choice([*BINARY, *UNARY, *SCALAR, *REDUCE, 9, 26, 36, 37, 38, 39, 40, 40, 40]))
    op = c["op"]
    if op < 10:
        c["type"] = int(rng.integers(0, 4))
    elif op in (25, 26):
        c["type"] = int(rng.integers(2, 4))
    elif op >= 40:
        c["type"] = int(rng.integers(0, len(CASTS)))
        c["extra"] = int(rng.choice(ALLOWED[c["type"]]))
    else:
        c["type"] = int(rng.integers(0, 2))
    dst, src = types(c)
    lanes = 256 // max(SIZE[dst], SIZE[src])
    c["form"] = int(rng.integers(0, 3))
    if op in REDUCE or op in (26, 36, 37, 38, 39):
        c["form"] = int(rng.integers(1, 3 if op in REDUCE or op == 26 else 2))
    c["repeat"] = int(rng.integers(1, 5))
    blocks = {"dst": lanes * SIZE[dst] // 32, "src0": lanes * SIZE[src] // 32, "src1": lanes * SIZE[src] // 32}
    for name, count in blocks.items():
        blk = int(rng.integers(1, 3))
        c[f"{name}_blk"] = blk
        c[f"{name}_rep"] = int(rng.integers(0, 2)) * 2 + count * blk
    c["count"] = int(rng.integers(1, lanes + 1))
    if op in REDUCE:
        c["dst_rep"] = int(rng.integers(1, 4))
    if op in (36, 37):
        c["extra"] = int(rng.integers(0, 6))
    if op in (38, 39):
        c["extra"] = regions[3]
    if op == 26:
        c["extra"] = int(rng.integers(0, 2))
    bits = rng.integers(0, 1 << 32, 4, np.uint64) & rng.integers(0, 1 << 32, 4, np.uint64)
    bits[0] |= np.uint64(1)
    if lanes <= 64:
        bits[2:] = 0
    for name, word in zip(("low0", "low1", "high0", "high1"), bits, strict=True):
        c[name] = int(np.uint32(word).view(np.int32))
    if c["form"] == 0:
        c["count"] = int(rng.integers(1, 4 * lanes))
    if op in (25, 26):
        c["scalar"] = int(rng.integers(0, 12))
    elif dst.startswith("int"):
        c["scalar"] = int(rng.integers(-100, 100))
    else:
        c["scalar"] = int(np.float32(np.float16(rng.normal())).view(np.int32))
    return c


def types(c: Call) -> tuple[str, str]:
    if c["op"] >= 40:
        return CASTS[c["type"]]
    if c["op"] in (27, 28):
        return "uint16", "uint16"
    return TYPES[c["type"]], TYPES[c["type"]]


def pieces(c: Call, lanes: int) -> list[tuple[Any, int, int]]:
    """Masks of TIK, repeats and the first repeat of each instruction that a call means."""
    if c.form == 0:
        whole, left = divmod(c.count, lanes)
        return [(lanes, whole, 0)] * (whole > 0) + [(left, 1, whole)] * (left > 0)
    if c.form == 1:
        return [(c.count, c.repeat, 0)]
    word = lambda a, b: c[a] & 0xFFFFFFFF | (c[b] & 0xFFFFFFFF) << 32  # noqa: E731
    return [([word("high0", "high1"), word("low0", "low1")], c.repeat, 0)]


def emit(t: tik.Tik, views: dict[str, Any], c: Call) -> None:
    dst_type, src_type = types(c)
    lanes = 256 // max(SIZE[dst_type], SIZE[src_type])
    dense = c.form == 0
    blk = {n: 1 if dense else c[f"{n}_blk"] for n in ("dst", "src0", "src1")}
    rep = {n: lanes * SIZE[dst_type if n == "dst" else src_type] // 32 if dense else c[f"{n}_rep"] for n in blk}
    scalar = c.scalar if dst_type.startswith("int") else float(np.int32(c.scalar).view(np.float32))

    def at(name: str, dtype: str, first: int) -> Any:
        return views[dtype][c[name] * 32 // SIZE[dtype] + first * rep[name] * 32 // SIZE[dtype]]

    for mask, repeat, first in pieces(c, lanes):
        d, a, b = at("dst", dst_type, first), at("src0", src_type, first), at("src1", src_type, first)
        op = c["op"]
        if op in BINARY:
            getattr(t, BINARY[op])(mask, d, a, b, repeat, blk["dst"], blk["src0"], blk["src1"], rep["dst"],
                                   rep["src0"], rep["src1"])  # fmt: skip
        elif op in UNARY:
            getattr(t, UNARY[op])(mask, d, a, repeat, blk["dst"], blk["src0"], rep["dst"], rep["src0"])
        elif op in SCALAR:
            getattr(t, SCALAR[op])(mask, d, a, scalar, repeat, blk["dst"], blk["src0"], rep["dst"], rep["src0"])
        elif op == 26:
            t.vshr(mask, d, a, scalar, repeat, blk["dst"], blk["src0"], rep["dst"], rep["src0"], 0, bool(c.extra))
        elif op == 9:
            t.vector_dup(mask, d, scalar, repeat, blk["dst"], rep["dst"])
        elif op in REDUCE:
            getattr(t, REDUCE[op])(mask, d, a, repeat, c.dst_rep, blk["src0"], rep["src0"])
        elif op == 36:
            bits = views["uint8"][c["dst"] * 32]
            call = getattr(t, f"vcmpv_{COMPARES[c.extra]}")
            call(bits, a, b, repeat, blk["src0"], blk["src1"], rep["src0"], rep["src1"])
        elif op == 37:
            bits = views["uint8"][c["dst"] * 32]
            getattr(t, f"vcmpvs_{COMPARES[c.extra]}")(bits, a, scalar, repeat, blk["src0"], rep["src0"])
        elif op in (38, 39):
            bits = views["uint8"][c.extra * 32]
            other = b if op == 38 else scalar
            t.vsel(mask, 2 if op == 38 else 1, d, bits, a, other, repeat, blk["dst"], blk["src0"],
                   blk["src1"] if op == 38 else 0, rep["dst"], rep["src0"], rep["src1"] if op == 38 else 0)  # fmt: skip
        else:
            mode = "none" if c["type"] in (0, 9) else MODES[c.extra]
            t.vconv(
                mask, "" if mode == "none" else mode, d, a, repeat, blk["dst"], blk["src0"], rep["dst"], rep["src0"]
            )


def in_tik(calls: list[Call]) -> Callable[[], None]:
    def kernel() -> None:
        t = tik.Tik()
        x = t.Tensor("uint8", (BYTES,), tik.scope_gm, "x")
        y = t.Tensor("uint8", (BYTES,), tik.scope_gm, "y")
        memory = t.Tensor("uint8", (BYTES,), tik.scope_ubuf, "memory")
        views = {dtype: memory.reinterpret_cast_to(dtype) for dtype in SIZE if dtype != "uint8"} | {"uint8": memory}
        t.data_move(memory, x, 0, 1, BYTES // 32, 0, 0)
        for call in calls:
            emit(t, views, call)
        t.data_move(y, memory, 0, 1, BYTES // 32, 0, 0)
        t.BuildCCE("random", [x], [y])

    return kernel


def memory_of(rng: np.random.Generator) -> np.ndarray:
    """Floats of both widths and integers, half by half."""
    given = np.empty(BYTES, np.uint8)
    for region in range(6):
        part = given[region * REGION : (region + 1) * REGION]
        kind = rng.integers(0, 3)
        if kind == 0:
            part[:] = rng.normal(size=REGION // 2).astype(np.float16).view(np.uint8)
        elif kind == 1:
            part[:] = rng.normal(size=REGION // 4).astype(np.float32).view(np.uint8)
        else:
            part[:] = rng.integers(0, 1000, REGION // 4).astype(np.int32).view(np.uint8)
    return given


@functools.cache
def in_both(op: int, kind: int, extra: int) -> bool:
    """Whether TIK has the instruction for the chip too."""
    seed = np.random.default_rng(0)
    call = next(c for c in iter(lambda: random_call(seed), None) if (c["op"], c["type"]) == (op, kind))
    call["extra"] = extra if op >= 36 and op not in (38, 39) else call["extra"]
    try:
        mco.trace(in_tik([call]), soc="Ascend910B1")
    except TikSupportError:
        return False
    return True


def supported_call(rng: np.random.Generator) -> Call:
    while True:
        call = random_call(rng)
        mode = call["extra"] if call["op"] >= 36 and call["op"] not in (38, 39) else 0
        if in_both(call["op"], call["type"], mode):
            return call


def check(first: int, count: int) -> None:
    kernel = ascendc.build(Path(__file__).with_name("random_vector.cpp"), entry="random_vector")
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        calls, given = [supported_call(rng) for _ in range(6)], memory_of(rng)
        got = np.zeros(BYTES, np.uint8)
        kernel(1, given, got, np.array([c.words() for c in calls], np.int32), len(calls))
        (wanted,) = mco.run(mco.trace(in_tik(calls), soc="Ascend910B1"), [given])
        assert same_bits(got, wanted), (seed, [dict(c) for c in calls])


def same_bits(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Which of two NaNs an operation hands on depends on the form of the loop; all else is bit for bit."""
    alike = got.view(np.uint16) == wanted.view(np.uint16)
    for dtype in (np.float16, np.float32):
        nan = np.isnan(got.view(dtype)) & np.isnan(wanted.view(dtype))
        alike |= np.repeat(nan, dtype().itemsize // 2)
    return bool(alike.all())


def test_random_programs_give_the_bits_of_tik():
    check(0, 200)


@pytest.mark.nightly
def test_a_thousand_random_programs_give_the_bits_of_tik():
    check(1000, 1000)
