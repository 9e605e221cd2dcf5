# SPDX-License-Identifier: Apache-2.0
"""scripts/public_kernels.py on a small operator package with unit tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """
from tbe import tik
from tbe.common.utils import para_check

@para_check.check_op_params(para_check.REQUIRED_INPUT, para_check.REQUIRED_OUTPUT, para_check.REQUIRED_ATTR_FLOAT,
                            para_check.KERNEL_NAME)
def scale_by(x, y, factor, kernel_name="scale_by"):
    t = tik.Tik()
    n = x["shape"][0]
    gm = t.Tensor("float32", (n,), tik.scope_gm, "x")
    out = t.Tensor("float32", (n + 8,), tik.scope_gm, "y")  # kernels declare room behind an output
    ub = t.Tensor("float32", (n,), tik.scope_ubuf, "ub")
    t.data_move(ub, gm, 0, 1, n // 8, 0, 0)
    t.vec_muls(n, ub, ub, factor, 1, 8, 8)
    t.data_move(out, ub, 0, 1, n // 8, 0, 0)
    t.BuildCCE(kernel_name, [gm], [out])
"""
DSL = """
from tbe import dsl, tik

def slope(x, y, kernel_name="slope"):
    if x["dtype"] == "float16":
        return tik.Tik()
    return dsl.auto_schedule(dsl.vadd(x, x))
"""
TEST = """
import numpy as np
from op_test_frame.ut import OpUT
from op_test_frame.common import precision_info

ut_case = OpUT("{op}", {module}, {function})

def tensor(kind, count=16, dtype="float32"):
    forms = {{"format": "ND", "ori_shape": (count,), "ori_format": "ND"}}
    return {{"shape": (count,), "dtype": dtype, "param_type": kind, **forms}}

{cases}

if __name__ == "__main__":
    ut_case.run("Ascend910A")
"""
CASES = """
def golden(x, y, factor):
    return x["value"] * factor

limits = precision_info.PrecisionStandard(0.001, 0.001)
for case in (
    {"params": [tensor("input"), tensor("output"), 2.0], "calc_expect_func": golden, "precision_standard": limits},
    {"params": [tensor("input"), tensor("output"), 2.0], "case_name": "wrong",
     "calc_expect_func": lambda x, y, f: x["value"] * 3},
):
    ut_case.add_precision_case(["Ascend310P3", "Ascend910A"], case)
ut_case.add_precision_case(
    "Ascend035", {"params": [tensor("input"), tensor("output"), 2.0], "calc_expect_func": golden}
)
ut_case.add_case("all", {"params": [tensor("input"), tensor("output"), 0.5], "expect": "success"})
ut_case.add_case("all", {"params": [tensor("input"), tensor("output"), "x"], "expect": RuntimeError})
"""


def run_script(folder: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    """What the script prints of a folder: its lines, and those of failures by the case."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "scripts" / "public_kernels.py"), str(folder), "--quiet", *options],
        capture_output=True, text=True, timeout=300, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    return lines, {line.split(" | ")[2].split()[-1]: line for line in lines if " | " in line}


def test_counts_and_reasons(tmp_path: Path) -> None:
    impl = tmp_path / "tbe" / "impl"
    impl.mkdir(parents=True)
    (impl / "__init__.py").write_text("from .scale_by import scale_by\nfrom .slope import slope\n")
    (impl / "scale_by.py").write_text(KERNEL)
    (impl / "slope.py").write_text(DSL)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_scale.py").write_text(TEST.format(op="ScaleBy", module=None, function=None, cases=CASES))
    slope = 'ut_case.add_case("all", {"params": [tensor("input"), tensor("output")], "expect": "success"})'
    slope_test = TEST.format(op="Slope", module="'impl.slope'", function="'slope'", cases=slope)
    (tests / "test_slope.py").write_text(slope_test)
    desc = {"format": "ND", "shape": [16], "type": "float32"}
    entry = {"op": "ScaleBy", "input_desc": [desc], "output_desc": [desc], "attr": [{"name": "factor", "value": 2.0}]}
    (tmp_path / "scale.json").write_text(json.dumps([entry]))
    others = [{**entry, "op": 3}, {**entry, "input_desc": "x"}, {**entry, "output_desc": [1]}, 7]
    (tmp_path / "others.json").write_text(json.dumps(others))  # of no op
    (tmp_path / "doubled.py").write_text("def golden(x, y):\n    return 2 * x['value']\n")
    x, golden = {"shape": [24], "dtype": "float32", "value_range": [-3, 3]}, f"{tmp_path / 'doubled.py'}:golden"
    call = {"kernel": "tbe/impl/scale_by.py", "function": "scale_by"}
    calls = [
        {**call, "args": [{"shape": [3], "dtype": "float32"}]},
        {**call, "args": [x, {**x, "param_type": "output"}], "attrs": {"factor": 2.0}, "golden": golden, "name": "two"},
    ]
    (tmp_path / "calls.yaml").write_text(json.dumps(calls))
    known = [{"kernel": "scale_by", "message": "15 of 16|16 of 16", "whose": "test", "why": "the golden is wrong"}]
    (tmp_path / "known.yaml").write_text(json.dumps(known))
    files = ("--cases", str(tmp_path / "calls.yaml"), "--known", str(tmp_path / "known.yaml"))
    lines, _ = run_script(tmp_path, *files)
    assert "load       2 of 2" in lines
    assert "golden     2 of 4, 1 test, 1 chip" in lines
    assert "trace      1 of 2, 1 dsl" in lines
    assert "refusal    1 of 1" in lines
    assert "run        1 of 2, 1 here" in lines
    assert "kernels with goldens: 0 of 1 pass all of theirs" in lines
    assert any(
        "golden | test | tbe/impl/scale_by.py wrong | the golden is wrong (output 0: 16 of 16" in x for x in lines
    )
    assert any("golden | chip | tbe/impl/scale_by.py case_3 | for Ascend035" in line for line in lines)
    assert any("run | here | tbe/impl/scale_by.py scale_by | OpParamError: scale_by: arguments" in x for x in lines)


REACH = """
from tbe import tik

class Base:
    def __init__(self, x, y, blocks):
        if blocks > 100:
            raise RuntimeError("blocks is too large")
        self.t = t = tik.Tik()
        gm = t.Tensor("float32", x["shape"], tik.scope_gm, "x")
        out = t.Tensor("float32", y["shape"], tik.scope_gm, "y")
        ub = t.Tensor("float32", (8 * blocks,), tik.scope_ubuf, "ub")
        at = t.Scalar("int32", init_value=0)
        t.data_move(ub, gm[at], 0, 1, blocks, 0, 0)
        t.data_move(out, ub, 0, 1, 2, 0, 0)
        t.BuildCCE("reach", [gm], [out])

def reach(x, y, blocks, kernel_name="reach"):
    return Base(x, y, blocks).t
"""
INHERITS = """
from impl.reach import Base

def reach_two_ip(x, y, kernel_name="reach_two_ip"):
    return Base(x, y, 2).t
"""
REACH_CASES = """
def golden(x, y, blocks):
    return x["value"]

def old_numpy(x, y, blocks):
    return x["value"].astype(np.float)

def no_golden(x, y, blocks):
    raise ValueError("no such reduction")

def case(blocks, **more):
    return {"params": [tensor("input"), tensor("output"), blocks], **more}

ut_case.add_precision_case("all", case(8, case_name="reads_256_of_64_bytes", calc_expect_func=golden))
ut_case.add_precision_case("all", case(2, case_name="no_golden", calc_expect_func=no_golden))
ut_case.add_precision_case("all", case(2, case_name="old_numpy", calc_expect_func=old_numpy))
ut_case.add_case("all", case(2, case_name="compiled_only", calc_expect_func=lambda x, y, b: x["value"] + 1))
ut_case.add_case("all", case(8, case_name="stops", expect=RuntimeError))
ut_case.add_case("all", case(101, case_name="refused", expect=RuntimeError))
ut_case.add_case("all", case(2, case_name="nothing_wrong", expect=RuntimeError))
ut_case.add_case("all", case(200, case_name="its_own_check"))
"""


def test_whose_fault_a_failure_is(tmp_path: Path) -> None:
    """Kernels that reach beyond their arguments are judged with room there; what a kernel raises is its own."""
    impl = tmp_path / "impl"
    impl.mkdir()
    (impl / "reach.py").write_text(REACH)
    (impl / "reach_two_ip.py").write_text(INHERITS)
    (tmp_path / "test_reach.py").write_text(
        TEST.format(op="Reach", module="'impl.reach'", function="'reach'", cases=REACH_CASES)
    )
    small, large = ({"format": "ND", "shape": [n], "type": "float32"} for n in (16, 1 << 22))
    entries = [{"op": "ReachTwoIP", "input_desc": [x], "output_desc": [small]} for x in (small, large)]
    nested = {**small, "shape": [[16], [16]]}  # a shape for each of several tensors: no plain call
    entries.append({"op": "ReachTwoIP", "input_desc": [nested], "output_desc": [small]})
    (tmp_path / "two.json").write_text(json.dumps(entries))
    lines, reasons = run_script(tmp_path, "--elements", str(1 << 20))
    assert "load       1 of 1" in lines
    assert "golden     1 of 3, 1 kernel, 1 test" in lines
    assert "compiled   0 of 1, 1 here" in lines
    assert "refusal    2 of 3, 1 expects" in lines
    assert "trace      0 of 1, 1 kernel" in lines
    assert "run        1 of 1" in lines
    assert "large      1 of 1" in lines
    assert "of x, it has 64" in reasons["reads_256_of_64_bytes"]
    assert reasons["reads_256_of_64_bytes"].endswith("; with room behind its arguments the golden is met")
    assert "ValueError: no such reduction" in reasons["no_golden"]
    assert "output 0: 16 of 16 elements deviate" in reasons["compiled_only"]
    assert reasons["nothing_wrong"].endswith("<class 'RuntimeError'> is expected")
    assert "blocks is too large [raised by the kernel, reach.py:7]" in reasons["its_own_check"]


INDEXED = """
from tbe import tik

def indexed(x, at, y, kernel_name="indexed"):
    t = tik.Tik()
    gm = t.Tensor("float32", (16,), tik.scope_gm, "x")
    index = t.Tensor("int32", (8,), tik.scope_gm, "at")
    out = t.Tensor("float32", (8,), tik.scope_gm, "y")
    ub = t.Tensor("float32", (8,), tik.scope_ubuf, "ub")
    row = t.Tensor("int32", (8,), tik.scope_ubuf, "row")
    t.data_move(row, index, 0, 1, 1, 0, 0)
    k = t.Scalar("int32", init_value=row[0])
    t.data_move(ub, gm[k * 8], 0, 1, 1, 0, 0)
    t.data_move(out, ub, 0, 1, 1, 0, 0)
    t.BuildCCE("indexed", [gm, index], [out])
"""
INDEXED_CASES = """
def case(**at):
    kind = at.pop("out", "float32")
    out = tensor("output", 6 if kind == "uint8" else 8, kind)
    name = at.pop("name")
    return {"params": [tensor("input"), {**tensor("input", 8, "int32"), **at}, out], "case_name": name}

ut_case.add_case("all", case(name="zeros", value_range=[7, 9]))  # out of bounds: runs with indices of 0
ut_case.add_case("all", case(name="given", value=[9] * 8))
ut_case.add_case("all", case(name="odd", out="uint8", value=[1] * 8))
ut_case.add_case("all", case(name="short", value=[1, 1]))
ut_case.add_precision_case("all", {**case(name="golden", value=[1] * 8),
                                   "calc_expect_func": lambda x, at, y: x["value"][8:]})
"""


@pytest.mark.parametrize("reference", ["0", "100"])
def test_cases_without_goldens_are_run(tmp_path: Path, reference: str) -> None:
    impl = tmp_path / "impl"
    impl.mkdir()
    (impl / "indexed.py").write_text(INDEXED)
    (tmp_path / "test_indexed.py").write_text(
        TEST.format(op="Indexed", module=None, function=None, cases=INDEXED_CASES)
    )
    lines, reasons = run_script(tmp_path, "--run-traced", "--reference", reference)
    assert "trace      4 of 4" in lines and "golden     1 of 1" in lines
    assert "ran        1 of 4, 2 form, 1 kernel" in lines
    assert "src needs bytes [288, 320) of x, it has 64" in reasons["given"]
    assert reasons["given"].endswith("with room behind its arguments it runs")
    assert "y is uint8 (6,) in the case, float32 in the kernel" in reasons["odd"]
    assert "at has shape (8,) and 2 values" in reasons["short"]


def test_engines_that_differ_are_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import kernel_cases

    (tmp_path / "indexed.py").write_text(INDEXED)
    function = kernel_cases.compat.load_kernel(str(tmp_path / "indexed.py")).indexed
    real = kernel_cases.mco.run

    def other(program: Any, feed: Any, engine: str = "native") -> list:
        return [v + (engine == "reference") for v in real(program, feed, engine)]

    def params() -> list:
        x, at = {"shape": (16,), "dtype": "float32"}, {"shape": (8,), "dtype": "int32", "value": [1] * 8}
        return [x, at, {"shape": (8,), "dtype": "float32", "param_type": "output"}]

    assert kernel_cases.run_case(function, kernel_cases.Case("same", params(), []), "Ascend910A", both=True) == ""
    monkeypatch.setattr(kernel_cases.mco, "run", other)
    text = kernel_cases.run_case(function, kernel_cases.Case("differs", params(), []), "Ascend910A", both=True)
    assert text == "output y: the engines differ"


def test_a_test_belongs_to_the_kernel_of_its_own_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two operators of one name the near one counts, also where it makes no kernel and the other one does."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from public_kernels import kernel_of_test

    near, far = (tmp_path / tree / "tbe" / "impl" / "scale.py" for tree in ("mine", "other"))
    for path, text in ((near, "from tbe import dsl\n"), (far, KERNEL)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    text, named = 'ut_case = OpUT("Scale")', {"scale": [far, near]}
    assert kernel_of_test(tmp_path / "mine" / "tests" / "test_scale.py", text, named) is None
    assert kernel_of_test(tmp_path / "other" / "tests" / "test_scale.py", text, named) == far
