# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT in GRAPH_MODE, once with the flash attention of this package, once with MindSpore's operators.

    python examples/train_gpt.py                          # both, on the documentation text inside CPython
    python examples/train_gpt.py --text book.txt --attention flash
    python examples/train_gpt.py --impl ascendc           # the flash attention in Ascend C, forward and gradient
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/train_gpt.py --distributed
    msrun --worker_num=4 --local_worker_num=4 --join=True examples/train_gpt.py --attention flash --context-parallel 2

The last line is a grid: two ranks share the rows of a sequence, two such pairs the samples.

Both trainings start from the same weights and see the same samples in the same order. The output folder gets
``metrics.json`` and ``loss.png``; the last line says how far the two losses are apart.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import click
import matplotlib
import mindspore as ms
import numpy as np
from gpt_model import ATTENTION_KINDS, Gpt, GptConfig, NextTokenLoss, initialise
from mindspore import Tensor, nn
from ranks import Group, check, compare_ranks, resume, save, training_step, weights_digest
from tqdm import tqdm

import ms_custom_ops as mco

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@dataclass
class Run:
    """What one training gave: the loss (nats per token) and the wall time (s) of each step."""

    attention: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    weights_sha256: str = ""

    def summary(self) -> dict[str, float]:
        # The first step contains the compilation of the graph.
        steady = self.seconds[1:] or self.seconds
        return {
            "first_loss": self.losses[0],
            "final_loss": self.losses[-1],
            "fall": 1.0 - self.losses[-1] / self.losses[0],
            "compile_and_first_step_s": self.seconds[0],
            "median_step_s": float(np.median(steady)),
        }


def read_text(path: Path | None) -> bytes:
    """The text to train on: a file, or the documentation that CPython carries for its ``help()``."""
    if path is not None:
        return path.read_bytes()
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics)).encode()


def encode(text: bytes, context: int) -> tuple[np.ndarray, int]:
    """Byte-level tokens, a byte's id is its rank among the bytes that occur. Returns (ids int32, vocab)."""
    if len(text) < 2 * context:
        raise click.ClickException(
            f"--text: needs at least {2 * context} bytes for --context {context}, has {len(text)}"
        )
    alphabet, ids = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    return ids.astype(np.int32), len(alphabet)


def batches(ids: np.ndarray, context: int, batch: int, seed: int, group: Group):
    """Endless (ids, targets), each (batch, context / ranks of a sequence) int32: this rank's rows of one global random
    order."""
    rng = np.random.default_rng(seed)
    place, count = group.samples
    mine = slice(place * batch, (place + 1) * batch)
    while True:
        starts = rng.integers(0, len(ids) - context, batch * count)[mine]
        rows = ids[starts[:, None] + np.arange(context + 1)]
        yield Tensor(group.split(rows[:, :-1])), Tensor(group.split(rows[:, 1:]))


def learning_rates(peak: float, warm_up: int, steps: int) -> list[float]:
    """Linear warm-up, then half a cosine down to a tenth of the peak."""

    def at(step: int) -> float:
        if step < warm_up:
            return peak * (step + 1) / warm_up
        done = (step - warm_up) / max(1, steps - warm_up)
        return peak * (0.55 + 0.45 * math.cos(math.pi * done))

    return [at(step) for step in range(steps)]


def train(attention: str, config: GptConfig, ids: np.ndarray, options: dict, group: Group) -> Run:
    """One training from the seed's weights; the loss of every step is kept."""
    model = Gpt(config, attention, group)
    initialise(model, config, options["seed"])
    rates = learning_rates(options["lr"], options["warm_up"], options["steps"])
    # The loss is a mean over thousands of tokens, so a token's gradient is near float16's smallest numbers
    # where it enters the kernel: it is scaled up there and down again in the optimizer, in both trainings.
    optimizer = nn.Adam(model.trainable_params(), rates, beta2=0.95, loss_scale=options["loss_scale"])
    step = training_step(model, NextTokenLoss(model), optimizer, options, group)
    begun = resume(options["resume"], model, optimizer) if options["resume"] else 0
    run = Run(attention)
    samples = islice(batches(ids, config.context, options["batch"], options["seed"], group), begun, None)
    bar = tqdm(range(begun, options["steps"]), desc=f"{attention:>7}", unit="step", disable=group.rank != 0)
    for done, (inputs, targets) in zip(bar, samples, strict=False):
        start = time.perf_counter()
        loss = float(step(inputs, targets).asnumpy())
        run.seconds.append(time.perf_counter() - start)
        if not math.isfinite(loss):
            raise click.ClickException(f"the {attention} training gave loss {loss} at step {len(run.losses)}")
        run.losses.append(loss)
        bar.set_postfix(loss=f"{loss:.4f}")
        if options["save_every"] and (done + 1) % options["save_every"] == 0:
            save(options["out"] / f"{attention}.ckpt", model, optimizer, done + 1, group)
    if not run.losses:
        raise click.ClickException(f"--resume {options['resume']}: {begun} steps are done; accepted: more --steps")
    run.weights_sha256 = weights_digest(model)
    return run


