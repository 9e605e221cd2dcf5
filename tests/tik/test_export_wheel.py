# SPDX-License-Identifier: Apache-2.0
"""The TIK kernels of the installed MindSpore wheel as Ascend C: traced for Ascend910A, exported for Ascend310P3, whose
cores are of the same kind."""

from __future__ import annotations

import importlib
import shutil
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

from test_wheel_kernels import PACKAGE, data, served_names
from wheel_cases import KERNELS

from ms_custom_ops import ascendc, engine
from ms_custom_ops.exporter import program_subject, write
from ms_custom_ops.tik.trace import trace

__all__ = ["served_names"]

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")

CHIP = "Ascend310P3"
CHEAP = ("matrix_combine", "transpose02314")
# The kernel itself is at fault, on its own chip: a local tensor is too small.
WRONG = ("matmul_cube_dense_left", "matmul_cube_dense_right")
CASES = [(name, label) for name, (_, _, shapes) in KERNELS.items() for label in shapes if name not in WRONG]


def traced(name: str, case: Any) -> Any:
    module, function, _ = KERNELS[name]
    entry = getattr(importlib.import_module(PACKAGE + module), function)
    return trace(entry, *case.args, soc="Ascend910A", **case.kwargs)


@pytest.mark.parametrize(
    ("name", "label"),
    [pytest.param(n, s, id=f"{n}-{s}", marks=[] if n in CHEAP and s == next(iter(KERNELS[n][2])) else
                  [pytest.mark.nightly]) for n, s in CASES],
)  # fmt: skip
def test_bits(name: str, label: str, tmp_path) -> None:
    case = data(name, label)
    program = traced(name, case)
    result = write(program_subject([(label, program)], name, name, CHIP), tmp_path / "out")
    feed = [np.ascontiguousarray(x) for x in case.inputs]
    wanted = engine.run(program, [x.copy() for x in feed])
    outputs = [np.frombuffer(b"\xff" * x.nbytes, x.dtype).reshape(x.shape).copy() for x in wanted]
    kernel = ascendc.build(result.kernel, entry=result.subject.entry, soc=CHIP, optimize=False)
    facts = result.facts[label]
    kernel(facts.blocks, *feed, *outputs, tiling=bytes(8), tiling_key=1, workspace=facts.workspace, threads=1)
    assert [x.tobytes() for x in outputs] == [x.tobytes() for x in wanted]
