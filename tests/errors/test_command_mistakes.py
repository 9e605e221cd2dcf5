# SPDX-License-Identifier: Apache-2.0
"""Mistakes on the command line: each ends in one line that says what was given and what is accepted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import ms_custom_ops
from ms_custom_ops.cli import main

KERNEL = """\
from tbe import tik


def add(x, y, kernel_name="add"):
    t = tik.Tik()
    gx, gy = (t.Tensor("float16", (128,), name=n, scope=tik.scope_gm) for n in "xy")
    a = t.Tensor("float16", (128,), name="a", scope=tik.scope_ubuf)
    t.data_move(a, gx, 0, 1, 8, 0, 0)
    t.vec_add(128, a, a, a, 1, 8, 8, 8)
    t.data_move(gy, a, 0, 1, 8, 0, 0)
    t.BuildCCE(kernel_name=kernel_name, inputs=[gx], outputs=[gy])
    return t


number = 3
"""
ASCENDC = """\
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void nothing(GM_ADDR x) {}
"""
TWO = ("--arg", "float16[128]", "--arg", "float16[128]")


@pytest.fixture()
def place(write_op, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ops with a TIK and an Ascend C kernel file, and files that are none of what they are called."""
    folder = write_op("elementwise")
    monkeypatch.chdir(folder)
    (folder / "k.py").write_text(KERNEL)
    (folder / "typo.py").write_text(KERNEL.replace("vec_add", "vec_ad"))
    (folder / "scope.py").write_text(KERNEL.replace("scope_ubuf", "scope_ub"))
    (folder / "few.py").write_text(KERNEL.replace(", 1, 8, 8, 8)\n    t.data", ", 1)\n    t.data"))
    (folder / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (folder / "n.cpp").write_text(ASCENDC)
    (folder / "text.npy").write_text("text")
    return folder


def said(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


MISTAKES = {
    "an_entry_that_is_no_function": (["run", "k.py:number"], "KERNEL: number of k.py is 3; accepted: a function"),
    "a_bracket_too_few": (["run", "k.py:add", "--arg", "float16[8"], "--arg float16[8: is no description of a tensor"),
    "a_dtype_that_is_none": (["run", "k.py:add", "--arg", "float17[8]"],
        "float16[2,1024], a DTYPE of float16, bfloat16"),
    "a_size_below_nothing": (["run", "k.py:add", "--arg", "float16[-8]"], "accepted: DTYPE[SIZE,...] such as"),
    "a_file_that_is_no_text": (["run", "bytes.py:add"], "bytes.py is not text; accepted: a source of Python in UTF-8"),
    "an_instruction": (["run", "typo.py:add", *TWO], "Tik has no method 'vec_ad'; write: vec_and or vec_add ["),
    "a_name_of_tik": (["run", "scope.py:add", *TWO], "no attribute 'scope_ub'; write: scope_ubuf"),
    "operands_too_few": (["run", "few.py:add", *TWO], "'src1_rep_stride' in this call ["),
    "an_array_that_is_none": (["ascendc", "run", "n.cpp", "text.npy"], "; accepted: a file that np.save wrote"),
    "a_size_without_a_number": (["profile", "my_op", "--shape", "M="],
        "--shape M=: is no size; accepted: whole numbers"),
    "a_size_of_letters": (["profile", "my_op", "--shape", "N=abc"],
        "--shape N=abc: is no size; accepted: whole numbers"),
    "a_number_of_the_model": (["profile", "my_op", "--set", "barier=3"], "; nearest: barrier"),
    "a_file_without_its_entry": (["profile", "k.py"], "k.py is the name of a file; accepted: OP, FILE.py:FUNCTION"),
    "export_of_ascend_c": (["export", "n.cpp", "--out", "e"], "accepted: OP, FILE.py:FUNCTION of a TIK kernel"),
    "a_case_to_time": (["bench", "my_op", "--case", "rowz"],
        "no case on Ascend910B1 for --case rowz; nearest known: 'rows'"),
    "a_case_to_test": (["test", "my_op", "--case", "rowz"],
        "no case for these chips and --case rowz; nearest known: 'rows"),
    "a_report_without_a_folder": (["test", "my_op", "--report", "k.py/r.json"],
        "--report k.py/r.json: k.py is no folder (File exists); accepted: a file in a folder"),
    "a_word_of_python": (["new", "class"], "a letter first, no word of Python's"),
    "calls_that_are_no_text": (["compile", "my_op", "--out", "o", "--calls", "bytes.py"],
        "compile: line 1 of bytes.py is"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_one_helpful_line(place, name: str) -> None:
    arguments, message = MISTAKES[name]
    result = said(*arguments)
    assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit), result.output
    assert message in result.output and "Traceback" not in result.output, result.output


def test_a_cache_that_is_a_file(place, monkeypatch) -> None:
    monkeypatch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(place / "k.py"))
    ms_custom_ops.config.config.cache_clear()
    try:
        result = said("cache", "list")
    finally:
        monkeypatch.undo()
        ms_custom_ops.config.config.cache_clear()
    assert result.exit_code == 1 and "k.py (MS_CUSTOM_OPS_CACHE_DIR); accepted: a folder" in result.output


def test_what_is_right_runs(place) -> None:
    np.save("x.npy", np.ones(128, np.float16))
    result = said("run", "k.py:add", *TWO, "--feed", "x.npy")
    assert result.exit_code == 0 and "y: float16[128] min 2 max 2" in result.output, result.output
