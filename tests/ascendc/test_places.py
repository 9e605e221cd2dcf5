# SPDX-License-Identifier: Apache-2.0
"""In which memory the tensors of a call lie, buffers of pools, and lines of errors in templates."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

HERE = Path(__file__).parent
PLACES = HERE / "places.cpp"
MOVED = "a tensor of UB, L1 or C2; LoadData, Mmad and Fixpipe reach the others"
MISPLACED = {
    0: f"DataCopy: dst lies in A2; accepted: {MOVED}",
    1: f"DataCopy: src lies in A2; accepted: {MOVED}",
    2: f"DataCopy: dst lies in B2; accepted: {MOVED}",
    3: "Add: a tensor lies in A1; accepted: tensors in UB (VECIN, VECOUT, VECCALC)",
    4: "Mmad: the left matrix lies in B2; accepted: a tensor of A2",
    5: "Mmad: the right matrix lies in A2; accepted: a tensor of B2",
    6: "Mmad: the result lies in A1; accepted: a tensor of CO1",
    7: "LoadData: dst lies in CO1; accepted: a tensor of A2 or B2",
    8: "LoadData: dst lies in CO1; accepted: a tensor of A1, B1, A2 or B2",
    9: "LoadData: src lies in B2; accepted: a tensor of A1 or B1",
    10: "LoadDataWithTranspose: dst lies in A1; accepted: a tensor of A2 or B2",
    11: "LoadDataWithTranspose: src lies in A2; accepted: a tensor of A1 or B1",
    12: "LoadData: src lies in B2; accepted: a tensor of A1 or B1",
    13: "Fixpipe: src lies in A1; accepted: a tensor of CO1",
}


@pytest.fixture(scope="module")
def misplaced():
    return ascendc.build(PLACES, entry="misplaced", soc="Ascend910B1")


@pytest.mark.parametrize("which", MISPLACED)
def test_a_tensor_in_another_memory_is_refused(misplaced, which):
    lines = PLACES.read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 2) if text.strip() == f"case {which}:")
    said = re.escape(f"AIC core 0: {MISPLACED[which]} [{PLACES}:{line}]")
    with pytest.raises(AscendcError, match=said):
        misplaced(1, np.zeros(512, np.float16), which)
    report = misplaced.check(1, np.zeros(512, np.float16), which)
    assert MISPLACED[which].partition(";")[0] in str(report) and f"{PLACES}:{line}" in str(report)


@pytest.mark.parametrize("blocks", [1, 3])
def test_queues_of_pools_order_their_pipes(blocks):
    kernel = ascendc.build(PLACES, entry="pooled", soc="Ascend910B1")
    x = np.arange(blocks * 256, dtype=np.float32)
    y = np.zeros((blocks, 2, 256), np.float32)
    kernel(blocks, x, y, 1)
    assert np.array_equal(y, np.stack([x.reshape(blocks, 256) + 1, x.reshape(blocks, 256)], 1))
    assert not mco.check(kernel, [blocks, x, y, 1], outputs=[y]).findings
    unordered = mco.check(kernel, [blocks, x, y, 0], outputs=[y])
    assert "race_pipes: Adds (PIPE_V) reads what DataCopy (PIPE_MTE2) writes" in str(unordered)


def test_a_reset_of_a_pool_ends_what_is_under_way():
    kernel = ascendc.build(PLACES, entry="shared", soc="Ascend910B1")
    x = np.arange(256, dtype=np.float32)
    y = np.zeros_like(x)
    kernel(1, x, y, 1)
    assert np.array_equal(y, x + 1)
    assert not mco.check(kernel, [1, x, y, 1], outputs=[y]).findings
    with pytest.raises(AscendcError, match="InitBuffer: 1 x 512 bytes of a pool of 1024, of which 1024 are taken"):
        kernel(1, x, y, 0)


POOLS = {
    "TQue<TPosition::VECOUT, 1> b; pool.InitBuffer(b, 1, 64);": "A1",
    "TBuf<TPosition::CO1> b; pool.InitBuffer(b, 64);": "VECCALC",
    "TBufPool<TPosition::B1> b; pool.InitBufPool(b, 64);": "VECIN",
    "TBuf<TPosition::A2> b; pool.InitBuffer(b, 64);": "B2",
}


@pytest.mark.parametrize("call", POOLS)
def test_a_pool_gives_its_own_memory(tmp_path, call):
    path = tmp_path / "k.cpp"
    path.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\nextern "C" __global__ __aicore__ void k(GM_ADDR) {\n'
        f"TPipe pipe; TBufPool<TPosition::{POOLS[call]}> pool;\n{call}\n}}\n"
    )
    said = f"^{re.escape(str(path))}:5: AscendC::TBufPool: the position of the buffer is not accepted; accepted: one"
    with pytest.raises(AscendcBuildError, match=said):
        ascendc.build(path, soc="Ascend910B1")


def test_an_error_in_a_template_begins_with_the_line_of_the_call(tmp_path):
    path = tmp_path / "k.cpp"
    path.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        "template <class T> struct Op {\n  void Inner(LocalTensor<T> t) {\n    Exp(t, t, 64);\n  }\n"
        "  void Go() {\n    Inner(LocalTensor<T>());\n  }\n};\n"
        'extern "C" __global__ __aicore__ void k(GM_ADDR) {\n  Op<int32_t> op;\n  op.Go();\n}\n'
    )
    with pytest.raises(AscendcBuildError, match=f"^{re.escape(str(path))}:5: AscendC::Exp: the type of the tensors"):
        ascendc.build(path, soc="Ascend910B1")


def test_a_pool_refuses_another_memory_from_headers_that_do_not_look(tmp_path):
    path = tmp_path / "k.cpp"
    path.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\nextern "C" __global__ __aicore__ void k(GM_ADDR) {\n'
        "TPipe pipe; TBufPool<TPosition::VECIN> pool; pipe.InitBufPool(pool, 1024);\n"
        'const mco_asc_where here = mco_asc::Where::here().of("InitBuffer");\n'
        "mco_asc_pool_buffer(&here, pool.mco_queue(), int(TPosition::A1), int(TPosition::A1), -1, 1, 64);\n}\n"
    )
    kernel = ascendc.build(path, soc="Ascend910B1", entry="k")
    with pytest.raises(AscendcError, match="InitBuffer: position is A1; accepted: one in ub, where the pool lies"):
        kernel(1, np.zeros(8, np.float32))
