# SPDX-License-Identifier: Apache-2.0
"""Exported kernels: their bits, their flags, what is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import export_kernels as kernels
import numpy as np
import pytest
from click.testing import CliRunner

import ms_custom_ops as mco
from ms_custom_ops import ascendc, engine
from ms_custom_ops.cases import smoke_cases
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.cli import main
from ms_custom_ops.errors import EngineError, ExportError
from ms_custom_ops.exporter import op_subject, program_subject, write
from ms_custom_ops.exporter.body import CALLS
from ms_custom_ops.exporter.cores import parts_of
from ms_custom_ops.exporter.flagged import flagged
from ms_custom_ops.exporter.instead import INSTEAD
from ms_custom_ops.exporter.proof import prove, prove_kernel
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.lower.run import kernel_array
from ms_custom_ops.program import ir
from ms_custom_ops.program.isa import ISA, PIPES
from ms_custom_ops.program.text import parse
from ms_custom_ops.registry import get_op, load_registry

CHIPS = ("Ascend310P3", "Ascend910B1")
MIXED = ("flash_attention", "flash_attention_grad", "mamba3_chunk_scan", "mamba3_chunk_scan_grad", "lightning_indexer",
         "sparse_flash_attention", "sparse_flash_attention_grad", "sparse_lightning_indexer_grad_kl_loss",
         "ssd_chunk_scan", "ssd_chunk_scan_grad")  # fmt: skip
compiled = pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")


def exported(kernel, soc: str, folder: Path):
    program = mco.trace(kernel, soc=soc)
    return write(program_subject([("traced", program)], program.name, kernel.__name__), folder / "out")


def text_of(kernel, soc: str, folder: Path) -> str:
    return exported(kernel, soc, folder).kernel.read_text()


@compiled
@pytest.mark.parametrize(
    ("name", "soc"),
    [
        ("doubled", "Ascend310P3"),
        ("own_flags", "Ascend910B1"),
        ("product", "Ascend910B1"),
        ("overlapped", "Ascend310P3"),
        ("tabled", "Ascend310P3"),
        ("tabled", "Ascend910B1"),
    ],
)
def test_kernels_have_the_bits_of_tik(name, soc, tmp_path):
    result = exported(getattr(kernels, name), soc, tmp_path)
    program = result.subject.cases[0].program
    assert prove_kernel(result.kernel, result.subject.entry, program, result.facts["traced"]) == ""


@compiled
def test_input_scalars_are_tiling_data(tmp_path):
    result = exported(kernels.scaled, "Ascend910B1", tmp_path)
    assert "GET_TILING_DATA" in result.kernel.read_text()
    rows = prove(result.folder, "scaled", "Ascend910B1")
    assert [(row.equal, row.different) for row in rows] == [(True, "")]


@compiled
def test_an_op_leaves_by_the_command_and_is_proven(tmp_path):
    out = tmp_path / "project"
    arguments = ["export", "bwd_dtrap_ddt", "--soc", "Ascend910B1", "--case", "small", "--out", str(out), "--prove"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "small: every bit is equal" in result.output
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    package = "ms_custom_ops_package/ops/ascendc"
    assert names == {
        "op_kernel/bwd_dtrap_ddt.cpp", "op_host/bwd_dtrap_ddt.cpp", "op_host/bwd_dtrap_ddt_tiling.h",
        "op_host/bwd_dtrap_ddt_cases.h", "bwd_dtrap_ddt.json", "CMakeLists.txt", "README.md", "test_bwd_dtrap_ddt.py",
        "bwd_dtrap_ddt_mindspore.py", "programs/small.program",
        f"{package}/aclnn_src/bwd_dtrap_ddt/CMakeLists.txt", f"{package}/ms_glue/bwd_dtrap_ddt/bwd_dtrap_ddt.cc",
        f"{package}/ms_glue/bwd_dtrap_ddt/bwd_dtrap_ddt_op.yaml",
        *(f"{package}/aclnn_src/bwd_dtrap_ddt/op_host/bwd_dtrap_ddt_{part}"
          for part in ("cases.h", "tiling.h", "tiling.cpp", "proto.cpp", "def.cpp")),
        f"{package}/aclnn_src/bwd_dtrap_ddt/op_kernel/bwd_dtrap_ddt.cpp",
    }  # fmt: skip


def test_flags_are_those_that_tiles_need_and_no_others(tmp_path):
    text = text_of(kernels.doubled, "Ascend910B1", tmp_path)
    events = re.findall(r"SetFlag<HardEvent::(\w+)>", text)
    assert sorted(events) == [
        "MTE2_V",
        "MTE3_MTE2",
        "V_MTE3",
    ]  # what is stored has been computed: it may be loaded over
    assert "PIPE_ALL" not in text
    assert text.count("WaitFlag") == len(events)


def test_double_buffers_stay_double(tmp_path):
    text = text_of(kernels.overlapped, "Ascend910B1", tmp_path)
    assert "const int32_t copy = j % 2;" in text and "GetWithOffset<float>(64, 0 + copy * 256)" in text
    steps = re.findall(
        r"((?:Set|Wait)Flag<HardEvent::MTE3_MTE2>\([^)]*\))|\b(for) \(|\b(DataCopy)\(|^    (})", text, re.M
    )
    assert [next(filter(None, step)) for step in steps][:10] == [
        "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID6)", "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID7)", "for",
        "WaitFlag<HardEvent::MTE3_MTE2>(6 + copy)", "DataCopy", "DataCopy",
        "SetFlag<HardEvent::MTE3_MTE2>(6 + copy)", "}",
        "WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID6)", "WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID7)",
    ]  # fmt: skip


def test_flags_of_the_kernel_stay(tmp_path):
    text = text_of(kernels.own_flags, "Ascend910B1", tmp_path)
    assert re.findall(r"(Set|Wait)Flag<HardEvent::(\w+)>\((\d)\)", text) == [
        ("Set", "MTE2_V", "3"), ("Wait", "MTE2_V", "3"), ("Set", "V_MTE3", "0"), ("Wait", "V_MTE3", "0"),
    ]  # fmt: skip


def test_split_cores_meet_at_flags_over_gm(tmp_path):
    text = text_of(kernels.product, "Ascend910B1", tmp_path)
    assert "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1)" in text
    cube, vector = (text[text.index(f"inline void Traced{core}(") :] for core in ("Cube", "Vector"))
    cube = cube[: cube.index("\n}\n")]
    vector = vector[: vector.index("\n}\n")]
    assert "Mmad" in cube and "Mmad" not in vector and "Max(" in vector and "Max(" not in cube
    sets = [re.findall(r"CrossCoreSetFlag<2, (\w+)>\((\d)\)", part) for part in (cube, vector)]
    waits = [re.findall(r"CrossCoreWaitFlag\((\d)\)", part) for part in (cube, vector)]
    assert [number for _, number in sets[0]] == waits[1] and [number for _, number in sets[1]] == waits[0]
    assert {pipe for pipe, _ in sets[0]} == {"PIPE_FIX"} and {pipe for pipe, _ in sets[1]} == {"PIPE_MTE2"}


def test_one_core_has_no_flags_between_cores(tmp_path):
    text = text_of(kernels.doubled, "Ascend310P3", tmp_path)
    assert "CrossCore" not in text and "ASCEND_IS" not in text


def test_lines_of_the_kernel_stand_beside_their_statements(tmp_path):
    text = text_of(kernels.doubled, "Ascend910B1", tmp_path)
    assert re.search(
        r"Muls\(tile, tile, half\(2\.0f\), 128, 1, .*// export_kernels\.py:\d+ t\.vec_muls\(128, tile", text
    )
    assert re.search(r"for \(int32_t j = 0; j < 4; \+\+j\) \{  // export_kernels\.py", text)


def test_tensors_keep_their_addresses(tmp_path):
    program = mco.trace(kernels.product, soc="Ascend910B1")
    text = text_of(kernels.product, "Ascend910B1", tmp_path)
    places = re.findall(r"> (\w+) = \w+\.GetWithOffset<\w+>\(\d+, (\d+)\)", text)
    assert places == [(b.name, str(b.address)) for b in program.buffers if b.scope not in ("gm", "smask")]


LOOP = """
program "p" soc="Ascend910B1" saturate=0 split_cores=1
scope ub 196608
scalar %i : int32 loop
tensor %x : float32[1024] gm input bytes=4096
tensor %y : float32[1024] gm output bytes=4096
tensor %a : float32[64] ub local bytes=256 at 0
tensor %b : float32[64] ub local bytes=256 at 256
inputs %x
outputs %y
body
  alloc %a
  alloc %b
  vector data_move %a[0], %x[0] (nburst=1, burst=256, src_gap=0, dst_gap=0)
  for %i in 0 .. 4
    vector vadd %b[0], %a[0], %a[0] (mask0=64, mask1=0, repeat=1, dst_blk=32, dst_rep=256, src0_blk=32, src0_rep=256, src1_blk=32, src1_rep=256) {mask_kind=0}
    vector vadd %b[0], %b[0], %b[0] (mask0=64, mask1=0, repeat=1, dst_blk=32, dst_rep=256, src0_blk=32, src0_rep=256, src1_blk=32, src1_rep=256) {mask_kind=0}
    vector data_move %y[(%i * 64)], %b[0] (nburst=1, burst=256, src_gap=0, dst_gap=0)
