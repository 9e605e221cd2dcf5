# SPDX-License-Identifier: Apache-2.0
"""Blocks on several threads: the same results, atomic adds in block order, barriers, concurrent runs, fork."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from engine_cases import assert_same_bits, need_engine, threads
from programs import Builder, ref
from random_programs import random_feed, random_program

from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, const, var
from ms_custom_ops.program.isa import ATOMIC_MODES

need_engine()

BLOCKS = 24
MODE = {dtype: mode for mode, dtype in ATOMIC_MODES.items() if dtype}


def over_blocks(b: Builder, blocks: int) -> int:
    """Open a multi-core loop; the statements that follow are its body."""
    i = b.register("block", "int32", "loop")
    body: list = []
    b.body.append(ir.For(i, 0, blocks, body, True, 1, b.loc()))
    b.body = body
    return i


def adds_to_one_row(dtype: str, count: int, read_back: bool = False) -> ir.Program:
    """Every block adds its row of x to z; with ``read_back`` it then reads z and writes it to its row of w."""
    b = Builder()
    u = b.local("u", "ub", dtype, count)
    x, z = b.gm("x", dtype, BLOCKS * count, "input"), b.gm("z", dtype, count, "output", atomic_init=True)
    i = over_blocks(b, BLOCKS)
    row = binary("*", var(i, "int32"), count)
    move = dict(nburst=1, burst=u.size_bytes)
    b.instr("data_move", [ref(u), ref(x, row)], **move)
    b.instr("set_atomic_add", [], {"mode": MODE[dtype]})
    b.instr("data_move", [ref(z), ref(u)], **move)
    b.instr("set_atomic_add", [], {"mode": 0})
    if read_back:
        w = b.gm("w", dtype, BLOCKS * count, "output")
        b.instr("data_move", [ref(u), ref(z)], **move)
        b.instr("data_move", [ref(w, row), ref(u)], **move)
    return b.program


def rows(dtype: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    numpy = engine.DTYPES[dtype].numpy
    if dtype.startswith("int"):
        return rng.integers(-100, 100, BLOCKS * count).astype(numpy)
    return (rng.standard_normal(BLOCKS * count) * 10.0 ** rng.integers(-3, 3, BLOCKS * count)).astype(numpy)


@pytest.mark.parametrize("dtype", MODE)
@pytest.mark.parametrize("count", [16, 63 * 32])
def test_atomic_adds_land_in_block_order(dtype, count):
    program, x = adds_to_one_row(dtype, count), rows(dtype, count)
    want = np.zeros(count, x.dtype)
    for row in x.reshape(BLOCKS, count):
        want = (want.astype(np.float32) + row.astype(np.float32)).astype(x.dtype) if dtype[0] != "i" else want + row
    for n in (1, 2, 3, 8):
        with threads(n):
            for _ in range(5):
                assert_same_bits(engine.run(program, [x])[0], want, dtype, f"{n} threads")


def test_a_block_reads_its_own_adds_and_those_of_every_lower_block():
    count = 64
    program, x = adds_to_one_row("float32", count, read_back=True), rows("float32", count)
    want, total = [], np.zeros(count, np.float32)
    for row in x.reshape(BLOCKS, count):
        total = total + row
        want.append(total)
    for n in (1, 4):
        with threads(n):
            z, w = engine.run(program, [x])
        assert_same_bits(z, want[-1], "float32", f"z on {n} threads")
        assert_same_bits(w, np.concatenate(want), "float32", f"w on {n} threads")


@pytest.mark.parametrize("dtype", MODE)
def test_adds_in_any_order_are_complete(dtype):
    program = adds_to_one_row(dtype, 32)
    x = np.ones(BLOCKS * 32, engine.DTYPES[dtype].numpy)
    with threads(4):
        got = engine.run(program, [x], deterministic=False)[0]
    assert (got == BLOCKS).all()


def test_results_do_not_depend_on_the_number_of_threads():
    for seed in range(9000, 9040):
        program = random_program(seed, 12)
        feed = random_feed(program, seed)
        with threads(1):
            want = engine.run(program, feed)
        with threads(2):
            got = engine.run(program, feed)
        for index, g, w in zip(program.outputs, got, want, strict=True):
            assert_same_bits(g, w, program.buffers[index].dtype, f"random_program({seed}, 12)")


def exchange(blocks: int) -> ir.Program:
    """Twice: every block writes its number plus the stage to a workspace, waits, and reads its neighbour's row."""
    b = Builder()
    u = b.local("u", "ub", "int32", 8)
    barrier = b.gm("barrier", "int64", blocks * 4, "workspace", atomic_init=True)
    shared, z = b.gm("shared", "int32", blocks * 8, "workspace"), b.gm("z", "int32", blocks * 8, "output")
    i = over_blocks(b, blocks)
    me = var(i, "int32")
    row, next_row = binary("*", me, 8), binary("*", binary("%", binary("+", me, 1), blocks), 8)
    move = dict(nburst=1, burst=32)
    b.instr("vector_dup", [ref(u)], mask0=8, repeat=1, scalar=me, dst_blk=32)
    for _ in range(2):
        b.instr("data_move", [ref(shared, row), ref(u)], **move)
        b.instr("block_barrier", [ref(barrier)])
        b.instr("data_move", [ref(u), ref(shared, next_row)], **move)
        b.instr("block_barrier", [ref(barrier)])
    b.instr("data_move", [ref(z, row), ref(u)], **move)
    return b.program


