# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays, None and numbers where an op takes tensors: one text for every public function, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

import mindspore as ms
from mindspore import Tensor, nn

import ms_custom_ops as mco
from ms_custom_ops import mco_generated_ops
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.registry import get_op, packages

PUBLIC = {name: spec for name, spec in packages()[0].registry.ops.items() if spec.public is not None}
NUMPY = np.zeros((1, 2), np.float16)
GIVEN = {
    "numpy": (NUMPY, r"a numpy\.ndarray of shape \(1, 2\) and dtype float16"),
    "number": (1.0, "a number"),
    "str": ("x", "a str"),
    "list": ([[1.0]], "a list of 1"),
}


@pytest.fixture(autouse=True, params=[ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["PYNATIVE", "GRAPH"])
def in_mode(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=request.param)
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


def refused(call: Callable[[], Any], op: str, text: str) -> None:
    with pytest.raises(OpArgumentError, match=f"{op}: {text}"):
        call()


def arguments(op: str) -> dict[str, Any]:
    """A call whose tensors are all of shape (1,), which is looked at after their kind."""
    given = {arg.name: Tensor([0.0], ms.float16) for arg in PUBLIC[op].public.args if not arg.optional}
    names = {arg.name for arg in PUBLIC[op].public.attributes}
    attrs = {name: value for name, value in (("chunk_size", 16), ("scale_value", 1.0)) if name in names}
    if op.startswith("sparse_flash"):
        given["value"] = given["query"]
    return {**given, **attrs}


@pytest.mark.parametrize("kind", [*GIVEN, "none"])
@pytest.mark.parametrize("op", PUBLIC)
def test_every_op(op: str, kind: str) -> None:
    first = get_op(op).public.args[0]
    value, text = GIVEN.get(kind, (None, "None"))
    given = {**arguments(op), first.name: value}
    refused(lambda: getattr(mco.ops, op)(**given), op, rf"{first.name} is {text}; accepted: a tensor of shape \(")


class Keyed(nn.Cell):
    def __init__(self, key: Any, bias: Any = None):
        super().__init__()
        self.key, self.bias = key, bias

    def construct(self, query):
        return mco.ops.flash_attention(query, self.key, query, attn_bias=self.bias)


def query() -> Tensor:
    return Tensor(np.zeros((1, 2, 16, 16), np.float16))


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("kind", ["numpy", "none"])
def test_inside_construct(kind: str, bias: bool) -> None:
    value, text = GIVEN.get(kind, (None, "None"))
    cell = Keyed(value, query()[:, :1] if bias else None)
    refused(lambda: cell(query()), "flash_attention", rf"key is {text}; accepted: a tensor of shape \(B, N2, S2, D\)")


def test_bias_as_array() -> None:
    refused(
        lambda: Keyed(query(), NUMPY)(query()), "flash_attention", "attn_bias is a numpy.ndarray of shape .* broadcasts"
    )


def test_optional_ones_may_be_none() -> None:
    mask = np.zeros((16, 16), bool)
    text = r"attn_mask is a numpy.ndarray .*; accepted: a tensor of shape \(B, N1, S1, S2\) or None"
    refused(lambda: mco.ops.flash_attention(query(), query(), query(), mask), "flash_attention", text)


@pytest.mark.parametrize("kind", ["numpy", "none"])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_flash_attention_score(name: str, kind: str) -> None:
    value, text = GIVEN.get(kind, (None, "None"))
    given = {"query": query(), "key": query(), "value": query(), name: value}
    call = lambda: mco.ops.flash_attention_score(**given, head_num=2, input_layout="BNSD")  # noqa: E731
    refused(call, "flash_attention_score", f"{name} is {text}; accepted: a tensor")


@pytest.mark.parametrize("kind", ["numpy", "none"])
@pytest.mark.parametrize("name", ["query", "key_index", "weights", "softmax_sum"])
def test_indexer_kl_loss(name: str, kind: str) -> None:
    op = "sparse_lightning_indexer_grad_kl_loss"
    value, text = GIVEN.get(kind, (None, "None"))
    given = {**arguments(op), name: value}
    given.pop("deterministic", None)
    refused(lambda: mco.ops.indexer_kl_loss(**given), op, f"{name} is {text}; accepted: a tensor")


class Primitive(nn.Cell):
    def __init__(self, key: Any):
        super().__init__()
        self.key = key

    def construct(self, query):
        return mco_generated_ops.flash_attention(query, self.key, query)


@pytest.mark.parametrize(
    ("value", "text"), [(NUMPY, "a numpy.ndarray"), (None, "None"), (1.0, "a float"), ([1, 2], "a list")]
)
def test_generated_functions(value: Any, text: str) -> None:
    text = rf"key is {text}; accepted: a tensor of shape \(B, N2, S2, D\)"
    refused(lambda: Primitive(value)(query()), "flash_attention", text)
    refused(lambda: mco_generated_ops.flash_attention(query(), value, query()), "flash_attention", text)
