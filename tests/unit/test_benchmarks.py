# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run, check what they time, and write the record they promise. No time is judged here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SMALL = {
    "attention": "1x8x511x80",
    "segsum": "1x4x2048xC16",
    "sparse_attention": "64x2048-N16-K512",
    "ssd": "8x256-H4-P32-N16-C32",
}


@pytest.fixture(scope="module")
def timing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timing", BENCHMARKS / "timing.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["timing"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["timing"]


class Clock:
    """A clock that only moves when a call says so."""

    def __init__(self, seconds: list[float]):
        self.now, self.seconds, self.calls = 0.0, seconds, 0

    def perf_counter(self) -> float:
        return self.now

    def run(self) -> None:
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1


def test_measure_leaves_out_the_first_third(timing, monkeypatch):
    clock = Clock([0.02, 0.002, 0.001])
    monkeypatch.setattr(timing, "time", clock)
    assert timing.measure(clock.run) == pytest.approx(1.0)
    assert clock.calls > 3


def test_measure_of_a_long_call_takes_the_second_one(timing, monkeypatch):
    clock = Clock([9.0, 5.0, 1.0])
    monkeypatch.setattr(timing, "time", clock)
    assert timing.measure(clock.run) == pytest.approx(5000)
    assert clock.calls == 2


@pytest.mark.parametrize(
    "outputs, message",
    [
        ([np.ones(4, np.float32), np.ones(4, np.float32)], "gave 2 outputs, expected 1"),
        ([np.full(4, 1.01, np.float32)], r"output 0 has a relative rms error of 1\.00e-02"),
        ([np.full(4, np.nan, np.float32)], "relative rms error of nan"),
    ],
    ids=["count", "value", "nan"],
)
def test_a_wrong_result_is_not_timed(timing, outputs, message):
    contender = timing.Contender("x", "float32", timing.FORWARD, lambda: outputs, list)
    with pytest.raises(RuntimeError, match=message):
        timing.check_outputs("case", contender, [np.ones(4)], 1e-3)


@pytest.mark.parametrize("subject", SMALL)
def test_subject_runs(subject, tmp_path):
    file = tmp_path / "out.json"
    command = [sys.executable, BENCHMARKS / "run.py", subject, "--case", SMALL[subject]]
    subprocess.run([*command, "--impl", "ms_custom_ops", "--rounds", "1", "--json", file], check=True, timeout=300)
    records = json.loads(file.read_text())
    assert {r["case"] for r in records} == {SMALL[subject]}
    assert {r["impl"] for r in records} == {"ms_custom_ops"}
    assert all(r["median_ms"] >= r["min_ms"] > 0 for r in records)


def test_overhead_has_a_figure_for_every_way_of_a_call(tmp_path):
    file = tmp_path / "out.json"
    command = [sys.executable, BENCHMARKS / "run.py", "overhead", "--case", "one-block", "--json", file]
    subprocess.run(command, check=True, timeout=300)
    (row,) = json.loads(file.read_text())
    assert row.pop("case") == "one-block"
    assert set(row) == {"graph of 1", "graph of 100", "per op", "pynative", "engine"}
    assert all(0 < least <= median for name, (least, median) in row.items() if name != "per op")


def test_scaling_says_what_is_asked(tmp_path):
    file = tmp_path / "scaling.json"
    command = [sys.executable, BENCHMARKS / "run.py", "scaling", "--case", "rates", "--json", file]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [r["part"] for r in rows] == ["rates", "rates"]
    assert all(r["figure"] > 0 and r["asked"].startswith("at least") and isinstance(r["met"], bool) for r in rows)


def test_engine_gives_every_share_of_a_case(tmp_path):
    file = tmp_path / "out.json"
    case = "ssd_chunk_scan-8x256-H4-P32-N16-C32"
    command = [sys.executable, BENCHMARKS / "run.py", "engine", "--case", case, "--json", file]
    subprocess.run(command, check=True, timeout=300)
    found = json.loads(file.read_text())
    (row,) = found["cases"]
    assert row["case"] == case and found["peak"]["GFLOP/s"] > 0 and found["short instruction ns"] > 0
    assert sum(row["classes"].values()) == pytest.approx(1) == sum(row["by instruction"].values())
    assert {"gm->l1", "l1->l0a", "l0c->gm"} <= set(row["moves"]) and all(m["MB"] > 0 for m in row["moves"].values())
    assert row["GFLOP"] == pytest.approx(2 * 8 * 8 * 4 * 32 * (32 * (16 + 32) + 2 * 16 * 32) / 1e9, rel=0.5)
    limits = found["limits"]
    assert limits["multiply-adds GFLOP/s"] > 0 and limits["exp G/s"] > 0
    assert set(limits["products GFLOP/s"]) == {"128x64x128", "128x128x64"}
    least = row["GFLOP"] / limits["multiply-adds GFLOP/s"] * 1e3
    assert row["least ms"]["products"] == pytest.approx(least) and row["least ms"]["exp"] > 0


def test_the_page_says_what_products_and_exp_take_of_the_others_time(tmp_path):
    """2 ms of products and 1 of exp against 5 ms on two processors: 0.3; 4 ms measured: 0.4."""
    row = {"ms": 4.0, "classes": {"products": 1.0}, "GFLOP/s of products": 100.0, "share of the peak": 0.5}
    row |= {"instructions": 1, "touched MB": 1.0, "by instruction": {"mmad": 1.0}, "moves": {}}
    row |= {"case": "flash_attention-a", "least ms": {"products": 2.0, "exp": 1.0}}
    known = {"multiply-adds GFLOP/s": 200.0, "products GFLOP/s": {"1x2x3": 100.0}, "exp G/s": 3.0}
    measured = {"machine": "m", "level": "generic", "cores": 2, "peak": {}, "short instruction ns": 1.0}
    record = {"case": "a", "pass": "fwd", "dtype": "float16", "min_ms": 1.0}
    records = [record | {"impl": "ms_custom_ops", "median_ms": 3.0}]
    records += [record | {"impl": impl, "median_ms": ms} for impl, ms in (("torch_flash", 5.0), ("mindspore", 6.0))]
    files = [tmp_path / "engine.json", tmp_path / "attention.json"]
    files[0].write_text(json.dumps(measured | {"limits": known, "cases": [row]}))
    files[1].write_text(json.dumps(records))
    out = tmp_path / "page.md"
    command = [sys.executable, BENCHMARKS / "performance.py", *files, "--out", out]
    subprocess.run(command, check=True, timeout=100)
    assert "| a | fwd | 2.00 | 1.00 | 4.00 | 0.30 | 0.40 |" in out.read_text()


def test_unknown_names_are_refused():
    command = [sys.executable, BENCHMARKS / "run.py", "segsum", "--impl", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "'nothing' is not one of ms_custom_ops" in done.stderr
