# SPDX-License-Identifier: Apache-2.0
"""Ascend C kernels under the cost model: instructions as in TIK, queues, flags, cores, files, the command."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.cli import main
from ms_custom_ops.cost import cost_chip, files, profile
from ms_custom_ops.cost import trace as timelines
from ms_custom_ops.errors import AscendcError, EngineError
from ms_custom_ops.tik.trace import trace

if not any(map(shutil.which, ("g++", "c++", "clang++"))):
    pytest.skip("no C++ compiler", allow_module_level=True)

SOC = "Ascend910B1"
SOURCE = Path(__file__).parent / "timed.cpp"
MIXED = Path(__file__).parents[1] / "faults" / "planted_mixed.cpp"


def kernel(entry: str, soc: str = SOC):
    return mco.ascendc.build(SOURCE, entry=entry, soc=soc)


def after_launch(p) -> float:
    return p.cycles - p.chip.values["launch_us"] * p.chip.clock_mhz


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def in_turn(t) -> None:
    """What `vector_only` of timed.cpp does, in TIK."""
    x = t.Tensor("float16", (8192,), tik.scope_gm, "x")
    y = t.Tensor("float16", (8192,), tik.scope_gm, "y")
    u = t.Tensor("float16", (8192,), tik.scope_ubuf, "u")
    with t.new_stmt_scope(disable_sync=True):
        t.data_move(u, x, 0, 1, 512, 0, 0)
        t.set_flag("PIPE_MTE2", "PIPE_V", 0)
        t.wait_flag("PIPE_MTE2", "PIPE_V", 0)
        for _ in range(6):
            t.vec_adds(128, u, u, 1.0, 64, 8, 8)
            t.pipe_barrier("PIPE_V")
        t.set_flag("PIPE_V", "PIPE_MTE3", 0)
        t.wait_flag("PIPE_V", "PIPE_MTE3", 0)
        t.data_move(y, u, 0, 1, 512, 0, 0)
    t.BuildCCE(kernel_name="in_turn", inputs=[x], outputs=[y])


@pytest.mark.parametrize("soc", [SOC, "Ascend310P3"])
def test_an_instruction_takes_as_long_as_in_tik(soc: str) -> None:
    x = np.ones(8192, np.float16)
    y = np.empty_like(x)
    ours = profile(kernel("vector_only", soc), [1, x, y])
    theirs = profile(trace(lambda: in_turn(tik.Tik()), soc=soc))
    assert np.all(y == 7)
    for name in ("V", "MTE2", "MTE3"):
        assert ours.pipe(name).busy == theirs.pipe(name).busy, name
        assert ours.pipe(name).instructions == theirs.pipe(name).instructions
    assert ours.cycles == theirs.cycles
    top = next(line for line in ours.lines if "Adds" in line.names)
    assert (top.file, top.line, top.instructions) == (str(SOURCE), line_of("// ADDS"), 6)
    assert ours.occupancy["ub"] == (16384, ours.chip.soc.ub_bytes)


def test_two_buffers_overlap_and_one_does_not() -> None:
    x = np.ones((20, 8192), np.float16)
    y = np.empty_like(x)
    one, two = (profile(kernel(entry), [1, x, y, 20]) for entry in ("one_buffer", "two_buffers"))
    assert np.all(y == 16)
    assert after_launch(one) >= 0.95 * sum(one.pipe(n).busy for n in ("MTE2", "V"))  # a tile's result moves beside
    assert after_launch(two) <= 0.65 * after_launch(one)
    assert one.pipe("MTE2").stalls["waits for a flag"] > two.pipe("MTE2").stalls["waits for a flag"]


def test_cores_share_gm_and_a_run_is_like_another() -> None:
    x = np.ones((48, 8, 8192), np.float16)
    y = np.empty_like(x)
    few, many, again = (profile(kernel("two_buffers"), [n, x, y, 8]) for n in (4, 48, 48))
    assert (few.cores, many.cores, many.blocks) == (4, 48, 48)
    assert many.cycles > 1.2 * few.cycles
    assert many.pipe("MTE2").stalls["shared bandwidth"] > 0
    assert many.as_dict() == again.as_dict()


@pytest.mark.parametrize(("tile", "published"), [(2048, 2045), (20480, 892)], ids=["4KB", "40KB"])
def test_small_tiles_pay_for_the_calls_of_their_queues(monkeypatch, tile: int, published: float) -> None:
    """80 M additions on 8 cores of 910B4; the calls' cost comes from one core."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import costmodel_kernels

    _, modelled = costmodel_kernels.Queued(80 << 20, tile, 8).profile(cost_chip("Ascend910B4"))
    assert abs(modelled / published - 1) <= 0.20


