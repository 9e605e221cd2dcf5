# SPDX-License-Identifier: Apache-2.0
"""Limits of a Program: the front end, the reference engine and both decoders draw each line at one place."""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from programs import Builder, reference

from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError, TikError
from ms_custom_ops.program import ir, limits, verify
from ms_custom_ops.program.codec import VERSION
from ms_custom_ops.program.expr import Expr, binary, const, var
from ms_custom_ops.tik.trace import trace


def nested(count: int) -> ir.Program:
    b = Builder()
    for k in range(count):
        b.body.append((ir.For(b.register("i", "int32", "loop"), 0, 1, [], False, 1, 0), ir.NoSync([], 0))[k == 0])
        b.body = b.body[-1].body
    return b.program


def branches(count: int) -> ir.Program:
    b = Builder()
    r = b.register("r", "int32")
    b.body.append(ir.Assign(r, const(0, "int32"), 0))
    chain: list = []
    for n in reversed(range(count)):
        chain = [ir.If(binary("==", var(r, "int32"), n + 1), [], chain, 0)]
    b.body += chain
    return b.program


def blocks(count: int) -> ir.Program:
    b = Builder()
    b.body.append(ir.For(b.register("i", "int32", "loop"), 0, count, [ir.Jump("return", 0)], True, 1, 0))
    return b.program


def threads(count: int) -> ir.Program:
    b = Builder()
    b.body.append(ir.For(b.register("i", "int32", "loop"), 0, 1, [], False, count, 0))
    return b.program


def copies(count: int) -> ir.Program:
    b = Builder()
    b.local("u", "ub", "int32", 8).addresses = tuple(range(0, 32 * count, 32))
    return b.program


def rank(count: int) -> ir.Program:
    b = Builder()
    b.local("u", "ub", "int32", 1).shape = (1,) * count
    return b.program


def arguments(count: int) -> ir.Program:
    b = Builder()
    for k in range(count):
        b.register(f"n{k}", "int32", "input")
    return b.program


def tensors(count: int) -> ir.Program:
    b = Builder()
    for _ in range(count):
        b.local("u", "ub", "int32", 1).address = 0
    return b.program


def scalars(count: int) -> ir.Program:
    b = Builder()
    b.program.registers = [ir.Register(k, "r", "int32") for k in range(count)]
    return b.program


