# SPDX-License-Identifier: Apache-2.0
"""Control of a run from outside: interrupts, the time limit, the number of threads of the environment."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from engine_cases import need_engine
from programs import Builder, ref
from test_engine_threads import exchange, over_blocks

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, var

need_engine()


@pytest.fixture(autouse=True)
def python_answers_interrupts() -> None:
    """MindSpore, once imported by a test of this process, has a handler of its own that ends the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def endless(blocks: int = 1, only: int | None = None, repeat: int = 1) -> ir.Program:
    """A loop of 2**31 - 1 rounds around one instruction, in every block or in block ``only``."""
    b = Builder()
    u = b.local("u", "ub", "float32", 64)
    i = over_blocks(b, blocks)
    if only is not None:
        b.body.append(ir.If(binary("==", var(i, "int32"), only), [], [], b.loc()))
        b.body = b.body[-1].then
    for depth in range(2):
        loop = ir.For(b.register(f"j{depth}", "int32", "loop"), 0, 2**31 - 1, [], False, 1, b.loc())
        b.body.append(loop)
        b.body = loop.body
    b.instr("vector_dup", [ref(u)], mask0=64, repeat=repeat, scalar=1.0, dst_blk=32)
    return b.program


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interrupted_after(call) -> float:
    """Seconds from SIGINT to the KeyboardInterrupt out of ``call``."""
    sent = [0.0]

    def interrupt() -> None:
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    timer.join()
    return time.perf_counter() - sent[0]


# The last one: the calling thread has only the lower block and waits for the other.
@pytest.mark.parametrize("blocks, only", [(1, None), (2, None), (2, 1), (2, 0)])
def test_keyboard_interrupt_within_a_fifth_of_a_second(blocks, only):
    program = endless(blocks, only)
    assert min(interrupted_after(lambda: engine.run(program, [], threads=2)) for _ in range(2)) < 0.2


def test_keyboard_interrupt_of_long_instructions():
    """One instruction takes about 10 ms here."""
    program = endless(repeat=1_000_000)
    assert min(interrupted_after(lambda: engine.run(program, [])) for _ in range(2)) < 0.2


def test_what_a_signal_handler_raises_ends_the_run_and_a_quiet_one_does_not():
    class Alarm(Exception):
        pass

    calls = []

    def handler(*_):
        calls.append(time.perf_counter())
        if len(calls) == 2:
            raise Alarm("now")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        with pytest.raises(Alarm, match="now"):
            engine.run(endless(), [])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) == 2 and calls[1] - calls[0] > 0.1


def test_an_interrupt_of_the_main_thread_leaves_other_threads_alone():
    """Python's rule: signals are the main thread's. The run of the other one ends by its limit."""
    texts = []

    def other() -> None:
        try:
            engine.run(endless(), [], time_limit=1.0)
        except EngineError as error:
            texts.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    assert interrupted_after(lambda: time.sleep(5)) < 0.2
    thread.join()
    assert len(texts) == 1 and "time limit" in texts[0]


@pytest.mark.parametrize("blocks, only", [(1, None), (3, 2)])
def test_time_limit_names_the_line(blocks, only):
    def call() -> None:
        text = r"probe: still runs after the time limit of 0\.3 s; accepted: .* \[kernel\.py:\d+\]"
        with pytest.raises(EngineError, match=text):
            engine.run(endless(blocks, only), [], time_limit=0.3, threads=2)

    assert 0.29 < seconds(call) < 1


def test_time_limit_of_blocks_at_a_barrier():
    """One block never arrives."""
    b = Builder()
    barrier = b.gm("barrier", "int64", 8, "workspace", atomic_init=True)
    i, j = over_blocks(b, 2), b.register("j", "int32", "loop")
    forever = ir.For(j, 0, 2**31 - 1, [ir.For(j, 0, 2**31 - 1, [], False, 1, b.loc())], False, 1, b.loc())
    b.body.append(ir.If(binary("==", var(i, "int32"), 0), [forever], [], b.loc()))
    b.instr("block_barrier", [ref(barrier)])
    with pytest.raises(EngineError, match="still runs after the time limit of 0.2 s"):
        engine.run(b.program, [], time_limit=0.2)


@pytest.mark.parametrize("limit", [0, -1, math.nan])
def test_time_limits_that_are_none(limit):
    with pytest.raises(EngineError, match="time_limit of the native engine is .*; accepted: a number of seconds"):
        engine.run(exchange(1), [], time_limit=limit)


def test_the_reference_engine_has_no_time_limit():
    with pytest.raises(EngineError, match="time_limit of the reference engine is 1.0; accepted: None"):
        engine.run(exchange(1), [], "reference", time_limit=1.0)


def test_a_run_within_its_limit_is_not_disturbed():
    for limit in (None, 60, math.inf):
        assert engine.run(exchange(5), [], time_limit=limit)[0].size == 40


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from test_engine_control import endless
from ms_custom_ops import engine
print(engine.get_num_threads())
engine.set_num_threads(3)
engine.set_num_threads(None)
print(engine.get_num_threads())
try:
    engine.run(endless(), [])
except engine.native.EngineError as error:
    print(error)
"""


def test_threads_and_time_limit_of_the_environment():
    environ = {**os.environ, "MS_CUSTOM_OPS_NUM_THREADS": "5", "MS_CUSTOM_OPS_TIME_LIMIT": "0.2"}
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environ, timeout=120)
    first, second, error = ran.stdout.splitlines()
    assert (first, second) == ("5", "5") and "time limit of 0.2 s" in error, ran.stderr