def plot(runs: list[Run], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    for run, style in zip(runs, ("-", "--"), strict=False):
        axes.plot(range(1, len(run.losses) + 1), run.losses, style, label=run.attention)
    axes.set(xlabel="step", ylabel="loss (nats per token)", title="GPT on text, GRAPH_MODE")
    axes.grid(alpha=0.3)
    axes.legend(title="attention")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def max_abs_diff(runs: list[Run]) -> float:
    return float(np.max(np.abs(np.subtract(runs[0].losses, runs[1].losses))))


def report(runs: list[Run], config: GptConfig, options: dict, group: Group, out: Path) -> None:
    """Writes metrics.json and loss.png and prints one line per training and the comparison last."""
    metrics = {
        "model": asdict(config),
        "options": options,
        "ranks": group.size,
        "context_parallel": group.context,
        "mindspore": ms.__version__,
        "runs": {run.attention: {**run.summary(), **asdict(run)} for run in runs},
    }
    if len(runs) == 2:
        metrics["max_abs_diff"] = max_abs_diff(runs)
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    plot(runs, out / "loss.png")
    for run in runs:
        s = run.summary()
        print(
            f"{run.attention}: loss {s['first_loss']:.4f} -> {s['final_loss']:.4f} (-{s['fall']:.0%}), "
            f"median step {s['median_step_s'] * 1e3:.0f} ms, "
            f"compilation and first step {s['compile_and_first_step_s']:.1f} s"
        )
    print(f"wrote {out / 'metrics.json'} and {out / 'loss.png'}")
    if len(runs) == 2:
        finals = " ".join(f"{run.attention}={run.losses[-1]:.6f}" for run in runs)
        print(f"final loss {finals} max_abs_diff={metrics['max_abs_diff']:.3e}", flush=True)


@click.command(context_settings={"show_default": True})
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text file to train on.  [default: the documentation text of CPython]",
)
@click.option("--attention", type=click.Choice(["both", *ATTENTION_KINDS]), default="both")
@click.option("--impl", type=click.Choice(["tik", "ascendc"]), default="tik", help="Kernels of the flash attention.")
@click.option("--steps", type=click.IntRange(1), default=60)
@click.option("--batch", type=click.IntRange(1), default=8, help="Samples per step and rank.")
@click.option("--layers", type=click.IntRange(1), default=4)
@click.option("--heads", type=click.IntRange(1), default=4)
@click.option("--width", type=click.IntRange(1), default=256)
@click.option("--context", type=click.IntRange(1), default=256, help="Tokens per sample.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), default=1e-3, help="Peak learning rate.")
@click.option("--warm-up", type=click.IntRange(0), default=20, help="Steps of linear warm-up.")
@click.option("--loss-scale", type=click.FloatRange(1), default=4096.0, help="Factor on the gradients, for float16.")
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/gpt"),
    help="Folder for metrics.json and loss.png.",
)
@click.option("--distributed", is_flag=True, help="Data parallel under msrun; the losses shown are rank 0's.")
@click.option("--context-parallel", type=click.IntRange(1), default=1, help="Ranks that share the rows of a sequence, "
              "under msrun; --batch is then per such group.")  # fmt: skip
@click.option("--save-every", type=click.IntRange(0), default=0, help="Write flash.ckpt after so many steps; 0: never.")
@click.option("--resume", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None,
              help="Checkpoint to go on from, of any number of ranks.")  # fmt: skip
def main(text: Path | None, attention: str, distributed: bool, context_parallel: int, **options) -> None:
    """Trains a small GPT with the flash attention of this package, with MindSpore's own operators, or with both."""
    if attention != "flash" and (context_parallel > 1 or options["resume"]):
        raise click.UsageError(f"--context-parallel, --resume with --attention {attention}; accepted: flash")
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    ids, vocab = encode(read_text(text), options["context"])
    try:
        config = GptConfig(vocab, options["layers"], options["heads"], options["width"], options["context"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    group = Group.join(context_parallel) if distributed or context_parallel > 1 else Group()
    out = options["out"]
    out.mkdir(parents=True, exist_ok=True)
    check(group, config, ids, options)
    runs = []
    for kind in ATTENTION_KINDS if attention == "both" else (attention,):
        with mco.use_impl(options["impl"]):
            runs.append(train(kind, config, ids, options, group))
        if group.size > 1:
            compare_ranks(kind, runs[-1].weights_sha256, group)
    if group.rank == 0:
        kept = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
        report(runs, config, {"text": str(text) if text else None, **kept}, group, out)


if __name__ == "__main__":
    main()
