# SPDX-License-Identifier: Apache-2.0
"""The examples on several ranks: the losses of one process, equal weights, a killed rank, another number of ranks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import mindspore as ms
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
GPT = ["--attention", "flash", "--layers", "2", "--width", "64", "--heads", "2", "--context", "50"]
MAMBA = ["--layers", "2", "--width", "32", "--context", "70", "--state", "16", "--headdim", "16", "--chunk", "16",
         "--sample", "3"]  # fmt: skip
PROGRAMS = {
    "train_gpt": (GPT, "--context-parallel", "flash", 1e-4),
    "train_mamba": (MAMBA, "--sequence-parallel", "mamba2", 1e-3),
}
SECONDS = 1800  # of a loaded machine


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def start(size: int, folder: Path, program: str, *options: str) -> subprocess.Popen:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    folder.mkdir(parents=True)
    run = [sys.executable, "-c", "from mindspore.parallel.cluster.run import main; main()", f"--worker_num={size}"]
    run += [f"--local_worker_num={size}", f"--master_port={port}", f"--log_dir={folder}", "--join=True"]
    run += [str(EXAMPLES / f"{program}.py"), *options, "--out", str(folder / "out")]
    with (folder / "said.txt").open("w") as said:  # a pipe that nobody reads would stop the job
        return subprocess.Popen(run, stdout=said, stderr=subprocess.STDOUT, env=environment())


def ended(job: subprocess.Popen, folder: Path, seconds: float) -> tuple[int, str]:
    """(exit code, what msrun and all ranks wrote), at the latest after so many seconds."""
    code = job.wait(timeout=seconds)
    return code, "".join(log.read_text() for log in (folder / "said.txt", *sorted(folder.glob("worker_*.log"))))


def on_ranks(size: int, folder: Path, program: str, *options: str) -> str:
    """The logs of all ranks."""
    job = start(size, folder, program, *options)
    code, logs = ended(job, folder, SECONDS)
    assert code == 0, logs[-3000:]
    return logs


def alone(folder: Path, program: str, *options: str) -> None:
    run = [sys.executable, str(EXAMPLES / f"{program}.py"), *options, "--out", str(folder / "out")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]


def losses(folder: Path, program: str) -> list[float]:
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    return metrics["runs"]["flash"]["losses"] if program == "train_gpt" else metrics["losses"]


@pytest.mark.nightly
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_of_forty_steps_and_a_checkpoint_for_any_number_of_ranks(tmp_path, program):
    options, flag, name, limit = PROGRAMS[program]
    alone(tmp_path / "one", program, *options, "--steps", "40", "--batch", "4")
    expected = losses(tmp_path / "one", program)
    # Two ranks share a sequence; of four ranks two share a sequence and two pairs the samples.
    for size, batch in ((2, "4"), (4, "2")):
        folder = tmp_path / str(size)
        said = on_ranks(
            size, folder, program, *options, flag, "2", "--steps", "40", "--batch", batch, "--save-every", "20"
        )
        assert f"{name}: the weights of {size} ranks agree bit for bit" in said
        found = losses(folder, program)
        assert len(found) == 40 and max(abs(a - b) for a, b in zip(found, expected, strict=True)) < limit
    (checkpoint,) = (tmp_path / "4" / "out").glob("*.ckpt")
    assert not list((tmp_path / "4" / "out").glob("partial*"))
    more = ["--steps", "44", "--batch", "4", "--resume", str(checkpoint)]
    alone(tmp_path / "resumed", program, *options, *more)
    on_ranks(2, tmp_path / "resumed2", program, *options, flag, "2", *more)
    one, two = losses(tmp_path / "resumed", program), losses(tmp_path / "resumed2", program)
    assert len(one) == 4 and max(abs(a - b) for a, b in zip(one, two, strict=True)) < limit
    assert max(one) < expected[0]


def rank_of(process: Path) -> str | None:
    """RANK_ID of a worker of a job; None for the scheduler, for the tail of a log and for what has ended."""
    try:
        if "train_gpt" not in (process / "cmdline").read_text():
            return None
        entries = (process / "environ").read_bytes().decode().split("\0")
    except OSError:
        return None
    found = dict(entry.partition("=")[::2] for entry in entries)
    return found.get("RANK_ID") if found.get("MS_ROLE") == "MS_WORKER" else None


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.nightly
def test_a_killed_rank_ends_the_others_and_one_process_goes_on(tmp_path):
    folder = tmp_path / "job"
    job = start(2, folder, "train_gpt", *GPT, "--context-parallel", "2", "--steps", "2000", "--save-every", "2")
    checkpoint, end = folder / "out" / "flash.ckpt", time.monotonic() + SECONDS
    while not checkpoint.exists():
        assert job.poll() is None and time.monotonic() < end, ended(job, folder, 60)[1][-3000:]
        time.sleep(0.5)
    workers = [pid for pid in children(job.pid) if rank_of(Path(f"/proc/{pid}")) is not None]
    (victim,) = (pid for pid in workers if rank_of(Path(f"/proc/{pid}")) == "1")
    os.kill(victim, signal.SIGKILL)
    end = time.monotonic() + 60
    while [pid for pid in workers if rank_of(Path(f"/proc/{pid}")) is not None]:  # a zombie has no command line
        assert time.monotonic() < end, ended(job, folder, SECONDS)[1][-3000:]
        time.sleep(0.5)
    # The job itself ends when the scheduler misses the rank's heartbeat: half a minute, and longer on a loaded machine.
    code, said = ended(job, folder, SECONDS)
    assert code != 0 and len(workers) == 2 and "exit with exception" in said, said[-2000:]
    done = int(ms.load_checkpoint(str(checkpoint))["done"].asnumpy())
    options = ["--steps", str(done + 3), "--resume", str(checkpoint)]
    alone(tmp_path / "on", "train_gpt", *GPT, *options)
    assert len(losses(tmp_path / "on", "train_gpt")) == 3


@pytest.mark.nightly
def test_a_number_of_ranks_that_does_not_divide_the_job_is_refused(tmp_path):
    job = start(2, tmp_path / "job", "train_gpt", *GPT, "--context-parallel", "3")
    code, said = ended(job, tmp_path / "job", SECONDS)
    assert code != 0 and "3 ranks for a sequence, of 2 in the job; accepted: a divisor of 2" in said, said
