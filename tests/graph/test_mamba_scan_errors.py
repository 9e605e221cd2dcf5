# SPDX-License-Identifier: Apache-2.0
"""What the scans refuse, one test per message."""

from __future__ import annotations

import mindspore as ms
import pytest
from mamba_inputs import mamba3_inputs, ssd_inputs
from mindspore import Tensor, ops

from ms_custom_ops import soc
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan


def changed(inputs, **values):
    return list((inputs | values).values())


SSD = (1, 8, 2, 1, 3, 4)
F16, F32 = ms.float16, ms.float32
SSD_ERRORS = {
    "rank_of_x": (dict(x=((8, 2, 3), F16)), 16, None, OpArgumentError, "rank of x is 3 (shape (8, 2, 3)); accepted: 4"),
    "x_float32": (dict(x=((1, 8, 2, 3), F32)), 16, None, OpDtypeError, "dtype of x is float32; accepted: float16 or"),
    "da_shape": (
        dict(da=((1, 8, 2), F32)),
        16,
        None,
        OpArgumentError,
        "axis 1 of da (H) is 8; accepted: 2, the H of x",
    ),
    "da_float16": (dict(da=((1, 2, 8), F16)), 16, None, OpDtypeError, "dtype of da is float16; accepted: float32"),
    "C_shape": (
        dict(C=((1, 8, 1, 5), F16)),
        16,
        None,
        OpArgumentError,
        "axis 3 of C (N) is 5; accepted: 4, the N of B axis 3",
    ),
    "B_dtype": (
        dict(B=((1, 8, 1, 4), F32)),
        16,
        None,
        OpDtypeError,
        "dtype of B is float32; accepted: float16, the dtype of x",
    ),
    "B_steps": (
        dict(B=((1, 7, 1, 4), F16)),
        16,
        None,
        OpArgumentError,
        "axis 1 of B (S) is 7; accepted: 8, the S of x axis 1",
    ),
    "groups": (
        dict(B=((1, 8, 3, 4), F16), C=((1, 8, 3, 4), F16)),
        16,
        None,
        OpArgumentError,
        "G, H is G = 3 (B axis 2) and H = 2 (x axis 2); accepted: G >= 1 and H % G == 0",
    ),
    "P_too_large": (
        dict(x=((1, 8, 2, 129), F16), initial_states=((1, 2, 129, 4), F32)),
        16,
        None,
        OpArgumentError,
        "P is 129 (x axis 3); accepted: 1 <= P <= 128 (the head size)",
    ),
    "N_too_large": (
        dict(B=((1, 8, 1, 257), F16), C=((1, 8, 1, 257), F16), initial_states=((1, 2, 3, 257), F32)),
        16,
        None,
        OpArgumentError,
        "N is 257 (B axis 3); accepted: 1 <= N <= 256 (the state size)",
    ),
    "states_shape": (
        dict(initial_states=((1, 2, 4, 3), F32)),
        16,
        None,
        OpArgumentError,
        "axis 2 of initial_states (P) is 4; accepted: 3, the P of x axis 3",
    ),
    "chunk_0": ({}, 0, None, OpArgumentError, "chunk_size is 0; accepted: 1 <= chunk_size <= 256"),
    "chunk_float": ({}, 16.0, None, OpArgumentError, "chunk_size is 16.0 (float); accepted: an int"),
    "cu_end": ({}, 16, [0, 7], OpArgumentError, "cu_seqlens is [0, 7]; accepted: at least 2 integers that do not fall"),
    "cu_falls": ({}, 16, [0, 5, 3, 8], OpArgumentError, "cu_seqlens is [0, 5, 3, 8]; accepted: at least 2 integers"),
    "cu_dtype": (
        {},
        16,
        Tensor([0, 8], ms.float32),
        OpDtypeError,
        "dtype of cu_seqlens is float32; accepted: int32 or int64",
    ),
    "cu_rank": (
        {},
        16,
        Tensor([[0, 8]], ms.int32),
        OpArgumentError,
        "rank of cu_seqlens is 2 (shape (1, 2)); accepted: 1, shape (Q)",
    ),
    "cu_batch": (
        dict(x=((2, 8, 2, 3), F16), da=((2, 2, 8), F32), B=((2, 8, 1, 4), F16), C=((2, 8, 1, 4), F16)),
        16,
        [0, 8],
        OpArgumentError,
        "B, cu_seqlens is B = 2 (x axis 0) and cu_seqlens = given; accepted: not present(cu_seqlens) or B == 1",
    ),
    "cu_states": (
        {},
        16,
        [0, 3, 8],
        OpArgumentError,
        "axis 0 of initial_states (shape (1, 2, 3, 4)) is 1; accepted: 2 (Q - 1 with Q = 3",
    ),
}


@pytest.mark.parametrize("case", SSD_ERRORS.values(), ids=SSD_ERRORS.keys())
def test_ssd_refuses(case):
    wrong, chunk, cu, error, text = case
    args = changed(ssd_inputs(SSD), **{n: ops.zeros(shape, dtype) for n, (shape, dtype) in wrong.items()})
    with pytest.raises(error) as caught:
        ssd_chunk_scan(*args[:4], chunk, args[4], cu)
    assert "ssd_chunk_scan: " + text in str(caught.value)


