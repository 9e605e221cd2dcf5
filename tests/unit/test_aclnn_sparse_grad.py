# SPDX-License-Identifier: Apache-2.0
"""SparseFlashAttentionGrad through its two phases: values, lengths, workspace, tensors of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops import aclnn
from ms_custom_ops.op_impl.sparse_flash_attention import golden
from ms_custom_ops.soc import use_soc
from ms_custom_ops.testing import assert_rms

pytestmark = pytest.mark.usefixtures("program_folder")


GRADIENTS = ("query", "key", "value", "query_rope", "key_rope")
LIMIT = {"float16": 1e-3, "bfloat16": 5e-3}


@pytest.fixture(autouse=True)
def chip() -> Iterator[None]:
    with use_soc("Ascend910B1"):
        yield


@dataclass(frozen=True)
class Call:
    """Inputs of one call, a golden's gradients of them, and the attributes."""

    inputs: dict[str, np.ndarray]
    attrs: dict[str, Any]
    expected: golden.Gradients

    def outputs(self) -> dict[str, np.ndarray]:
        """Output arrays full of NaN."""
        found = {f"d_{n}": np.full_like(self.inputs[n], np.nan) for n in GRADIENTS if n in self.inputs}
        return found

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        """Outputs against the golden."""
        for name, value in outputs.items():
            assert_rms(name, value, getattr(self.expected, name), LIMIT[value.dtype.name])


def make(
    lead_q: tuple[int, ...],
    lead_k: tuple[int, ...],
    n1: int,
    d: int,
    slots: int,
    *,
    rope: int = 0,
    dtype: Any = np.float16,
    merged: bool = False,
    mode: int = 0,
    q: list[int] | None = None,
    kv: list[int] | None = None,
) -> Call:
    """A random call; ``q`` and ``kv`` are what the golden wants: prefix sums (TND) or counts (BSND)."""
    rng = np.random.default_rng(0)
    layout = "TND" if len(lead_q) == 1 else "BSND"
    inputs = {
        "query": (*lead_q, n1, d),
        "key": (*lead_k, 1, d),
        "value": (*lead_k, 1, d),
        "d_out": (*lead_q, n1, d),
        "query_rope": (*lead_q, n1, rope),
        "key_rope": (*lead_k, 1, rope),
    }
    arrays = {name: (rng.standard_normal(shape) * 0.5).astype(dtype) for name, shape in inputs.items() if shape[-1]}
    if merged:
        del arrays["value"]
    rows = [rng.permutation(lead_k[-1])[:slots] for _ in range(int(np.prod(lead_q)))]
    ids = np.stack(rows).astype(np.int32).reshape(*lead_q, 1, -1)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    scale = (d + rope) ** -0.5
    ropes = {name: wide.get(name) for name in ("query_rope", "key_rope")}
    common = dict(actual_seq_lengths_query=q, actual_seq_lengths_kv=kv, sparse_mode=mode, **ropes)
    operands = wide["query"], wide["key"], wide.get("value"), ids
    out, top, total = golden.sparse_flash_attention(*operands, scale, layout_query=layout, **common)
    expected = golden.sparse_flash_attention_grad(*operands, wide["d_out"], scale, layout=layout, **common)
    arrays |= dict(
        sparse_indices=ids,
        out=out.astype(dtype),
        softmax_max=top.astype(np.float32),
        softmax_sum=total.astype(np.float32),
    )
    attrs = dict(actual_seq_q=q, actual_seq_kv=kv, scale_value=scale, layout=layout, sparse_mode=mode)
    return Call(arrays, attrs, expected)


def run(call: Call, version: str = "", **changes: Any) -> tuple[int, dict[str, Any]]:
    """Both phases; (workspace size, output arrays)."""
    outputs = {**call.outputs(), **{n: x for n, x in changes.items() if n.startswith("d_") and n != "d_out"}}
    name = "SparseFlashAttentionGrad" + version
    if version:
        changes = {"value": None, **changes} if "value" not in call.inputs else changes
    status, size, executor = getattr(aclnn, name + "GetWorkspaceSize")(
        **{**call.inputs, **call.attrs, **outputs, **changes}
    )
    assert status == 0, aclnn.get_recent_error()
    status = getattr(aclnn, name)(np.empty(size, np.uint8), size, executor, None)
    assert status == 0, aclnn.get_recent_error()
    return size, outputs


