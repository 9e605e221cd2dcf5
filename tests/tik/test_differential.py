# SPDX-License-Identifier: Apache-2.0
"""The native engine against the reference engine, bit for bit (NaN payloads apart).

float32 results of vexp, vln, vrec, vsqrt, vrsqrt and vdiv may differ by one unit in the last place.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Builder, add_program, ref, reference, same_bits
from random_programs import INSTRUCTIONS, build, random_feed, random_program
from random_vector import CONVERSIONS, INEXACT

from ms_custom_ops.errors import EngineError, EngineMissingError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.expr import Expr, binary, const, var

engine = pytest.importorskip("ms_custom_ops.engine", reason="the engines' front is not built")

CI_SEEDS, CI_CHUNK = 320, 40
NIGHTLY_SEEDS, NIGHTLY_CHUNK = 10_000, 500


@pytest.fixture(scope="module", autouse=True)
def native_engine():
    """Skip where no compiler built the native engine."""
    b = Builder()
    b.gm("y", "int32", 1, "output")
    try:
        engine.run(b.program, [], engine="native")
    except EngineMissingError as error:
        pytest.skip(str(error))


def check_same(program: ir.Program, feed: list[np.ndarray], ulp: int = 0) -> None:
    """Both engines give the same outputs; the message holds tensor, count, first index and both values."""
    want = reference(program, feed)
    got = engine.run(program, feed, engine="native")
    assert len(got) == len(want)
    for index, g, w in zip(program.outputs, got, want, strict=True):
        buffer = program.buffers[index]
        same = same_bits(g, w, buffer.dtype, ulp)
        if not same.all():
            at = np.flatnonzero(~same)
            first = at[0]
            raw = [v.reshape(-1).view(f"u{SIZE[buffer.dtype]}")[first] for v in (g, w)]
            raise AssertionError(
                f"{buffer.name}: {at.size} of {same.size} elements differ, first [{first}]: native "
                f"{g.reshape(-1)[first]} ({raw[0]:#x}), reference {w.reshape(-1)[first]} ({raw[1]:#x}), "
                f"saturate {program.saturate}"
            )


class DataDraw:
    """Choices drawn by hypothesis, so that a failing example shrinks."""

    def __init__(self, data: st.DataObject):
        self.data = data

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def choice(self, options):
        return options[self.integer(0, len(options) - 1)]


def check_instruction(op: str, data: st.DataObject) -> None:
    program = build(DataDraw(data), lambda m: m.instruction(op), exact=False)
    check_same(program, random_feed(program, data.draw(st.integers(0, 2**20))), ulp=int(op in INEXACT))


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
EACH = sorted(set(INSTRUCTIONS))


@pytest.mark.parametrize("op", EACH)
@settings(max_examples=30, **QUIET)
@given(st.data())
def test_instruction(op, data):
    check_instruction(op, data)


@pytest.mark.nightly
@pytest.mark.parametrize("op", EACH)
@settings(max_examples=1000, **QUIET)
@given(st.data())
def test_instruction_nightly(op, data):
    check_instruction(op, data)


def refusal(program: ir.Program, feed: list[np.ndarray], name: str) -> str | None:
    """Text of the error with which an engine refuses a run, None when it runs."""
    try:
        reference(program, feed) if name == "reference" else engine.run(program, feed, engine=name)
    except EngineError as error:
        return str(error)
    return None


def check_seeds(first: int, count: int) -> None:
    """Equal results; a program whose compaction outgrows its tensor at run time is refused by both in equal words."""
    refused = 0
    for seed in range(first, first + count):
        program = random_program(seed, 4 + seed % 23)
        feed = random_feed(program, seed)
        try:
            text = refusal(program, feed, "reference")
            if text is None:
                check_same(program, feed)
            else:
                refused += 1
                assert refusal(program, feed, "native") == text
        except (AssertionError, EngineError) as error:
            raise AssertionError(f"random_program({seed}, {4 + seed % 23}): {error}\n{program.text()}") from error
    assert refused <= max(1, count // 50), f"{refused} of {count} programs were refused"


@pytest.mark.parametrize("first", range(0, CI_SEEDS, CI_CHUNK))
def test_random_programs(first):
    check_seeds(first, CI_CHUNK)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(CI_SEEDS, CI_SEEDS + NIGHTLY_SEEDS, NIGHTLY_CHUNK))
def test_random_programs_nightly(first):
    check_seeds(first, NIGHTLY_CHUNK)


@pytest.fixture(params=["generic", "avx2", "avx512"])
def simd_level(request):
    """One SIMD level after the other; those this machine lacks are skipped."""
    try:
        engine.set_isa(request.param)
    except EngineError as error:
        pytest.skip(str(error))
    yield request.param
    engine.set_isa("auto")


def test_every_simd_level_runs_random_programs(simd_level):
    check_seeds(50_000, CI_CHUNK)


def test_results_do_not_depend_on_the_number_of_threads():
    seed, program = next((s, p) for s in range(100) if (p := random_program(s, 20)).block_num == 3)
    feed = random_feed(program, seed)
    one, four = (engine.run(program, feed, engine="native", threads=n) for n in (1, 4))
    assert [a.tobytes() for a in one] == [a.tobytes() for a in four]


def whole_range(op: str, x: np.ndarray, src: str, dst: str, saturate: bool, attrs: dict[str, int]) -> ir.Program:
    """A Program that sends every element of ``x`` through one instruction, 255 repeats at a time."""
    b = Builder(saturate, {"ub": 1 << 20})
    gx, gy = b.gm("x", src, x.size, "input"), b.gm("y", dst, x.size, "output")
    u, v = b.local("u", "ub", src, x.size), b.local("v", "ub", dst, x.size)
    b.move(u, gx)
    lanes = 256 // max(SIZE[src], SIZE[dst])
    for first in range(0, x.size, 255 * lanes):
        b.instr(
            op,
            {"dst": ref(v, first), "src": ref(u, first)},
            attrs,
            mask0=lanes,
            repeat=min(255, (x.size - first) // lanes),
            dst_blk=32,
            src_blk=32,
            dst_rep=lanes * SIZE[dst],
            src_rep=lanes * SIZE[src],
        )
    b.move(gy, v)
    return b.program


def sixteen_bits(dtype: str) -> np.ndarray:
    return np.arange(65536, dtype=np.uint16).view(DTYPES[dtype].numpy)


def float32_samples() -> np.ndarray:
    """Values of every exponent, around the float16 grid and its ties, and raw bits."""
    rng = np.random.default_rng(11)
    raw = rng.integers(0, 2**32, 16384, np.uint32)
    ties = (rng.integers(0, 2**19, 8192, np.uint32) << 13 | rng.choice([0, 0xFFF, 0x1000, 0x1001], 8192)).astype(
        np.uint32
    )
    wide = (rng.integers(0, 2**16, 8192, np.uint32) << 16 | rng.choice([0, 0x7FFF, 0x8000, 0x8001], 8192)).astype(
        np.uint32
    )
    return np.concatenate([raw, ties | rng.integers(0, 2, 8192, np.uint32) << 31, wide]).view(np.float32)


@pytest.mark.parametrize("saturate", [False, True], ids=["ieee", "saturate"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("op", ["vexp", "vln", "vrec", "vsqrt", "vrsqrt", "vabs", "vrelu"])
def test_unary_over_all_values(op, dtype, saturate, simd_level):
    x = float32_samples() if dtype == "float32" else sixteen_bits(dtype)
    check_same(whole_range(op, x, dtype, dtype, saturate, {}), [x], ulp=int(op in INEXACT and dtype == "float32"))


@pytest.mark.parametrize("mode", range(7))
@pytest.mark.parametrize("src, dst", [c for c in CONVERSIONS if c != ("int32", "float16")])
def test_vconv_over_all_values(src, dst, mode, simd_level):
    rng = np.random.default_rng(mode)
    if src == "float32":
        x = float32_samples()
    elif SIZE[src] == 2:
        x = sixteen_bits(src)
    else:
        x = (rng.integers(-(2**63), 2**63, 16384) >> rng.integers(0, 63, 16384)).astype(DTYPES[src].numpy)
    for saturate in (False, True):
        check_same(whole_range("vconv", x, src, dst, saturate, {"round_mode": mode}), [x])


def _statement(build_body) -> ir.Program:
    b = Builder()
    build_body(b)
    return b.program


def _unset(b: Builder) -> None:
    b.body.append(ir.Assign(b.register("q", "int32"), var(b.register("length", "int32"), "int32"), b.loc()))


def _divide(b: Builder) -> None:
    r = b.register("r", "int32")
    b.body += [
        ir.Assign(r, const(0, "int32"), b.loc()),
        ir.Assign(r, Expr("%", "int32", const(1, "int32"), var(r, "int32")), b.loc()),
    ]


def _load(b: Builder) -> None:
    b.body.append(ir.Load(b.register("r", "int64"), ref(b.local("u", "ub", "int16", 16), 14), b.loc()))


def _store(b: Builder) -> None:
    b.body.append(ir.Store(ref(b.local("u", "ub", "int16", 16), 16), const(1, "int16"), b.loc()))


def _move(b: Builder) -> None:
    y, u = b.gm("y", "int32", 8, "output"), b.local("u", "ub", "int32", 24)
    b.instr("data_move", {"dst": ref(y), "src": ref(u)}, nburst=3, burst=32)


def _atomic(b: Builder) -> None:
    y, u = b.gm("y", "int32", 8, "output"), b.local("u", "ub", "int32", 8)
    b.instr("set_atomic_add", [], {"mode": 1})
    b.move(y, u)


def _cube(b: Builder) -> None:
    a, c = b.local("a", "l0a", "float16", 256), b.local("c", "l0c", "float32", 256)
    w = b.local("w", "l0b", "float16", 256)
    b.instr("mmad", {"dst": ref(c), "fm": ref(a), "filter": ref(w)}, m=17, k=16, n=16)


def _reduce(b: Builder) -> None:
    u = b.local("u", "ub", "float16", 128)
    b.instr("vcmax", {"dst": ref(u, 127), "src": ref(u)}, mask0=128, repeat=1, src_blk=32)


def _barrier(b: Builder) -> None:
    w, i = b.gm("w", "int64", 8, "workspace", atomic_init=True), b.register("block", "int32", "loop")
    outer, b.body = b.body, []
    b.instr("block_barrier", [ref(w)])
    outer.append(ir.For(i, 0, 3, [ir.If(binary("!=", var(i, "int32"), 1), b.body, [], 0)], True, 1, b.loc()))


def _gm_to_gm(b: Builder) -> None:
    b.move(b.gm("y", "int32", 8, "output"), b.gm("w", "int32", 8, "workspace"))


def _scope(b: Builder) -> None:
    y, u = b.gm("y", "int16", 128, "output"), b.local("u", "ub", "int16", 128)
    b.instr("vabs", {"dst": ref(y), "src": ref(u)})


STATEMENTS = (_unset, _divide, _load, _store, _move, _atomic, _cube, _reduce, _barrier, _gm_to_gm, _scope)
ARGUMENTS = {
    "repeat": {"repeat": 2},
    "src1_blk": {"src1_blk": 64},
    "negative": {"dst_rep": -32},
    "mask": {"mask0": 129},
    "counter": {"mask_kind": 2, "mask0": -1},
}
BROKEN = {
    **{name: add_program(**changes).program for name, changes in ARGUMENTS.items()},
    **{f.__name__.strip("_"): _statement(f) for f in STATEMENTS},
}


@pytest.mark.parametrize("case", BROKEN)
def test_both_engines_raise_the_same_message(case):
    messages = []
    for run in (lambda p: reference(p, []), lambda p: engine.run(p, [], engine="native")):
        with pytest.raises(EngineError) as error:
            run(BROKEN[case])
        messages.append(str(error.value))
    assert messages[0] == messages[1]
