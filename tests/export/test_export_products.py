# SPDX-License-Identifier: Apache-2.0
"""Exported kernels whose instructions become more than one call: products of L1, bits and numbers between blocks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import product_kernels as kernels
import pytest
import yaml

import ms_custom_ops as mco
from ms_custom_ops import ascendc
from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter import program_subject, write
from ms_custom_ops.exporter.flagged import flagged
from ms_custom_ops.exporter.kernel import KernelCase, kernel_source
from ms_custom_ops.exporter.proof import prove, prove_kernel
from ms_custom_ops.exporter.words import TAKEN
from ms_custom_ops.program.text import parse

compiled = pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")


def exported(kernel, soc, folder):
    program = mco.trace(kernel, soc=soc)
    return write(program_subject([("traced", program)], program.name, kernel.__name__), folder / "out")


@compiled
@pytest.mark.parametrize(
    ("kernel", "soc"),
    [
        (kernels.products, "Ascend310P3"),
        (kernels.product_of_integers, "Ascend910B1"),
        (kernels.between_blocks, "Ascend310P3"),
        (kernels.summed, "Ascend910B1"),
        (kernels.half_written, "Ascend310P3"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_bits_are_those_of_tik(kernel, soc, tmp_path):
    result = exported(kernel, soc, tmp_path)
    program = result.subject.cases[0].program
    assert prove_kernel(result.kernel, result.subject.entry, program, result.facts["traced"]) == ""


@compiled
def test_what_is_changed_in_place_comes_by_two_parameters(tmp_path):
    """As CANN gives it: one memory, twice."""
    result = exported(kernels.raised, "Ascend910B1", tmp_path)
    text = result.kernel.read_text()
    assert "void raised(GM_ADDR x, GM_ADDR xOut_, GM_ADDR xOut, GM_ADDR workspace, GM_ADDR tiling)" in text
    assert "LocalTensor<half> linux_ = " in text
    assert not (result.folder / "raised_mindspore.py").exists()  # ops.Custom gives outputs a memory of their own
    assert "input and output are one memory" in (result.folder / "README.md").read_text()
    glue = result.folder / "ms_custom_ops_package" / "ops" / "ascendc" / "ms_glue" / "raised"
    described = yaml.safe_load((glue / "raised_op.yaml").read_text())["raised"]
    assert described["args_signature"] == {"rw_write": "x"} and list(described["returns"]) == ["xOut"]
    source = (glue / "raised.cc").read_text()
    assert "RunOp(stream_ptr, workspace, inputs[0], outputs[0]);" in source and "for (int i : {1})" in source
    rows = prove(result.folder, "raised", "Ascend910B1")
    assert [(row.equal, row.different) for row in rows] == [(True, "")]


def test_names_of_types_and_calls_are_known(tmp_path):
    """What a kernel of the docs calls is no name that a tensor may have."""
    pages = Path(__file__).parents[2] / "docs" / "export"
    text = "".join(re.sub(r"//.*", "", path.read_text()) for path in sorted(pages.glob("*.cpp")))
    called = set(re.findall(r"(?<![.\w:])([A-Z]\w+)(?=[(<]|::)", text)) - set(
        re.findall(r"inline \w+ ([A-Z]\w+)\(", text)
    )
    called -= {"KERNEL_TASK_TYPE_DEFAULT", "TILING_KEY_IS"}
    assert len(called) > 30 and called <= TAKEN


def findings(result) -> set[str]:
    """Kinds that a checked run of a kernel on Ascend310P3 finds."""
    program = result.subject.cases[0].program
    rng = np.random.default_rng(0)
    feed = [rng.standard_normal(program.buffers[i].shape).astype(np.float16) for i in program.inputs]
    made = [np.zeros(program.buffers[i].shape, np.float32) for i in program.outputs]
    kernel = ascendc.build(result.kernel, entry=result.subject.entry, soc="Ascend310P3", optimize=False)
    report = kernel.check(1, *feed, *made, outputs=made, tiling=bytes(8), tiling_key=1, workspace=0)
    return {finding.kind for finding in report.findings}


@compiled
def test_the_checker_misses_no_flag_around_the_tiles(tmp_path):
    """Without one of the flags that the helper or the kernel has, it has a finding."""
    result = exported(kernels.products, "Ascend310P3", tmp_path)
    text = result.kernel.read_text()
    assert findings(result) == set()
    for event in ("MTE2_MTE1", "M_MTE1"):
        flag = rf"(?:Set|Wait)Flag<HardEvent::{event}>\([^()]*\);"
        assert re.search(flag, text), event
        result.kernel.write_text(re.sub(flag, "", text))
        assert findings(result) == {"race_pipes"}, event


@compiled
def test_tiles_among_flags_of_the_kernel_have_barriers(tmp_path):
    result = exported(kernels.product_with_flags, "Ascend310P3", tmp_path)
    program = result.subject.cases[0].program
    assert prove_kernel(result.kernel, result.subject.entry, program, result.facts["traced"]) == ""
    assert findings(result) == set()


def test_l1_is_read_by_the_pipe_that_fills_l0(tmp_path):
    text = exported(kernels.products, "Ascend310P3", tmp_path).kernel.read_text()
    assert "MTE2_M>" not in text and "ProductOfTiles(sums, a1, b1, l0aBuf.GetWithOffset<half>(32768, 0), " in text
    assert flagged(mco.trace(kernels.products, soc="Ascend310P3")) is None


@pytest.mark.parametrize(
    ("kernel", "soc", "message"),
    [
        (kernels.spread, "Ascend910B1", r"spread: vbcb: dst_blk is 0; accepted: at least 32 bytes"),
        (
            kernels.scaled_sums,
            "Ascend310P3",
            r"data_move_l0c: dtypes is int32 to float16; accepted: one dtype, or float32 to float16 without gaps; "
            r"here data_move of int32, and vec_conv with deqscale in UB \[.*product_kernels\.py:\d+\]",
        ),
        (
            kernels.called_half,
            "Ascend310P3",
            r"called_half: name of tensor is 'half'; accepted: a name that C\+\+ and Ascend C leave free",
        ),
    ],
    ids=["vbcb", "deqscale", "name"],
)
def test_what_a_call_would_do_otherwise_is_refused(kernel, soc, message, tmp_path):
    with pytest.raises(ExportError, match=message):
        exported(kernel, soc, tmp_path)


NO_LANES = """
program "p" soc="Ascend910B1" saturate=0 split_cores=1
scope ub 196608
tensor %x : float16[128] gm input bytes=256
tensor %y : float16[128] gm output bytes=256
tensor %a : float16[128] ub local bytes=256 at 0
inputs %x
outputs %y
body
  alloc %a
  vector data_move %a[0], %x[0] (nburst=1, burst=256, src_gap=0, dst_gap=0)
  vector vcgmax %a[0], %a[0] (mask0=0, mask1=0, repeat=1, dst_rep=16, src_blk=32, src_rep=256) {mask_kind=0}
  vector data_move %y[0], %a[0] (nburst=1, burst=256, src_gap=0, dst_gap=0)
"""


def test_no_lanes_are_no_null_pointer():
    text = kernel_source("p", ("x", "y"), [KernelCase("one", 1, parse(NO_LANES), ("x", "y"))]).text
    assert "BlockReduceMax(a, a, 1, uint64_t(0), 1, 1, 8);" in text
