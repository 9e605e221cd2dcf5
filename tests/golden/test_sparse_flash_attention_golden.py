# SPDX-License-Identifier: Apache-2.0
"""The golden of sparse_flash_attention against dense attention, finite differences and MindSpore's autograd."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.special import softmax

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.sparse_flash_attention.golden import sparse_flash_attention, sparse_flash_attention_grad
from ms_custom_ops.op_impl.sparse_flash_attention.selection import selected_tokens


@dataclass(frozen=True)
class Case:
    """B sequences of S1 queries and S2 keys (BSND), or packed with lengths (TND)."""

    batch: int = 1
    s1: int = 5
    s2: int = 17
    n1: int = 4
    n2: int = 1
    k: int = 8
    d: int = 16
    dv: int = 16
    rope: int = 0
    block: int = 1
    mode: int = 3
    q_lengths: tuple[int, ...] | None = None
    kv_lengths: tuple[int, ...] | None = None
    packed: bool = False
    sinks: bool = False
    repeats: bool = False
    merged: bool = False
    extra: dict = field(default_factory=dict)

    def tensors(self):
        """Keyword arguments of the golden, from a fixed seed."""
        rng = np.random.default_rng(11)
        lead_q, lead_k = (self.batch, self.s1), (self.batch, self.s2)
        if self.packed:
            lead_q, lead_k = (self.s1,), (self.s2,)
        out = {
            "query": rng.standard_normal((*lead_q, self.n1, self.d)),
            "key": rng.standard_normal((*lead_k, self.n2, self.d)),
            "value": None if self.merged else rng.standard_normal((*lead_k, self.n2, self.dv)),
            "sparse_indices": self.indices(rng, lead_q),
            "scale_value": self.d**-0.5,
            "sparse_block_size": self.block,
            "sparse_mode": self.mode,
            "actual_seq_lengths_query": self.q_lengths,
            "actual_seq_lengths_kv": self.kv_lengths,
        }
        if self.rope:
            out["query_rope"] = rng.standard_normal((*lead_q, self.n1, self.rope))
            out["key_rope"] = rng.standard_normal((*lead_k, self.n2, self.rope))
        if self.sinks:
            out["sinks"] = rng.standard_normal(self.n1)
        return out, rng.standard_normal((*lead_q, self.n1, self.d if self.merged else self.dv))

    def indices(self, rng, lead):
        """Random block ids, unique in a row unless ``repeats``, with random -1 tails."""
        blocks = -(-self.s2 // self.block)
        rows = int(np.prod(lead)) * self.n2
        ids = np.full((rows, self.k), -1, np.int32)
        for row in ids:
            count = min(self.k, blocks) if not self.repeats else self.k
            row[:count] = rng.integers(0, blocks, count) if self.repeats else rng.permutation(blocks)[:count]
            row[rng.integers(count // 2, count + 1) :] = -1
        return ids.reshape(*lead, self.n2, self.k)


CASES = {
    "bsnd-mode3-S1_5-S2_17-N1_4": Case(),
    "bsnd-mode0-rope": Case(mode=0, rope=8),
    "bsnd-mode3-rope-Dv_8": Case(rope=8, dv=8),
    "bsnd-N2_2": Case(n2=2, rope=4),
    "bsnd-block_4": Case(block=4, k=3, s2=30),
    "bsnd-block_3-mode0": Case(block=3, k=4, s2=20, mode=0),
    "bsnd-S1_15-S2_7-empty_rows": Case(s1=15, s2=7),
    "bsnd-lengths-zero": Case(batch=3, q_lengths=(5, 0, 3), kv_lengths=(17, 9, 0)),
    "bsnd-lengths-mode0": Case(batch=2, q_lengths=(4, 2), kv_lengths=(3, 17), mode=0),
    "tnd-mode3": Case(packed=True, s1=12, s2=40, q_lengths=(3, 3, 9), kv_lengths=(10, 30, 36)),
    "tnd-mode0-block_8-rope": Case(
        packed=True, s1=9, s2=50, q_lengths=(4, 9), kv_lengths=(20, 50), mode=0, block=8, k=3, rope=4
    ),
    "tnd-lengths-zero": Case(packed=True, s1=6, s2=30, q_lengths=(0, 6), kv_lengths=(10, 10)),
    "sinks": Case(sinks=True, batch=2, q_lengths=(5, 4), kv_lengths=(17, 2)),
    "repeated_ids": Case(repeats=True, mode=0),
    "merged_value-rope": Case(merged=True, rope=8),
    "D_512-N1_1": Case(d=512, dv=512, n1=1, rope=64, s2=40, k=16),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def run_forward(case, tensors):
    layout = "TND" if case.packed else "BSND"
    return sparse_flash_attention(**tensors, layout_query=layout)


def run_grad(case, tensors, d_out, **d_statistics):
    layout = "TND" if case.packed else "BSND"
    return sparse_flash_attention_grad(**tensors, d_out=d_out, layout=layout, **d_statistics)


@every_case
@pytest.mark.parametrize("statistics", [False, True], ids=["output", "output_and_statistics"])
def test_gradients_match_central_differences(case, statistics):
    tensors, d_out = case.tensors()
    rng = np.random.default_rng(3)
    results = run_forward(case, tensors)
    weights = [d_out, *(rng.standard_normal(x.shape) * statistics for x in results[1:])]
    d_statistics = dict(zip(("d_softmax_max", "d_softmax_sum"), weights[1:], strict=True)) if statistics else {}
    gradients = run_grad(case, tensors, d_out, **d_statistics)
    names = [n for n in ("query", "key", "value", "query_rope", "key_rope", "sinks") if tensors.get(n) is not None]
    for name in names:
        direction, step = rng.standard_normal(tensors[name].shape), 1e-5
        ends = [
            sum(
                np.sum(weight * x)
                for weight, x in zip(
                    weights, run_forward(case, {**tensors, name: tensors[name] + s * direction}), strict=True
                )
            )
            for s in (step, -step)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert np.sum(getattr(gradients, f"d_{name}") * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8), name


@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("block", [1, 4, 5])
def test_selecting_every_token_is_dense_attention(mode, block):
    s1, s2, n1, d = 15, 17, 2, 8
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((s1, n1, d)), rng.standard_normal((s2, 1, d)), rng.standard_normal((s2, 1, d))
    blocks = -(-s2 // block)
    ids = np.broadcast_to(np.arange(blocks), (1, s1, 1, blocks))
    out, peak, total = sparse_flash_attention(
        q[None], k[None], v[None], ids, 0.3, sparse_block_size=block, sparse_mode=mode
    )
    scores = 0.3 * np.einsum("ihd,jd->hij", q, k[:, 0])
    if mode == 3:
        scores = np.where(np.arange(s2)[None] > np.arange(s1)[:, None] + s2 - s1, -np.inf, scores)
    dense = np.einsum("hij,jd->ihd", softmax(scores, axis=-1), v[:, 0])
    np.testing.assert_allclose(out[0], dense, rtol=1e-13, atol=1e-14)
    log_sum = np.log(np.exp(scores).sum(-1))
    np.testing.assert_allclose((peak + np.log(total))[0, 0].T, log_sum, rtol=1e-13, atol=1e-13)


def autograd_of_composition(case, tensors, d_out):
    """Gradients of a masked dense composition by MindSpore; a mask counts how often a token is selected."""
    import mindspore as ms
    from mindspore import ops

    b, s1, s2, n1, n2 = case.batch, case.s1, case.s2, case.n1, case.n2
    q_lengths, kv_lengths = case.q_lengths or (s1,) * b, case.kv_lengths or (s2,) * b
    counts = np.zeros((b, n2, s1, s2))
    for i, n, t in np.ndindex(b, n2, s1):
        visible = kv_lengths[i] if case.mode == 0 else max(kv_lengths[i] - q_lengths[i] + t + 1, 0)
        if t < q_lengths[i]:
            np.add.at(counts[i, n, t], selected_tokens(tensors["sparse_indices"][i, t, n], visible, case.block), 1.0)
    counts = counts.repeat(n1 // n2, axis=1)
    scale = ms.Tensor(np.float64(tensors["scale_value"]))
    group = n1 // n2
    names = [n for n in ("query", "key", "value", "query_rope", "key_rope") if tensors.get(n) is not None]
    weight, some = ms.Tensor(counts), ms.Tensor((counts.sum(-1, keepdims=True) == 0).astype(np.float64))
    dout = ms.Tensor(d_out)

    def heads(x):
        return ops.transpose(x, (0, 2, 1, 3))

    def loss(*values):
        t = dict(zip(names, values, strict=False))
        k = heads(t["key"]).repeat_interleave(group, 1)
        s = ops.matmul(heads(t["query"]), ops.transpose(k, (0, 1, 3, 2)))
        if "query_rope" in t:
            kr = heads(t["key_rope"]).repeat_interleave(group, 1)
            s = s + ops.matmul(heads(t["query_rope"]), ops.transpose(kr, (0, 1, 3, 2)))
        e = weight * ops.exp(s * scale)
        p = e / (e.sum(-1, keepdims=True) + some)
        v = k if case.merged else heads(t["value"]).repeat_interleave(group, 1)
        return (heads(ops.matmul(p, v)) * dout).sum()

    inputs = [ms.Tensor(tensors[n]) for n in names]
    grads = ms.grad(loss, grad_position=tuple(range(len(names))))(*inputs)
    return {n: g.asnumpy() for n, g in zip(names, grads, strict=False)}


@pytest.fixture
def pynative():
    """The compositions are plain Python: they run eagerly, whatever mode another test has left."""
    import mindspore as ms

    before = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=before)


@pytest.mark.parametrize(
    "name",
    [
        "bsnd-mode3-S1_5-S2_17-N1_4",
        "bsnd-mode3-rope-Dv_8",
        "bsnd-N2_2",
        "bsnd-block_4",
        "bsnd-lengths-zero",
        "repeated_ids",
        "merged_value-rope",
    ],
)
def test_gradients_match_mindspore_autograd(name, pynative):
    case = CASES[name]
    tensors, d_out = case.tensors()
    gradients = run_grad(case, tensors, d_out)
    for argument, expected in autograd_of_composition(case, tensors, d_out).items():
        np.testing.assert_allclose(getattr(gradients, f"d_{argument}"), expected, rtol=1e-11, atol=1e-13)


@every_case
def test_gradient_from_the_given_output_is_the_same(case):
    tensors, d_out = case.tensors()
    out = run_forward(case, tensors)[0]
    exact = run_grad(case, tensors, d_out)
    given = run_grad(case, {**tensors, "attention_out": out}, d_out)
    for name, value in vars(exact).items():
        if value is not None:
            np.testing.assert_allclose(getattr(given, name), value, rtol=1e-10, atol=1e-12)


def test_packed_equals_one_sequence_at_a_time():
    case = CASES["tnd-mode3"]
    tensors, d_out = case.tensors()
    out, _, _ = run_forward(case, tensors)
    grads = run_grad(case, tensors, d_out)
    q0, k0 = 0, 0
    for q1, k1 in zip(case.q_lengths, case.kv_lengths, strict=False):
        part = {
            **tensors,
            **{n: tensors[n][None, q0:q1] for n in ("query", "sparse_indices")},
            **{n: tensors[n][None, k0:k1] for n in ("key", "value")},
            "actual_seq_lengths_query": None,
            "actual_seq_lengths_kv": None,
        }
        np.testing.assert_array_equal(out[q0:q1], sparse_flash_attention(**part)[0][0])
        alone = sparse_flash_attention_grad(**part, d_out=d_out[None, q0:q1])
        np.testing.assert_allclose(grads.d_key[k0:k1], alone.d_key[0], rtol=1e-14)
        q0, k0 = q1, k1
    assert not out[q0:].any() and not grads.d_key[k0:].any()


def test_paged_keys_equal_plain_keys():
    rng = np.random.default_rng(0)
    table, page, counts = np.array([[3, 0], [1, 4]]), 16, [30, 17]
    pages = rng.standard_normal((5, page, 1, 8))
    q, ids = rng.standard_normal((2, 3, 2, 8)), rng.permuted(np.tile(np.arange(32), (6, 1)), axis=1)
    ids = ids.reshape(2, 3, 1, 32)[..., :20]
    paged = sparse_flash_attention(
        q, pages, pages, ids, 0.4, block_table=table, layout_kv="PA_BSND", actual_seq_lengths_kv=counts
    )
    plain = pages[table].reshape(2, 32, 1, 8)
    expected = sparse_flash_attention(q, plain, plain, ids, 0.4, actual_seq_lengths_kv=counts)
    for a, b in zip(paged, expected, strict=False):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("ids", "visible", "block", "tokens"),
    [
        ([0, 2, 1], 3, 1, [0, 2, 1]),
        ([2, 0, 1], 2, 1, [0]),
        ([1, -1, 0], 9, 1, [1]),
        ([0, 1], 3, 2, [0, 1, 2]),
        ([1, 0], 3, 2, [2, 0, 1]),
        ([1, 0], 2, 2, []),
        ([0, 0], 5, 2, [0, 1, 0, 1]),
        ([0, 1], 0, 4, []),
    ],
    ids=[
        "plain",
        "future_id_cut",
        "ends_at_negative",
        "partial_last_block",
        "partial_block_first",
        "slots_by_visible",
        "repeated",
        "nothing_visible",
    ],
)
def test_selected_tokens(ids, visible, block, tokens):
    assert selected_tokens(ids, visible, block).tolist() == tokens


def test_gradient_of_unselected_keys_is_exactly_zero():
    case = CASES["bsnd-block_4"]
    tensors, d_out = case.tensors()
    tensors["sparse_indices"] = np.where(tensors["sparse_indices"] == 2, 0, tensors["sparse_indices"])
    gradients = run_grad(case, tensors, d_out)
    assert not gradients.d_key[:, 8:12].any() and not gradients.d_value[:, 8:12].any()


REFUSED = {
    "mode": (dict(sparse_mode=4), "sparse_flash_attention: sparse_mode is 4; accepted: 0 (no mask), 3 (causal"),
    "block": (dict(sparse_block_size=0), "sparse_block_size is 0; accepted: at least 1"),
    "layout": (dict(layout_query="SBH"), "layout_query is 'SBH'; accepted: BSND or TND"),
    "layout_kv": (dict(layout_kv="TND"), "layout_kv is 'TND'; accepted: 'BSND', as layout_query, or 'PA_BSND'"),
    "one_rope": (dict(query_rope=np.zeros((1, 5, 4, 8))), "query_rope, key_rope is one of the two"),
    "lengths": (dict(actual_seq_lengths_query=[6]), "actual_seq_lengths_query is [6]; accepted: counts from 0 to 5"),
    "no_prefix_sums": (dict(layout_query="TND"), "rank of query is 4 (shape (1, 5, 4, 16)); accepted: 3"),
    "paged": (dict(layout_kv="PA_BSND"), "block_table, actual_seq_lengths_kv is None; accepted: both"),
}


@pytest.mark.parametrize(("change", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(change, text):
    tensors, _ = Case().tensors()
    with pytest.raises(OpArgumentError) as error:
        sparse_flash_attention(**{**tensors, **change})
    assert text in str(error.value)
