# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model with sparse latent attention in GRAPH_MODE: dense warm-up first, then sparse steps.

    python examples/train_mla.py                         # on the documentation text inside CPython
    python examples/train_mla.py --text book.txt --steps 200 --dense-steps 60

In the warm-up every query attends to all tokens before it, and the indexer learns the attention distribution by its KL
loss. Then the indexer selects ``--topk`` tokens for each query. The output folder gets ``metrics.json`` and
``loss.png``. A batch that is never trained on is measured in both phases before, between and after. While attention
becomes selective its distribution moves away from what the indexer knows, so the KL loss of an indexer whose scores
are all equal is measured too, to compare with.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import matplotlib
import mindspore as ms
import numpy as np
from mindspore import nn
from mla_model import Losses, MlaConfig, MlaLM, TrainStep, held_out, initialise
from tqdm import tqdm
from train_gpt import Group, batches, encode, learning_rates, read_text

from ms_custom_ops.errors import OpArgumentError

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BETA2 = 0.95


@dataclass
class Run:
    """Of each step: task loss (nats per token), KL loss (nats per query), wall time (s)."""

    dense_steps: int
    losses: list[float] = field(default_factory=list)
    kl_losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def phase(self, values: list[float], dense: bool) -> list[float]:
        """The part of a list that belongs to a phase."""
        return values[: self.dense_steps] if dense else values[self.dense_steps :]

    def summary(self) -> dict[str, Any]:
        """First and last values by phase, and times; the first step of a phase contains its compilation."""
        result: dict[str, Any] = {"first_loss": self.losses[0], "final_loss": self.losses[-1]}
        for name, dense in (("dense", True), ("sparse", False)):
            seconds = self.phase(self.seconds, dense)
            if seconds:
                kl = self.phase(self.kl_losses, dense)
                result[name] = {
                    "first_kl": kl[0],
                    "final_kl": kl[-1],
                    "compile_and_first_step_s": seconds[0],
                    "median_step_s": float(np.median(seconds[1:] or seconds)),
                }
        return result


def optimizer_of(model: MlaLM, options: dict[str, Any]) -> nn.Optimizer:
    """Adam with a learning rate of its own for the indexer, whose loss has nothing to do with the task."""
    rates = learning_rates(options["lr"], options["warm_up"], options["steps"])
    indexer = model.indexer_parameters()
    names = {p.name for p in indexer}
    rest = [p for p in model.trainable_params() if p.name not in names]
    factor = options["indexer_lr"] / options["lr"]
    groups = [{"params": rest, "lr": rates}, {"params": indexer, "lr": [rate * factor for rate in rates]}]
    return nn.Adam(groups, beta2=BETA2, loss_scale=options["loss_scale"])


def train(step: TrainStep, run: Run, samples: Any, steps: int) -> None:
    """Goes on with ``run`` up to step ``steps``."""
    step.set_train()
    first = len(run.losses)
    phase = "dense" if first < run.dense_steps else "sparse"
    bar = tqdm(range(first, steps), desc=f"{phase:>6}", unit="step", initial=first, total=steps)
    for number, (inputs, targets) in zip(bar, samples, strict=False):
        start = time.perf_counter()
        task, kl_loss = (float(x.asnumpy()) for x in step(inputs, targets, number < run.dense_steps))
        run.seconds.append(time.perf_counter() - start)
        if not math.isfinite(task + kl_loss):
            raise click.ClickException(f"the training gave loss {task} and KL loss {kl_loss} at step {number + 1}")
        run.losses.append(task)
        run.kl_losses.append(kl_loss)
        bar.set_postfix(loss=f"{task:.4f}", kl=f"{kl_loss:.4f}")
    step.set_train(False)


