# SPDX-License-Identifier: Apache-2.0
"""The stage between tracing and bytes: rules of structure, and passes as a text before and a text after."""

from __future__ import annotations

import re

import numpy as np
import pytest
from random_programs import random_program

from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir, passes
from ms_custom_ops.program.passes import dead_scalars
from ms_custom_ops.program.text import parse
from ms_custom_ops.program.verify import verify
from ms_custom_ops.tik.trace import trace

HEAD = """program "k" soc="Ascend910A" saturate=1 split_cores=0
scope ub 256
file k.py "/home/me/k.py"
scalar %n : int32 scalar
scalar %i : int32 loop
scalar %f : float32 scalar
scalar %given : int32 input
tensor %x : float16[64] gm input bytes=128
tensor %u : float16[64] ub local bytes=128 at 0
tensor %two : float16[32] ub local bytes=64 copies(two.0 at 0, two.1 at 64)
inputs %x
input_scalars %given
body
"""
MOVE = "data_move %u[0], %x[0] (nburst=1, burst=128, src_gap=0, dst_gap=0)"


@pytest.mark.parametrize(
    "body, message",
    [
        (
            f"  {MOVE} @k.py:3\n",
            "tensor u is used outside its life; accepted: between its alloc and its free [/home/me/k.py:3]",
        ),
        (f"  alloc %u\n  free %u\n  {MOVE} @k.py:4\n", "tensor u is used outside its life"),
        (f"  if (%given > 0)\n    alloc %u\n  {MOVE} @k.py:4\n", "tensor u is used outside its life"),
        ("  alloc %u\n  alloc %u @k.py:5\n", "alloc of tensor u, which is alive [/home/me/k.py:5]"),
        ("  alloc %u\n  if (%given > 0)\n    free %u @k.py:6\n", "free of tensor u, which was not allocated in these"),
        ("  %n = load %u[0] @k.py:7\n", "tensor u is used outside its life"),
        (
            "  alloc %u\n  store %u[%f] = 1 @k.py:8\n",
            "tensor u: an offset is float32; accepted: integers [/home/me/k.py:8]",
        ),
        ("  for %i in 0 .. %f @k.py:9\n", "for: a bound is a float; accepted: integers [/home/me/k.py:9]"),
        ("  for %i in 0 .. 4 threads=9 @k.py:9\n", "for: threads is 9; accepted: 1 to 4"),
        ("  break @k.py:10\n", "break: outside of a loop [/home/me/k.py:10]"),
        ("  for %i in 0 .. 2 block\n  for %i in 0 .. 2 block @k.py:11\n", "for: a second multi-core loop"),
        ("  nosync\n    nosync @k.py:12\n", "nosync: regions do not nest [/home/me/k.py:12]"),
        ("  mystery (1) @k.py:13\n", "mystery is not an instruction [/home/me/k.py:13]"),
        (
            "  set_flag (1) {1} @k.py:14\n",
            "set_flag: operands, arguments, attributes are (0, 1, 1); accepted: (0, 1, 2)",
        ),
    ],
)
def test_a_broken_rule_names_the_line(body: str, message: str) -> None:
    with pytest.raises(EngineError, match=re.escape(f"k: {message}")):
        verify(parse(HEAD + body))


@pytest.mark.parametrize(
    "place, message",
    [
        ("at 200", "tensor u needs bytes [200, 328) of ub; accepted: up to 256"),
        ("at -32", "tensor u needs bytes [-32, 96) of ub"),
        ("copies(u.0 at 0, u.1 at 96)", "copy 0 of tensor u needs bytes [0, 128) of ub; accepted: up to 96"),
        ("copies(u.0 at 0, u.1 at 160)", "copy 1 of tensor u needs bytes [160, 288) of ub; accepted: up to 256"),
    ],
)
def test_places_of_tensors(place: str, message: str) -> None:
    text = HEAD.replace(
        "tensor %u : float16[64] ub local bytes=128 at 0", f"tensor %u : float16[64] ub local bytes=128 {place}"
    )
    with pytest.raises(EngineError, match=re.escape(message)):
        verify(parse(text))


def test_a_register_has_one_dtype() -> None:
    program = parse(HEAD + "  alloc %u\n  store %u[%n] = 1\n")
    program.registers[0].dtype = "int64"
    with pytest.raises(EngineError, match="scalar n is read as int32; accepted: int64"):
        verify(program)