"""  # noqa: E501


def test_a_flag_of_an_earlier_round_is_found_and_given_once():
    waits = {(w.before[1], w.after[1]) for w in parts_of(parse(LOOP)).waits}
    assert waits == {("MTE2", "V"), ("V", "MTE3"), ("MTE3", "V")}


@pytest.fixture
def checked():
    before = engine.set_check(True)
    yield
    engine.set_check(before)


def without(body: list, pipes: tuple[str, str]) -> list:
    """The flags from one pipe to another left out."""
    numbers = tuple(PIPES[f"PIPE_{pipe}"] for pipe in pipes)
    found = []
    for s in body:
        if isinstance(s, ir.For):
            s = ir.For(s.register, s.begin, s.end, without(s.body, pipes), s.block, s.threads, s.loc)
        elif isinstance(s, ir.NoSync):
            s = ir.NoSync(without(s.body, pipes), s.loc)
        if not (isinstance(s, ir.Instr) and s.op in ("set_flag", "wait_flag") and s.attrs == numbers):
            found.append(s)
    return found


@pytest.mark.parametrize("pipes", [None, ("MTE2", "V"), ("V", "MTE3"), ("MTE3", "MTE2")], ids=str)
def test_a_checked_run_misses_no_flag_and_every_flag_is_needed(pipes, checked):
    x = np.arange(1024, dtype=np.float16)
    program = flagged(mco.trace(kernels.doubled, soc="Ascend310P3"))
    assert program is not None
    if pipes is None:
        assert engine.run(program, [x])[0].tobytes() == (2 * x).tobytes()
        return
    program.body = without(program.body, pipes)
    with pytest.raises(EngineError, match="race_pipes"):
        engine.run(program, [x])


def test_parts_for_two_kinds_of_cores_are_no_program():
    assert flagged(mco.trace(kernels.product, soc="Ascend910B1")) is None


@pytest.mark.nightly
@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("name", list(load_registry().ops))
def test_flags_of_every_op_in_a_checked_run(name, soc, checked):
    op, planned = get_op(name), {case.name: case for case in smoke_cases(get_op(name), soc)}
    for case in op_subject(op, soc).cases:
        program = flagged(case.program)
        if program is None:
            continue
        arrays = make_arrays(planned[case.name])
        feed = [kernel_array(np.ascontiguousarray(arrays[t.name]), program.buffers[i])
                for t, i in zip(case.inputs, program.inputs, strict=True)]  # fmt: skip
        engine.run(program, feed)


@pytest.mark.parametrize(
    ("kernel", "soc", "message"),
    [
        (
            kernels.turned,
            "Ascend310P3",
            r"v4dtrans: it is an instruction without a call of Ascend C; accepted: vec_trans_scatter of 16 rows \[",
        ),
        (
            kernels.many_constants,
            "Ascend310P3",
            r"init_value of table is a list of 20000 values; accepted: at most 16384",
        ),
        (kernels.started, "Ascend310P3", r"started: output y starts with an init_value other than 0; accepted: 0"),
        (kernels.addressed, "Ascend310P3", r"addressed: moves at addresses of a TensorAddrList; accepted: arguments"),
        (kernels.doubled, "Ascend910A", r"doubled: chip is Ascend910A; accepted: a chip of 910B, 910_93, 310P"),
    ],
)
def test_what_cannot_go_is_refused_by_name_and_line(kernel, soc, message, tmp_path):
    with pytest.raises(ExportError, match=message):
        exported(kernel, soc, tmp_path)
    assert not (tmp_path / "out" / "op_kernel").exists()


def test_every_instruction_without_a_call_says_what_to_do():
    assert set(ISA) - set(CALLS) == set(INSTEAD)


def test_a_chip_of_another_kind_of_cores_is_refused():
    program = mco.trace(kernels.doubled, soc="Ascend910A")
    accepted = "doubled: chip is Ascend910B1 for a trace of Ascend910A; accepted: a chip of the same kind of cores"
    with pytest.raises(ExportError, match=accepted):
        program_subject([("traced", program)], "doubled", "doubled", "Ascend910B1")
    assert program_subject([("traced", program)], "doubled", "doubled", "Ascend310P3").family == "310P"


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("")
    with pytest.raises(ExportError, match="folder is .* with files in it; accepted: a new or an empty one"):
        exported(kernels.doubled, "Ascend910B1", tmp_path)


def test_an_unknown_case_is_refused():
    with pytest.raises(ExportError, match="bwd_dtrap_ddt: case is huge; accepted on Ascend910B1: small, ragged"):
        op_subject(get_op("bwd_dtrap_ddt"), "Ascend910B1", ["huge"])


def test_the_function_takes_programs(tmp_path):
    program = mco.trace(kernels.doubled, soc="Ascend910B1")
    result = mco.export(program, tmp_path / "one", name="twice")
    assert result.kernel.name == "twice.cpp" and result.facts["traced"].blocks == 2
    with pytest.raises(ExportError, match="export: Programs are none; accepted: at least one"):
        mco.export({}, tmp_path / "none")


def test_an_absent_output_has_the_dtype_of_its_combination(tmp_path):
    """Shapes of another case are found by the first one whose dtypes fit."""
    subject = op_subject(get_op("sparse_flash_attention_grad"), "Ascend910B1", ["bfloat16"])
    result = write(subject, tmp_path / "out")
    table = (result.folder / "op_host" / "sparse_flash_attention_grad_cases.h").read_text()
    outputs = table.partition("// bfloat16\n")[2].splitlines()[0]
    assert re.findall(r"\{ge::(\w+), -1, \{\}\}", outputs) == ["DT_BF16", "DT_FLOAT", "DT_FLOAT"]  # rope, rope, sinks


@pytest.mark.nightly
@compiled
def test_the_layout_of_the_package_is_proven_too(tmp_path):
    result = write(op_subject(get_op("bwd_dtrap_ddt"), "Ascend910B1", ["small", "packed"]), tmp_path / "out")
    rows = prove(result.folder, "bwd_dtrap_ddt", "Ascend910B1", "bwd_dtrap_ddt", "ms_custom_ops_package")
    assert [(row.case, row.equal) for row in rows] == [("packed", True), ("small", True)]


@pytest.mark.nightly
@compiled
@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("name", list(load_registry().ops))
def test_every_case_of_every_op(name, soc, tmp_path):
    subject = op_subject(get_op(name), soc)
    result = write(subject, tmp_path / "out")
    rows = prove(result.folder, subject.entry, soc, name)
    assert len(rows) == len(subject.cases)
    assert not [(row.case, row.different) for row in rows if not row.equal]


def shown(text: str) -> str:
    """Without the places of lines, which move."""
    return re.sub(r"\.py:\d+ ", ".py ", text)


def test_the_page_shows_what_is_exported(tmp_path):
    program = mco.trace(kernels.doubled, soc="Ascend910B1")
    result = write(program_subject([("traced", program)], "doubled", "export_kernels.py:doubled"), tmp_path / "out")
    page = Path(__file__).parents[2] / "docs" / "export" / "doubled.cpp"
    assert shown(page.read_text()) == shown(result.kernel.read_text())


@pytest.mark.parametrize("chip", ["310p3", "910b1"])
def test_flash_attention_is_short_enough_to_read(chip):
    page = Path(__file__).parents[2] / "docs" / "export" / f"flash_attention_{chip}.cpp"
    assert len(page.read_text().splitlines()) <= 400


def checked_squared(source: Path, workspace: int) -> list[str]:
    """Kinds of findings of the mixed kernel in a checked run."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 256), (16, 16)))
    out = np.zeros((2, 256), np.float32)
    kernel = ascendc.build(source, entry="squared", soc="Ascend910B1", optimize=False)
    report = kernel.check(1, left, right, out, outputs=[out], tiling=bytes(8), tiling_key=1, workspace=workspace)
    return sorted({finding.kind for finding in report.findings})


