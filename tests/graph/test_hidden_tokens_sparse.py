# SPDX-License-Identifier: Apache-2.0
"""Sparse attention, the indexer and its loss: what lies beyond a length, behind packed sequences, in unused pages or in
tokens that no row selects may hold anything."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from hidden_checks import WithGradients, behind, check_hidden
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco

B, S1, S2, N1, N2, D, K = 2, 9, 70, 4, 2, 32, 24
QUERIES, KEYS = [5, 9], [33, 70]
T1, T2, Q_ENDS, KV_ENDS = 12, 80, [4, 9], [33, 60]
PAGE, TABLE = 16, [[3, 1, 0, 7, 7], [2, 5, 4, 6, 8]]


def made(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def indices_of(*lead: int, tokens: int = S2 - 5) -> np.ndarray:
    """K tokens of each row; the last five of S2 are in none."""
    rows = np.tile(np.arange(tokens, dtype=np.int32), (*lead, 1))
    return np.random.default_rng(9).permuted(rows, axis=-1)[..., :K]


def selected(indices: np.ndarray) -> np.ndarray:
    """(B, S2, heads, 1): tokens that some causal row selects."""
    found = np.zeros((B, S2, indices.shape[2], 1), bool)
    for b, i, n in np.ndindex(*indices.shape[:3]):
        row = indices[b, i, n]
        found[b, row[row <= S2 - S1 + i], n] = True
    return found


ROWS, TAILS = behind(QUERIES, S1)[..., None, None], behind(KEYS, S2)[..., None, None]
PACKED_ROWS, PACKED_TAILS = behind([9], T1)[0][:, None, None], behind([60], T2)[0][:, None, None]


@pytest.fixture(params=["Ascend910A", "Ascend910B1"])
def soc(request: pytest.FixtureRequest, mode: str) -> str:
    """Both chips op by op; in GRAPH mode the programs are the same."""
    if mode == "GRAPH" and request.param == "Ascend910A":
        pytest.skip("GRAPH mode on the other chip")
    mco.set_soc(request.param)
    return str(request.param)


class Attention(nn.Cell):
    """Lengths as tensors, of one form; every result."""

    def __init__(self, form: str, indices: np.ndarray):
        super().__init__()
        self.indices, self.layout = Tensor(indices), "TND" if form == "packed" else "BSND"
        lengths = {"lengths": (QUERIES, KEYS), "packed": (Q_ENDS, KV_ENDS), "unselected": (None, None)}[form]
        self.queries, self.keys = (None if x is None else Tensor(x, ms.int32) for x in lengths)

    def construct(self, query, key, value, query_rope, key_rope, sinks):
        return mco.ops.sparse_flash_attention(
            query, key, value, self.indices, 0.2, actual_seq_lengths_query=self.queries,
            actual_seq_lengths_kv=self.keys, query_rope=query_rope, key_rope=key_rope, layout_query=self.layout,
            layout_kv=self.layout, return_softmax_lse=True, sinks=sinks,
        )  # fmt: skip


@pytest.mark.graph_at_night("Ascend910B1-packed", "Ascend910B1-unselected")
@pytest.mark.parametrize("form", ["lengths", "packed", "unselected"])
def test_sparse_flash_attention(mode: str, soc: str, form: str) -> None:
    lead, keys = ((T1,), (T2,)) if form == "packed" else ((B, S1), (B, S2))
    indices = indices_of(*lead, N2, tokens=40 if form == "packed" else S2 - 5)
    statistics = (N2, T1, N1 // N2) if form == "packed" else (B, N2, S1, N1 // N2)
    arrays = made((*lead, N1, D), (*keys, N2, D), (*keys, N2, D), (*lead, N1, 16), (*keys, N2, 16), (N1,),
                  (*lead, N1, D), statistics, statistics)  # fmt: skip
    for i in (5, 7, 8):
        arrays[i] = arrays[i].astype(np.float32)
    if form == "unselected":
        hidden = dict.fromkeys((1, 2, 4), ~selected(indices))
    else:
        rows, tails = (PACKED_ROWS, PACKED_TAILS) if form == "packed" else (ROWS, TAILS)
        of_statistics = rows[:, 0].T[..., None] if form == "packed" else rows.swapaxes(1, 2)
        hidden = {0: rows, 1: tails, 2: tails, 3: rows, 4: tails, 6: rows, 7: of_statistics, 8: of_statistics}
    check_hidden(WithGradients(Attention(form, indices), 6), arrays, hidden)


class Indexer(nn.Cell):
    def __init__(self, mode: int, packed: bool):
        super().__init__()
        self.mode, self.layout = mode, "TND" if packed else "BSND"
        self.queries, self.keys = (Tensor(x, ms.int32) for x in ((Q_ENDS, KV_ENDS) if packed else (QUERIES, KEYS)))

    def construct(self, query, key, weights):
        return mco.ops.lightning_indexer(
            query, key, weights, actual_seq_lengths_query=self.queries, actual_seq_lengths_key=self.keys,
            layout_query=self.layout, layout_key=self.layout, sparse_count=K, sparse_mode=self.mode, return_value=True,
        )  # fmt: skip


@pytest.mark.graph_at_night("Ascend910B1-0-False", "Ascend910B1-0-True", "Ascend910B1-3-True")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("causal", [0, 3])
def test_lightning_indexer(mode: str, soc: str, causal: int, packed: bool) -> None:
    lead, keys = ((T1,), (T2,)) if packed else ((B, S1), (B, S2))
    rows, tails = (PACKED_ROWS, PACKED_TAILS) if packed else (ROWS, TAILS)
    arrays = made((*lead, N1, D), (*keys, 1, D), (*lead, N1))
    check_hidden(Indexer(causal, packed), arrays, {0: rows, 1: tails, 2: rows[..., 0]})


@pytest.mark.parametrize("op", ["sparse_flash_attention", "lightning_indexer"])
def test_unused_pages(op: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc("Ascend910B1")
    used, table = np.zeros((9, PAGE, 1, 1), bool), np.array(TABLE, np.int32)
    for b, length in enumerate(KEYS):
        for token in range(length):
            used[table[b, token // PAGE], token % PAGE] = True
    paged = dict(block_table=Tensor(table))

    def call(query: Tensor, key: Tensor, value: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        if op == "lightning_indexer":
            return mco.ops.lightning_indexer(
                query, key, weights, actual_seq_lengths_key=KEYS, layout_key="PA_BSND", sparse_count=K,
                return_value=True, **paged,
            )  # fmt: skip
        return mco.ops.sparse_flash_attention(
            query, key, value, Tensor(indices_of(B, S1, 1)), 0.2, actual_seq_lengths_kv=KEYS, layout_kv="PA_BSND",
            return_softmax_lse=True, **paged,
        )  # fmt: skip

    arrays = made((B, S1, N1, D), (9, PAGE, 1, D), (9, PAGE, 1, D), (B, S1, N1))
    check_hidden(call, arrays, {1: ~used, 2: ~used})


class IndexerLoss(nn.Cell):
    """The loss of one form, of fixed statistics."""

    def __init__(self, form: str, indices: np.ndarray):
        super().__init__()
        self.indices, self.layout = Tensor(indices), "TND" if form == "packed" else "BSND"
        lengths = {"lengths": (QUERIES, KEYS), "packed": (Q_ENDS, KV_ENDS), "unselected": (None, None)}[form]
        self.queries, self.keys = (None if x is None else Tensor(x, ms.int32) for x in lengths)

    def construct(self, query, key, query_index, key_index, weights):
        _, top, total = mco.ops.sparse_flash_attention(
            query, key, None, self.indices, 0.2, actual_seq_lengths_query=self.queries,
            actual_seq_lengths_kv=self.keys, layout_query=self.layout, layout_kv=self.layout, return_softmax_lse=True,
        )  # fmt: skip
        return mco.ops.indexer_kl_loss(
            query, key, query_index, key_index, weights, self.indices, top, total, None, None, self.queries, self.keys,
            scale_value=0.2, layout=self.layout,
        )  # fmt: skip


@pytest.mark.graph_at_night("Ascend910B1-packed", "Ascend910B1-unselected")
@pytest.mark.parametrize("form", ["lengths", "packed", "unselected"])
def test_indexer_kl_loss(mode: str, soc: str, form: str) -> None:
    lead, keys = ((T1,), (T2,)) if form == "packed" else ((B, S1), (B, S2))
    indices = indices_of(*lead, 1, tokens=40 if form == "packed" else S2 - 5)
    arrays = made((*lead, N1, D), (*keys, 1, D), (*lead, 2, 16), (*keys, 1, 16), (*lead, 2))
    if form == "unselected":
        hidden = dict.fromkeys((1, 3), ~selected(indices))
    else:
        rows, tails = (PACKED_ROWS, PACKED_TAILS) if form == "packed" else (ROWS, TAILS)
        hidden = {0: rows, 1: tails, 2: rows, 3: tails, 4: rows[..., 0]}
    check_hidden(WithGradients(IndexerLoss(form, indices), 5), [*arrays, np.float32(1.5)], hidden)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B1"])
@pytest.mark.parametrize("op", ["sparse_flash_attention_grad", "sparse_lightning_indexer_grad_kl_loss"])
def test_gradients_that_are_called_themselves(op: str, chip: str) -> None:
    """What the forward pass gave may hold anything there too."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(chip)
    attends = op == "sparse_flash_attention_grad"
    heads = N2 if attends else 1
    lengths = [Tensor(x, ms.int32) for x in (QUERIES, KEYS)]
    indices = Tensor(indices_of(B, S1, heads))
    query, key, value, d_out = made((B, S1, N1, D), (B, S2, heads, D), (B, S2, heads, D), (B, S1, N1, D))
    query_index, key_index, weights = made((B, S1, 2, 16), (B, S2, 1, 16), (B, S1, 2))
    out, top, total = mco.ops.sparse_flash_attention(
        Tensor(query), Tensor(key), Tensor(value) if attends else None, indices, 0.2,
        actual_seq_lengths_query=lengths[0], actual_seq_lengths_kv=lengths[1], return_softmax_lse=True,
    )  # fmt: skip
    statistics, of_statistics = [top.asnumpy(), total.asnumpy()], ROWS.swapaxes(1, 2)

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        if attends:
            q, k, v, d, o, m, total = given
            return mco.ops.sparse_flash_attention_grad(
                q, k, v, indices, d, o, m, total, 0.2, actual_seq_qlen=lengths[0], actual_seq_kvlen=lengths[1]
            )[:3]
        q, k, qi, ki, w, m, total = given
        return mco.ops.sparse_lightning_indexer_grad_kl_loss(
            q, k, qi, ki, w, indices, m, total, None, None, *lengths, scale_value=0.2
        )

    if attends:
        arrays = [query, key, value, d_out, ops.cast(out, ms.float16).asnumpy(), *statistics]
        hidden = [ROWS, TAILS, TAILS, ROWS, ROWS, of_statistics, of_statistics]
    else:
        arrays = [query, key, query_index, key_index, weights, *statistics]
        hidden = [ROWS, TAILS, ROWS, TAILS, ROWS[..., 0], of_statistics, of_statistics]
    check_hidden(call, arrays, dict(enumerate(hidden)))
