# SPDX-License-Identifier: Apache-2.0
"""Trains a small Mamba-2 language model in GRAPH_MODE on the TIK scan kernel, then writes text with its step
form.

    python examples/train_mamba.py                       # on the documentation text inside CPython
    python examples/train_mamba.py --text book.txt --steps 300
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/train_mamba.py --sequence-parallel 2

The output folder gets ``metrics.json``, ``loss.png`` and ``sample.txt``. At the end the trained model's two
forms are compared on a piece of the text: the chunked form (scan kernel, float16 operands, float32
accumulation) and the step form (float32), by the log-probabilities they give to every possible next byte.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import click
import matplotlib
import mindspore as ms
import numpy as np
from mamba_model import MambaConfig, MambaLM, NextTokenLoss, compare_forms, generate, initialise
from mindspore import Tensor, nn
from ranks import Group, check, compare_ranks, resume, save, training_step, weights_digest
from tqdm import tqdm
from train_gpt import batches, encode, learning_rates, read_text

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PROMPT_TOKENS = 64


def train(model: MambaLM, ids: np.ndarray, options: dict, group: Group) -> tuple[list[float], list[float]]:
    """Loss (nats per token) and wall time (s) of every step."""
    rates = learning_rates(options["lr"], options["warm_up"], options["steps"])
    # A token's gradient is near float16's smallest numbers where it enters the kernel: it is scaled up there
    # and down again in the optimizer.
    optimizer = nn.Adam(model.trainable_params(), rates, beta2=0.95, loss_scale=options["loss_scale"])
    step = training_step(model, NextTokenLoss(model), optimizer, options, group)
    begun = resume(options["resume"], model, optimizer) if options["resume"] else 0
    losses, seconds = [], []
    samples = islice(batches(ids, options["context"], options["batch"], options["seed"], group), begun, None)
    bar = tqdm(range(begun, options["steps"]), desc="mamba2", unit="step", disable=group.rank != 0)
    for done, (inputs, targets) in zip(bar, samples, strict=False):
        start = time.perf_counter()
        losses.append(float(step(inputs, targets).asnumpy()))
        seconds.append(time.perf_counter() - start)
        if not math.isfinite(losses[-1]):
            raise click.ClickException(f"the training gave loss {losses[-1]} at step {len(losses)}")
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
        if options["save_every"] and (done + 1) % options["save_every"] == 0:
            save(options["out"] / "mamba.ckpt", model, optimizer, done + 1, group)
    if not losses:
        raise click.ClickException(f"--resume {options['resume']}: {begun} steps are done; accepted: more --steps")
    step.set_train(False)
    return losses, seconds


def plot(losses: list[float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="step", ylabel="loss (nats per token)", title="Mamba-2 on text, GRAPH_MODE")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def write_text(model: MambaLM, ids: np.ndarray, alphabet: bytes, options: dict, out: Path) -> str:
    """Continues the beginning of the text by the step form; the text goes to sample.txt too."""
    prompt = ids[:PROMPT_TOKENS]
    drawn = generate(model, prompt, options["sample"], options["temperature"], options["seed"])
    text = bytes(alphabet[i] for i in np.concatenate([prompt, drawn])).decode(errors="replace")
    (out / "sample.txt").write_text(text + "\n")
    return text


@click.command(context_settings={"show_default": True})
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text file to train on.  [default: the documentation text of CPython]",
)
@click.option("--steps", type=click.IntRange(1), default=60)
@click.option("--batch", type=click.IntRange(1), default=8, help="Samples per step.")
@click.option("--layers", type=click.IntRange(1), default=4)
@click.option("--width", type=click.IntRange(1), default=256)
@click.option("--state", type=click.IntRange(1, 256), default=64, help="State size N of a head.")
@click.option("--headdim", type=click.IntRange(1, 128), default=64, help="Size P of a head.")
@click.option("--chunk", type=click.IntRange(1, 256), default=64, help="Steps per chunk of the scan.")
@click.option("--context", type=click.IntRange(PROMPT_TOKENS), default=256, help="Tokens per sample.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), default=2e-3, help="Peak learning rate.")
@click.option("--warm-up", type=click.IntRange(0), default=10, help="Steps of linear warm-up.")
@click.option("--loss-scale", type=click.FloatRange(1), default=4096.0, help="Factor on the gradients, for float16.")
@click.option("--sample", type=click.IntRange(0), default=200, help="Bytes of text to write after the training.")
@click.option("--temperature", type=click.FloatRange(0), default=0.7, help="Of that text; 0 takes the likeliest byte.")
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/mamba"),
    help="Folder for metrics.json, loss.png and sample.txt.",
)
@click.option("--sequence-parallel", type=click.IntRange(1), default=1, help="Ranks that share the steps of a "
              "sequence, under msrun; --batch is then per such group.")  # fmt: skip
@click.option("--save-every", type=click.IntRange(0), default=0, help="Write mamba.ckpt after so many steps; 0: never.")
@click.option("--resume", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None,
              help="Checkpoint to go on from, of any number of ranks.")  # fmt: skip
def main(text: Path | None, sequence_parallel: int, **options) -> None:
    """Trains a small Mamba-2 model with the TIK scan kernel and writes text with its step form."""
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    raw = read_text(text)
    ids, vocab = encode(raw, options["context"])
    alphabet = bytes(np.unique(np.frombuffer(raw, np.uint8)))
    try:
        config = MambaConfig(vocab, *(options[n] for n in ("layers", "width", "state", "headdim", "chunk")))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    out = options["out"]
    out.mkdir(parents=True, exist_ok=True)
    group = Group.join(sequence_parallel, zigzag=False) if sequence_parallel > 1 else Group()
    check(group, config, ids, options)
    model = MambaLM(config, options["seed"], group)
    initialise(model, config, options["seed"])
    losses, seconds = train(model, ids, options, group)
    if group.size > 1:
        compare_ranks("mamba2", weights_digest(model), group)
    if group.rank == 0:
        one = model if group.context == 1 else alone(model, config)
        report(one, config, (ids, alphabet), (losses, seconds), {"text": text, **options}, group)


def alone(model: MambaLM, config: MambaConfig) -> MambaLM:
    """The model for one process, with the weights of one for several."""
    one = MambaLM(config)
    weights = dict(model.parameters_and_names())
    for name, parameter in one.parameters_and_names():
        parameter.set_data(Tensor(weights[name].asnumpy()))
    return one


def report(
    model: MambaLM, config: MambaConfig, text: tuple[np.ndarray, bytes], course: tuple[list[float], list[float]],
    options: dict, group: Group,
) -> None:  # fmt: skip
    """Writes metrics.json, loss.png and sample.txt and prints the losses and the two forms' difference last."""
    (ids, alphabet), (losses, seconds), out = text, course, options["out"]
    forms = compare_forms(model, ids[: options["context"]])
    written = write_text(model, ids, alphabet, options, out)
    steady = seconds[1:] or seconds
    metrics = {
        "model": asdict(config),
        "options": {name: str(x) if isinstance(x, Path) else x for name, x in options.items()},
        "ranks": group.size,
        "sequence_parallel": group.context,
        "mindspore": ms.__version__,
        "first_loss": losses[0],
        "final_loss": losses[-1],
        "fall": 1.0 - losses[-1] / losses[0],
        "compile_and_first_step_s": seconds[0],
        "median_step_s": float(np.median(steady)),
        "losses": losses,
        "seconds": seconds,
        "chunked_against_step": forms,
    }
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    plot(losses, out / "loss.png")
    print(f"text by the step form:\n{written}\n")
    print(
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f} (-{metrics['fall']:.0%}), "
        f"median step {metrics['median_step_s'] * 1e3:.0f} ms, compilation and first step {seconds[0]:.1f} s"
    )
    print(f"wrote {out / 'metrics.json'}, {out / 'loss.png'} and {out / 'sample.txt'}")
    print(
        f"final loss {losses[-1]:.6f} chunked against step over {forms['tokens']} tokens: "
        f"max_abs_diff={forms['max_abs_diff']:.3e} rms_diff={forms['rms_diff']:.3e}",
        flush=True,
    )


if __name__ == "__main__":
    main()