def test_what_follows_the_rules_comes_back_itself() -> None:
    program = parse(HEAD + f"  alloc %u\n  nosync\n    {MOVE}\n  free %u\n  for %i in 0 .. 2 block\n    continue\n")
    assert verify(program) is program


def after(body: str) -> str:
    return dead_scalars.run(parse(HEAD + body)).text().partition("\nbody\n")[2]


def test_dead_scalars_go() -> None:
    body = (
        "  alloc %u\n  %n = 3 @k.py:2\n  for %i in 0 .. 4 @k.py:3\n    %n = ((%i * 2) + %given) @k.py:4\n"
        f"    nosync @k.py:5\n      %n = 7 @k.py:6\n      {MOVE} @k.py:7\n"
        "  if (%given > 1) @k.py:8\n    %f = 2.0 @k.py:9\n  elif (%given > 0) @k.py:10\n    return @k.py:11\n"
    )
    assert after(body) == (
        "  alloc %u\n  for %i in 0 .. 4 @k.py:3\n"
        f"    nosync @k.py:5\n      {MOVE} @k.py:7\n"
        "  if (%given > 1) @k.py:8\n  elif (%given > 0) @k.py:10\n    return @k.py:11\n"
    )


def test_values_of_loop_variables_and_inputs_cannot_fail() -> None:
    assert after("  for %i in 0 .. 4\n    %n = %i\n    %f = cast<float32>(%given)\n") == "  for %i in 0 .. 4\n"


@pytest.mark.parametrize(
    "body",
    [
        "  %n = (%given / 2)\n",  # may divide by nothing
        "  %n = (4 % %given)\n",
        "  %f = sqrt(cast<float32>(%given))\n",
        "  %n = %i\n",  # read before it was set: an error that stays
        "  alloc %u\n  %n = load %u[0]\n",  # may lie outside of its tensor
        "  %n = 1\n  alloc %u\n  store %u[%n] = 1\n",
        "  %n = 1\n  for %i in 0 .. %n\n",
        "  %n = 1\n  if (%n > 0)\n    return\n",
    ],
)
def test_what_is_read_or_may_fail_stays(body: str) -> None:
    program = parse(HEAD + body)
    assert dead_scalars.run(program) is program


def test_results_are_the_same_bits() -> None:
    changed = 0
    for seed in range(40):
        program = random_program(seed, 14)
        smaller = dead_scalars.run(program)
        changed += smaller is not program
        rng = np.random.default_rng(seed)
        feed = [rng.integers(0, 256, program.buffers[i].size_bytes, np.uint8) for i in program.inputs]
        results = []
        for p in (program, smaller):
            try:
                results.append(
                    [
                        r.tobytes()
                        for r in engine.run(p, [f.view(_numpy(p, i)) for f, i in zip(feed, p.inputs, strict=True)])
                    ]
                )
            except EngineError as error:
                results.append([str(error).encode()])
        assert results[0] == results[1], seed
    assert changed > 3


def _numpy(program: ir.Program, index: int) -> np.dtype:
    from ms_custom_ops.program.dtypes import numpy_dtype

    return numpy_dtype(program.buffers[index].dtype)


def test_stage_of_a_trace() -> None:
    def kernel(keep: bool) -> None:
        t = tik.Tik()
        x = t.Tensor("float32", (64,), tik.scope_gm, "x")
        unused = t.Scalar("int32", init_value=5)
        if keep:
            t.printf("%d", unused)
        t.BuildCCE("stage", [x], [x])

    assert "%unused = 5" not in trace(kernel, False, soc="Ascend910A").text()
    assert "%unused = 5" in trace(kernel, True, soc="Ascend910A").text()


def test_passes_are_known_by_name() -> None:
    program = parse(HEAD + "  %n = 1\n")
    assert passes.DEFAULT == ("verify", "dead_scalars")
    assert passes.apply(program, ["verify"]) is program
    assert passes.apply(program).body == []
    with pytest.raises(EngineError, match="passes: name is fuse; accepted: verify, dead_scalars"):
        passes.apply(program, ["fuse"])


def test_a_pass_that_breaks_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: ir.Program) -> ir.Program:
        return parse(HEAD + "  break\n")

    monkeypatch.setitem(passes.PASSES, "broken", passes.Pass(broken, False, ""))
    with pytest.raises(EngineError, match="break: outside of a loop"):
        passes.apply(parse(HEAD), ["broken"])
