# SPDX-License-Identifier: Apache-2.0
"""lightning_indexer and the KL loss of the indexer in GRAPH and PYNATIVE mode."""

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
from sparse_cases import LIMIT, Case, tensors_of  # noqa: E402
from sparse_nets import numpy, zeros  # noqa: E402

from ms_custom_ops.errors import OpArgumentError, OpDtypeError  # noqa: E402
from ms_custom_ops.mindspore import sparse_attention as sa  # noqa: E402
from ms_custom_ops.op_impl.indexer_kl_loss.golden import sparse_lightning_indexer_grad_kl_loss as kl_golden  # noqa: E402
from ms_custom_ops.op_impl.lightning_indexer.golden import lightning_indexer as indexer_golden  # noqa: E402
from ms_custom_ops.testing import assert_rms  # noqa: E402


@pytest.fixture(params=["GRAPH", "PYNATIVE"], autouse=True)
def mode(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both execution modes; MindSpore's dumps go to the test's folder."""
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "GRAPH" else ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


def index_inputs(packed: bool = False) -> list[np.ndarray]:
    """query, key, weights of an indexer."""
    rng = np.random.default_rng(2)
    lead_q, lead_k = ((7,), (50,)) if packed else ((2, 3), (2, 40))
    return [rng.standard_normal(s).astype(np.float16) for s in ((*lead_q, 3, 32), (*lead_k, 1, 32), (*lead_q, 3))]


@pytest.mark.parametrize("packed", [False, True], ids=["BSND", "TND"])
@pytest.mark.parametrize("count", [5, 16])
def test_indexer(packed: bool, count: int) -> None:
    arrays = index_inputs(packed)
    layout = "TND" if packed else "BSND"
    args = dict(layout_query=layout, layout_key=layout, sparse_count=count)
    if packed:
        args.update(actual_seq_lengths_query=[3, 6], actual_seq_lengths_key=[20, 44])
    indices, values = sa.lightning_indexer(*[Tensor(x) for x in arrays], return_value=True, **args)
    expected = indexer_golden(*[x.astype(np.float64) for x in arrays], **args)
    np.testing.assert_array_equal(indices.asnumpy(), expected[0])
    np.testing.assert_allclose(numpy(values), expected[1], rtol=1e-3, atol=1e-3)
    assert sa.lightning_indexer(*[Tensor(x) for x in arrays], **args)[1].shape == (0,)


@pytest.mark.parametrize("packed", [False, True], ids=["BSND", "TND"])
def test_indexer_paged(packed: bool) -> None:
    rng = np.random.default_rng(3)
    table, counts = np.array([[3, 0, 2], [1, 4, 0]], np.int32), np.array([90, 41], np.int32)
    pages = rng.standard_normal((5, 32, 1, 16)).astype(np.float16)
    lead, ends = ((6,), [2, 5]) if packed else ((2, 3), None)
    query, weights = (rng.standard_normal((*lead, *s)).astype(np.float16) for s in ((4, 16), (4,)))
    args = dict(
        layout_query="TND" if packed else "BSND",
        layout_key="PA_BSND",
        sparse_count=24,
        actual_seq_lengths_query=ends,
        actual_seq_lengths_key=counts.tolist(),
    )
    indices, _ = sa.lightning_indexer(Tensor(query), Tensor(pages), Tensor(weights), block_table=Tensor(table), **args)
    wide = [x.astype(np.float64) for x in (query, pages, weights)]
    np.testing.assert_array_equal(indices.asnumpy(), indexer_golden(*wide, block_table=table, **args)[0])


@pytest.mark.parametrize("packed", [False, True], ids=["BSND", "TND"])
def test_kl_loss_and_its_gradient(packed: bool) -> None:
    case = (
        Case(merged=True, s1=7, s2=50, packed=True, q_lengths=(3, 6), kv_lengths=(20, 44))
        if packed
        else Case(merged=True, batch=2, s1=3, s2=40)
    )
    t, (qi, ki, w) = tensors_of(case), index_inputs(packed)
    layout, scale = "TND" if packed else "BSND", (case.d + case.rope) ** -0.5
    query, key, indices = (Tensor(t[n]) for n in ("query", "key", "sparse_indices"))
    ropes = dict(query_rope=Tensor(t["query_rope"]), key_rope=Tensor(t["key_rope"]))
    _, top, total = sa.sparse_flash_attention(
        query,
        key,
        None,
        indices,
        scale,
        layout_query=layout,
        layout_kv=layout,
        return_softmax_lse=True,
        actual_seq_lengths_query=case.q_lengths,
        actual_seq_lengths_kv=case.kv_lengths,
        **ropes,
    )

    def loss(query_index, key_index, weights):
        return (
            sa.indexer_kl_loss(
                query,
                key,
                query_index,
                key_index,
                weights,
                indices,
                top,
                total,
                actual_seq_qlen=case.q_lengths,
                actual_seq_klen=case.kv_lengths,
                scale_value=scale,
                layout=layout,
                **ropes,
            )
            * 2.0
        )

    value, grads = ms.value_and_grad(loss, (0, 1, 2))(Tensor(qi), Tensor(ki), Tensor(w))
    wide = {n: t[n].astype(np.float64) for n in ("query", "key", "query_rope", "key_rope")}
    expected = kl_golden(
        **wide,
        query_index=qi.astype(np.float64),
        key_index=ki.astype(np.float64),
        weights=w.astype(np.float64),
        sparse_indices=t["sparse_indices"],
        scale_value=scale,
        actual_seq_lengths_query=case.q_lengths,
        actual_seq_lengths_kv=case.kv_lengths,
        layout=layout,
    )
    assert float(value.asnumpy()) == pytest.approx(2 * expected.loss, rel=1e-5)
    for name, got in zip(("d_query_index", "d_key_index", "d_weights"), grads, strict=False):
        assert_rms(name, numpy(got), 2 * getattr(expected, name), LIMIT["float16"])


def index_call(**changes: Any) -> Any:
    """lightning_indexer of a small valid call with some arguments changed."""
    args = dict(zip(("query", "key", "weights"), [Tensor(x) for x in index_inputs()], strict=True), sparse_count=4)
    return sa.lightning_indexer(**{**args, **changes})


INDEXER_REFUSED = {
    "layout_key": (dict(layout_key="TND"), OpArgumentError, "layout_key, layout_query is layout_key = 'TND' and"),
    "count": (dict(sparse_count=0), OpArgumentError, "sparse_count is 0; accepted: 1 <= sparse_count <= 8192"),
    "heads": (dict(key=zeros(2, 40, 2, 32)), OpArgumentError, "axis 2 of key (shape (2, 40, 2, 32)) is 2; accepted: 1"),
    "weights": (dict(weights=zeros(2, 3, 4)), OpArgumentError, "axis 2 of weights (N1) is 4; accepted: 3"),
    "weights_dtype": (
        dict(weights=zeros(2, 3, 3, dtype=np.float64)),
        OpDtypeError,
        "dtype of weights is float64; accepted: float16 or float32",
    ),
    "dim": (
        dict(query=zeros(2, 3, 3, 24), key=zeros(2, 40, 1, 24)),
        OpArgumentError,
        "D is 24 (query axis 3); accepted: D % 16 == 0 and 16 <= D <= 256",
    ),
}


@pytest.mark.parametrize(("changes", "error", "text"), INDEXER_REFUSED.values(), ids=INDEXER_REFUSED.keys())
def test_indexer_refusals(changes: dict, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        index_call(**changes)
    assert "lightning_indexer: " + text in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            dict(softmax_max=zeros(2, 1, 3, 4, dtype=np.float32)),
            "axis 3 of softmax_max (N1) is 4; accepted: 8, the N1 of query axis 2",
        ),
        (dict(query_index=zeros(2, 4, 3, 32)), "axis 1 of query_index (S1) is 4; accepted: 3, the S1"),
        (dict(key=zeros(2, 40, 2, 64)), "axis 2 of key (shape (2, 40, 2, 64)) is 2; accepted: 1"),
        (dict(scale_value="x"), "scale_value is 'x' (str); accepted: a float"),
    ],
    ids=["statistics", "rows", "key_heads", "scale"],
)
def test_kl_refusals(changes: dict, text: str) -> None:
    t = tensors_of(Case(merged=True, batch=2, s1=3))
    args = {n: Tensor(t[n]) for n in ("query", "key", "sparse_indices", "query_rope", "key_rope")}
    args |= dict(zip(("query_index", "key_index", "weights"), [Tensor(x) for x in index_inputs()], strict=True))
    args |= {n: zeros(2, 1, 3, 8, dtype=np.float32) for n in ("softmax_max", "softmax_sum")}
    with pytest.raises(OpArgumentError) as caught:
        sa.sparse_lightning_indexer_grad_kl_loss(**{**args, "scale_value": 0.1, **changes})
    assert "sparse_lightning_indexer_grad_kl_loss: " + text in str(caught.value)