def plot(run: Run, measured: dict[str, dict[str, float]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), constrained_layout=True)
    for axes, values, label in (
        (left, run.losses, "task loss (nats per token)"),
        (right, run.kl_losses, "KL loss of the indexer (nats per query)"),
    ):
        axes.plot(range(1, len(values) + 1), values)
        if 0 < run.dense_steps < len(values):
            axes.axvline(run.dense_steps + 0.5, linestyle="--", color="grey", label="dense | sparse")
            axes.legend()
        axes.set(xlabel="step", ylabel=label)
        axes.grid(alpha=0.3)
    steps = {"before": 0, "between": run.dense_steps, "after": len(run.losses)}
    for key, marker, label in (
        ("dense_kl", "o", "held out, dense"),
        ("dense_kl_of_equal_scores", "^", "held out, dense, all scores equal"),
    ):
        right.plot(
            [steps[when] for when in measured],
            [values[key] for values in measured.values()],
            marker,
            linestyle=":",
            label=label,
        )
    right.legend()
    figure.suptitle("Sparse latent attention on text, GRAPH_MODE")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(
    run: Run, measured: dict[str, dict[str, float]], config: MlaConfig, options: dict[str, Any], out: Path
) -> None:
    """Writes metrics.json and loss.png and prints what they say."""
    summary = run.summary()
    metrics = {
        "model": asdict(config),
        "options": options,
        "mindspore": ms.__version__,
        **summary,
        "held_out": measured,
        **asdict(run),
    }
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    plot(run, measured, out / "loss.png")
    for phase in ("dense", "sparse"):
        if phase in summary:
            part = summary[phase]
            print(
                f"{phase}: KL loss {part['first_kl']:.4f} -> {part['final_kl']:.4f}, median step "
                f"{part['median_step_s'] * 1e3:.0f} ms, compilation and first step "
                f"{part['compile_and_first_step_s']:.1f} s"
            )
    for when, values in measured.items():
        print(f"held out, {when}: " + ", ".join(f"{name} {value:.4f}" for name, value in values.items()))
    print(f"wrote {out / 'metrics.json'} and {out / 'loss.png'}")
    first, last = measured["before"], measured["after"]
    print(
        f"final loss {summary['first_loss']:.4f} -> {summary['final_loss']:.4f}, held-out KL loss dense "
        f"{first['dense_kl']:.4f} -> {last['dense_kl']:.4f} sparse {first['sparse_kl']:.4f} -> "
        f"{last['sparse_kl']:.4f}",
        flush=True,
    )


@click.command(context_settings={"show_default": True})
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text file to train on.  [default: the documentation text of CPython]",
)
@click.option("--steps", type=click.IntRange(1), default=40)
@click.option("--dense-steps", type=click.IntRange(0), default=20, help="Steps of dense warm-up among them.")
@click.option("--batch", type=click.IntRange(1), default=8, help="Samples per step.")
@click.option("--layers", type=click.IntRange(1), default=2)
@click.option("--heads", type=click.IntRange(1), default=4)
@click.option("--width", type=click.IntRange(1), default=128)
@click.option("--context", type=click.IntRange(2), default=128, help="Tokens per sample.")
@click.option("--topk", type=click.IntRange(1), default=32, help="Tokens that a query attends to in the sparse phase.")
@click.option("--latent", type=click.IntRange(16), default=64, help="Size of the latents, a multiple of 16.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), default=3e-3, help="Peak learning rate.")
@click.option(
    "--indexer-lr", type=click.FloatRange(0, min_open=True), default=1e-2, help="Peak learning rate of the indexer."
)
@click.option("--warm-up", type=click.IntRange(0), default=5, help="Steps of rising learning rate.")
@click.option("--loss-scale", type=click.FloatRange(1), default=1024.0, help="Factor on the gradients, for float16.")
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/mla"),
    help="Folder for metrics.json and loss.png.",
)
def main(text: Path | None, out: Path, **options: Any) -> None:
    """Trains a small language model with sparse latent attention: dense warm-up, then sparse steps."""
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    ids, vocab = encode(read_text(text), options["context"])
    config = MlaConfig(vocab, *(options[n] for n in ("layers", "heads", "width", "context", "topk", "latent")))
    try:
        model = MlaLM(config, options["seed"])
    except OpArgumentError as error:
        raise click.UsageError(str(error)) from None
    initialise(model, config, options["seed"])
    out.mkdir(parents=True, exist_ok=True)
    losses = Losses(model)
    step = TrainStep(losses, optimizer_of(model, options), options["loss_scale"])
    # The end of the text is held out.
    kept = len(ids) - options["batch"] * (options["context"] + 1)
    rows = ids[kept:].reshape(options["batch"], -1) if kept > 2 * options["context"] else None
    if rows is None:
        raise click.ClickException("--text: too short to hold out one batch")
    samples = batches(ids[:kept], options["context"], options["batch"], options["seed"], Group())
    run = Run(min(options["dense_steps"], options["steps"]))
    measured = {"before": held_out(losses, rows[:, :-1], rows[:, 1:])}
    if 0 < run.dense_steps < options["steps"]:
        train(step, run, samples, run.dense_steps)
        measured["between"] = held_out(losses, rows[:, :-1], rows[:, 1:])
    train(step, run, samples, options["steps"])
    measured["after"] = held_out(losses, rows[:, :-1], rows[:, 1:])
    report(run, measured, config, {"text": str(text) if text else None, **options}, out)


if __name__ == "__main__":
    main()
