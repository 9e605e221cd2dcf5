#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every op over and over and watch the memory of the process.

    scripts/soak.py --minutes 20 [--grows 32] [--soc Ascend910B1] [--soc Ascend910A]

A round runs each smoke case of every op on every chip given, kernel against golden, and one training step in GRAPH_MODE
of a small net of attention and Mamba-2 layers, which is compiled once. Printed is the resident memory of every minute.
Exit code 1 when a case fails, or when the memory at the end is more than ``--grows`` MiB above that after a quarter of
the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import click
import psutil

from ms_custom_ops.cases.generate import smoke_cases
from ms_custom_ops.cases.run import run_case
from ms_custom_ops.registry import load_registry
from ms_custom_ops.soc import use_soc

MIB = 1 << 20


def memory() -> float:
    """Resident MiB of this process."""
    return psutil.Process().memory_info().rss / MIB


def training_step() -> Callable[[], float]:
    """A step in GRAPH_MODE on new data at every call; gives the loss."""
    import mindspore as ms
    import numpy as np

    import ms_custom_ops as mco

    ms.set_context(mode=ms.GRAPH_MODE)
    width, heads = 32, 2

    class Net(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.mix = mco.nn.Mamba2(width, d_state=16, headdim=16, chunk_size=16, seed=0)
            self.attention = mco.nn.FlashAttention(width // heads, heads, causal=True)

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            y = self.mix(x)
            b, s, _ = x.shape
            q = y.reshape(b, s, heads, width // heads).swapaxes(1, 2).astype(ms.float16)
            return ms.ops.square(self.attention(q, q, q).astype(ms.float32)).mean()

    net = Net()
    optimizer = ms.nn.Adam(net.trainable_params(), 1e-3)
    loss_and_grads = ms.value_and_grad(net, None, optimizer.parameters)
    rng = np.random.default_rng(0)

    def step() -> float:
        loss, grads = loss_and_grads(ms.Tensor(rng.standard_normal((2, 63, width)).astype(np.float32)))
        optimizer(grads)
        return float(loss.asnumpy())

    return step


def rounds(chips: tuple[str, ...], failed: list[str]) -> Iterator[int]:
    """The cases that were run so far, after each of them and each training step."""
    step, ops, count = training_step(), load_registry().ops.values(), 0
    while True:
        for op in ops:
            for chip in chips:
                with use_soc(chip):
                    for case in smoke_cases(op, chip):
                        result = run_case(case, chip)
                        count += 1
                        if result.verdict != "pass":
                            failed.append(f"{op.name} {case.name} {chip}: {result.message}")
                        yield count
        step()


@click.command(help=__doc__.split("\n\n")[0])
@click.option("--minutes", type=click.FloatRange(min=0.05), default=20.0, show_default=True)
@click.option("--grows", type=float, default=32.0, show_default=True, help="MiB that the memory may grow.")
@click.option("--soc", "chips", multiple=True, default=("Ascend910B1", "Ascend910A"), show_default=True)
def main(minutes: float, grows: float, chips: tuple[str, ...]) -> None:
    failed: list[str] = []
    start, warm, marks = time.monotonic(), None, 0
    for count in rounds(chips, failed):
        spent = (time.monotonic() - start) / 60
        if warm is None and spent >= minutes / 4:
            warm = memory()
        if spent >= marks:
            print(f"{spent:5.1f} min: {count} cases, {memory():.0f} MiB, {len(failed)} failed", flush=True)
            marks += 1
        if spent >= minutes:
            break
    grown = memory() - (warm or 0)
    print(
        f"{count} cases in {minutes:g} min; memory {grown:+.1f} MiB since a quarter of the time; {len(failed)} failed"
    )
    for text in failed[:10]:
        print(text, file=sys.stderr)
    sys.exit(1 if failed or grown > grows else 0)


if __name__ == "__main__":
    main()
