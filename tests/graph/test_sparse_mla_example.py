# SPDX-License-Identifier: Apache-2.0
"""examples/train_mla.py on a tiny model: what it writes, what it prints, and its messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from click.testing import CliRunner

SCRIPT = Path(__file__).parents[2] / "examples" / "train_mla.py"
TINY = (
    "--layers",
    "1",
    "--width",
    "32",
    "--heads",
    "2",
    "--latent",
    "16",
    "--context",
    "32",
    "--batch",
    "4",
    "--topk",
    "8",
    "--lr",
    "0.01",
    "--indexer-lr",
    "0.03",
)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder), *TINY, *options],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_both_losses_fall_in_both_phases(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    done = run(tmp_path, "--text", str(text), "--steps", "24", "--dense-steps", "12")
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert len(metrics["losses"]) == len(metrics["kl_losses"]) == 24 and metrics["dense_steps"] == 12
    assert metrics["final_loss"] < 0.7 * metrics["first_loss"]
    before, between, after = (metrics["held_out"][when] for when in ("before", "between", "after"))
    assert before["dense_loss"] > between["dense_loss"] > after["dense_loss"]
    assert before["sparse_loss"] > after["sparse_loss"]
    assert after["dense_kl"] < 0.5 * after["dense_kl_of_equal_scores"]
    assert after["dense_kl"] < before["dense_kl"] and after["sparse_kl"] < before["sparse_kl"]
    assert (tmp_path / "loss.png").stat().st_size > 1000
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(f"final loss {metrics['first_loss']:.4f} -> {metrics['final_loss']:.4f}, held-out KL loss")


Example = Callable[[str], ModuleType]


def test_sizes_that_the_kernels_do_not_take(example: Example, tmp_path: Path) -> None:
    done = CliRunner().invoke(example("train_mla").main, ["--out", str(tmp_path), *TINY, "--latent", "24"])
    assert done.exit_code == 2
    assert "nn.SparseMLA: kv_lora_rank is 24; accepted: a multiple of 16 from 16 to 512" in done.output


def test_a_text_that_is_too_short(example: Example, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("abc " * 40)
    done = CliRunner().invoke(example("train_mla").main, ["--out", str(tmp_path), *TINY, "--text", str(text)])
    assert done.exit_code == 1 and "--text: too short to hold out one batch" in done.output