@compiled
def test_the_ascendc_checker_misses_no_flag_of_a_mixed_kernel(tmp_path):
    """The cube has no flag between its first product and the operands of the second: the flag of the vector core comes
    round after both."""
    result = exported(kernels.squared, "Ascend910B1", tmp_path)
    assert prove_kernel(result.kernel, "squared", result.subject.cases[0].program, result.facts["traced"]) == ""
    text = result.kernel.read_text()
    assert text.count("SetFlag<HardEvent::M_MTE1>") == 1  # of the last round's second product
    assert checked_squared(result.kernel, result.facts["traced"].workspace) == []
    for flag in ("CrossCoreWaitFlag", "MTE1_M"):
        result.kernel.write_text(re.sub(rf"(?:\w+Flag<HardEvent::{flag}>|{flag})\([^()]*\);", "", text))
        found = checked_squared(result.kernel, result.facts["traced"].workspace)
        assert {"race_pipes", "race_cores"} & set(found), flag


@compiled
@pytest.mark.nightly
@pytest.mark.parametrize("name", MIXED)
def test_mixed_exports_in_a_checked_run(name, tmp_path):
    """Every mixed op, in its first cases, as the Ascend C checker sees it."""
    subject = op_subject(get_op(name), "Ascend910B1")
    result = write(subject, tmp_path / "out")
    kernel = ascendc.build(result.kernel, entry=subject.entry, soc="Ascend910B1", optimize=False)
    planned = {case.name: case for case in smoke_cases(get_op(name), "Ascend910B1")}
    for key, (case, facts) in enumerate(zip(subject.cases, result.facts.values(), strict=True), 1):
        arrays = make_arrays(planned[case.name])
        given = {t.name: np.ascontiguousarray(arrays[t.name]) for t in case.inputs}
        made = {t.name: np.zeros(t.shape, numpy_dtype(t.dtype)) for t in case.outputs}
        entries = [*(given.get(p.name) for p in subject.inputs), *(made.get(p.name) for p in subject.outputs)]
        buffers = [case.program.buffers[i] for i in case.program.outputs]
        fresh = [made[t.name] for t, b in zip(case.outputs, buffers, strict=True) if not b.atomic_init]  # others: zeros
        report = kernel.check(facts.blocks, *entries, outputs=fresh, tiling=bytes(8), tiling_key=key,
                              workspace=facts.workspace)  # fmt: skip
        assert not report.findings, f"{case.name}: {report}"
