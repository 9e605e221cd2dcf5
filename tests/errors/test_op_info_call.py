# SPDX-License-Identifier: Apache-2.0
"""Every message of checking a call of flash_attention: op, argument, what was given, what is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, SocError
from ms_custom_ops.registry import get_op, load_registry

SHAPES = {
    "query": (2, 4, 63, 80),
    "key": (2, 2, 200, 80),
    "value": (2, 2, 200, 80),
    "attn_mask": (1, 4, 63, 208),
    "actual_seq_qlen": (8,),
}
DTYPES = {"query": "float16", "key": "float16", "value": "float16", "attn_mask": "float16", "actual_seq_qlen": "int32"}
BF16 = {"query": "bfloat16", "key": "bfloat16", "value": "bfloat16"}
HEAD = "flash_attention: "

# id: (changed shapes, changed dtypes, attributes, chip, error class, message after the op name)
CASES: dict[str, tuple[dict, dict, dict, str, type[Exception], str]] = {
    "unknown_chip": ({}, {}, {}, "Ascend999", SocError, "soc is 'Ascend999'"),
    "chip_without_kernel": (
        {},
        {},
        {},
        "Ascend310",
        SocError,
        "soc is 'Ascend310'; accepted: Ascend910A, Ascend310P, Ascend910B",
    ),
    "missing_tensor": (
        {"query": None},
        {"query": None},
        {},
        "Ascend910A",
        OpArgumentError,
        "query is None; accepted: a tensor of shape (B, N1, S1, D)",
    ),
    "unknown_tensor": (
        {"mask": (1,)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "shape of 'mask' is (1,); accepted: the tensor arguments query, key, value, attn_mask",
    ),
    "unknown_dtype_entry": (
        {},
        {"mask": "float16"},
        {},
        "Ascend910A",
        OpArgumentError,
        "dtype of 'mask' is float16; accepted: the tensor arguments query",
    ),
    "dtype_without_shape": (
        {"attn_mask": None},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "attn_mask is absent but of dtype float16; accepted: a shape and a dtype, or neither",
    ),
    "rank": (
        {"query": (2, 4, 63)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "rank of query is 3 (shape (2, 4, 63)); accepted: 4, shape (B, N1, S1, D)",
    ),
    "dynamic": (
        {"query": (-1, 4, 63, 80)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "query is of shape (-1, 4, 63, 80); accepted: a static shape (B, N1, S1, D); dynamic shapes are not",
    ),
    "symbol": (
        {"value": (2, 2, 201, 80)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "axis 2 of value (S2) is 201; accepted: 200, the S2 of key axis 2",
    ),
    "batch": (
        {"key": (3, 2, 200, 80)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "axis 0 of key (B) is 3; accepted: 2, the B of query axis 0",
    ),
    "padded_row": (
        {"attn_mask": (1, 4, 63, 200)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "axis 3 of attn_mask (shape (1, 4, 63, 200)) is 200; accepted: 208 (S2P = (S2 + 15) // 16 * 16 "
        "with S2 = 200 from key axis 2)",
    ),
    "alternative": (
        {"attn_mask": (3, 4, 63, 208)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "axis 0 of attn_mask (shape (3, 4, 63, 208)) is 3; accepted: 1 or 2 (the B of query axis 0)",
    ),
    "padded_lengths": (
        {"actual_seq_qlen": (2,)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "axis 0 of actual_seq_qlen (shape (2,)) is 2; accepted: 8 (BP = (B + 7) // 8 * 8 with B = 2",
    ),
    "head_count": (
        {"key": (2, 3, 200, 80), "value": (2, 3, 200, 80)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "N1, N2 is N1 = 4 (query axis 1) and N2 = 3 (key axis 1); accepted: N1 % N2 == 0 (query heads",
    ),
    "zero_heads": (
        {"key": (2, 0, 200, 80), "value": (2, 0, 200, 80)},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "N2 = 0 (key axis 1); accepted: B >= 1 and N1 >= 1 and N2 >= 1 (empty batches are answered",
    ),
    "head_size": (
        {k: (*SHAPES[k][:3], 272) for k in ("query", "key", "value")},
        {},
        {},
        "Ascend910A",
        OpArgumentError,
        "D is 272 (query axis 3); accepted: D % 16 == 0 and 16 <= D <= 256",
    ),
    "keep_prob": (
        {},
        {},
        {"keep_prob": 0.0},
        "Ascend910A",
        OpArgumentError,
        "keep_prob is 0.0; accepted: 0 < keep_prob <= 1 (a probability, not 0)",
    ),
    "keep_prob_nan": (
        {},
        {},
        {"keep_prob": float("nan")},
        "Ascend910A",
        OpArgumentError,
        "keep_prob is nan; accepted: 0 <",
    ),
    "seed": ({}, {}, {"seed": -1}, "Ascend910A", OpArgumentError, "seed is -1; accepted: 0 <= seed"),
    "sparse_mode": (
        {},
        {},
        {"sparse_mode": 2},
        "Ascend910A",
        OpArgumentError,
        "sparse_mode is 2; accepted: sparse_mode in (0, 3, 4)",
    ),
    "band": (
        {},
        {},
        {"sparse_mode": 4, "pre_tokens": -5, "next_tokens": 3},
        "Ascend910A",
        OpArgumentError,
        "sparse_mode is next_tokens = 3 and pre_tokens = -5 and sparse_mode = 4; accepted:",
    ),
    "blocks": (
        {},
        {},
        {"prev_block_num": -1},
        "Ascend910A",
        OpArgumentError,
        "prev_block_num = -1; accepted: prev_block",
    ),
    "strategy": (
        {},
        {},
        {"tiling_stgy_name": "fast"},
        "Ascend910A",
        OpArgumentError,
        "tiling_stgy_name is 'fast'; accepted: tiling_stgy_name in ('auto', 'sparse', 'wukong', 'xunfei')",
    ),
    "low_precision_bf16": (
        {},
        BF16,
        {"high_precision": False},
        "Ascend910B1",
        OpArgumentError,
        "high_precision, query is high_precision = False and query = bfloat16; accepted: high_precision or",
    ),
    "unknown_attribute": (
        {},
        {},
        {"sed": 1},
        "Ascend910A",
        OpArgumentError,
        "attribute 'sed' is 1; accepted: the attributes scale_value, keep_prob, seed",
    ),
    "attribute_bool_for_int": (
        {},
        {},
        {"seed": True},
        "Ascend910A",
        OpArgumentError,
        "seed is True (bool); accepted: an int",
    ),
    "attribute_text_for_float": (
        {},
        {},
        {"scale_value": "1"},
        "Ascend910A",
        OpArgumentError,
        "scale_value is '1' (str); accepted: a float",
    ),
    "attribute_int_for_bool": (
        {},
        {},
        {"high_precision": 1},
        "Ascend910A",
        OpArgumentError,
        "high_precision is 1 (int); accepted: True or False",
    ),
    "attribute_int_for_text": (
        {},
        {},
        {"tiling_stgy_name": 1},
        "Ascend910A",
        OpArgumentError,
        "tiling_stgy_name is 1 (int); accepted: a str",
    ),
    "foreign_dtype": (
        {},
        {"query": "float8"},
        {},
        "Ascend910A",
        OpDtypeError,
        "dtype of query is float8; accepted: float16, ",
    ),
    "missing_dtype": (
        {},
        {"query": None},
        {},
        "Ascend910A",
        OpDtypeError,
        "dtype of query is None; accepted: float16, ",
    ),
    "mixed_dtypes": (
        {},
        {"key": "float32"},
        {},
        "Ascend910A",
        OpDtypeError,
        "dtype of key is float32 (given: query float16, key float32, value float16, attn_mask float16, "
        "actual_seq_qlen int32); accepted: bfloat16 or float16; combinations: query float16, key float16",
    ),
    "mask_dtype": ({}, {"attn_mask": "uint8"}, {}, "Ascend910A", OpDtypeError, "dtype of attn_mask is uint8 (given"),
    "bf16_on_910a": (
        {},
        BF16,
        {},
        "Ascend910A",
        OpDtypeError,
        "dtype of query is bfloat16 on Ascend910A; accepted: float16 on Ascend910A",
    ),
    "bf16_on_310p": (
        {},
        BF16,
        {},
        "Ascend310P3",
        OpDtypeError,
        "dtype of query is bfloat16 on Ascend310P3; accepted: float16 on Ascend310P",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_call_error(name: str) -> None:
    shapes, dtypes, attrs, soc, error, text = CASES[name]
    spec = get_op("flash_attention")
    with pytest.raises(error) as raised:
        spec.check_call({**SHAPES, **shapes}, {**DTYPES, **dtypes}, attrs, soc)
    message = str(raised.value)
    assert text in message
    assert message.startswith(HEAD) or name == "unknown_chip"
    with pytest.raises(error):
        spec.infer({**SHAPES, **shapes}, {**DTYPES, **dtypes}, attrs, soc)


def test_unknown_op() -> None:
    with pytest.raises(
        OpArgumentError, match="op name is 'flash_atention'; accepted: nearest known: 'flash_attention'"
    ):
        get_op("flash_atention")


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(
        OpArgumentError, match="inputs is 3 tensors and 0 presence flags; accepted: 10 tensors .* and 7 flags"
    ):
        get_op("flash_attention").named_inputs([1, 2, 3], [])


def test_case_of_a_dtype_that_no_row_has() -> None:
    from dataclasses import replace

    spec = get_op("flash_attention")
    with pytest.raises(OpDtypeError, match="dtype of case one_token is F32; accepted: BF16, F16"):
        spec.case_call(replace(spec.cases[0], dtype="F32"))


def _divided(tmp_path: Any, expr: str, **changes: str) -> Any:
    text = f"""
