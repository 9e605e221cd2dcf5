# SPDX-License-Identifier: Apache-2.0
"""examples/train_mamba.py on a tiny model: what it writes, what it prints, and its messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPT = Path(__file__).parents[2] / "examples" / "train_mamba.py"
TINY = (
    "--layers",
    "1",
    "--width",
    "16",
    "--state",
    "16",
    "--headdim",
    "16",
    "--chunk",
    "16",
    "--context",
    "64",
    "--batch",
    "4",
    "--warm-up",
    "2",
    "--lr",
    "0.02",
)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder), *TINY, *options],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_trains_compares_and_writes(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    done = run(tmp_path, "--text", str(text), "--steps", "25", "--sample", "12")
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert len(metrics["losses"]) == 25 and metrics["fall"] >= 0.25
    assert metrics["chunked_against_step"]["max_abs_diff"] <= 1e-3
    assert (tmp_path / "loss.png").stat().st_size > 1000
    sample = (tmp_path / "sample.txt").read_text()
    assert sample.startswith("the quick brown fox jumps over the lazy dog. ") and len(sample) == 64 + 12 + 1
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(f"final loss {metrics['final_loss']:.6f} chunked against step over 64 tokens: max_abs_diff=")


@pytest.mark.parametrize(
    "options, message",
    [
        (("--headdim", "5"), "2 * width must be a multiple of headdim, got width=16, headdim=5"),
        (("--context", "63"), "Invalid value for '--context': 63 is not in the range x>=64"),
        (("--text", "nowhere.txt"), "File 'nowhere.txt' does not exist"),
    ],
    ids=["headdim", "context", "text"],
)
def test_refuses(example, tmp_path, options, message):
    done = CliRunner().invoke(example("train_mamba").main, ["--out", str(tmp_path), *TINY, *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
