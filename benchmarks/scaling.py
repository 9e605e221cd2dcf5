# SPDX-License-Identifier: Apache-2.0
"""What is measured of the whole rather than of one call: longer sequences, a second thread, memory, the first call of a
process, a training step, and rates of vector instructions. Each figure stands beside what the project asks of it.
Part of ``run.py scaling``."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import limits
import mindspore as ms
import numpy as np
from attention import Case, FlashNet
from engine import least_seconds
from mindspore import Tensor, nn
from timing import machine_line, measure

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.engine import native
from ms_custom_ops.tik.trace import trace

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.append(str(EXAMPLES))

SHORT, LONG, LONGEST = 1024, 4096, 16384
HEADS, HEAD_DIM = 8, 64
ROUNDS = 7
GIB = 2**30
# Tokens of a sample, samples, and the most that a step may take of the built-in attention's.
TRAININGS = ((256, 8, 0.95), (1024, 2, 0.65), (4096, 1, 0.4))
ADD_REPEATS, ADDS = 32, 20000  # 8 KiB a tensor: three of them stay in the first-level cache

FIRST_CALL = """
import json, re, sys, time
sys.path[:0] = [{here!r}]
import mindspore as ms, numpy as np
from attention import Case, FlashNet
from mindspore import Tensor

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

