# SPDX-License-Identifier: Apache-2.0
"""Every documented failure of SparseFlashAttentionGrad's two phases, with its code and text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops import aclnn
from ms_custom_ops.errors import SocError
from ms_custom_ops.soc import use_soc

V1, V2 = "SparseFlashAttentionGrad", "SparseFlashAttentionGradV2"


pytestmark = pytest.mark.usefixtures("program_folder")


def f16(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def i32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


def arguments(n1: int = 8, d: int = 64, rope: int = 16, slots: int = 8) -> dict[str, Any]:
    """A valid TND call: 2 sequences, 3 queries, 20 keys."""
    inputs = dict(
        query=f16(3, n1, d),
        key=f16(20, 1, d),
        value=f16(20, 1, d),
        sparse_indices=i32(3, 1, slots),
        d_out=f16(3, n1, d),
        out=f16(3, n1, d),
        softmax_max=f32(1, 3, n1),
        softmax_sum=f32(1, 3, n1) + 1,
        actual_seq_q=[1, 3],
        actual_seq_kv=[9, 20],
        query_rope=f16(3, n1, rope),
        key_rope=f16(20, 1, rope),
        scale_value=0.1,
        sparse_block_size=1,
        layout="TND",
        sparse_mode=3,
    )
    outputs = {f"d_{name}": np.zeros_like(inputs[name]) for name in ("query", "key", "value", "query_rope", "key_rope")}
    return {**inputs, **outputs}


def bsnd() -> dict[str, Any]:
    """Changes that make it the valid BSND call of one sequence."""
    base = arguments()
    changed = {name: value[None] for name, value in base.items() if isinstance(value, np.ndarray)}
    return {**changed, "layout": "BSND", "actual_seq_q": None, "actual_seq_kv": None}


def large(**changes: Any) -> dict[str, Any]:
    """A call with the sizes that 950 wants."""
    return {**arguments(8, 512, 64, 1024), **changes}


def status(name: str, changes: dict[str, Any], product: str = "A2") -> tuple[int, int, Any]:
    with use_soc("Ascend910B1"), aclnn.use_product(product):
        return getattr(aclnn, name + "GetWorkspaceSize")(**{**arguments(), **changes})


ROWS: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    # null pointers
    "query_null": (V1, "A2", dict(query=None), 161001, "query is None; accepted: a tensor"),
    "value_null_v1": (V1, "A2", dict(value=None), 161001, "value is None; accepted: a tensor"),
    "softmax_sum_null": (V1, "A2", dict(softmax_sum=None), 161001, "softmax_sum is None"),
    "output_null": (V1, "A2", dict(d_key=None), 161001, "d_key is None; accepted: a tensor"),
    "rope_output_null": (
        V1,
        "A2",
        dict(d_key_rope=None),
        161001,
        "d_key_rope is None; accepted: a tensor, since key_rope is given",
    ),
    "value_output_null_v2": (V2, "A2", dict(d_value=None), 161001, "accepted: a tensor, since value is given"),
    # dtypes and formats
    "query_dtype": (
        V1,
        "A2",
        dict(query=f32(3, 8, 64)),
        161002,
        "dtype of query is float32; accepted: float16 or bfloat16",
    ),
    "key_dtype": (
        V1,
        "A2",
        dict(key=f16(20, 1, 64).astype(ml_dtypes.bfloat16)),
        161002,
        "dtype of key is bfloat16; accepted: float16",
    ),
    "unknown_dtype": (V1, "A2", dict(query=np.zeros((3, 8, 64))), 161002, "dtype of query is float64; accepted:"),
    "index_dtype": (
        V1,
        "A2",
        dict(sparse_indices=np.zeros((3, 1, 8), np.int64)),
        161002,
        "dtype of sparse_indices is int64; accepted: int32",
    ),
    "output_dtype": (V1, "A2", dict(d_key=f32(20, 1, 64)), 161002, "dtype of d_key is float32; accepted: float16"),
    "no_tensor": (
        V1,
        "A2",
        dict(query=[1.0]),
        161002,
        "query is a list; accepted: a NumPy array or a MindSpore tensor",
    ),
    "strided_v1": (V1, "A2", dict(query=f16(6, 8, 64)[::2]), 161002, "query is not contiguous; accepted: a contiguous"),
    "strided_output": (V2, "A2", dict(d_query=f16(6, 8, 64)[::2]), 161002, "d_query is not contiguous"),
    "attribute_type": (
        V1,
        "A2",
        dict(sparse_block_size=1.5),
        161002,
        "sparse_block_size is 1.5 (float); accepted: an int",
    ),
    "one_rope": (
        V1,
        "A2",
        dict(key_rope=None),
        161002,
        "query_rope, key_rope is only query_rope; accepted: both or neither",
    ),
    "rope_output_alone": (
        V1,
        "A2",
        dict(query_rope=None, key_rope=None),
        161002,
        "d_query_rope is of shape (3, 8, 16) without query_rope; accepted: None or an empty tensor",
    ),
    "sinks_without_d_sinks": (
        V2,
        "950",
        dict(sinks=f32(8)),
        161002,
        "sinks, d_sinks is only sinks; accepted: both or neither",
    ),
    "lengths_dtype": (
        V1,
        "A2",
        dict(actual_seq_q=[0.5, 3.0]),
        161002,
        "actual_seq_q is float64 of shape (2,); accepted: integers of shape (B,)",
    ),
    # runtime
    "sinks_on_a2": (
        V2,
        "A2",
        dict(sinks=f32(8), d_sinks=f32(8)),
        361001,
        "sinks are given on A2; accepted: on 950 only",
    ),
    "sinks_on_a3": (
        V2,
        "A3",
        dict(sinks=f32(8), d_sinks=f32(8)),
        361001,
        "sinks are given on A3; accepted: on 950 only",
    ),
    # tiling
    "mode": (V1, "A2", dict(sparse_mode=4), 561002, "only support sparse_mode=0 or 3, now sparse_mode=4"),
    "head_dim": (
        V1,
        "A2",
        dict(key=f16(20, 1, 32)),
        561002,
        "head_dim of Query[64] should be equal to head_dim of Key[32]",
    ),
    "head_dim_950": (V1, "950", {}, 561002, "head_dim of Query[64] should be 512"),
    "value_dim": (
        V1,
        "A2",
        dict(value=f16(20, 1, 128)),
        561002,
        "head_dim of Query[64] can not less than head_dim of Value[128]",
    ),
    "layout": (V1, "A2", dict(layout="SBH"), 561002, "only support TND or BSND layout, now layout is SBH"),
    "rank": (
        V1,
        "A2",
        dict(layout="BSND"),
        561002,
        "layout dims is not equal to the input's dim: rank of query is 3, layout is BSND; accepted: rank 4",
    ),
    "key_rank": (
        V1,
        "A2",
        dict(key=f16(1, 20, 1, 64)),
        561002,
        "rank of key is 4 (shape (1, 20, 1, 64)); accepted: 3 for layout TND",
    ),
    "rope_dims": (
        V1,
        "A2",
        dict(key_rope=f16(20, 1, 32)),
        561002,
        "headDim of qRope and kRope should be equal, got 16 and 32",
    ),
    "rope_dim_950": (
        V1,
        "950",
        large(query_rope=f16(3, 8, 32), key_rope=f16(20, 1, 32)),
        561002,
        "headDim of qRope and kRope should be 64, got 32",
    ),
    "kv_heads": (
        V1,
        "A2",
        dict(key=f16(20, 2, 64), value=f16(20, 2, 64)),
        561002,
        "only support n2=1 and n1=1,2,4,8,16,32,64,128, but got n2=2 n1=8",
    ),
    "heads_not_listed": (
        V1,
        "A2",
        arguments(n1=24),
        561002,
        "only support n2=1 and n1=1,2,4,8,16,32,64,128, but got n2=1 n1=24",
    ),
    "heads_above_128": (V1, "A3", arguments(n1=256), 561002, "but got n2=1 n1=256"),
    "stats_rank": (
        V1,
        "A2",
        dict(softmax_max=f32(3, 8)),
        561002,
        "The shape of softmaxMax is invalid, got (3, 8), should be (1, 3, 8)",
    ),
    "stats_shape": (
        V1,
        "A2",
        dict(softmax_sum=f32(1, 8, 3)),
        561002,
        "The shape of softmaxSum is invalid, got (1, 8, 3), should be (1, 3, 8)",
    ),
    "stats_dtype": (
        V1,
        "A2",
        dict(softmax_max=f16(1, 3, 8)),
        561002,
        "dtype of softmax_max is float16; accepted: float32",
    ),
    "out_dtype": (
        V1,
        "A2",
        dict(out=f16(3, 8, 64).astype(ml_dtypes.bfloat16)),
        561002,
        "dtype of out is bfloat16; accepted: float16",
    ),
    "slots_950": (
        V1,
        "950",
        large(sparse_indices=i32(3, 1, 1000)),
        561002,
        "K of sparse_indices is 1000; accepted: 1024, 2048, ... 8192",
    ),
    "block_size_950": (
        V1,
        "950",
        large(sparse_block_size=4),
        561002,
        "sparse_block_size is 4; accepted: 1, 8, 16, 32, 64",
    ),
    "output_shape": (
        V1,
        "A2",
        dict(d_key=f16(19, 1, 64)),
        561002,
        "The shape of dKey is invalid, got (19, 1, 64), should be (20, 1, 64)",
    ),
    "output_shape_950": (V1, "950", large(d_query=f16(3, 8, 64)), 561002, "The shape of dQuery is invalid"),
    "tnd_without_lengths": (V1, "950", large(actual_seq_q=None), 561002, "TND needs the lengths of both sides"),
    "d_value_without_value": (
        V2,
        "950",
        large(value=None),
        161002,
        "d_value is of shape (20, 1, 512) without value; accepted: None or an empty tensor",
    ),
    "no_tokens": (V1, "A2", dict(key=f16(0, 1, 64)), 561002, "TND with a size of 0: t1=3 n1=8 d=64 t2=0 n2=1"),
    "small_dim": (V1, "A2", arguments(d=40), 561002, "D % 16 == 0 and 16 <= D <= 512"),
    "block_size": (V1, "A2", dict(sparse_block_size=129), 561002, "sparse_block_size"),
    "window": (V1, "A2", dict(pre_tokens=7), 561002, "pre_tokens"),
    "lengths": (
        V1,
        "A2",
        dict(actual_seq_q=[1, 4]),
        561002,
        "actual_seq_q is [1, 4] (sum 5, last 4); accepted: tokens of each batch, whose sum is T1 = 3, or "
        "inclusive prefix sums, whose last is T1 = 3",
    ),
    "lengths_not_ascending": (V1, "A2", dict(actual_seq_kv=[21, 20]), 561002, "actual_seq_kv is [21, 20] (sum 41"),
    "lengths_number": (
        V1,
        "A2",
        dict(actual_seq_q=[3]),
        561002,
        "actual_seq_q, actual_seq_kv is 1 lengths and 2 lengths; accepted: as many on both sides",
    ),
    "bsnd_counts": (
        V1,
        "A2",
        {**bsnd(), "actual_seq_kv": [21]},
        561002,
        "actual_seq_kv is [21]; accepted: 1 counts (B) from 0 to S2 = 20",
    ),
}


@pytest.mark.parametrize(("name", "product", "changes", "code", "text"), ROWS.values(), ids=ROWS.keys())
def test_first_phase(name: str, product: str, changes: dict[str, Any], code: int, text: str) -> None:
    result = status(name, changes, product)
    assert result == (code, 0, None), aclnn.get_recent_error()
    error = aclnn.get_recent_error()
    assert error.startswith(f"{code} (") and text in error
    assert name in error or "sparse_flash_attention_grad" in error


@pytest.mark.parametrize("changes", [{}, bsnd()], ids=["TND", "BSND"])
def test_the_unchanged_call_passes(changes: dict[str, Any]) -> None:
    code, size, executor = status(V1, changes)
    assert code == 0 and size > 32 << 20 and executor is not None, aclnn.get_recent_error()


def test_bfloat16_on_a_chip_without_it() -> None:
    base = arguments()
    wide = {
        n: x.astype(ml_dtypes.bfloat16) for n, x in base.items() if isinstance(x, np.ndarray) and x.dtype == np.float16
    }
    with use_soc("Ascend910A"):
        assert aclnn.SparseFlashAttentionGradGetWorkspaceSize(**{**base, **wide})[0] == 161002
    assert "dtype of query is bfloat16; accepted: float16" in aclnn.get_recent_error()


def test_a_chip_without_a_kernel() -> None:
    with use_soc("Ascend310"):
        assert aclnn.SparseFlashAttentionGradGetWorkspaceSize(**arguments())[0] == 361001
    assert "soc is 'Ascend310'" in aclnn.get_recent_error()


def test_the_text_goes_with_the_next_success() -> None:
    status(V1, dict(sparse_mode=4))
    assert aclnn.get_recent_error() != ""
    status(V1, {})
    assert aclnn.get_recent_error() == ""


SECOND: dict[str, tuple[Any, int, str]] = {
    "no_executor": (lambda size, e: (np.empty(size, np.uint8), size, None), 161001, "executor is None"),
    "foreign_executor": (
        lambda size, e: (np.empty(size, np.uint8), size, "e"),
        361001,
        "executor is a str; accepted: what",
    ),
    "no_workspace": (lambda size, e: (None, size, e), 361001, "workspace is None; accepted: at least"),
    "small_workspace": (lambda size, e: (np.empty(8, np.uint8), size, e), 361001, "workspace is of 8 bytes"),
    "small_size": (lambda size, e: (np.empty(size, np.uint8), 8, e), 361001, "workspace_size is 8; accepted: at least"),
}


@pytest.mark.parametrize(("change", "code", "text"), SECOND.values(), ids=SECOND.keys())
def test_second_phase(change: Any, code: int, text: str) -> None:
    _, size, executor = status(V1, {})
    assert aclnn.SparseFlashAttentionGrad(*change(size, executor), None) == code
    assert text in aclnn.get_recent_error()


def test_an_executor_runs_once() -> None:
    _, size, executor = status(V1, {})
    workspace = np.empty(size, np.uint8)
    assert aclnn.SparseFlashAttentionGrad(workspace, size, executor, None) == 0
    assert aclnn.SparseFlashAttentionGrad(workspace, size, executor, None) == 361001
    assert "executor is used already; accepted: a new executor for each run" in aclnn.get_recent_error()


def test_an_executor_of_the_other_version() -> None:
    _, size, executor = status(V1, {})
    assert aclnn.SparseFlashAttentionGradV2(np.empty(size, np.uint8), size, executor, None) == 361001
    assert "executor is of SparseFlashAttentionGrad" in aclnn.get_recent_error()


def test_a_run_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from ms_custom_ops import engine
    from ms_custom_ops.errors import EngineError

    def broken(*_: Any, **__: Any) -> Any:
        raise EngineError("out of bounds at kernel.py:1")

    _, size, executor = status(V1, {})
    monkeypatch.setattr(engine, "run", broken)
    assert aclnn.SparseFlashAttentionGrad(np.empty(size, np.uint8), size, executor, None) == 361001
    assert "361001 (runtime): SparseFlashAttentionGrad: out of bounds at kernel.py:1" in aclnn.get_recent_error()


def test_950_is_checked_only() -> None:
    code, size, executor = status(V1, large(), "950")
    assert code == 0, aclnn.get_recent_error()
    assert aclnn.SparseFlashAttentionGrad(np.empty(size, np.uint8), size, executor, None) == 361001
    assert "there are no kernels for 950; accepted: A2 or A3" in aclnn.get_recent_error()


@pytest.mark.parametrize("heads", [3, 48])
def test_950_has_more_head_counts(heads: int) -> None:
    assert status(V1, arguments(heads, 512, 64, 1024), "950")[0] == 0, aclnn.get_recent_error()


def test_sinks_on_950_are_checked() -> None:
    assert status(V2, large(sinks=f32(8), d_sinks=f32(8)), "950")[0] == 0, aclnn.get_recent_error()
    assert status(V2, large(sinks=f32(7), d_sinks=f32(8)), "950")[0] == 561002
    assert "The shape of sinks is invalid, got (7,), should be (8,)" in aclnn.get_recent_error()


def test_an_unknown_product() -> None:
    with pytest.raises(SocError, match="name is 'A5'; accepted: A2, A3, 950"), aclnn.use_product("A5"):
        pass


def test_python_mistakes_are_python_errors() -> None:
    first = aclnn.SparseFlashAttentionGradGetWorkspaceSize
    with pytest.raises(TypeError, match="is missing the arguments key, value"):
        first(f16(1, 1, 16))
    with pytest.raises(TypeError, match="unexpected argument 'colour'"):
        first(colour=1)
    with pytest.raises(TypeError, match="multiple values for argument 'query'"):
        first(f16(1, 1, 16), query=None)
    with pytest.raises(TypeError, match="takes 24 arguments but 25 were given"):
        first(*[None] * 25)
