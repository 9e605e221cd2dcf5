# SPDX-License-Identifier: Apache-2.0
"""The stream of steps: jumps, loops, blocks that rest at a barrier, and how often each step is executed."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from engine_cases import assign, need_engine, threads
from programs import Builder, ref, reference
from test_engine_threads import exchange, over_blocks

from ms_custom_ops import engine, tik, trace
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, const, var

need_engine()


def nested_jumps() -> ir.Program:
    """Loops in loops with break, continue, two branches and a return, which leave a trace in z."""
    b = Builder()
    z = b.gm("z", "int32", 64, "output", atomic_init=True)
    n, i, j = b.register("n", "int32"), b.register("i", "int32", "loop"), b.register("j", "int32", "loop")
    ni, vi, vj = var(n, "int32"), var(i, "int32"), var(j, "int32")
    assign(b, n, const(0, "int32"))

    def note(value) -> list:
        return [ir.Store(ref(z, ni), value, b.loc()), ir.Assign(n, binary("+", ni, 1), b.loc())]

    inner = [
        ir.If(binary("==", vj, 1), [ir.Jump("continue", b.loc())], [], b.loc()),
        ir.If(binary("==", vj, binary("+", vi, 2)), [ir.Jump("break", b.loc())], note(binary("+", vj, 100)), b.loc()),
        ir.For(j, 0, 0, note(999), False, 1, b.loc()),  # no round, and j keeps its value
    ]
    outer = [
        *note(vi),
        ir.For(j, 0, 9, inner, False, 1, b.loc()),
        ir.If(binary("==", vi, 3), [*note(77), ir.Jump("return", b.loc())], [ir.Jump("continue", b.loc())], b.loc()),
        *note(888),
    ]
    b.body.append(ir.For(i, 0, 6, outer, False, 1, b.loc()))
    b.body.extend(note(666))
    return b.program


def test_jumps_lead_where_the_reference_engine_goes():
    program = nested_jumps()
    (got,) = engine.run(program, [])
    (want,) = reference(program, [])
    assert (got == want).all()
    assert 77 in got and not {666, 888, 999} & set(got.tolist())


def two_lines(count: int) -> ir.Program:
    """In every block a loop of ``count`` rounds with an instruction, which a branch skips in every other round."""
    b = Builder()
    u, z = b.local("u", "ub", "float32", 64), b.gm("z", "float32", 64, "output")
    over_blocks(b, 3)
    j = b.register("j", "int32", "loop")
    add = ir.For(j, 0, count, [], False, 1, b.loc())
    b.body.append(add)
    block, b.body = b.body, add.body
    b.body.append(ir.If(binary("==", binary("%", var(j, "int32"), 2), 0), [], [], b.loc()))
    b.body = b.body[0].then
    b.instr("vector_dup", [ref(u)], mask0=64, repeat=1, scalar=1.0, dst_blk=32)
    b.body = block
    b.move(z, u)
    return b.program


@pytest.mark.parametrize("count", [1, 2])
def test_counts_of_every_line(count):
    program = two_lines(10)
    counts = engine.count(program, [], threads=count)
    lines = {name: n for (name, _), n in counts.items() if name != "for"}
    assert lines == {"alloc": 3, "if": 30, "vector_dup": 15, "data_move": 3}
    assert sorted(n for (name, _), n in counts.items() if name == "for") == [3, 30]
    assert all(where.startswith("kernel.py:") for _, where in counts)


def test_counts_name_lines_of_the_kernel_and_those_never_reached():
    def probe():
        t = tik.Tik()
        x, y = (t.Tensor("float32", (64,), tik.scope_gm, name) for name in "xy")
        u = t.Tensor("float32", (64,), tik.scope_ubuf, "u")
        t.data_move(u, x, 0, 1, 8, 0, 0)
        n = t.Scalar("int32", "n", 0)
        with t.for_range(0, n):
            t.vec_exp(64, u, u, 1, 8, 8)
        t.data_move(y, u, 0, 1, 8, 0, 0)
        t.BuildCCE("probe", [x], [y])

    line = probe.__code__.co_firstlineno
    counts = engine.count(trace(probe, soc="Ascend910B1"), [np.ones(64, np.float32)])
    by_line = {(name, int(where.rpartition(":")[2]) - line): n for (name, where), n in counts.items()}
    moves, never = {("data_move", 4): 1, ("data_move", 8): 1}, {("for", 6): 0, ("vexp", 7): 0}
    assert by_line == {("alloc", 3): 1, ("assign", 5): 1, **moves, **never}


def test_a_counted_run_computes_and_fails_as_a_fast_one():
    b = Builder()
    u = b.local("u", "ub", "float16", 16)
    b.instr("vector_dup", [ref(u, 16)], mask0=16, repeat=1, scalar=1.0, dst_blk=32)
    texts = []
    for call in (engine.run, engine.count):
        with pytest.raises(EngineError) as failed:
            call(b.program, [])
        texts.append(str(failed.value))
    assert texts[0] == texts[1] and "needs bytes [32, 64) of u" in texts[0]


def test_a_barrier_takes_no_thread_per_block():
    """1000 blocks rest at each of four barriers; the process has the threads of its pool."""
    with threads(2):
        engine.run(exchange(4), [])
        before = _threads_of_the_process()
        most = [0]
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                most[0] = max(most[0], _threads_of_the_process())

        watcher = threading.Thread(target=watch)
        watcher.start()
        got = engine.run(exchange(1000), [])[0].reshape(1000, 8)
        done.set()
        watcher.join()
    assert (got == (np.arange(1000)[:, None] + 2) % 1000).all()
    assert most[0] <= before + 1  # the watcher


def _threads_of_the_process() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


def test_blocks_at_a_barrier_while_others_end():
    b = Builder()
    barrier = b.gm("barrier", "int64", 12, "workspace", atomic_init=True)
    i = over_blocks(b, 3)
    b.body.append(ir.If(binary("==", var(i, "int32"), 1), [ir.Jump("return", b.loc())], [], b.loc()))
    b.instr("block_barrier", [ref(barrier)])
    text = r"block_barrier: blocks \[1\] of probe ended while block 0 waits; accepted: every block arrives \[kernel"
    with pytest.raises(EngineError, match=text):
        engine.run(b.program, [])


def test_adds_land_in_block_order_in_every_stage():
    """Adds of floats before and after a barrier: the same bits on any number of threads."""
    blocks = 40
    b = Builder()
    x, z = b.gm("x", "float32", blocks * 8, "input"), b.gm("z", "float32", 8, "output", atomic_init=True)
    barrier = b.gm("barrier", "int64", blocks * 4, "workspace", atomic_init=True)
    u = b.local("u", "ub", "float32", 8)
    i = over_blocks(b, blocks)
    b.instr("data_move", [ref(u), ref(x, binary("*", var(i, "int32"), 8))], nburst=1, burst=32)
    b.instr("set_atomic_add", [], {"mode": 1})
    for _ in range(3):
        b.instr("data_move", [ref(z), ref(u)], nburst=1, burst=32)
        b.instr("block_barrier", [ref(barrier)])
    feed = np.random.default_rng(5).normal(size=blocks * 8).astype(np.float32)
    want = np.zeros(8, np.float32)
    for row in [*feed.reshape(blocks, 8)] * 3:
        want = want + row
    for n in (1, 2, 4):
        (got,) = engine.run(b.program, [feed], threads=n)
        assert got.tobytes() == want.tobytes()


def test_measures_of_every_step():
    """Counts as of engine.count; bytes and operations of the instructions; the results of a fast run."""
    program = two_lines(10)
    counts, found = engine.count(program, []), engine.measure(program, [])
    assert sum(counts.values()) == sum(s.executed for s in found)
    (dup,) = [s for s in found if s.name == "vector_dup"]
    (move,) = [s for s in found if s.name == "data_move"]
    assert (dup.read, dup.written, dup.targets, dup.executed) == (0, 15 * 256, ("ub",), 15)
    assert (move.read, move.written, move.sources, move.targets) == (3 * 256, 3 * 256, ("ub",), ("gm",))
    assert all(s.seconds >= 0 for s in found) and sum(s.seconds for s in found) > 0


def test_measures_count_the_operations_of_products():
    b = Builder()
    left, right = b.local("left", "l0a", "float16", 512), b.local("right", "l0b", "float16", 512)
    b.instr("mmad", [ref(b.local("out", "l0c", "float32", 256)), ref(left), ref(right)], m=16, k=32, n=16)
    (product,) = [s for s in engine.measure(b.program, []) if s.name == "mmad"]
    assert product.operations == 2 * 16 * 32 * 16 and set(product.sources) == {"l0a", "l0b"}


def test_a_measured_run_fails_as_a_fast_one():
    b = Builder()
    u = b.local("u", "ub", "float16", 16)
    b.instr("vector_dup", [ref(u, 16)], mask0=16, repeat=1, scalar=1.0, dst_blk=32)
    with pytest.raises(EngineError, match=r"needs bytes \[32, 64\) of u"):
        engine.measure(b.program, [])