ms.set_context(mode=ms.GRAPH_MODE)
case = Case(1, {heads}, {tokens}, {head_dim}, {causal})
given = [Tensor(x.astype(np.float16)) for x in case.inputs()]
net = FlashNet(case)
run = ms.ops.GradOperation(get_all=True, sens_param=True)(net) if {backward} else lambda q, k, v, _: (net(q, k, v),)
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before, start = status("VmRSS"), time.perf_counter()
results = run(*given)
for result in results: result.asnumpy()
took = time.perf_counter() - start
beyond = status("VmHWM") - before - sum(r.asnumpy().nbytes for r in results)
print(json.dumps({{"s": took, "beyond": beyond}}))
"""


def fresh_process(cache: str, tokens: int, *, causal: bool = False, backward: bool = True) -> dict[str, float]:
    """Seconds of the first call in a process of its own, and by how many bytes its memory's peak passed inputs and
    results."""
    text = FIRST_CALL.format(
        here=str(Path(__file__).parent), heads=HEADS, tokens=tokens, head_dim=HEAD_DIM, causal=causal, backward=backward
    )
    env = {**os.environ, "MS_CUSTOM_OPS_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(what: str, figure: float, unit: str, most: float | None = None, least: float | None = None) -> dict[str, Any]:
    """One figure; it is as asked where it is at most ``most`` and at least ``least``."""
    asked = f"at most {most:g}" if most is not None else f"at least {least:g}"
    met = (most is None or figure <= most) and (least is None or figure >= least)
    return {"what": what, "figure": round(figure, 3), "unit": unit, "asked": asked, "met": met}


def ratio_of(first: Callable[[], object], second: Callable[[], object]) -> float:
    """Median time of ``first`` over that of ``second``, measured in turn."""
    first(), second()
    pairs = [(measure(first), measure(second)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def attention_calls(tokens: int, causal: bool = False) -> dict[str, Callable[[], object]]:
    """Forward, and forward with gradients, of one case in GRAPH_MODE."""
    case = Case(1, HEADS, tokens, HEAD_DIM, causal)
    net = FlashNet(case)
    query, key, value, dout = (Tensor(x.astype(np.float16)) for x in case.inputs())
    both = ms.ops.GradOperation(get_all=True, sens_param=True)(net)
    return {
        "forward": lambda: net(query, key, value).asnumpy(),
        "forward and backward": lambda: [g.asnumpy() for g in both(query, key, value, dout)],
    }


def lengths() -> list[dict[str, Any]]:
    """Four times the tokens are sixteen times the work."""
    short, long = attention_calls(SHORT), attention_calls(LONG)
    return [
        row(f"{LONG} tokens over {SHORT}, {name}", ratio_of(long[name], short[name]), "x", most=17) for name in short
    ]


def hidden_half() -> list[dict[str, Any]]:
    plain, causal = attention_calls(SHORT), attention_calls(SHORT, causal=True)
    return [
        row(f"causal over not causal, {name}", ratio_of(causal[name], plain[name]), "x", most=0.6) for name in plain
    ]


def threads() -> list[dict[str, Any]]:
    """A second processor's gain; none is asked where there is no second one."""

    def limited(count: int, call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            mco.set_num_threads(count)
            call()

        return run

    found = []
    for name, call in attention_calls(SHORT).items():
        gain = ratio_of(limited(1, call), limited(2, call))
        found.append(row(f"one thread over two, {HEADS} heads, {name}", gain, "x", least=1.85))
    mco.set_num_threads(None)
    return found


def memory() -> list[dict[str, Any]]:
    """Growth of the peak beyond the results, in a process that has its inputs."""
    with tempfile.TemporaryDirectory() as cache:
        found = []
        for backward in (False, True):
            took = fresh_process(cache, LONGEST, causal=True, backward=backward)
            name = f"peak beyond inputs and results, {LONGEST} tokens causal, {'gradient' if backward else 'forward'}"
            found.append(row(name, took["beyond"] / GIB, "GiB", most=1))
    return found


def first_call() -> list[dict[str, Any]]:
    """Compilation of MindSpore's graphs included; with an empty cache folder, then with the Programs on disk."""
    cold, disk = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(fresh_process(cache, SHORT)["s"])
            disk.append(fresh_process(cache, SHORT)["s"])
    name = "first forward and backward, {}"
    return [
        row(name.format("nothing cached"), statistics.median(cold), "s", most=0.86),
        row(name.format("Programs on disk"), statistics.median(disk), "s", most=0.77),
    ]


class NoCore(nn.Cell):
    """In the place of attention: the values themselves. What a step then takes no attention can save."""

    def construct(self, query, key, value):
        return query + key + value


def training_step(kind: str, tokens: int, batch: int) -> Callable[[], object]:
    """A step of the example GPT with attention of ``kind``; "none" has nothing in its place."""
    from gpt_model import Gpt, GptConfig, NextTokenLoss, initialise

    config = GptConfig(128, context=tokens)
    model = Gpt(config, "flash" if kind == "none" else kind)
    if kind == "none":
        for _, cell in model.cells_and_names():
            if hasattr(cell, "core"):
                cell.core = NoCore()
    initialise(model, config, 0)
    step = nn.TrainOneStepCell(NextTokenLoss(model), nn.Adam(model.trainable_params(), 1e-3), sens=4096.0)
    step.set_train()
    rng = np.random.default_rng(1)
    ids, targets = (Tensor(rng.integers(0, 128, (batch, tokens)).astype(np.int32)) for _ in range(2))
    return lambda: step(ids, targets).asnumpy()


def training() -> list[dict[str, Any]]:
    """A step with flash attention over one with MindSpore's operators in float32, step by step in turn, and what is
    left of it without any attention."""
    found = []
    for tokens, batch, most in TRAININGS:
        ours, none, builtin = (training_step(kind, tokens, batch) for kind in ("flash", "none", "builtin"))
        name = f"GPT step, {tokens} tokens, batch {batch}"
        found.append(row(f"{name}, over built-in", ratio_of(ours, builtin), "x", most))
        found.append(
            {
                **row(f"{name}, without attention, over built-in", ratio_of(none, builtin), "x", 1),
                "asked": "",
                "met": True,
            }
        )
    return found


def _adds() -> None:
    t = tik.Tik()
    count = limits.LANES * ADD_REPEATS
    given, out = (t.Tensor("float32", (count,), tik.scope_gm, name) for name in ("given", "out"))
    x, y, z = (t.Tensor("float32", (count,), tik.scope_ubuf, name) for name in "xyz")
    for tensor in (x, y):
        t.data_move(tensor, given, 0, 1, count // 8, 0, 0)
    with t.for_range(0, ADDS):
        t.vec_add(limits.LANES, z, x, y, ADD_REPEATS, 8, 8, 8)
    t.data_move(out, z, 0, 1, count // 8, 0, 0)
    t.BuildCCE("adds", [given], [out])


def rates() -> list[dict[str, Any]]:
    count = limits.LANES * ADD_REPEATS
    feed = [np.linspace(-1, 1, count, dtype=np.float32)]
    seconds = least_seconds(native.runner(trace(_adds, soc=limits.SOC), feed, threads=1))
    return [
        row("exp of float32 in UB, one core", limits.exp_rate(least_seconds), "G/s", least=3),
        row("add of float32 in UB, one core", count * ADDS / seconds / 1e9, "G/s", least=4),
    ]


PARTS = {
    "rates": rates,
    "lengths": lengths,
    "causal": hidden_half,
    "threads": threads,
    "memory": memory,
    "first-call": first_call,
    "training": training,
}


def report(json_file: Path | None, only: tuple[str, ...]) -> None:
    """Prints a line for every figure."""
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    for name in only:
        if name not in PARTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(PARTS)}", param_hint="--case")
    click.echo(f"measured on: {machine_line()}")
    rows, start = [], time.perf_counter()
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        for found in part():
            rows.append({"part": name, **found})
            verdict = "" if found["met"] else "  (not met)"
            click.echo(
                f"{found['what']:<62}{found['figure']:>9.3f} {found['unit']:<4} asked: {found['asked']}{verdict}"
            )
    click.echo(f"took {time.perf_counter() - start:.0f} s")
    if json_file:
        json_file.write_text(json.dumps({"machine": machine_line(), "rows": rows}, indent=1) + "\n")
        click.echo(f"wrote {json_file}")
