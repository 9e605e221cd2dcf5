# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT in GRAPH_MODE, once with the TIK flash attention, once with MindSpore's operators.

    python examples/train_gpt.py                          # both, on the documentation text inside CPython
    python examples/train_gpt.py --text book.txt --attention flash
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/train_gpt.py --distributed

Both trainings start from the same weights and see the same samples in the same order. The output folder gets
``metrics.json`` and ``loss.png``; the last line says how far the two losses are apart.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import matplotlib
import mindspore as ms
import numpy as np
from gpt_model import ATTENTION_KINDS, Gpt, GptConfig, NextTokenLoss, initialise
from mindspore import Tensor, nn
from mindspore.communication import get_group_size, get_rank, init
from tqdm import tqdm

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@dataclass(frozen=True)
class Group:
    """The processes of a data-parallel training; one process alone is a group of one."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> Group:
        """Joins the group that ``msrun`` made and turns on data parallelism."""
        init()
        ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
        return cls(get_rank(), get_group_size())


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
    """Endless (ids, targets), each (batch, context) int32: this rank's rows of one global random order."""
    rng = np.random.default_rng(seed)
    mine = slice(group.rank * batch, (group.rank + 1) * batch)
    while True:
        starts = rng.integers(0, len(ids) - context, batch * group.size)[mine]
        rows = ids[starts[:, None] + np.arange(context + 1)]
        yield Tensor(rows[:, :-1]), Tensor(rows[:, 1:])


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
    model = Gpt(config, attention)
    initialise(model, config, options["seed"])
    rates = learning_rates(options["lr"], options["warm_up"], options["steps"])
    # The loss is a mean over thousands of tokens, so a token's gradient is near float16's smallest numbers
    # where it enters the kernel: it is scaled up there and down again in the optimizer, in both trainings.
    scale = options["loss_scale"]
    optimizer = nn.Adam(model.trainable_params(), rates, beta2=0.95, loss_scale=scale)
    step = nn.TrainOneStepCell(NextTokenLoss(model), optimizer, sens=scale)
    step.set_train()
    run = Run(attention)
    samples = batches(ids, config.context, options["batch"], options["seed"], group)
    bar = tqdm(range(options["steps"]), desc=f"{attention:>7}", unit="step", disable=group.rank != 0)
    for _, (inputs, targets) in zip(bar, samples, strict=False):
        start = time.perf_counter()
        loss = float(step(inputs, targets).asnumpy())
        run.seconds.append(time.perf_counter() - start)
        if not math.isfinite(loss):
            raise click.ClickException(f"the {attention} training gave loss {loss} at step {len(run.losses)}")
        run.losses.append(loss)
        bar.set_postfix(loss=f"{loss:.4f}")
    run.weights_sha256 = weights_digest(model)
    return run


def weights_digest(model: Gpt) -> str:
    """SHA-256 over the names and the bits of all weights."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.parameters_and_names()):
        digest.update(name.encode())
        digest.update(parameter.asnumpy().tobytes())
    return digest.hexdigest()


def compare_ranks(run: Run, out: Path, group: Group, timeout_s: float = 120.0) -> None:
    """Every rank writes the digest of its weights; rank 0 waits for all and fails unless they are equal."""

    def path(rank: int) -> Path:
        return out / f"weights-{run.attention}-rank{rank}.sha256"

    # Renaming makes the file appear whole.
    partial = path(group.rank).with_suffix(".partial")
    partial.write_text(run.weights_sha256)
    partial.replace(path(group.rank))
    if group.rank:
        return
    deadline = time.monotonic() + timeout_s
    while missing := [rank for rank in range(group.size) if not path(rank).exists()]:
        if time.monotonic() > deadline:
            raise click.ClickException(f"ranks {missing} wrote no weight digest to {out} within {timeout_s:.0f} s")
        time.sleep(0.1)
    digests = {rank: path(rank).read_text() for rank in range(group.size)}
    if len(set(digests.values())) != 1:
        raise click.ClickException(f"the ranks' {run.attention} weights differ after training: {digests}")
    print(f"{run.attention}: the weights of {group.size} ranks agree bit for bit, sha256 {run.weights_sha256}")


def clear_digests(out: Path, group: Group) -> None:
    """Removes this rank's digests of an earlier training, so that rank 0 cannot read stale ones."""
    for stale in out.glob(f"weights-*-rank{group.rank}.*"):
        stale.unlink()


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
def main(text: Path | None, attention: str, out: Path, distributed: bool, **options) -> None:
    """Trains a small GPT with the TIK flash attention, with MindSpore's own operators, or with both."""
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    ids, vocab = encode(read_text(text), options["context"])
    try:
        config = GptConfig(vocab, options["layers"], options["heads"], options["width"], options["context"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    group = Group.join() if distributed else Group()
    out.mkdir(parents=True, exist_ok=True)
    clear_digests(out, group)
    runs = []
    for kind in ATTENTION_KINDS if attention == "both" else (attention,):
        runs.append(train(kind, config, ids, options, group))
        if distributed:
            compare_ranks(runs[-1], out, group)
    if group.rank == 0:
        report(runs, config, {"text": str(text) if text else None, **options}, group, out)


if __name__ == "__main__":
    main()
