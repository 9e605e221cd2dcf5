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
    "da_shape": (dict(da=((1, 8, 2), F32)), 16, None, OpArgumentError, "da is of shape (1, 8, 2); accepted: (B, H, S)"),
    "da_float16": (dict(da=((1, 2, 8), F16)), 16, None, OpDtypeError, "dtype of da is float16; accepted: float32"),
    "C_shape": (
        dict(C=((1, 8, 1, 5), F16)),
        16,
        None,
        OpArgumentError,
        "C is of shape (1, 8, 1, 5); accepted: the shape of B",
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
        "B is of shape (1, 7, 1, 4); accepted: (B, S, G, N)",
    ),
    "groups": (
        dict(B=((1, 8, 3, 4), F16), C=((1, 8, 3, 4), F16)),
        16,
        None,
        OpArgumentError,
        "groups G of B is 3; accepted: a divisor of H = 2",
    ),
    "P_too_large": (dict(x=((1, 8, 2, 129), F16)), 16, None, OpArgumentError, "head size P is 129; accepted: 1 to 128"),
    "N_too_large": (
        dict(B=((1, 8, 1, 257), F16), C=((1, 8, 1, 257), F16)),
        16,
        None,
        OpArgumentError,
        "state size N is 257; accepted: 1 to 256",
    ),
    "states_shape": (
        dict(initial_states=((1, 2, 4, 3), F32)),
        16,
        None,
        OpArgumentError,
        "initial_states is of shape (1, 2, 4, 3); accepted: (B, H, P, N) = (1, 2, 3, 4)",
    ),
    "chunk_0": ({}, 0, None, OpArgumentError, "chunk_size is 0; accepted: an int from 1 to 256"),
    "chunk_float": ({}, 16.0, None, OpArgumentError, "chunk_size is 16.0; accepted: an int from 1 to 256"),
    "cu_end": ({}, 16, [0, 7], OpArgumentError, "cu_seqlens is [0, 7]; accepted: non-decreasing ints from 0 to S = 8"),
    "cu_falls": ({}, 16, [0, 5, 3, 8], OpArgumentError, "cu_seqlens is [0, 5, 3, 8]; accepted: non-decreasing"),
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
        "cu_seqlens is of shape (1, 2); accepted: (number of",
    ),
    "cu_batch": (
        dict(x=((2, 8, 2, 3), F16), da=((2, 2, 8), F32), B=((2, 8, 1, 4), F16), C=((2, 8, 1, 4), F16)),
        16,
        [0, 8],
        OpArgumentError,
        "batch of x is 2; accepted: 1 with cu_seqlens",
    ),
    "cu_states": (
        {},
        16,
        [0, 3, 8],
        OpArgumentError,
        "initial_states is of shape (1, 2, 3, 4); accepted: (sequences, H, P, N) = (2, 2, 3, 4)",
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
    "R_17": (dict(v=((1, 8, 17, 2, 3), F16)), OpArgumentError, "rank R of v is 17; accepted: 1 to 16"),
    "dt_shape": (
        dict(dt=((1, 8, 2), F32)),
        OpArgumentError,
        "dt is of shape (1, 8, 2); accepted: (B, H, S) = (1, 2, 8)",
    ),
    "trap_float16": (dict(trap=((1, 2, 8), F16)), OpDtypeError, "dtype of trap is float16; accepted: float32"),
    "k_shape": (
        dict(k=((1, 8, 2, 1, 5), F16)),
        OpArgumentError,
        "k is of shape (1, 8, 2, 1, 5); accepted: the shape of q",
    ),
    "q_rank": (
        dict(q=((1, 8, 1, 1, 4), F16)),
        OpArgumentError,
        "q is of shape (1, 8, 1, 1, 4); accepted: (B, S, R, G, N)",
    ),
}


@pytest.mark.parametrize("case", MAMBA3_ERRORS.values(), ids=MAMBA3_ERRORS.keys())
def test_mamba3_refuses(case):
    wrong, error, text = case
    args = changed(mamba3_inputs(MAMBA3), **{n: ops.zeros(shape, dtype) for n, (shape, dtype) in wrong.items()})
    with pytest.raises(error) as caught:
        mamba3_chunk_scan(*args[:6], 16, args[6])
    assert "mamba3_chunk_scan: " + text in str(caught.value)


CU_ERRORS = {
    "end": ([0, 7], OpArgumentError, "cu_seqlens is [0, 7]; accepted: non-decreasing ints from 0 to S = 8"),
    "start": ([1, 8], OpArgumentError, "cu_seqlens is [1, 8]; accepted: non-decreasing ints from 0 to S = 8"),
    "falls": ([0, 5, 3, 8], OpArgumentError, "cu_seqlens is [0, 5, 3, 8]; accepted: non-decreasing"),
    "one_value": ([0], OpArgumentError, "cu_seqlens is [0]; accepted: non-decreasing ints from 0 to S = 8"),
    "float": ([0, 2.5, 8], OpArgumentError, "cu_seqlens is [0, 2.5, 8]; accepted: non-decreasing ints"),
    "dtype": (([0, 8], F32), OpDtypeError, "dtype of cu_seqlens is float32; accepted: int32 or int64"),
    "rank": (
        ([[0, 8]], ms.int32),
        OpArgumentError,
        "cu_seqlens is of shape (1, 2); accepted: (number of sequences + 1,), at least 2 values",
    ),
    "one_value_tensor": (
        ([0], ms.int32),
        OpArgumentError,
        "cu_seqlens is of shape (1,); accepted: (number of sequences + 1,), at least 2 values",
    ),
    "states": (
        [0, 3, 8],
        OpArgumentError,
        "initial_states is of shape (1, 2, 3, 4); accepted: (sequences, H, P, N) = (2, 2, 3, 4)",
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
    assert "mamba3_chunk_scan: batch of v is 2; accepted: 1 with cu_seqlens" in str(caught.value)


def test_bfloat16_is_refused_by_name_on_910a():
    soc.set_soc("Ascend910A")
    with pytest.raises(OpDtypeError, match=r"ssd_chunk_scan: .*Ascend910A"):
        ssd_chunk_scan(*list(ssd_inputs(SSD, ms.bfloat16).values())[:4], 16)
