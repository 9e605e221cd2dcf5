# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/parallel.md for two hosts, which two network namespaces of this machine stand for: each with an
address, a folder and an msrun of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GPT = Path(__file__).parents[2] / "examples" / "train_gpt.py"
OPTIONS = ["--attention", "flash", "--layers", "1", "--width", "32", "--heads", "2", "--context", "34", "--batch", "1"]
ADDRESSES = "10.201.77.1", "10.201.77.2"
SECONDS = 900  # of a loaded machine
pytestmark = pytest.mark.nightly


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts():
    """Names of two network namespaces that reach each other and nothing else."""
    if shutil.which("ip") is None:
        pytest.skip("ip (iproute2) is not installed")
    names, ends = [f"mco{os.getpid()}h{i}" for i in range(2)], [f"mco{os.getpid()}v{i}"[-15:] for i in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")
    except subprocess.CalledProcessError as error:
        remove(names)
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    yield names
    remove(names)


def remove(names: list[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def start(host: str, rank: int, folder: Path, *options: str) -> subprocess.Popen:
    """msrun as on a host of its own, which shares no folder with the other."""
    folder.mkdir()
    msrun = [sys.executable, "-c", "from mindspore.parallel.cluster.run import main; main()", "--worker_num=2"]
    msrun += ["--local_worker_num=1", f"--master_addr={ADDRESSES[0]}", "--master_port=8118", f"--node_rank={rank}"]
    run = ["ip", "netns", "exec", host, *msrun, "--log_dir=logs", "--join=True", str(GPT), *OPTIONS]
    run += ["--context-parallel", "2", "--out", "out", *options]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with (folder / "said.txt").open("w") as said:
        return subprocess.Popen(run, stdout=said, stderr=subprocess.STDOUT, env=environ, cwd=folder)


def start_both(hosts: list[str], folder: Path, *options: str, second: tuple[str, ...] = ()) -> list[subprocess.Popen]:
    return [start(host, rank, folder / str(rank), *options, *(second if rank else ()))
            for rank, host in enumerate(hosts)]  # fmt: skip


def ended(jobs: list[subprocess.Popen], folder: Path, seconds: float) -> tuple[list[int], list[str]]:
    """(exit codes, logs of the ranks), at the latest after so many seconds."""
    end = time.monotonic() + seconds
    try:
        codes = [job.wait(timeout=max(1, end - time.monotonic())) for job in jobs]
    finally:
        for job in jobs:
            if job.poll() is None:
                job.send_signal(signal.SIGINT)  # msrun ends its ranks
    return codes, [(folder / str(rank) / "logs" / f"worker_{rank}.log").read_text() for rank in range(2)]


def worker(host: str) -> int:
    """Process id of the rank of a host that has no scheduler."""
    pids = subprocess.run(["ip", "netns", "pids", host], check=True, capture_output=True, text=True).stdout.split()
    found = [int(pid) for pid in pids if Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:2] == [str(GPT)]]
    (pid,) = found
    return pid


def test_two_hosts_train_without_a_common_folder(hosts, tmp_path):
    codes, logs = ended(start_both(hosts, tmp_path, "--steps", "4", "--save-every", "2"), tmp_path, SECONDS)
    assert codes == [0, 0], logs[0][-2000:] + logs[1][-2000:]
    assert "flash: the weights of 2 ranks agree bit for bit" in logs[0]
    assert sorted(x.name for x in (tmp_path / "0" / "out").iterdir()) == ["flash.ckpt", "loss.png", "metrics.json"]
    assert not list((tmp_path / "1" / "out").iterdir())


def test_two_hosts_that_disagree_end_with_one_error(hosts, tmp_path):
    jobs = start_both(hosts, tmp_path, "--steps", "4", second=("--seed", "5", "--batch", "2"))
    codes, logs = ended(jobs, tmp_path, SECONDS)
    assert all(codes), codes
    said = "check_ranks: job is batch is 1 on rank 0 and 2 on rank 1; seed is 0 on rank 0 and 5 on rank 1"
    for log in logs:
        assert said in log, log


def test_a_rank_killed_on_one_host_ends_the_other(hosts, tmp_path):
    jobs = start_both(hosts, tmp_path, "--steps", "100000", "--save-every", "2")
    end = time.monotonic() + SECONDS
    while not (tmp_path / "0" / "out" / "flash.ckpt").exists():
        assert all(job.poll() is None for job in jobs) and time.monotonic() < end, ended(jobs, tmp_path, 60)
        time.sleep(0.5)
    os.kill(worker(hosts[1]), signal.SIGKILL)
    # The first host hears of it from its scheduler, which misses a heartbeat for half a minute.
    began = time.monotonic()
    codes, _ = ended(jobs, tmp_path, 120)
    print(f"both hosts ended {time.monotonic() - began:.0f} s after the rank was killed")
    assert all(codes), codes
