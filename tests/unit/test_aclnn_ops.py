# SPDX-License-Identifier: Apache-2.0
"""The two-phase interface that an op gets from its op_info file alone."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import aclnn
from ms_custom_ops.aclnn.interface import Interface
from ms_custom_ops.aclnn.two_phase import build
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.soc import use_soc
from ms_custom_ops.testing import assert_rms

pytestmark = pytest.mark.usefixtures("program_folder")


@pytest.fixture(autouse=True)
def chip() -> Iterator[None]:
    with use_soc("Ascend910B1"):
        yield


def test_every_op_has_the_pair() -> None:
    names = dir(aclnn)
    for op in list_ops():
        name = get_op(op).class_name
        assert name in names and name + "GetWorkspaceSize" in names
        first, second = getattr(aclnn, name + "GetWorkspaceSize"), getattr(aclnn, name)
        assert (first.__name__, second.__name__) == (name + "GetWorkspaceSize", name)
        assert list(inspect.signature(second).parameters) == ["workspace", "workspace_size", "executor", "stream"]
        pair = aclnn.two_phase(op)
        assert (pair.get_workspace_size, pair.execute) == (first, second)


def test_parameters_come_from_the_op_info_file() -> None:
    for name, first in (
        ("flash_attention", aclnn.FlashAttentionGetWorkspaceSize),
        ("flash_attention_grad", aclnn.FlashAttentionGradGetWorkspaceSize),
    ):
        spec = get_op(name)
        form, attributes = (spec, ()) if spec.public is None else (spec.public, spec.public.attributes)
        expected = [arg.name for arg in (*form.args, *attributes)] + [ret.name for ret in form.returns]
        assert list(inspect.signature(first).parameters) == expected


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FlashAtention'"):
        aclnn.FlashAtention  # noqa: B018
    with pytest.raises(OpArgumentError, match="nearest known: 'flash_attention'"):
        aclnn.two_phase("flash_atention")


def execute(name: str, **arguments: Any) -> int:
    """Both phases; the workspace size."""
    status, size, executor = getattr(aclnn, name + "GetWorkspaceSize")(**arguments)
    assert status == 0, aclnn.get_recent_error()
    assert getattr(aclnn, name)(np.empty(size, np.uint8), size, executor, None) == 0, aclnn.get_recent_error()
    return size


def test_flash_attention() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 16, 32)).astype(np.float16) for _ in range(3))
    out, top, total = np.empty_like(q), np.empty((1, 2, 16), np.float32), np.empty((1, 2, 16), np.float32)
    size = execute(
        "FlashAttention",
        query=q,
        key=k,
        value=v,
        scale_value=0.25,
        attention_out=out,
        softmax_max=top,
        softmax_sum=total,
    )
    assert size >= 0
    scores = np.einsum("bnqd,bnkd->bnqk", q.astype(np.float64), k.astype(np.float64)) * 0.25
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert_rms("softmax_sum", total, weights.sum(-1), 2e-3)
    expected = np.einsum("bnqk,bnkd->bnqd", weights / weights.sum(-1, keepdims=True), v.astype(np.float64))
    assert_rms("attention_out", out, expected, 2e-3)


def test_bwd_segsum_dadt() -> None:
    rng = np.random.default_rng(0)
    d_decay, decay = (rng.standard_normal((1, 2, 3, 16, 16)).astype(np.float32) for _ in range(2))
    start = rng.standard_normal((1, 2, 48)).astype(np.float32)
    ddt = np.empty_like(start)
    execute("BwdSegsumDadt", dSSdA=d_decay, SSdA=decay, ddt_out=start, chunk_size=16, ddt=ddt)
    z = np.tril(d_decay.astype(np.float64).swapaxes(-1, -2) * np.exp(decay.astype(np.float64)), -1)
    steps = np.zeros((1, 2, 3, 16))
    for k in range(16):
        steps[..., k] = z[..., k:, :k].sum((-1, -2))
    assert_rms("ddt", ddt, start + steps.reshape(1, 2, 48), 1e-5)


def flash(**changes: Any) -> tuple[int, int, Any]:
    """First phase of a small valid flash_attention call with changes."""
    half = lambda *shape: np.zeros(shape, np.float16)  # noqa: E731
    stats = np.zeros((1, 2, 16), np.float32)
    base = dict(
        query=half(1, 2, 16, 32),
        key=half(1, 2, 16, 32),
        value=half(1, 2, 16, 32),
        attention_out=half(1, 2, 16, 32),
        softmax_max=stats.copy(),
        softmax_sum=stats.copy(),
    )
    return aclnn.FlashAttentionGetWorkspaceSize(**{**base, **changes})


GENERIC: dict[str, tuple[dict[str, Any], int, str]] = {
    "null_input": (dict(key=None), 161001, "FlashAttention: key is None; accepted: a tensor"),
    "null_output": (dict(softmax_sum=None), 161001, "softmax_sum is None; accepted: a tensor"),
    "dtype": (dict(query=np.zeros((1, 2, 16, 32), np.float32)), 161002, "dtype of query is float32"),
    "attribute": (dict(scale_value="x"), 161002, "scale_value is 'x' (str); accepted: a float"),
    "output_dtype": (
        dict(softmax_max=np.zeros((1, 2, 16), np.float16)),
        161002,
        "dtype of softmax_max is float16; accepted: float32",
    ),
    "shape": (dict(key=np.zeros((1, 2, 16, 48), np.float16)), 561002, "accepted: 32, the D of query axis 3"),
    "constraint": (dict(sparse_mode=77), 561002, "sparse_mode"),
    "output_shape": (
        dict(attention_out=np.zeros((1, 2, 15, 32), np.float16)),
        561002,
        "attention_out is of shape (1, 2, 15, 32); accepted: (1, 2, 16, 32)",
    ),
}


@pytest.mark.parametrize(("changes", "code", "text"), GENERIC.values(), ids=GENERIC.keys())
def test_failures_of_any_op(changes: dict[str, Any], code: int, text: str) -> None:
    assert flash(**changes) == (code, 0, None)
    assert aclnn.get_recent_error().startswith(str(code)) and text in aclnn.get_recent_error()


def test_a_chip_without_a_kernel() -> None:
    with use_soc("Ascend310"):
        assert flash() == (361001, 0, None)
    assert "soc is 'Ascend310'" in aclnn.get_recent_error()


def test_codes_of_an_op_s_own() -> None:
    spec = dataclasses.replace(get_op("flash_attention"), status={"null_pointer": 7})
    pair = build(Interface(spec))
    none = dict.fromkeys(inspect.signature(pair.get_workspace_size).parameters)
    assert pair.get_workspace_size(**none) == (7, 0, None)
    assert aclnn.get_recent_error().startswith("7 (null pointer): FlashAttention: query is None")


def test_the_unchanged_call_passes() -> None:
    assert flash()[0] == 0, aclnn.get_recent_error()


def test_an_indexer_without_keys_finds_none() -> None:
    found, half = np.zeros((1, 3, 1, 5), np.int32), np.float16
    execute(
        "LightningIndexer",
        query=np.zeros((1, 3, 8, 128), half),
        key=np.zeros((1, 0, 1, 128), half),
        weights=np.zeros((1, 3, 8), half),
        sparse_count=5,
        sparse_indices=found,
    )
    assert (found == -1).all()
