# SPDX-License-Identifier: Apache-2.0
"""A kernel that does not end, inside a call of MindSpore: the time limit of the environment, and Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from attention_nets import run_python

TIK_TESTS = Path(__file__).parents[1] / "tik"

ENDLESS = """
import os, signal, sys, threading, time
sys.path.insert(0, {folder!r})
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from programs import Builder, ref
from ms_custom_ops.engine import native as engine
from ms_custom_ops.program import ir

ms.set_context(mode=ms.{mode}_MODE)
b = Builder()
x, z = b.gm("x", "float32", 64, "input"), b.gm("z", "float32", 64, "output")
u = b.local("u", "ub", "float32", 64)
for name in "ij":
    loop = ir.For(b.register(name, "int32", "loop"), 0, 2**31 - 1, [], False, 1, b.loc())
    b.body.append(loop)
    b.body = loop.body
b.instr("vexp", [ref(u), ref(u)], mask0=64, repeat=1, dst_blk=32, src_blk=32)
engine.put_in_table("toy|float32[64]", b.program.to_bytes())
engine._library().mco_publish(b"toy", b"0123")


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.op = ops.Custom(str(engine.library_path()) + ":mco_op", lambda s: s, lambda t: t, func_type="aot")
        lists, counts = dict(mco_inputs=[0], mco_outputs=[0]), dict(mco_params=1, mco_results=1, mco_launches=0)
        texts = dict(mco_op="toy", mco_prefix="toy", mco_source="0123", mco_files="", mco_cache="")
        for name, value in dict(lists, **counts, **texts).items():
            self.op.add_prim_attr(name, value)

    def construct(self, x):
        return self.op(x)


def interrupt(main):
    # Once the kernel runs: the process has computed for a second in which the main thread ran no Python.
    before = None
    while before is None or time.process_time() - since < 1:
        time.sleep(0.05)
        frame = sys._current_frames()[main]
        if (frame, frame.f_lasti) != before:
            before, since = (frame, frame.f_lasti), time.process_time()
    print(time.time(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)


if {interrupted}:
    threading.Thread(target=interrupt, args=[threading.get_ident()], daemon=True).start()
try:
    print(Net()(Tensor(np.ones(64, np.float32))))
except RuntimeError as error:
    print("RuntimeError", error)
"""


def script(mode: str, interrupted: bool) -> str:
    return ENDLESS.format(folder=str(TIK_TESTS), mode=mode, interrupted=interrupted)


@pytest.mark.parametrize("mode", ["GRAPH", "PYNATIVE"])
def test_the_time_limit_of_the_environment(tmp_path: Path, mode: str) -> None:
    done = run_python(script(mode, False), tmp_path, MS_CUSTOM_OPS_TIME_LIMIT="0.5")
    assert "RuntimeError" in done.stdout, done.stderr[-3000:]
    text = "toy: probe: still runs after the time limit of 0.5 s; accepted: a kernel that ends before it"
    assert text in done.stdout and "[kernel.py:" in done.stdout


@pytest.mark.parametrize("mode", ["GRAPH", "PYNATIVE"])
def test_an_interrupt_ends_the_process_at_once(tmp_path: Path, mode: str) -> None:
    """MindSpore has a handler of its own in place while a graph or an op runs, which ends the process with SIGTERM."""
    done = run_python(script(mode, True), tmp_path)
    ended = time.time()
    sent = float(done.stdout.split()[0])
    assert done.returncode == -15 and ended - sent < 1.5, done.stdout  # mostly the time that the process takes to end