def test_cores_wait_for_each_other_and_memory_is_put_back_between_the_runs() -> None:
    y = np.zeros(8, np.float32)
    p = profile(kernel("unequal"), [4, y])
    assert np.all(y == 4)  # as one run leaves it
    stall = p.pipe("S").stalls["other blocks"]
    assert stall >= 3 * 50 * 64  # three cores wait for 50 instructions of 64 repeats
    assert max(p.core_cycles) - min(p.core_cycles) < 0.1 * after_launch(p)


def test_scalars_wait_for_the_vector_unit_and_library_functions_take_its_time() -> None:
    y = np.zeros(4096, np.float32)
    p = profile(kernel("scalars"), [1, y])
    assert y[0] == 1.0
    assert np.all(y[1:] == np.sin(np.float64(1)).astype(np.float32))
    assert p.pipe("S").stalls["waits for a result"] > 64
    sin = next(line for line in p.lines if "Sin" in line.names)
    assert sin.busy >= p.chip.values["library"] * 64
    assert "scalar code of the kernel between calls of the API is not seen" in p.text()


@pytest.fixture(scope="module")
def mixed():
    """Profile of a block of a cube core and two vector cores."""
    x = (np.arange(256).reshape(16, 16) / 256).astype(np.float16)
    y = np.zeros((16, 16), np.float32)
    p = profile(mco.ascendc.build(MIXED, entry="mixed", soc=SOC), [2, x, y, 0, 0], workspace=1024)
    assert np.allclose(y, x.astype(np.float64) @ x, rtol=1e-5)
    return p


def test_vector_cores_wait_for_the_cube_core_of_their_block(mixed) -> None:
    assert (mixed.blocks, mixed.cores, mixed.vectors) == (2, 2, 2)
    assert {"M", "MTE1", "FIX", "MTE2 (cube)", "MTE2", "MTE3", "S", "S (cube)"} == {x.name for x in mixed.pipes}
    assert mixed.pipe("S").stalls["flag of another core"] > 0
    assert mixed.pipe("MTE2").units == 4
    assert mixed.pipe("M").units == 2
    starts = {n: mixed.slices["start"][mixed.slices["lane"] == timelines.LANES.index(n)] for n in ("FIX", "MTE2")}
    assert starts["MTE2"].min() > starts["FIX"].max() + mixed.chip.values["cross_flag"]
    assert mixed.macs == 2 * 16**3
    moved = {(path.source, path.target): path.bytes for path in mixed.paths}
    assert moved["l0c", "gm"] == 2 * 16 * 16 * 4
    assert mixed.pipe("FIX").busy >= 2 * 16 * 16 / mixed.chip.values["fix_elements"]


def test_files_of_a_mixed_kernel(mixed, tmp_path: Path) -> None:
    files.write(mixed, tmp_path)
    data = json.loads((tmp_path / "insight/trace.json").read_text())
    processes = {e["pid"] for e in data["traceEvents"]}
    assert processes == {f"core{b}.{unit}" for b in (0, 1) for unit in ("cubecore0", "veccore0", "veccore1")}
    tracks = defaultdict(list)
    for e in json.loads((tmp_path / "perfetto.json").read_text())["traceEvents"]:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    assert len({pid for pid, _ in tracks}) == 6
    for spans in tracks.values():
        spans.sort()
        assert all(b[0] >= a[1] - 1e-6 for a, b in zip(spans, spans[1:], strict=False))
    page = (tmp_path / "summary.html").read_text()
    assert "vector 1 MTE2" in page
    assert "planted_mixed.cpp" in page
    assert "aiv_mte2_time" in (tmp_path / "PipeUtilization.csv").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["kind"] == "modelled"