op:
  args: {{x: {{dtype: tensor, shape: [N]}}, k: {{dtype: int, prim_init: True}}}}
  symbols: {{M: "{changes.get("symbol", "N")}"}}
  returns: {{y: {{dtype: tensor, shape: ["{changes.get("shape", "M")}"], dtype_from: x}}}}
  constraints: [{{expr: "{expr}", msg: even}}]
  dtype_format: [{{x: F16, y: F16}}]
  bprop: none
  impl: {{tik: {{entry: "t:f"}}, golden: "t:f", tiling: "t"}}
  target: {{soc: {{Ascend910A: {{dtypes: [F16]}}}}}}
"""
    (tmp_path / "op.yaml").write_text(text)
    return load_registry(tmp_path).get("op")


@pytest.mark.parametrize(
    "expr, changes, what",
    [
        ("N % k == 0", {}, "constraint 'N % k == 0'"),
        ("N >= 0", {"symbol": "N // k"}, "symbol M"),
        ("N >= 0", {"shape": "N // k"}, "shape of y"),
    ],
)
def test_division_by_zero_names_the_expression(tmp_path: Any, expr: str, changes: dict[str, str], what: str) -> None:
    spec = _divided(tmp_path, expr, **changes)
    assert spec.infer({"x": (4,)}, {"x": "float16"}, {"k": 2}, "Ascend910A")
    with pytest.raises(OpArgumentError) as error:
        spec.infer({"x": (4,)}, {"x": "float16"}, {"k": 0}, "Ascend910A")
    assert f"op: {what} is not computable: '" in str(error.value)


def test_attribute_without_default(tmp_path: Any) -> None:
    with pytest.raises(OpArgumentError, match="op: k is missing; accepted: an int"):
        _divided(tmp_path, "N >= 0").infer({"x": (4,)}, {"x": "float16"}, {}, "Ascend910A")