def test_the_specification_example() -> None:
    call = make((1,), (2048,), 16, 512, 2048, rope=64, q=[1], kv=[2048])
    x, attrs, outputs = call.inputs, call.attrs, call.outputs()
    status, size, executor = aclnn.SparseFlashAttentionGradGetWorkspaceSize(
        x["query"],
        x["key"],
        x["value"],
        x["sparse_indices"],
        x["d_out"],
        x["out"],
        x["softmax_max"],
        x["softmax_sum"],
        [1],
        [2048],
        x["query_rope"],
        x["key_rope"],
        attrs["scale_value"],
        1,
        "TND",
        0,
        2147483647,
        2147483647,
        False,
        outputs["d_query"],
        outputs["d_key"],
        outputs["d_value"],
        outputs["d_query_rope"],
        outputs["d_key_rope"],
    )
    assert (status, aclnn.get_recent_error()) == (0, "")
    assert aclnn.SparseFlashAttentionGrad(np.empty(size, np.uint8), size, executor, None) == 0
    call.check(outputs)


def test_the_specification_example_in_bfloat16() -> None:
    call = make((1,), (2048,), 16, 512, 2048, rope=64, q=[1], kv=[2048], dtype=ml_dtypes.bfloat16)
    call.check(run(call)[1])


@pytest.mark.parametrize(
    ("q", "kv"),
    [([1, 5, 0], [7, 20, 36]), ([1, 6, 6], [7, 20, 36]), ([1, 5, 0], [7, 13, 16]), (np.array([1, 6, 6]), (7, 13, 16))],
    ids=["counts-sums", "sums-sums", "counts-counts", "sums-counts"],
)
def test_both_readings_of_lengths(q: Any, kv: Any) -> None:
    call = make((6,), (36,), 4, 32, 12, mode=3, q=[1, 6, 6], kv=[7, 20, 36])
    call.check(run(call, actual_seq_q=q, actual_seq_kv=kv)[1])


def test_where_both_readings_hold_they_agree() -> None:
    call = make((5,), (30,), 4, 32, 9, mode=3, q=[0, 0, 5], kv=[0, 0, 30])
    call.check(run(call)[1])


@pytest.mark.parametrize("lengths", [None, [4, 2]], ids=["full", "counts"])
def test_bsnd(lengths: list[int] | None) -> None:
    call = make((2, 4), (2, 33), 8, 48, 17, rope=16, mode=3, q=lengths, kv=lengths and [33, 15])
    _, outputs = run(call)
    call.check(outputs)


@pytest.mark.parametrize("side", ["query", "key"])
def test_empty_bsnd_tensors(side: str) -> None:
    shapes = {"query": (2, 3, 4, 32), "key": (2, 9, 1, 32)}
    shapes[side] = (2, 0, *shapes[side][2:])
    q, k = (np.zeros(shapes[name], np.float16) for name in ("query", "key"))
    stats, ids = np.zeros((2, 1, q.shape[1], 4), np.float32), np.zeros((2, q.shape[1], 1, 5), np.int32)
    call = Call(
        dict(query=q, key=k, value=k, d_out=q, out=q, sparse_indices=ids, softmax_max=stats, softmax_sum=stats),
        {},
        golden.Gradients(q, k, k, None, None, None),
    )
    _, outputs = run(call)
    assert not any(np.asarray(x, np.float64).any() for x in outputs.values())


def test_v2_of_merged_keys_and_strided_inputs() -> None:
    call = make((5,), (40,), 8, 64, 21, rope=16, merged=True, q=[2, 5], kv=[15, 40])
    strided = np.repeat(call.inputs["query"], 2, axis=0)[::2]
    assert not strided.flags.c_contiguous
    call.check(run(call, "V2", query=strided)[1])


