# SPDX-License-Identifier: Apache-2.0
"""Files of a profile: timelines, tables, page, and the command."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ms_custom_ops as mco
from ms_custom_ops.cli import main
from ms_custom_ops.cost import files
from ms_custom_ops.cost import trace as timelines

MIXED = Path(__file__).parents[1] / "faults" / "planted_mixed.cpp"
COLOURS = {
    "good", "startup", "rail_response", "thread_state_running", "thread_state_runnable", "thread_state_iowait",
    "thread_state_unknown", "thread_state_uninterruptible", "background_memory_dump", "heap_dump_child_node_arrow",
    "cq_build_attempt_passed",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of one op on a split chip, with another chip beside it."""
    out = tmp_path_factory.mktemp("profile")
    found = CliRunner().invoke(
        main,
        ["profile", "flash_attention", "--case", "causal_small", "--soc", "Ascend910B1", "--out", str(out),
         "--compare", "soc=Ascend910A S1=64"],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    (out / "printed.txt").write_text(found.output)
    return out


@pytest.fixture(scope="module", params=("tik", "ascendc"))
def traced(request, folder, tmp_path_factory):
    """The same, and files of an Ascend C kernel whose blocks have a cube core and two vector cores."""
    if request.param == "tik":
        return folder
    out = tmp_path_factory.mktemp("ascendc")
    x, y = np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)
    kernel = mco.ascendc.build(MIXED, entry="mixed", soc="Ascend910B1")
    files.write(mco.profile(kernel, [2, x, y, 0, 0], workspace=1024), out)
    return out


def test_what_is_printed(folder):
    text = (folder / "printed.txt").read_text()
    assert "(modelled)" in text
    assert "modelled, not measured and not cycle accurate; error on Ascend910B1:" in text
    assert "ms_custom_ops/cost/chips.json" in text
    assert "flash_attention Ascend910A" in text
    assert "second/first" in text


def test_insight_file(traced):
    raw = (traced / "insight/trace.json").read_text()
    before = raw[: raw.index("[")]
    assert '"profilingType":"op"' in before
    assert [p.name for p in (traced / "insight").iterdir()] == ["trace.json"]
    data = json.loads(raw)
    assert data["schemaVersion"] == 2
    tracks = set()
    for event in data["traceEvents"]:
        assert isinstance(event["pid"], str)
        assert isinstance(event["tid"], str)
        if event["ph"] == "M":
            assert event["name"] in ("process_sort_index", "thread_sort_index")
            continue
        assert event["ph"] == "X"
        assert event["cname"] in COLOURS
        assert set(event["args"]) == {"pc_addr", "code", "detail", "process_bytes"}
        assert event["dur"] >= 0
        tracks.add((event["pid"], event["tid"]))
    assert {("core0.cubecore0", "CUBE"), ("core0.veccore0", "MTE2"), ("core0.cubecore0", "MTE2")} <= tracks
    assert {t for _, t in tracks} <= set(timelines.TRACKS.values())


def test_no_two_slices_of_a_pipe_overlap(traced):
    for name in ("insight/trace.json", "perfetto.json"):
        ends = defaultdict(float)
        for event in json.loads((traced / name).read_text())["traceEvents"]:
            if event["ph"] == "X":
                key = (event["pid"], event["tid"])
                assert event["ts"] >= ends[key] - 1e-6
                ends[key] = event["ts"] + event["dur"]


def test_perfetto_file(traced):
    data = json.loads((traced / "perfetto.json").read_text())
    named, used = set(), set()
    for event in data["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["name"] == "thread_name":
            named.add((event["pid"], event["tid"]))
        elif event["ph"] == "X":
            used.add((event["pid"], event["tid"]))
    assert used == named


def test_perfetto_reads_its_file(traced):
    perfetto = pytest.importorskip("perfetto.trace_processor", reason="the package perfetto is not installed")
    try:
        reader = perfetto.TraceProcessor(trace=str(traced / "perfetto.json"))
    except Exception as error:  # its program is downloaded when it is first used
        pytest.skip(f"the trace processor of Perfetto does not start: {error}")
    with reader:
        count = next(iter(reader.query("select count(*) as n from slice"))).n
        errors = [s for s in reader.query("select name, value from stats where severity = 'error' and value > 0")]
    slices = [e for e in json.loads((traced / "perfetto.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert count == len(slices)
    assert not errors


def test_tables(folder):
    with (folder / "PipeUtilization.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert 0 < float(row["aic_cube_ratio"]) < 1
    assert {"aiv_vec_time(us)", "aiv_mte2_ratio", "aic_mte2_ratio", "aic_fixpipe_ratio"} <= set(row)
    with (folder / "core0_instr_exe.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"mmad", "vexp", "fixpipe"} <= {r["instr"] for r in rows}
    for name in ("OpBasicInfo.csv", "Memory.csv", "ResourceConflictRatio.csv", "core1_code_exe.csv"):
        assert (folder / name).read_text().count("\n") > 1


def test_summaries(folder):
    data = json.loads((folder / "summary.json").read_text())
    assert data["kind"] == "modelled"
    assert data["pipes"]["M"]["busy_cycles"] > 0
    assert all(set(v) == {"value", "from"} for v in data["parameters"].values())
    page = (folder / "summary.html").read_text()
    for part in ("Timeline of block 0", "Occupancy", "Roofline", "Lines of the kernel", "not cycle accurate", "<svg"):
        assert part in page
    # On a phone what is wide is scrolled by itself.
    assert '<meta name=viewport content="width=device-width,initial-scale=1">' in page
    assert page.count("<table>") == page.count("<div class=wide><table>") >= 4
    assert page.count("<svg ") == page.count("<div class=wide><svg ") == 3
    assert json.loads((folder / "other/summary.json").read_text())["soc"] == "Ascend910A"


@pytest.mark.parametrize(
    "arguments, text",
    [
        (
            ["flash_attention", "--case", "big"],
            "--case big: is no case of flash_attention; accepted: one_token, causal",
        ),
        (["flash_attention", "--shape", "Q=3"], "--shape Q: accepted for one_token: "),
        (["flash_attention", "--shape", "S1"], "--shape S1: is no NAME=VALUE"),
        (["flash_attention", "--set", "speed=1"], "number is speed; accepted: "),
    ],
)
def test_what_is_refused(arguments, text):
    found = CliRunner().invoke(main, ["profile", *arguments, "--soc", "Ascend910A"])
    assert found.exit_code != 0
    assert text in found.output


def test_a_kernel_file(tmp_path):
    file = tmp_path / "doubled.py"
    file.write_text(
        "from ms_custom_ops import tik\n\n\n"
        "def doubled(n):\n"
        "    t = tik.Tik()\n"
        "    x, y = (t.Tensor('float16', (n,), tik.scope_gm, name) for name in 'xy')\n"
        "    ub = t.Tensor('float16', (n,), tik.scope_ubuf, 'ub')\n"
        "    t.data_move(ub, x, 0, 1, n // 16, 0, 0)\n"
        "    t.vec_muls(128, ub, ub, 2.0, n // 128, 8, 8)\n"
        "    t.data_move(y, ub, 0, 1, n // 16, 0, 0)\n"
        "    t.BuildCCE(kernel_name='doubled', inputs=[x], outputs=[y])\n"
    )
    found = CliRunner().invoke(main, ["profile", f"{file}:doubled", "--arg", "1024", "--soc", "Ascend310P3"])
    assert found.exit_code == 0, found.output
    assert "doubled on Ascend310P3" in found.output
    assert "doubled.py:9" in found.output
