# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention and its gradient in GRAPH and PYNATIVE mode: outputs, gradients, refusals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
from mindspore import Tensor  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from sparse_cases import LIMIT, Case, run_golden, tensors_of  # noqa: E402
from sparse_nets import DIFFERENTIABLE, Attention, OutputsAndGradients, attributes, lengths, numpy, to_tensor, zeros  # noqa: E402

from ms_custom_ops.errors import OpArgumentError, OpDtypeError  # noqa: E402
from ms_custom_ops.mindspore import sparse_attention as sa  # noqa: E402
from ms_custom_ops.op_impl.sparse_flash_attention import golden  # noqa: E402
from ms_custom_ops.testing import assert_rms  # noqa: E402


@pytest.fixture(params=["GRAPH", "PYNATIVE"], autouse=True)
def mode(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both execution modes; MindSpore's dumps go to the test's folder."""
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "GRAPH" else ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


CASES = [
    Case(),
    Case(rope=0, k=5, n1=3, s1=3, s2=17),
    Case(merged=True),
    Case(sinks=True, batch=2),
    Case(packed=True, s1=9, s2=60, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55)),
    Case(packed=True, s1=6, s2=40, q_lengths=(2, 6), kv_lengths=(10, 40), sinks=True, rope=0, mode=0),
    Case(block=8, k=4, s2=60, dv=32, batch=2, q_lengths=(5, 2), kv_lengths=(60, 11)),
    Case(dtype="bfloat16"),
    Case(n1=8, n2=2, rope=0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_outputs_and_gradients(case: Case) -> None:
    t = tensors_of(case)
    expected = run_golden(case, t)
    inputs = [to_tensor(t.get(n)) for n in DIFFERENTIABLE]
    tail = [Tensor(t["sparse_indices"]), lengths(case.q_lengths), lengths(case.kv_lengths)]
    d_stats = zeros(*expected["softmax_max"].shape, dtype=np.float32)
    net = OutputsAndGradients(Attention(attributes(case)))
    outputs, grads = net(*inputs, *tail, to_tensor(t["d_out"]), d_stats)
    for name, value in zip(("attention_out", "softmax_max", "softmax_sum"), outputs, strict=False):
        assert_rms(name, numpy(value), expected[name], LIMIT[case.dtype])
    present = [n for n in DIFFERENTIABLE if t.get(n) is not None]
    assert len(grads) >= len(present)
    for name, value in zip(present, grads, strict=False):
        assert_rms(f"d_{name}", numpy(value), expected[f"d_{name}"], LIMIT[case.dtype])
        assert value.dtype == to_tensor(t[name]).dtype


def test_ms_grad_of_the_function() -> None:
    case = Case(s1=3, s2=20)
    t = tensors_of(case)
    d_out, indices, scale = Tensor(t["d_out"]), Tensor(t["sparse_indices"]), (case.d + case.rope) ** -0.5

    def loss(query, key, value, query_rope, key_rope):
        out = sa.sparse_flash_attention(query, key, value, indices, scale, query_rope=query_rope, key_rope=key_rope)[0]
        return (out.astype(ms.float32) * d_out.astype(ms.float32)).sum()

    names = DIFFERENTIABLE[:5]
    grads = ms.grad(loss, (0, 1, 2, 3, 4))(*[Tensor(t[n]) for n in names])
    expected = run_golden(case, t)
    for name, value in zip(names, grads, strict=False):
        assert_rms(f"d_{name}", numpy(value), expected[f"d_{name}"], LIMIT["float16"])


def test_statistics_only_when_asked_for() -> None:
    t = tensors_of(Case())
    inputs = [to_tensor(t.get(n)) for n in DIFFERENTIABLE]
    out, top, total = Attention(attributes(Case()), lse=False)(*inputs, Tensor(t["sparse_indices"]), None, None)
    assert out.shape == (1, 5, 8, 64) and top.shape == (0,) and total.shape == (0,)


@pytest.mark.parametrize("packed", [False, True], ids=["BSND", "TND"])
def test_lengths_as_lists(packed: bool) -> None:
    case = Case(packed=packed, batch=1, s1=5, s2=40, q_lengths=(4,), kv_lengths=(30,))
    t = tensors_of(case)
    out = sa.sparse_flash_attention(
        *[Tensor(t[n]) for n in ("query", "key", "value", "sparse_indices")],
        **attributes(case),
        actual_seq_lengths_query=[4],
        actual_seq_lengths_kv=(30,),
        query_rope=Tensor(t["query_rope"]),
        key_rope=Tensor(t["key_rope"]),
    )[0]
    assert_rms("attention_out", numpy(out), run_golden(case, t)["attention_out"], LIMIT["float16"])


@pytest.mark.parametrize("packed", [False, True], ids=["BSND", "TND"])
def test_paged_keys(packed: bool) -> None:
    rng = np.random.default_rng(0)
    table, page, counts = np.array([[3, 0, 2], [1, 4, 0]], np.int32), 16, [40, 17]
    pages = rng.standard_normal((5, page, 1, 32)).astype(np.float16)
    lead, ends = ((6,), [2, 5]) if packed else ((2, 3), None)  # packed: one row behind the last sequence
    q = rng.standard_normal((*lead, 4, 32)).astype(np.float16)
    ids = np.stack([rng.permutation(40)[:20] for _ in range(6)]).astype(np.int32).reshape(*lead, 1, 20)
    layout = "TND" if packed else "BSND"
    args = dict(layout_query=layout, layout_kv="PA_BSND", actual_seq_lengths_kv=counts, actual_seq_lengths_query=ends)
    out = sa.sparse_flash_attention(
        Tensor(q), Tensor(pages), Tensor(pages), Tensor(ids), 0.3, block_table=Tensor(table), **args
    )[0]
    wide = pages.astype(np.float64)
    expected = golden.sparse_flash_attention(q.astype(np.float64), wide, wide, ids, 0.3, block_table=table, **args)[0]
    assert_rms("attention_out", numpy(out), expected, LIMIT["float16"])


def test_gradient_function() -> None:
    case = Case(batch=2, rope=16, n1=3)
    t = tensors_of(case)
    qkv = [Tensor(t[n]) for n in ("query", "key", "value", "sparse_indices")]
    ropes = dict(query_rope=Tensor(t["query_rope"]), key_rope=Tensor(t["key_rope"]))
    scale = (case.d + case.rope) ** -0.5
    out, top, total = sa.sparse_flash_attention(*qkv, scale, return_softmax_lse=True, **ropes)
    grads = sa.sparse_flash_attention_grad(
        *qkv, Tensor(t["d_out"]), out, top, total, scale, deterministic=True, **ropes
    )
    expected = run_golden(case, t)
    for name, value in zip(DIFFERENTIABLE[:5], grads, strict=False):
        assert_rms(f"d_{name}", numpy(value), expected[f"d_{name}"], LIMIT["float16"])


def test_gradient_function_of_merged_keys() -> None:
    case = Case(merged=True, rope=0, packed=True, q_lengths=(2, 5), kv_lengths=(10, 40))
    t = tensors_of(case)
    query, key, indices = (Tensor(t[n]) for n in ("query", "key", "sparse_indices"))
    scale, ends = case.d**-0.5, dict(actual_seq_qlen=[2, 5], actual_seq_kvlen=[10, 40])
    out, top, total = sa.sparse_flash_attention(
        query,
        key,
        None,
        indices,
        scale,
        layout_query="TND",
        layout_kv="TND",
        actual_seq_lengths_query=[2, 5],
        actual_seq_lengths_kv=[10, 40],
        return_softmax_lse=True,
    )
    grads = sa.sparse_flash_attention_grad(
        query, key, None, indices, Tensor(t["d_out"]), out, top, total, scale, layout="TND", **ends
    )
    expected = run_golden(case, t)
    assert_rms("d_query", numpy(grads[0]), expected["d_query"], LIMIT["float16"])
    assert_rms("d_key", numpy(grads[1]), expected["d_key"], LIMIT["float16"])
    assert [g.shape for g in grads[2:]] == [(0,)] * 3


@pytest.mark.parametrize("empty", ["batch", "keys"])
def test_empty_tensors_give_zeros(empty: str) -> None:
    batch, s2 = (0, 4) if empty == "batch" else (1, 0)
    q, k = Tensor(np.zeros((batch, 2, 4, 16), np.float16)), Tensor(np.zeros((batch, s2, 1, 16), np.float16))
    ids = Tensor(np.zeros((batch, 2, 1, 3), np.int32))
    out, top, _ = sa.sparse_flash_attention(q, k, k, ids, 1.0, return_softmax_lse=True)
    assert out.shape == (batch, 2, 4, 16) and top.shape == (batch, 1, 2, 4)
    assert not numpy(out).any()


def call(**changes: Any) -> Any:
    """sparse_flash_attention of a small valid call with some arguments changed."""
    t = tensors_of(Case())
    args = dict(
        {n: Tensor(t[n]) for n in ("query", "key", "value", "sparse_indices", "query_rope", "key_rope")},
        scale_value=0.1,
    )
    return sa.sparse_flash_attention(**{**args, **changes})


REFUSED = {
    "layout": (dict(layout_query="SBH"), OpArgumentError, "layout_query is 'SBH'; accepted: layout_query in"),
    "layout_kv": (dict(layout_kv="TND"), OpArgumentError, "layout_kv = 'TND' and layout_query = 'BSND'"),
    "mode": (dict(sparse_mode=4), OpArgumentError, "sparse_mode is 4; accepted: sparse_mode in (0, 3)"),
    "tokens": (dict(pre_tokens=5), OpArgumentError, "pre_tokens = 5; accepted: pre_tokens in"),
    "attention_mode": (dict(attention_mode=1), OpArgumentError, "attention_mode is 1; accepted: attention_mode in"),
    "block_size": (
        dict(sparse_block_size=129),
        OpArgumentError,
        "sparse_block_size is 129; accepted: 1 <= sparse_block_size <= 128",
    ),
    "scale": (dict(scale_value=None), OpArgumentError, "scale_value is None (NoneType); accepted: a float"),
    "rank": (dict(query=zeros(5, 8, 64)), OpArgumentError, "rank of query is 3 (shape (5, 8, 64)); accepted: 4"),
    "head_dim": (dict(key=zeros(1, 40, 1, 32)), OpArgumentError, "axis 3 of key (D) is 32; accepted: 64, the D"),
    "batch": (dict(key=zeros(2, 40, 1, 64)), OpArgumentError, "axis 0 of key (B) is 2; accepted: 1, the B"),
    "heads": (
        dict(query=zeros(1, 5, 129, 64), query_rope=None, key_rope=None),
        OpArgumentError,
        "N1, N2 is N1 = 129 (query axis 2) and N2 = 1 (key axis 2); accepted: N2 >= 1 and N1 % N2 == 0",
    ),
    "dtype": (
        dict(query=zeros(1, 5, 8, 64, dtype=np.float32)),
        OpDtypeError,
        "dtype of query is float32; accepted: float16 or bfloat16",
    ),
    "key_dtype": (
        dict(key=zeros(1, 40, 1, 64, dtype=np.float32)),
        OpDtypeError,
        "dtype of key is float32; accepted: float16, the dtype of query",
    ),
    "value": (
        dict(value=zeros(1, 39, 1, 64)),
        OpArgumentError,
        "axis 1 of value (S2) is 39; accepted: 40, the S2 of key axis 1",
    ),
    "one_rope": (
        dict(key_rope=None),
        OpArgumentError,
        "key_rope = absent and query_rope = given; accepted: present(query_rope) == present(key_rope)",
    ),
    "rope_size": (
        dict(query_rope=zeros(1, 5, 8, 24), key_rope=zeros(1, 40, 1, 24)),
        OpArgumentError,
        "R is 24 (query_rope axis 3); accepted: R % 16 == 0 and 16 <= R <= 64",
    ),
    "indices": (
        dict(sparse_indices=zeros(1, 5, 16, dtype=np.int32)),
        OpArgumentError,
        "rank of sparse_indices is 3 (shape (1, 5, 16)); accepted: 4, shape (B, S1, N2, K)",
    ),
    "index_dtype": (
        dict(sparse_indices=zeros(1, 5, 1, 16, dtype=np.int64)),
        OpDtypeError,
        "dtype of sparse_indices is int64; accepted: int32",
    ),
    "counts": (
        dict(actual_seq_lengths_query=[6]),
        OpArgumentError,
        "actual_seq_lengths_query is [6]; accepted: integers from 0 to 5",
    ),
    "lengths": (
        dict(actual_seq_lengths_kv=[6, 7]),
        OpArgumentError,
        "axis 0 of actual_seq_lengths_kv (B) is 2; accepted: 1, the B of query axis 0",
    ),
    "numpy_lengths": (
        dict(actual_seq_lengths_kv=np.array([6], np.int32)),
        OpArgumentError,
        "actual_seq_lengths_kv is a numpy.ndarray of shape (1,) and dtype int32; accepted: a tensor of shape (B) or a "
        "list of integers or None",
    ),
    "block_table": (
        dict(block_table=zeros(1, 8, dtype=np.int32)),
        OpArgumentError,
        "block_table = given; accepted: layout_kv == 'PA_BSND' or not present(block_table)",
    ),
    "no_block_table": (
        dict(layout_kv="PA_BSND"),
        OpArgumentError,
        "actual_seq_lengths_kv = absent and block_table = absent; accepted: layout_kv != 'PA_BSND' or",
    ),
    "sinks": (dict(sinks=zeros(7, dtype=np.float32)), OpArgumentError, "axis 0 of sinks (N1) is 7; accepted: 8"),
}


@pytest.mark.parametrize(("changes", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(changes: dict, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        call(**changes)
    assert text in str(caught.value)


def test_refusal_in_a_graph() -> None:
    t = tensors_of(Case(rope=0))
    net = Attention(dict(attributes(Case(rope=0)), sparse_mode=2))
    inputs = [to_tensor(t.get(n)) for n in DIFFERENTIABLE]
    with pytest.raises(OpArgumentError, match="sparse_mode is 2"):
        net(*inputs, Tensor(t["sparse_indices"]), None, None)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (dict(out=zeros(1, 5, 8, 32)), "axis 3 of out (DV) is 32; accepted: 64, the DV of value axis 3"),
        (
            dict(softmax_sum=zeros(1, 1, 5, 16, dtype=np.float32)),
            "axis 3 of softmax_sum (shape (1, 1, 5, 16)) is 16; accepted: 8 (N1 // N2",
        ),
    ],
    ids=["out", "softmax_sum"],
)
def test_gradient_refusals(changes: dict, text: str) -> None:
    t = tensors_of(Case(rope=0))
    args = {n: Tensor(t[n]) for n in ("query", "key", "value", "sparse_indices", "d_out")}
    args |= {"out": args["d_out"]} | {n: zeros(1, 1, 5, 8, dtype=np.float32) for n in ("softmax_max", "softmax_sum")}
    with pytest.raises(OpArgumentError) as caught:
        sa.sparse_flash_attention_grad(**{**args, "scale_value": 0.1, **changes})
    assert "sparse_flash_attention_grad: " + text in str(caught.value)