def test_inputs_are_read_when_the_op_runs() -> None:
    call = make((3,), (20,), 4, 32, 9, q=[3], kv=[20])
    late = {name: np.zeros_like(array) for name, array in call.inputs.items()}
    outputs = call.outputs()
    status, size, executor = aclnn.SparseFlashAttentionGradGetWorkspaceSize(**{**late, **call.attrs, **outputs})
    assert status == 0, aclnn.get_recent_error()
    for name, array in call.inputs.items():
        late[name][...] = array
    assert aclnn.SparseFlashAttentionGrad(bytearray(size), size, executor) == 0
    call.check(outputs)


@pytest.mark.parametrize(("product", "mebibytes"), [("A2", 1059), ("950", 1183)])
def test_workspace_formula(product: str, mebibytes: int) -> None:
    """The figures that the formulas of the published implementations give for this case."""
    rows, n1, d, rope = 4096, 64, 512, 64
    half = lambda *shape: np.broadcast_to(np.float16(0), shape)  # noqa: E731
    inputs = dict(
        query=half(rows, n1, d),
        key=half(rows, 1, d),
        value=half(rows, 1, d),
        d_out=half(rows, n1, d),
        out=half(rows, n1, d),
        query_rope=half(rows, n1, rope),
        key_rope=half(rows, 1, rope),
        sparse_indices=np.empty((rows, 1, 2048), np.int32),
        softmax_max=np.empty((1, rows, n1), np.float32),
        softmax_sum=np.empty((1, rows, n1), np.float32),
    )
    outputs = {f"d_{n}": np.empty(inputs[n].shape, np.float16) for n in GRADIENTS}
    with aclnn.use_product(product):
        status, size, _ = aclnn.SparseFlashAttentionGradV2GetWorkspaceSize(
            **inputs, **outputs, actual_seq_q=[rows], actual_seq_kv=[rows], layout="TND"
        )
    assert status == 0, aclnn.get_recent_error()
    assert -(-size >> 20) == mebibytes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mindspore_tensors(dtype: str) -> None:
    ms = pytest.importorskip("mindspore")
    call = make(
        (3,),
        (20,),
        4,
        32,
        9,
        rope=16,
        q=[1, 3],
        kv=[8, 20],
        dtype=np.float16 if dtype == "float16" else ml_dtypes.bfloat16,
    )
    kind = getattr(ms, dtype)

    def tensor(x: np.ndarray) -> Any:
        return ms.Tensor(x.astype(np.float32), kind) if x.dtype.name == dtype else ms.Tensor(x)

    outputs = {name: tensor(value) for name, value in call.outputs().items()}
    outputs["d_key"] = ms.Parameter(outputs["d_key"], name="d_key")
    addresses = {name: value.data_ptr() for name, value in outputs.items()}
    run(
        call,
        **{name: tensor(value) for name, value in call.inputs.items()},
        **outputs,
        actual_seq_q=ms.Tensor([1, 3], ms.int32),
    )
    assert {name: value.data_ptr() for name, value in outputs.items()} == addresses
    # Through an operator, so that what counts is what MindSpore sees, not what NumPy wrote.
    seen = {name: (value * 1).astype(ms.float32).asnumpy() for name, value in outputs.items()}
    for name, value in seen.items():
        assert_rms(name, value, getattr(call.expected, name), LIMIT[dtype])


def test_a_tensor_that_shares_no_memory_is_refused() -> None:
    ms = pytest.importorskip("mindspore")

    class Elsewhere(ms.Tensor):
        """As on a device: NumPy gets a copy."""

        def asnumpy(self) -> np.ndarray:
            return super().asnumpy().copy()

    call = make((3,), (20,), 4, 32, 9, q=[3], kv=[20])
    outputs = {**call.outputs(), "d_key": Elsewhere(np.zeros((20, 1, 32), np.float16))}
    result = aclnn.SparseFlashAttentionGradGetWorkspaceSize(**{**call.inputs, **call.attrs, **outputs})
    assert result == (161002, 0, None)
    assert "d_key is a tensor whose memory this process cannot write" in aclnn.get_recent_error()
