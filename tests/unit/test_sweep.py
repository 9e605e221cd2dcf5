# SPDX-License-Identifier: Apache-2.0
"""Work spread over processes and over a local Dask cluster, one of whose workers is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_custom_ops import spread
from ms_custom_ops.cli import main
from ms_custom_ops.errors import MsCustomOpsError


def square(x: int) -> int:
    return x * x


def end(path: str, x: int) -> int:
    """Ends its process where there is no file yet."""
    if not Path(path).exists():
        Path(path).write_text("")
        os._exit(1)
    return x


def always_end(x: int) -> int:
    os._exit(1)


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra: dask)")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


def test_results_are_in_the_order_of_the_tasks():
    tasks = [(x,) for x in (3, 1, 2)]
    assert list(spread.spread("test", square, tasks)) == [9, 1, 4]
    assert list(spread.spread("test", square, tasks, workers=2)) == [9, 1, 4]


def test_another_version_of_the_package_is_refused(monkeypatch):
    with pytest.raises(
        MsCustomOpsError, match=r"worker: ms_custom_ops is .*; accepted: 0\.0, as where the work is from"
    ):
        spread._run("0.0", (), square, (1,))


def test_no_scheduler(monkeypatch):
    pytest.importorskip("distributed", reason="distributed is not installed (extra: dask)")
    with pytest.raises(MsCustomOpsError, match=r"tune: --scheduler is nonsense .*; accepted: the address of a running"):
        list(spread.spread("tune", square, [(1,)], scheduler="nonsense"))


def test_cases_of_files_are_not_spread(tmp_path):
    file = tmp_path / "cases.yaml"
    file.write_text("")
    found = CliRunner().invoke(main, ["test", "--cases", str(file), "--scheduler", "tcp://127.0.0.1:1"])
    assert found.exit_code == 2 and "--scheduler with --cases, --only golden or --only faults" in found.output


@pytest.mark.nightly
def test_a_lost_worker(cluster, tmp_path):
    address = cluster.scheduler_address
    tasks = [(str(tmp_path / "once"), x) for x in range(6)]
    assert list(spread.spread("test", end, tasks, scheduler=address)) == list(range(6))
    with pytest.raises(MsCustomOpsError, match="test: worker is lost each time it worked on 7; accepted: a task that"):
        list(spread.spread("test", always_end, [(7,)], scheduler=address))


def kill_one(address: str, killed: list[int]) -> None:
    """Kills a worker that has done something and has more to do."""
    from distributed import Client

    with Client(address) as client:
        pids = client.run(os.getpid)
        while not any(client.has_what().values()):
            time.sleep(0.05)
        busy = next(worker for worker, tasks in client.processing().items() if tasks)
        os.kill(pids[busy], signal.SIGKILL)
        killed.append(pids[busy])


@pytest.mark.nightly
def test_all_smoke_cases_with_one_worker_killed_give_the_same_report(cluster, tmp_path):
    alone, spread_out = tmp_path / "alone.json", tmp_path / "spread.json"
    one = CliRunner().invoke(main, ["test", "--no-check", "--report", str(alone)])
    killed: list[int] = []
    killer = threading.Thread(target=kill_one, args=(cluster.scheduler_address, killed))
    killer.start()
    options = ["--no-check", "--scheduler", cluster.scheduler_address, "--report", str(spread_out)]
    many = CliRunner().invoke(main, ["test", *options])
    killer.join(60)
    assert len(killed) == 1 and one.exit_code == 0
    assert (many.exit_code, many.output) == (one.exit_code, one.output)
    first, second = (json.loads(path.read_text()) for path in (alone, spread_out))
    for case in (*first["cases"], *second["cases"]):
        assert case.pop("seconds") >= 0  # wall time: all that may differ
    assert [json.dumps(case) for case in second["cases"]] == [json.dumps(case) for case in first["cases"]]
    assert second.keys() == first.keys() and all(second[name] == first[name] for name in first if name != "cases")


SWEEP = [sys.executable, str(Path(__file__).parents[2] / "scripts" / "sweep.py"), "tests"]
ONE_OF_EACH = """
import os, pytest

def test_good(): pass

@pytest.mark.parametrize("x", ["a b", "[1]"])
def test_skipped(x): pytest.skip(x)

@pytest.mark.nightly
def test_bad(): assert 1 == 2

def test_lost(): os._exit(3)

def test_good_too(): pass
"""


def test_tests_in_parts_give_one_report_in_their_order(tmp_path):
    """Each part in a process of its own: a test that ends it takes no other part along."""
    (tmp_path / "test_one_of_each.py").write_text(ONE_OF_EACH)
    report = tmp_path / "report.json"
    options = ["--size", "2", "--report", str(report), "--", str(tmp_path), "-m", "nightly or not nightly"]
    done = subprocess.run([*SWEEP, *options], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "6 tests: 1 passed, 2 skipped, 1 failed, 2 lost" in done.stdout and "assert 1 == 2" in done.stdout
    rows = json.loads(report.read_text())
    kinds = [(row["test"].rpartition("::")[2], row["outcome"]) for row in rows]
    assert kinds == [("test_good", "passed"), ("test_skipped[a b]", "skipped"), ("test_skipped[[1]]", "skipped"),
                     ("test_bad", "failed"), ("test_lost", "lost"), ("test_good_too", "lost")]  # fmt: skip


@pytest.mark.nightly
def test_parts_on_a_cluster_give_the_same_report(cluster, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    tests = ["--", "tests/unit/test_registry_expr.py"]
    for report, more in ((one, []), (two, ["--scheduler", cluster.scheduler_address])):
        done = subprocess.run([*SWEEP, "--report", str(report), *more, *tests], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert two.read_text() == one.read_text() and len(json.loads(one.read_text())) > 20
