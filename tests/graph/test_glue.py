# SPDX-License-Identifier: Apache-2.0
"""The exported functions of csrc/mindspore_glue.cc that need no MindSpore, and what it refuses."""

from __future__ import annotations

import ctypes
import hashlib

import pytest
from attention_nets import run_python

from ms_custom_ops.mindspore.custom import _extension


@pytest.mark.parametrize("size", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_sha256_is_python_s(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    out = ctypes.create_string_buffer(65)
    _extension().mco_sha256(ctypes.c_char_p(data), ctypes.c_size_t(size), out)
    assert out.value.decode() == hashlib.sha256(data).hexdigest()


FOREIGN = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_custom_ops import engine
ms.set_context(mode=ms.{mode}_MODE)
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        path = str(engine.library_path())
        self.op = ops.Custom(path + ":mco_op", lambda s: s, lambda t: t, func_type="aot")
        {attributes}
    def construct(self, x):
        return self.op(x)
try:
    print(Net()(Tensor(np.ones((3,), np.float16))))
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
print((Tensor(np.ones(3)) + 1).asnumpy())
"""

ATTRIBUTES = {
    "none": "attribute mco_op is missing",
    "program": "toy: no Program for float16[3]",
    "source": "toy: the graph was compiled from kernel sources e3b0c44298fc1c149afbf4c8996fb924, the present "
    "ones are without /no/such/kernel.py; accepted: the same sources",
    "positions": "attribute mco_inputs is out of range",
}


@pytest.mark.parametrize("mode", ["GRAPH", "PYNATIVE"])
@pytest.mark.parametrize("case", ATTRIBUTES)
def test_custom_op_of_somebody_else(tmp_path, mode: str, case: str) -> None:
    """The text of an error in Init would be lost; it must arrive all the same."""
    values = {
        "mco_op": "toy",
        "mco_prefix": "toy",
        "mco_source": hashlib.sha256(b"").hexdigest()[:32],
        "mco_files": "",
        "mco_cache": "",
        "mco_inputs": [0],
        "mco_outputs": [0],
        "mco_params": 1,
        "mco_results": 1,
    }
    if case == "none":
        values = {}
    if case == "positions":
        values["mco_inputs"] = [1]
    if case == "source":
        values["mco_files"] = "/no/such/kernel.py"
    lines = [f"self.op.add_prim_attr({name!r}, {value!r})" for name, value in values.items()]
    code = FOREIGN.format(mode=mode, attributes="\n        ".join(lines) or "pass")
    done = run_python(code, tmp_path, MS_CUSTOM_OPS_CACHE_DIR="off")
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout and ATTRIBUTES[case] in done.stdout and "[2. 2. 2.]" in done.stdout
