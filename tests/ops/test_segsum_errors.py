# SPDX-License-Identifier: Apache-2.0
"""What the public segment-sum functions refuse, by name, in GRAPH mode."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mindspore")
sys.path.insert(0, str(Path(__file__).parent))

from segsum_nets import call, graph_mode, tensor  # noqa: F401

from ms_custom_ops import soc
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.mindspore import segsum

ZEROS = {"m": np.zeros((1, 2, 2, 16, 16), np.float32), "v": np.zeros((1, 2, 32), np.float32)}
REFUSED = {
    "chunk_zero": (
        segsum.dacs_segsum,
        "v",
        (0,),
        OpArgumentError,
        "dacs_segsum: chunk_size is 0; accepted: 1 <= chunk_size <= 256",
    ),
    "chunk_large": (segsum.segsum_decay, "v", (257,), OpArgumentError, "segsum_decay: chunk_size is 257"),
    "chunk_other": (
        segsum.bwd_segsum_dadt,
        "mmv",
        (8,),
        OpArgumentError,
        "axis 2 of dSSdA (shape (1, 2, 2, 16, 16)) is 2; accepted: 4",
    ),
    "rank": (segsum.bwd_segsum_dadt, "vmv", (16,), OpArgumentError, "rank of dSSdA is 3"),
    "second_shape": (segsum.bwd_dadt_fused, "mvvvvv", (16,), OpArgumentError, "rank of SSdA is 3"),
    "vector_rank": (segsum.dacs_segsum, "m", (16,), OpArgumentError, "rank of da is 5"),
    "slots": (segsum.bwd_segsum_dadt, "mmv", (16, [0, 10, 32]), OpArgumentError, "is 2; accepted: 4 (S // chunk_size"),
    "bounds": (
        segsum.dacs_segsum,
        "v",
        (16, [0, 40, 32]),
        OpArgumentError,
        "cu_seqlens is [0, 40, 32]; accepted: at least 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_named(name):
    function, operands, fixed, error, text = REFUSED[name]
    with pytest.raises(error) as caught:
        call(function, [ZEROS[x] for x in operands], *fixed)
    assert text in str(caught.value)
    assert call(segsum.bwd_dadt_cumsum, [ZEROS["v"]] * 4, 16)[0].shape == (1, 2, 32)  # the process stays usable


def test_bad_dtypes_are_named():
    half = ZEROS["v"].astype(np.float16)
    for function, operands, text in (
        (segsum.dacs_segsum, [half], "dtype of da is float16; accepted: float32"),
        (segsum.bwd_segsum_dadt, [ZEROS["m"], ZEROS["m"], half], "dtype of ddt_out is float16; accepted: float32"),
        (segsum.bwd_segsum_dadt, [ZEROS["m"], ZEROS["m"].astype(np.float16), ZEROS["v"]], "dtype of SSdA is float16"),
    ):
        with pytest.raises(OpDtypeError) as caught:
            call(function, operands, 16)
        assert text in str(caught.value)


def test_bfloat16_is_refused_where_the_chip_has_none():
    soc.set_soc("Ascend910A")
    with pytest.raises(OpDtypeError) as caught:
        call(segsum.bwd_segsum_dadt, [tensor(ZEROS["m"], "bfloat16"), tensor(ZEROS["m"], "bfloat16"), ZEROS["v"]], 16)
    assert "Ascend910A" in str(caught.value) and "bfloat16" in str(caught.value)