@pytest.mark.parametrize("blocks", [1, 2, 7, 40])
def test_barrier(blocks):
    with threads(2):
        got = engine.run(exchange(blocks), [])[0].reshape(blocks, 8)
    assert (got == (np.arange(blocks)[:, None] + 2) % blocks).all()


def test_barrier_with_more_blocks_than_memory_is_refused_by_name():
    """65000 blocks with 16 MB of on-chip memory each; 65000 small ones rest at their barriers."""
    b = Builder(scope_bytes={"ub": 1 << 24})
    barrier = b.gm("barrier", "int64", 65000 * 4, "workspace", atomic_init=True)
    b.local("u", "ub", "int8", 1 << 24)
    over_blocks(b, 65000)
    b.instr("block_barrier", [ref(barrier)])
    text = (
        r"block_barrier: probe has 65000 blocks with 1677\d{4} bytes each; accepted with a barrier: 0 to \d+ blocks \["
    )
    with pytest.raises(EngineError, match=text):
        engine.run(b.program, [])
    assert (engine.run(exchange(65000), [])[0].reshape(-1, 8)[:, 0] == (np.arange(65000) + 2) % 65000).all()


def test_the_lowest_failing_block_is_reported():
    b = Builder()
    u = b.local("u", "ub", "float16", 16 * 12)
    i = over_blocks(b, 40)
    b.instr("vector_dup", [ref(u, binary("*", var(i, "int32"), 16))], mask0=16, repeat=1, scalar=const(1.0), dst_blk=32)
    for n in (1, 4):
        with threads(n), pytest.raises(EngineError, match=r"needs bytes \[384, 416\) of u"):
            engine.run(b.program, [])


def test_an_error_beside_a_barrier_is_reported_and_not_the_barrier():
    """The last block fails, the others wait for it."""
    blocks = 3
    b = Builder()
    u = b.local("u", "ub", "float16", 16)
    barrier = b.gm("barrier", "int64", blocks * 4, "workspace", atomic_init=True)
    i = over_blocks(b, blocks)
    beyond = binary("*", binary("/", var(i, "int32"), blocks - 1), 16)
    b.instr("vector_dup", [ref(u, beyond)], mask0=16, repeat=1, scalar=const(1.0), dst_blk=32)
    b.instr("block_barrier", [ref(barrier)])
    for _ in range(300):
        with pytest.raises(EngineError, match=r"vector_dup: dst needs bytes \[32, 64\) of u"):
            engine.run(b.program, [])


def test_programs_run_at_the_same_time():
    programs = [(random_program(seed, 15), seed) for seed in range(30, 36)]
    feeds = [random_feed(p, seed) for p, seed in programs]
    wants = [engine.run(p, f) for (p, _), f in zip(programs, feeds, strict=True)]
    wrong: list[str] = []

    def work(start: int) -> None:
        for n in range(12):
            k = (start + n) % len(programs)
            program = programs[k][0]
            try:
                for index, g, w in zip(program.outputs, engine.run(program, feeds[k]), wants[k], strict=True):
                    assert_same_bits(g, w, program.buffers[index].dtype, str(k))
            except Exception as error:  # reported by the main thread
                wrong.append(str(error))

    with threads(2):
        workers = [threading.Thread(target=work, args=(s,)) for s in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    assert not wrong


def _child(queue, x) -> None:
    found = engine._library().mco_table_find(b"fork-test")
    assert found, "the table of the parent is lost"
    queue.put(engine.run(adds_to_one_row("float32", 64), [x], threads=3)[0].tobytes())


def test_a_child_of_fork_runs_on_threads_of_its_own():
    x = rows("float32", 64)
    engine.put_in_table("fork-test", adds_to_one_row("float32", 64).to_bytes())
    with threads(3):
        want = engine.run(adds_to_one_row("float32", 64), [x])[0].tobytes()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_child, args=(queue, x))
        child.start()
        assert queue.get(timeout=60) == want
        child.join(60)
    assert child.exitcode == 0


WORKERS = """
import os, sys
sys.path.insert(0, os.path.dirname({path!r}))
os.sched_setaffinity(0, set(map(int, sys.argv[1].split(","))))
import numpy as np
from pathlib import Path
from test_engine_threads import BLOCKS, adds_to_one_row, rows
from ms_custom_ops.engine import native as engine
program, x = adds_to_one_row("float32", 64), rows("float32", 64)
results = {{engine.run(program, [x], threads=2)[0].tobytes() for _ in range(50)}}
tasks = [int(t.name) for t in Path("/proc/self/task").iterdir() if (t / "comm").read_text() == "mco_worker\\n"]
print(len(results), *(",".join(map(str, sorted(os.sched_getaffinity(t)))) for t in tasks))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity on this system")
def test_workers_keep_clear_of_the_processor_of_the_caller():
    allowed = sorted(os.sched_getaffinity(0))
    for given in (allowed, allowed[:4], allowed[:2], allowed[:1]):
        done = subprocess.run(
            [sys.executable, "-c", WORKERS.format(path=__file__), ",".join(map(str, given))],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        results, *workers = done.stdout.split()
        assert results == "1" and workers
        for worker in workers:
            left = {int(cpu) for cpu in worker.split(",")}
            # A caller that is bound to one processor leaves its workers there with it.
            assert left <= set(given) and len(left) == len(given) - (1 < len(given) <= 4)
