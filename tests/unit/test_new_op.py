# SPDX-License-Identifier: Apache-2.0
"""The steps of CONTRIBUTING.md, taken: a small op for one chip family, written into a copy of the package.

It has no padding and no cases.py, one dtype, one chip family, and an attribute that its cases leave alone. It touches
its folder, its YAML, its tiling and its test; every shipped test that runs over all ops passes for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ms_custom_ops

TOP = Path(__file__).resolve().parents[2]
OP = "scaled_add"
FILES = {
    f"op_info/{OP}.yaml": """\
scaled_add:
  doc: "z = x + scale * y"
  args:
    x: {dtype: tensor, shape: [N]}
    y: {dtype: tensor, shape: [N]}
    scale: {dtype: float, default: 1.0, prim_init: True, doc: "factor of y"}
  args_signature: {dtype_group: "(x, y)"}
  returns:
    z: {dtype: tensor, shape: [N], dtype_from: x}
  constraints:
    - {expr: "N >= 64 and N % 64 == 0", msg: "whole repeats"}
  dtype_format:
    - {x: F32, y: F32, z: F32}
  bprop: none
  impl:
    tik: {entry: "ms_custom_ops.op_impl.scaled_add.kernel:scaled_add"}
    golden: "ms_custom_ops.op_impl.scaled_add.golden:scaled_add"
    tiling: "ms_custom_ops.tiling.scaled_add"
  target: {soc: {Ascend910B: {dtypes: [F32]}}}
  cases:
    - {name: one_piece, N: 64, dtype: F32}
    - {name: several_cores, N: 6400, dtype: F32}
""",
    f"op_impl/{OP}/__init__.py": "",
    f"op_impl/{OP}/golden.py": """\
import numpy as np


def scaled_add(x, y, scale=1.0):
    return np.asarray(x, np.float64) + scale * np.asarray(y, np.float64)
""",
    f"tiling/{OP}.py": """\
from dataclasses import dataclass

from ms_custom_ops.soc.table import Soc
from ms_custom_ops.tiling.budget import BufferSpec, require
from ms_custom_ops.tiling.split import CoreSplit

PIECE = 64


@dataclass(frozen=True)
class ScaledAddPlan:
    problem: int
    soc: Soc
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit


def plan_scaled_add(elements: int, soc: Soc) -> ScaledAddPlan:
    buffers = tuple(BufferSpec(name, "ub", "float32", PIECE) for name in ("x", "y"))
    require(buffers, soc, "scaled_add", "")
    return ScaledAddPlan(elements, soc, buffers, CoreSplit(elements // PIECE, soc.vector_core_count))
""",
    f"op_impl/{OP}/kernel.py": """\
from ms_custom_ops.op_impl.common.kernel import Kernel
from ms_custom_ops.tiling.scaled_add import PIECE, plan_scaled_add


class ScaledAdd(Kernel):
    def task(self, index):
        b, start = self.buffers, index * PIECE
        for name in ("x", "y"):
            self.tik.data_move(b[name][0], self.gm[name][start], 0, 1, PIECE // 8, 0, 0)
        self.vector.muls(b["y"], b["y"], self.call.attrs["scale"], PIECE)
        self.vector.add(b["x"], b["x"], b["y"], PIECE)
        self.tik.data_move(self.gm["z"][start], b["x"][0], 0, 1, PIECE // 8, 0, 0)


def scaled_add(call):
    return ScaledAdd(call, plan_scaled_add(call["x"].shape[0], call.soc)).build()
""",
    f"tests/ops/test_{OP}.py": """\
import numpy as np

import ms_custom_ops as mco
from ms_custom_ops.compiler import compile_op


def test_scaled_add():
    x, y = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    given = {"x": (128,), "y": (128,)}
    compiled = compile_op("scaled_add", given, dict.fromkeys(given, "float32"), {"scale": 2.0}, "Ascend910B1")
    (z,) = mco.run(compiled.program, [x, y])
    np.testing.assert_array_equal(z, x + 2)
""",
}
GENERATED = {"ms_custom_ops/mco_generated_ops.py", "ms_custom_ops/mco_generated_ops_primitives.py"}
#: Shipped tests that run over all ops, and which of them speak of this op: by its name in their ids, or at once.
OVER_ALL_OPS = ("unit/test_registry.py", "unit/test_cases_run.py", "unit/test_cases_data.py",
                "unit/test_cases_coverage.py", "unit/test_cases_file.py", "unit/test_generator.py",
                "unit/test_aclnn_ops.py", "unit/test_sources.py")  # fmt: skip


SPEAK_OF_IT = f"{OP} or is_an_op or every_op_has_the_pair or stripped_file or files_agree"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel lays it out, the tests beside it, and no op yet."""
    top = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(ms_custom_ops.__file__).parent, top / "ms_custom_ops", ignore=ignored)
    for folder in ("op_impl", "op_info", "tiling"):
        shutil.copytree(TOP / folder, top / "ms_custom_ops" / folder, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(TOP / "tests", top / "tests", ignore=ignored)
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(TOP / name, top / name)
    return top


def sums(top: Path) -> dict[str, str]:
    """Checksum of every file, by its path in a checkout."""
    files = (p for p in top.rglob("*") if p.is_file() and not {"__pycache__", "programs"} & set(p.parts))
    paths = {p: p.relative_to(top).as_posix() for p in files}
    inside = tuple(f"ms_custom_ops/{folder}/" for folder in ("op_impl", "op_info", "tiling"))
    names = {p: text.partition("/")[2] if text.startswith(inside) else text for p, text in paths.items()}
    return {name: hashlib.sha256(p.read_bytes()).hexdigest() for p, name in names.items()}


MAIN = ("-c", "from ms_custom_ops.cli import main; main()")


def run(top: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(top), "MS_CUSTOM_OPS_CACHE_DIR": str(top / "programs")}
    done = subprocess.run([sys.executable, *command], cwd=top, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def made(copy: Path) -> tuple[Path, set[str]]:
    """The copy after the steps, and the files they touched."""
    before = sums(copy)
    for name, text in FILES.items():
        path = copy / ("" if name.startswith("tests") else "ms_custom_ops") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    run(copy, *MAIN, "gen")
    after = sums(copy)
    return copy, {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_an_op_touches_its_folder_its_yaml_its_tiling_and_its_test(made: tuple[Path, set[str]]) -> None:
    assert made[1] == {*FILES, *GENERATED}
    places = {name.replace(f"{OP}/", "").rpartition("/")[0] for name in FILES}
    assert places == {"op_impl", "op_info", "tiling", "tests/ops"}


def test_the_commands_accept_it(made: tuple[Path, set[str]]) -> None:
    top, _ = made
    assert str(top) in run(top, "-c", "import ms_custom_ops; print(ms_custom_ops.__file__)")
    assert run(top, *MAIN, "check", OP) == "1 op(s) checked, no finding\n"
    run(top, *MAIN, "gen", "--check")
    out = run(top, *MAIN, "test", OP, "--engine", "both")
    assert "4 case(s): 4 passed" in out, out


def test_its_own_test_and_those_over_all_ops_pass(made: tuple[Path, set[str]]) -> None:
    top, _ = made
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    assert "1 passed" in run(top, *options, f"tests/ops/test_{OP}.py")
    out = run(top, *options, "-k", SPEAK_OF_IT, *(f"tests/{name}" for name in OVER_ALL_OPS))
    assert " passed" in out, out