def test_the_command_takes_a_source_and_sets_it_beside_a_kernel_in_tik(tmp_path: Path) -> None:
    other = tmp_path / "in_turn.py"
    text = "from ms_custom_ops import tik\n\ndef build():\n    t = tik.Tik()\n"
    other.write_text(text + "".join(f"{line}\n" for line in BODY))
    arguments = ["--soc", SOC, "--entry", "vector_only", "--arg", "ones:8192:float16", "--arg", "zeros:8192:float16"]
    found = CliRunner().invoke(
        main, ["profile", str(SOURCE), *arguments, "--out", str(tmp_path / "out"), "--compare", f"{other}:build"]
    )
    assert found.exit_code == 0, found.output
    assert "timed.cpp" in found.output
    cycles = next(line for line in found.output.splitlines() if line.startswith("cycles "))
    assert cycles.split()[-1] == "1.000"
    assert (tmp_path / "out/other/insight/trace.json").is_file()


BODY = [
    "    x = t.Tensor('float16', (8192,), tik.scope_gm, 'x')",
    "    y = t.Tensor('float16', (8192,), tik.scope_gm, 'y')",
    "    u = t.Tensor('float16', (8192,), tik.scope_ubuf, 'u')",
    "    with t.new_stmt_scope(disable_sync=True):",
    "        t.data_move(u, x, 0, 1, 512, 0, 0)",
    "        t.set_flag('PIPE_MTE2', 'PIPE_V', 0)",
    "        t.wait_flag('PIPE_MTE2', 'PIPE_V', 0)",
    "        for _ in range(6):",
    "            t.vec_adds(128, u, u, 1.0, 64, 8, 8)",
    "            t.pipe_barrier('PIPE_V')",
    "        t.set_flag('PIPE_V', 'PIPE_MTE3', 0)",
    "        t.wait_flag('PIPE_V', 'PIPE_MTE3', 0)",
    "        t.data_move(y, u, 0, 1, 512, 0, 0)",
    "    t.BuildCCE(kernel_name='in_turn', inputs=[x], outputs=[y])",
    "    return t",
]


def refusal(*arguments: str) -> str:
    found = CliRunner().invoke(main, ["profile", *arguments, "--soc", SOC])
    assert found.exit_code != 0
    return " ".join(found.output.split())


def test_refusals_of_the_command() -> None:
    assert "missing.cpp: is no file; accepted: a source of Ascend C, KERNEL.py:ENTRY, an op" in refusal("missing.cpp")
    text = "--execute integers: of Ascend C everything is computed; accepted: needed, all"
    assert text in refusal(str(SOURCE), "--execute", "integers")
    assert "bwd_dadt_cumsum" in (found := refusal("bwd_dadt_cumsum", "--impl", "ascendc"))
    assert "has no Ascend C kernel; accepted: a call that the op's file gives to its Ascend C kernel" in found


def test_refusals_from_python() -> None:
    add, y = kernel("scalars"), np.zeros(4096, np.float32)
    with pytest.raises(EngineError, match="execute of profile is 'integers'; accepted: needed, all for Ascend C"):
        profile(add, [1, y], execute="integers")
    with pytest.raises(AscendcError, match="chip of profile is Ascend910A; accepted: Ascend910B1, or a chip with"):
        profile(add, [1, y], chip=cost_chip("Ascend910A"))
    with pytest.raises(AscendcError, match="bytes"):  # errors of a run are those of the call
        profile(add, [1, y[:16].copy()])
    with pytest.raises(EngineError, match="profile: argument is tiling; accepted: those of a Program"):
        profile(trace(lambda: in_turn(tik.Tik()), soc=SOC), tiling=b"")
