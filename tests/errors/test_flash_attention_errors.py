# SPDX-License-Identifier: Apache-2.0
"""Every refusal of flash_attention, in terms of its public arguments; one case per message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

import mindspore as ms
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError, OpDtypeError

Q, KV = (2, 4, 17, 16), (2, 2, 9, 16)
FULL = r"\(2, 4, 17, 9\)"


def zeros(*shape: int, dtype: Any = np.float16) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore dumps the graph of a failed compile into the working directory."""
    monkeypatch.chdir(tmp_path)


class Call(nn.Cell):
    def __init__(self, attrs: dict[str, Any]):
        super().__init__()
        self.attrs = attrs

    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value, **self.attrs)


def refused(error: type, text: str, shapes: tuple = (Q, KV, KV), tensors: tuple | None = None, **attrs: Any) -> None:
    """The same error and text in both modes, and a working op afterwards."""
    given = tensors if tensors is not None else tuple(zeros(*shape) for shape in shapes)
    try:
        for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
            ms.set_context(mode=mode)
            with pytest.raises(error, match=f"flash_attention: {text}"):
                Call(attrs)(*given)
    finally:
        ms.set_context(mode=ms.GRAPH_MODE)


SHAPES = {
    "rank_query": (
        ((4, 17, 16), KV, KV),
        r"rank of query is 3 \(shape \(4, 17, 16\)\); accepted: 4, shape \(B, N1, S1",
    ),
    "rank_key": ((Q, (2, 9, 16), KV), r"rank of key is 3 .*accepted: 4, shape \(B, N2, S2, D\)"),
    "rank_value": ((Q, KV, (2, 9, 16)), r"rank of value is 3 .*accepted: 4, shape \(B, N2, S2, DV\)"),
    "batch": ((Q, (3, 2, 9, 16), (3, 2, 9, 16)), r"axis 0 of key \(B\) is 3; accepted: 2, the B of query axis 0"),
    "head_dim": ((Q, (2, 2, 9, 8), (2, 2, 9, 8)), r"axis 3 of key \(D\) is 8; accepted: 16, the D of query axis 3"),
    "value": ((Q, KV, (2, 2, 8, 16)), r"axis 2 of value \(S2\) is 8; accepted: 9, the S2 of key axis 2"),
    "heads": (
        (Q, (2, 3, 9, 16), (2, 3, 9, 16)),
        r"N1, N2 is N1 = 4 \(query axis 1\) and N2 = 3 \(key axis 1\); accepted: .*N1 % N2 == 0",
    ),
    "no_kv_heads": (
        (Q, (2, 0, 9, 16), (2, 0, 9, 16)),
        r"N1, N2 is N1 = 4 \(query axis 1\) and N2 = 0 \(key axis 1\); accepted: .*N2 >= 1",
    ),
    "d_257": (
        ((2, 4, 17, 257), (2, 2, 9, 257), (2, 2, 9, 257)),
        r"D is 257 \(query axis 3\); accepted: 1 <= D <= 256 \(the head size\)",
    ),
    "d_0": (((2, 4, 17, 0), (2, 2, 9, 0), (2, 2, 9, 0)), r"D is 0 \(query axis 3\); accepted: 1 <= D <= 256"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    shapes, text = SHAPES[name]
    refused(OpArgumentError, text, shapes)


@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=["float32", "int32"])
def test_query_dtype(dtype: type) -> None:
    refused(
        OpDtypeError,
        f"dtype of query is {np.dtype(dtype).name}; accepted: float16 or bfloat16",
        tensors=tuple(zeros(*shape, dtype=dtype) for shape in (Q, KV, KV)),
    )


@pytest.mark.parametrize("which", ["key", "value"])
def test_mixed_dtypes(which: str) -> None:
    given = {"query": zeros(*Q), "key": zeros(*KV), "value": zeros(*KV)}
    given[which] = ops.cast(given[which], ms.bfloat16)
    refused(
        OpDtypeError,
        f"dtype of {which} is bfloat16; accepted: float16, the dtype of query",
        tensors=tuple(given.values()),
    )


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_bfloat16_on_a_chip_without_it(chip: str) -> None:
    mco.set_soc(chip)
    try:
        refused(
            OpDtypeError,
            f"dtype of query is bfloat16 on {chip}; accepted: float16 on Ascend",
            tensors=tuple(ops.cast(zeros(*shape), ms.bfloat16) for shape in (Q, KV, KV)),
        )
    finally:
        mco.set_soc("Ascend910B1")


MASKS = {
    "rank": (
        (1, 1, 1, 17, 9),
        rf"rank of attn_mask is 5 .*accepted: 1 to 4, broadcastable to \(B, N1, S1, S2\) = {FULL}",
    ),
    "keys": ((17, 10), rf"attn_mask is of shape \(17, 10\); accepted: a shape that broadcasts to .* = {FULL}"),
    "queries": ((16, 9), r"attn_mask is of shape \(16, 9\); accepted: a shape that broadcasts"),
    "heads": ((2, 17, 9), r"attn_mask is of shape \(2, 17, 9\); accepted: a shape that broadcasts"),
    "batch": ((3, 1, 17, 9), r"attn_mask is of shape \(3, 1, 17, 9\); accepted: a shape that broadcasts"),
}


@pytest.mark.parametrize("name", MASKS)
def test_attn_mask_shapes(name: str) -> None:
    shape, text = MASKS[name]
    refused(OpArgumentError, text, attn_mask=zeros(*shape, dtype=bool))


OPTIONAL = {
    "mask_dtype": (
        OpDtypeError,
        {"attn_mask": zeros(17, 9, dtype=np.int32)},
        "dtype of attn_mask is int32; accepted: bool or uint8 or float16",
    ),
    "shift_dtype": (
        OpDtypeError,
        {"real_shift": zeros(1, 4, 17, 9, dtype=np.int32)},
        "dtype of real_shift is int32; accepted: float16 or bfloat16 or float32",
    ),
    "shift_rank": (
        OpArgumentError,
        {"real_shift": zeros(17, 9)},
        r"rank of real_shift is 2 \(shape \(17, 9\)\); accepted: 4, shape \(1\|B, N1, 1\|S1, S2\)",
    ),
    "shift_heads": (
        OpArgumentError,
        {"real_shift": zeros(1, 1, 17, 9)},
        r"axis 1 of real_shift \(N1\) is 1; accepted: 4, the N1",
    ),
    "drop_dtype": (
        OpDtypeError,
        {"drop_mask": zeros(*(2, 4, 17, 9), dtype=np.int8), "keep_prob": 0.5},
        "dtype of drop_mask is int8; accepted: bool or uint8 or float16",
    ),
    "drop_shape": (
        OpArgumentError,
        {"drop_mask": zeros(1, 4, 17, 9), "keep_prob": 0.5},
        r"axis 0 of drop_mask \(B\) is 1; accepted: 2, the B of query axis 0",
    ),
    "qlen_dtype": (
        OpDtypeError,
        {"actual_seq_qlen": zeros(2)},
        "dtype of actual_seq_qlen is float16; accepted: int32 or int64",
    ),
    "qlen_shape": (
        OpArgumentError,
        {"actual_seq_qlen": zeros(3, dtype=np.int32)},
        r"axis 0 of actual_seq_qlen \(B\) is 3; accepted: 2, the B of query axis 0",
    ),
    "qlen_count": (
        OpArgumentError,
        {"actual_seq_qlen": [1]},
        r"axis 0 of actual_seq_qlen \(B\) is 1; accepted: 2, the B of query axis 0",
    ),
    "qlen_long": (
        OpArgumentError,
        {"actual_seq_qlen": [17, 18]},
        r"actual_seq_qlen is \[17, 18\]; accepted: integers from 0 to 17",
    ),
    "kvlen_negative": (
        OpArgumentError,
        {"actual_seq_kvlen": (9, -1)},
        r"actual_seq_kvlen is \[9, -1\]; accepted: integers from 0 to 9",
    ),
    "kvlen_float": (OpArgumentError, {"actual_seq_kvlen": (9, 1.5)}, "actual_seq_kvlen is .*; accepted: integers"),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_tensors(name: str) -> None:
    error, attrs, text = OPTIONAL[name]
    refused(error, text, **attrs)


ATTRIBUTES = {
    "keep_prob_0": ({"keep_prob": 0.0}, "keep_prob is 0.0; accepted: 0 < keep_prob <= 1"),
    "keep_prob_2": ({"keep_prob": 2.0}, "keep_prob is 2.0; accepted: 0 < keep_prob <= 1"),
    "keep_prob_text": ({"keep_prob": "half"}, r"keep_prob is 'half' \(str\); accepted: a float"),
    "scale": ({"scale_value": "x"}, r"scale_value is 'x' \(str\); accepted: a float or None"),
    "seed": ({"seed": -1}, "seed is -1; accepted: 0 <= seed"),
    "seed_float": ({"seed": 0.5}, r"seed is 0.5 \(float\); accepted: an int"),
    "mode": ({"sparse_mode": 2}, "sparse_mode is 2; accepted: sparse_mode in"),
    "band": ({"sparse_mode": 4, "pre_tokens": -5, "next_tokens": 2}, ".*pre_tokens.*accepted: .*the band must not"),
    "blocks": ({"prev_block_num": -1}, ".*prev_block_num = -1; accepted: .*counts of blocks"),
    "strategy": ({"tiling_stgy_name": "best"}, "tiling_stgy_name is .*'best'; accepted: .*auto"),
    "precision": ({"high_precision": 1}, "high_precision is 1 .*; accepted: True or False"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name: str) -> None:
    attrs, text = ATTRIBUTES[name]
    refused(OpArgumentError, text, **attrs)
