# SPDX-License-Identifier: Apache-2.0
"""Memory and time that a Program may take: of loading, of what is kept between runs, and huge constants."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from engine_cases import need_engine
from programs import Builder, ref

from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, var
from ms_custom_ops.tik.trace import trace

need_engine()

MB = 1 << 20


def grown(statements: str) -> int:
    """MB that the resident memory of a fresh process has at its peak beyond the start of ``statements``."""
    script = (
        "import resource, sys\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import numpy as np\n"
        "from test_engine_resources import *\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        f"{statements}\n"
        "print(peak() - before)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def long_names(entries: int) -> bytes:
    """A Program whose locations, registers, meta and tensors bear one name of 1 MB."""
    b = Builder()
    name = "x" * MB
    b.program.locations.extend((name, line) for line in range(entries))
    for _ in range(entries):
        b.register(name, "int32")
        b.program.buffers.append(ir.Buffer(len(b.program.buffers), name, "gm", "int8", (32,), 32, 0, "workspace"))
    return b.program.to_bytes()


def test_a_name_is_stored_once():
    """3 * 4000 uses of 1 MB took 12 GB."""
    assert grown("raw = long_names(4000)\nbefore = peak()\nengine.load(raw)") < 64


def chain(nodes: int) -> bytes:
    """A Program that reads every element of a chain of sums, each of which contains all before it."""
    b = Builder()
    x = b.register("x", "float32")
    value = var(x, "float32")
    for _ in range(nodes):
        value = binary("*", value, 1.5)
        b.body.append(ir.Assign(x, value, b.loc()))
    return b.program.to_bytes()


def test_expressions_that_share_their_parts_have_a_limit():
    raw = chain(1800)
    with pytest.raises(EngineError, match=r"program bytes: \d+ expressions have more than \d+ operators"):
        engine.load(raw)
    engine.load(chain(200))


def unlisted(count: int) -> bytes:
    b = Builder()
    for n in range(count):
        b.program.buffers.append(ir.Buffer(n, "w", "gm", "int8", (32,), 32, 0, "workspace"))
    return b.program.to_bytes()


def test_many_unlisted_buffers_load_in_linear_time():
    raws = [unlisted(count) for count in (16_000, 64_000)]

    def seconds(raw: bytes) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            engine.load(raw)
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(raws[1]) < 8 * seconds(raws[0]) + 0.01  # 16 times as long when quadratic


def workspace_of(megabytes: float) -> ir.Program:
    b = Builder()
    b.gm("w", "int8", int(megabytes * MB), "workspace", atomic_init=True)
    return b.program


def test_kept_workspaces_are_accounted_at_the_size_they_hold():
    """40 cycles of falling sizes; the limit of what is kept is 256 MB, and a run of 64 MB is on top of it."""
    statements = (
        "programs = [workspace_of(64 / 2**n) for n in range(13)]\n"
        "before = peak()\n"
        "for _ in range(40):\n"
        "    for p in programs:\n"
        "        engine.run(p, [])"
    )
    assert grown(statements) < 256 + 64 + 32


@pytest.mark.parametrize("repeat", [2**62, 2**57 + 1, 2**40])
@pytest.mark.parametrize("rep", [0, 32, 256, 2**62])
def test_extents_of_a_huge_constant_repeat(repeat, rep):
    """Loading computes them without overflow (UndefinedBehaviorSanitizer); running refuses what no tensor holds."""
    b = Builder()
    u, v = b.local("u", "ub", "float32", 64), b.local("v", "ub", "float32", 64)
    for mask, kind in ((64, 0), (2**62 + 5, 2), (0x5, 1)):
        args = dict(mask0=mask, repeat=repeat, dst_blk=32, dst_rep=rep, src_blk=32, src_rep=256)
        b.body.append(ir.If(0, [], [], b.loc()))
        outer, b.body = b.body, b.body[-1].then
        b.instr("vexp", [ref(u), ref(v)], {"mask_kind": kind}, **args)
        b.body = outer
        failing = Builder()
        operands = [failing.local(name, "ub", "float32", 64) for name in "uv"]
        failing.instr("vexp", [ref(o) for o in operands], {"mask_kind": kind}, **args)
        with pytest.raises(EngineError, match=r"vexp: (src|dst) needs bytes \[0, \d+\) of "):
            engine.run(failing.program, [])
    engine.run(b.program, [])


def test_offsets_into_tensors_without_memory():
    """A GM tensor of no elements has no address to add an offset to; moves of nothing touch nothing."""
    b = Builder()
    x, z = b.gm("x", "float32", 0, "input"), b.gm("z", "float32", 0, "output")
    u = b.local("u", "ub", "float32", 64)
    at = b.register("at", "int32")
    b.body.append(ir.Assign(at, 5, b.loc()))
    b.instr("data_move", [ref(u), ref(x, var(at, "int32"))], nburst=0, burst=32)
    b.instr("data_move", [ref(z, var(at, "int32")), ref(u)], nburst=1, burst=0)
    engine.run(b.program, [np.zeros(0, np.float32)])


def many_logs(blocks: int) -> ir.Program:
    """Blocks that add 32 bytes each, of which the first takes long: the others wait for it."""

    def kernel() -> None:
        t = tik.Tik()
        x = t.Tensor("float32", (8,), tik.scope_gm, "x")
        y = t.Tensor("float32", (8,), tik.scope_gm, "y", is_atomic_add=True)
        with t.for_range(0, blocks, block_num=blocks) as block:
            ub = t.Tensor("float32", (64,), tik.scope_ubuf, "ub")
            with t.if_scope(block == 0), t.for_range(0, 10_000_000):
                t.vec_dup(64, ub, 0.0, 1, 8)
            t.vec_dup(64, ub, 1.0, 1, 8)
            t.set_atomic_add(1)
            t.data_move(y, ub, 0, 1, 1, 0, 0)
            t.set_atomic_add(0)
        t.BuildCCE("kernel", [x], [y])

    return trace(kernel, soc="Ascend910B1")


def test_a_log_of_few_adds_takes_little_memory():
    """20,000 of them took 80 MB."""
    statements = (
        "program, feed = many_logs(20_000), [np.zeros(8, np.float32)]\n"
        "engine.set_num_threads(2)\nbefore = peak()\n"
        "(out,) = engine.run(program, feed)\nassert (out == 20_000).all()"
    )
    assert grown(statements) < 32