def operators(count: int) -> ir.Program:
    b = Builder()
    e: Expr = const(1, "int32")
    wide = [e] * ((count + 1) // 2)
    while len(wide) > 1:  # a balanced tree of `count` nodes
        wide = [Expr("+", "int32", *wide[k : k + 2]) if k + 1 < len(wide) else wide[k] for k in range(0, len(wide), 2)]
    b.body.append(ir.Assign(b.register("r", "int32"), wide[0] if count % 2 else Expr("neg", "int32", wide[0]), 0))
    return b.program


def depth(count: int) -> ir.Program:
    b = Builder()
    e: Expr = const(1, "int32")
    for _ in range(count - 1):
        e = Expr("neg", "int32", e)
    b.body.append(ir.Assign(b.register("r", "int32"), e, 0))
    return b.program


CASES: dict[str, tuple[Callable[[int], ir.Program], int, str]] = {
    "NESTING": (nested, limits.NESTING, "statements nest deeper than 100"),
    "BRANCHES": (branches, limits.BRANCHES, "an if has more than 400 branches"),
    "THREADS": (threads, limits.THREADS, "for: threads is 5; accepted: 1 to 4"),
    "copies": (copies, limits.THREADS, "5 copies"),
    "RANK": (rank, limits.RANK, r"(17 dimensions|rank 17)"),
    "ARGUMENTS": (arguments, limits.ARGUMENTS, "193 (arguments|input scalars); accepted: at most 192"),
    "TENSORS": (tensors, limits.TENSORS, "65537 tensors; accepted: at most 65536"),
    "SCALARS": (scalars, limits.SCALARS, "1048577 scalars; accepted: at most 1048576"),
    "EXPRESSION_OPERATORS": (operators, limits.EXPRESSION_OPERATORS, "an expression has more than 4096 operators"),
    "EXPRESSION_DEPTH": (depth, limits.EXPRESSION_DEPTH, "an expression is nested deeper than 2000"),
}


def python_only(monkeypatch: pytest.MonkeyPatch, program: ir.Program) -> bytes:
    """Bytes of a Program beyond the limits."""
    with monkeypatch.context() as m:
        m.setattr(limits, "NESTING", 10**6)
        return program.to_bytes()


@pytest.mark.parametrize("name", CASES)
def test_engines_and_decoders_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, most, message = CASES[name]
    good = make(most)
    raw = good.to_bytes()
    engine.load(raw)
    assert ir.Program.from_bytes(raw).to_bytes() == raw
    verify.check_limits(good)
    if name not in ("ARGUMENTS", "SCALARS"):  # the one needs values, the other long
        reference(good, [])
    bad = make(most + 1)
    raw = python_only(monkeypatch, bad)
    for refuse in (
        lambda: engine.load(raw),
        lambda: ir.Program.from_bytes(raw),
        lambda: verify.verify(bad),
        lambda: reference(bad, []),
    ):
        with pytest.raises(EngineError, match=message):
            refuse()


def test_blocks_of_a_run() -> None:
    message = re.escape("for: the multi-core loop has 65536 blocks; accepted: 0 to 65535")
    for run in (reference, lambda p, feed: engine.run(p, feed)):
        with pytest.raises(EngineError, match=message):
            run(blocks(limits.BLOCKS + 1), [])
    engine.run(blocks(limits.BLOCKS), [])


def kernel(body: Callable[[Any, Any], None]) -> Callable[[], None]:
    def build() -> None:
        t = tik.Tik()
        x = t.Tensor("float32", (64,), tik.scope_gm, "x")
        n = t.InputScalar("int32", "n")
        body(t, n)
        t.BuildCCE("limits", [x], [x], flowtable=[n])

    return build


def deep(count: int) -> Callable[[Any, Any], None]:
    def body(t: Any, n: Any) -> None:
        with contextlib.ExitStack() as stack:
            for k in range(count):
                stack.enter_context(t.for_range(0, n) if k % 2 else t.if_scope(n > k))

    return body


def chain(count: int, at: Callable[[Any, Any], Any]) -> Callable[[Any, Any], None]:
    def body(t: Any, n: Any) -> None:
        row = t.Tensor("int32", (8,), tik.scope_ubuf, "row")
        for k in range(count):
            with (t.elif_scope if k else t.if_scope)(at(row, n) == k):
                t.data_move(row, row, 0, 1, 1, 0, 0)

    return body


def many_tensors(t: Any, n: Any) -> None:
    for _ in range(limits.TENSORS):
        with t.new_stmt_scope():
            t.Tensor("int32", (8,), tik.scope_ubuf, "u")


@pytest.mark.parametrize(
    "body, message",
    [
        (deep(101), "for_range|if_scope: depth of loops, branches and regions is 101; accepted: at most 100"),
        (chain(401, lambda row, n: n), "elif_scope: length of the chain is 401; accepted: at most 400"),
        # A branch that loads for its condition nests in the branch before it.
        (chain(102, lambda row, n: row[0]), "statements nest deeper than 100"),
        (
            lambda t, n: t.ScalarArray("int32", limits.SCALARS),
            "Scalar: number of scalars is 1048577; accepted: at most",
        ),
        (many_tensors, "Tensor u: number of tensors is 65537; accepted: at most 65536"),
        (lambda t, n: t.Scalar("int32").set_as(sum([n] * 2045)), "is nested deeper than 2000"),
    ],
    ids=["nesting", "branches", "loads", "scalars", "tensors", "expression"],
)
def test_the_front_end_refuses_with_the_line(body: Callable[[Any, Any], None], message: str) -> None:
    with pytest.raises((TikError, EngineError), match=rf"({message}).*test_program_limits\.py:\d+"):
        trace(kernel(body), soc="Ascend910A")


@pytest.mark.parametrize(
    "body",
    [deep(100), chain(250, lambda row, n: n), chain(400, lambda row, n: n), chain(99, lambda row, n: row[0])],
    ids=["nesting", "250", "400", "loads"],
)
def test_what_the_front_end_takes_runs(body: Callable[[Any, Any], None]) -> None:
    program = trace(kernel(body), soc="Ascend910A")
    engine.load(program.to_bytes())
    assert ir.Program.from_bytes(program.to_bytes()).text() == program.text()


def test_numbers_beyond_64_bits_are_named() -> None:
    b = Builder()
    u = b.local("u", "ub", "int32", 8)
    for change in (
        lambda: setattr(u, "size_bytes", 2**63),
        lambda: setattr(u, "shape", (2**63,)),
        lambda: setattr(u, "addresses", (2**63,)),
    ):
        u.size_bytes, u.shape, u.addresses = 32, (8,), (0,)
        change()
        with pytest.raises(EngineError, match=re.escape(f"a size of tensor u is {2**63}; accepted: 64-bit integers")):
            b.program.to_bytes()
    u.size_bytes, u.shape, u.addresses = 32, (8,), (0,)
    b.program.scope_bytes["ub"] = 2**63
    with pytest.raises(EngineError, match=f"size of scope ub is {2**63}"):
        b.program.to_bytes()
    b.program.scope_bytes["ub"] = 64
    b.instr("set_flag", [], {"pipe": 2**63})
    with pytest.raises(
        EngineError, match=re.escape(f"set_flag: attribute 0 is {2**63}; accepted: 64-bit integers [kernel.py:")
    ):
        b.program.to_bytes()


def test_an_older_version_is_refused_by_name() -> None:
    raw = Builder().program.to_bytes()
    old = raw[:4] + struct.pack("<I", 1) + raw[8:]
    for read in (engine.load, ir.Program.from_bytes):
        with pytest.raises(EngineError, match="version 1; this release reads version 3: trace again"):
            read(old)


def test_deep_bytes_are_no_recursion_error() -> None:
    payload = nested(100).to_bytes()[24:]
    loop = struct.pack("<BIIIIBB", 1, 0, 0, 0, 0, 0, 1)
    head, _, tail = payload.rpartition(struct.pack("<I", 0))
    for n in (1, 5000, 200000):
        deeper = head + (struct.pack("<I", 1) + loop) * n + struct.pack("<I", 0) + tail
        raw = struct.pack("<4sIQII", b"MCOP", VERSION, len(deeper), zlib.crc32(deeper), 0) + deeper
        for read in (engine.load, ir.Program.from_bytes):
            with pytest.raises(EngineError, match="statements nest deeper than 100"):
                read(raw)
