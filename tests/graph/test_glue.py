# SPDX-License-Identifier: Apache-2.0
"""What csrc/mindspore_glue.cc refuses."""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from attention_nets import run_python

from ms_custom_ops.cache import file_name

FOREIGN = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_custom_ops.engine import native as engine
ms.set_context(mode=ms.{mode}_MODE)
class Net(nn.Cell):
    def __init__(self, attributes):
        super().__init__()
        path = str(engine.library_path())
        self.op = ops.Custom(path + ":mco_op", lambda s: s, lambda t: t, func_type="aot")
        for name, value in attributes.items():
            self.op.add_prim_attr(name, value)
    def construct(self, x):
        return self.op(x)
for case, attributes in {cases}.items():
    try:
        print(Net(attributes)(Tensor(np.ones((3,), np.float16))))
    except RuntimeError as error:
        print("refused", case, str(error).splitlines()[0])
print((Tensor(np.ones(3)) + 1).asnumpy())
"""

ATTRIBUTES = {
    "mco_op": "toy",
    "mco_prefix": "toy",
    "mco_source": "0123",
    "mco_files": "",
    "mco_cache": "",
    "mco_inputs": [0],
    "mco_outputs": [0],
    "mco_params": 1,
    "mco_results": 1,
    "mco_launches": 0,
}
CASES = {
    "none": ({}, "attribute mco_op is missing"),
    "program": (ATTRIBUTES, "toy: no Program for float16[3]"),
    "positions": ({**ATTRIBUTES, "mco_inputs": [1]}, "attribute mco_inputs is out of range"),
    "source": (
        {**ATTRIBUTES, "mco_files": f"{'0' * 64} /no/such/kernel.py\n"},
        "toy: the graph was compiled from kernel sources 0123, but /no/such/kernel.py is gone or no plain file; "
        "accepted: the same sources",
    ),
    "edited": (
        {**ATTRIBUTES, "mco_files": f"edited-after-import {__file__}\n"},
        f"but {__file__} has changed; accepted",
    ),
}


def fifo_cases(folder: Path) -> dict[str, dict[str, Any]]:
    """A FIFO in the place of a Program, and in that of a source."""
    path = folder / file_name("toy", "toy|float16[3]")
    os.mkfifo(path)
    cases = {"fifo": {**ATTRIBUTES, "mco_cache": str(folder)}}
    cases["source"] = {**ATTRIBUTES, "mco_files": f"{'0' * 64} {path}\n"}
    return cases


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompletedProcess]:
    """Side by side, since MindSpore waits three seconds after a run of a graph that failed."""
    plain = {name: attributes for name, (attributes, _) in CASES.items()}
    given = {"GRAPH": plain, "PYNATIVE": plain, "fifo": fifo_cases(tmp_path_factory.mktemp("programs"))}

    def run(name: str) -> CompletedProcess:
        code = FOREIGN.format(mode="GRAPH" if name == "fifo" else name, cases=given[name])
        return run_python(code, tmp_path_factory.mktemp(name), MS_CUSTOM_OPS_CACHE_DIR="off")

    with ThreadPoolExecutor() as pool:
        return dict(zip(given, pool.map(run, given), strict=True))


@pytest.mark.parametrize("mode", ["GRAPH", "PYNATIVE"])
def test_custom_op_of_somebody_else(runs: dict[str, CompletedProcess], mode: str) -> None:
    """The text of an error in Init would be lost; it must arrive all the same."""
    done = runs[mode]
    assert done.returncode == 0, done.stderr
    refusals = [line for line in done.stdout.splitlines() if line.startswith("refused")]
    assert len(refusals) == len(CASES) and "[2. 2. 2.]" in done.stdout
    for (name, (_, text)), line in zip(CASES.items(), refusals, strict=True):
        assert line.startswith(f"refused {name} ") and text in line


def test_a_fifo_in_the_program_s_place_does_not_wait(runs: dict[str, CompletedProcess]) -> None:
    done = runs["fifo"]
    assert done.returncode == 0, done.stderr
    (path,) = re.findall(r"(/\S+) \(not a plain file\)", done.stdout)
    assert stat.S_ISFIFO(os.stat(path).st_mode) and f"but {path} is gone or no plain file" in done.stdout