MAMBA3 = (1, 8, 2, 2, 1, 3, 4)
MAMBA3_ERRORS = {
    "rank_of_v": (dict(v=((1, 8, 2, 3), F16)), OpArgumentError, "rank of v is 4 (shape (1, 8, 2, 3)); accepted: 5"),
    "v_float32": (dict(v=((1, 8, 2, 2, 3), F32)), OpDtypeError, "dtype of v is float32; accepted: float16 or bfloat16"),
    "R_17": (
        dict(v=((1, 8, 17, 2, 3), F16), q=((1, 8, 17, 1, 4), F16), k=((1, 8, 17, 1, 4), F16)),
        OpArgumentError,
        "R is 17 (q axis 2); accepted: 1 <= R <= 16 (the rank)",
    ),
    "dt_shape": (dict(dt=((1, 8, 2), F32)), OpArgumentError, "axis 1 of dt (H) is 8; accepted: 2, the H of v axis 3"),
    "trap_float16": (dict(trap=((1, 2, 8), F16)), OpDtypeError, "dtype of trap is float16; accepted: float32"),
    "k_shape": (
        dict(k=((1, 8, 2, 1, 5), F16)),
        OpArgumentError,
        "axis 4 of k (N) is 5; accepted: 4, the N of q axis 4",
    ),
    "q_rank": (dict(q=((1, 8, 1, 1, 4), F16)), OpArgumentError, "axis 2 of k (R) is 2; accepted: 1, the R of q axis 2"),
}


@pytest.mark.parametrize("case", MAMBA3_ERRORS.values(), ids=MAMBA3_ERRORS.keys())
def test_mamba3_refuses(case):
    wrong, error, text = case
    args = changed(mamba3_inputs(MAMBA3), **{n: ops.zeros(shape, dtype) for n, (shape, dtype) in wrong.items()})
    with pytest.raises(error) as caught:
        mamba3_chunk_scan(*args[:6], 16, args[6])
    assert "mamba3_chunk_scan: " + text in str(caught.value)


CU_ERRORS = {
    "end": ([0, 7], OpArgumentError, "cu_seqlens is [0, 7]; accepted: at least 2 integers that do not fall"),
    "start": ([1, 8], OpArgumentError, "cu_seqlens is [1, 8]; accepted: at least 2 integers that do not fall"),
    "falls": ([0, 5, 3, 8], OpArgumentError, "cu_seqlens is [0, 5, 3, 8]; accepted: at least 2 integers"),
    "one_value": ([0], OpArgumentError, "cu_seqlens is [0]; accepted: at least 2 integers that do not fall"),
    "float": ([0, 2.5, 8], OpArgumentError, "cu_seqlens is [0, 2.5, 8]; accepted: at least 2 integers"),
    "dtype": (([0, 8], F32), OpDtypeError, "dtype of cu_seqlens is float32; accepted: int32 or int64"),
    "rank": (([[0, 8]], ms.int32), OpArgumentError, "rank of cu_seqlens is 2 (shape (1, 2)); accepted: 1, shape (Q)"),
    "one_value_tensor": (
        ([0], ms.int32),
        OpArgumentError,
        "Q, cu_seqlens is Q = 1 (cu_seqlens axis 0) and cu_seqlens = given; accepted: not present(cu_seqlens) or",
    ),
    "states": (
        [0, 3, 8],
        OpArgumentError,
        "axis 0 of initial_states (shape (1, 2, 3, 4)) is 1; accepted: 2 (Q - 1 with Q = 3",
    ),
}


@pytest.mark.parametrize("case", CU_ERRORS.values(), ids=CU_ERRORS.keys())
def test_mamba3_refuses_cu_seqlens(case):
    given, error, text = case
    cu = Tensor(*given) if isinstance(given, tuple) else given
    args = list(mamba3_inputs(MAMBA3).values())
    with pytest.raises(error) as caught:
        mamba3_chunk_scan(*args[:6], 16, args[6], cu)
    assert "mamba3_chunk_scan: " + text in str(caught.value)


def test_mamba3_refuses_a_packed_batch_of_two():
    args = list(mamba3_inputs((2, *MAMBA3[1:])).values())
    with pytest.raises(OpArgumentError) as caught:
        mamba3_chunk_scan(*args[:6], 16, args[6], [0, 8])
    assert "mamba3_chunk_scan: B, cu_seqlens is B = 2 (q axis 0) and cu_seqlens = given; accepted" in str(caught.value)


def test_bfloat16_is_refused_by_name_on_910a():
    soc.set_soc("Ascend910A")
    with pytest.raises(OpDtypeError, match=r"ssd_chunk_scan: .*Ascend910A"):
        ssd_chunk_scan(*list(ssd_inputs(SSD, ms.bfloat16).values())[:4], 16)
