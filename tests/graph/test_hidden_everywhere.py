# SPDX-License-Identifier: Apache-2.0
"""Biases under a mask, rows behind packed sequences, masks of the other forms, and layers: what takes no part may hold
anything, forward and in every gradient (the rest: test_hidden_tokens, test_hidden_tokens_sparse, test_scan_lengths)."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from hidden_checks import WithGradients, WithWeights, behind, check_hidden
from mindspore import Tensor, nn

import ms_custom_ops as mco

B, N, S1, S2, D = 2, 4, 40, 70, 24
_MASK = np.random.default_rng(1).random((B, 1, S1, S2)) < 0.3
_MASK[..., 50:60] = _MASK[:, :, 7:9] = True  # keys that no row sees, rows that see no key
_DIAGONAL = np.arange(S2) - np.arange(S1)[:, None] - (S2 - S1)
KINDS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "mask": ({}, _MASK),
    "causal": (dict(sparse_mode=3), _DIAGONAL > 0),
    "band": (dict(sparse_mode=4, pre_tokens=9, next_tokens=4), (_DIAGONAL > 4) | (_DIAGONAL < -9)),
    "lengths": (
        dict(actual_seq_qlen=[33, S1], actual_seq_kvlen=[S2, 50]),
        (behind([33, S1], S1)[:, None, :, None] | behind([S2, 50], S2)[:, None, None]),
    ),
}


def made(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


class Biased(nn.Cell):
    def __init__(self, kind: str):
        super().__init__()
        self.attrs, hidden = KINDS[kind]
        self.mask = Tensor(hidden) if kind == "mask" else None

    def construct(self, query, key, value, bias):
        return mco.ops.flash_attention(query, key, value, self.mask, bias, **self.attrs)


@pytest.mark.graph_at_night(
    *[f"{kind}-{form}" for kind in ("causal", "band", "lengths") for form in ("rows", "one row")],
    *["mask-one row", "mask-shared"],
)
@pytest.mark.parametrize("form", ["rows", "one row", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_where_nothing_is_seen(mode: str, kind: str, form: str) -> None:
    """Its gradient too: 0, of one sign."""
    mco.set_soc("Ascend910A" if form == "shared" else "Ascend910B1")
    hidden = np.broadcast_to(KINDS[kind][1], (B, 1, S1, S2))
    hidden = {"rows": hidden, "one row": hidden.all(2, keepdims=True), "shared": hidden.all(0, keepdims=True)}[form]
    if not hidden.any():
        pytest.skip("every place is seen by some row")
    shape = (hidden.shape[0], N, *hidden.shape[2:])
    arrays = made((B, N, S1, D), (B, N, S2, D), (B, N, S2, D), shape, (B, N, S1, D))
    statistics = [x.astype(np.float32) for x in made((B, N, S1), (B, N, S1))]
    check_hidden(WithGradients(Biased(kind), 4), [*arrays, *statistics], {3: hidden})


class Score(nn.Cell):
    def __init__(self, layout: str):
        super().__init__()
        self.layout, self.mask = layout, Tensor(_MASK)

    def construct(self, query, key, value):
        return mco.ops.flash_attention_score(
            query, key, value, N, attn_mask=self.mask, scalar_value=0.2, input_layout=self.layout
        )


@pytest.mark.graph_at_night("BSH")
@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_scores_under_a_mask(mode: str, layout: str) -> None:
    mco.set_soc("Ascend910A")
    rows, keys = _MASK.all(3)[..., None], _MASK.all(2)[..., None]  # (B, 1, S, 1)
    shapes = [(B, N, S1, D), (B, N, S2, D), (B, N, S2, D), (B, N, S1, D)]
    arrays, hidden = made(*shapes), [rows, keys, keys, rows]
    if layout == "BSH":
        arrays = [x.swapaxes(1, 2).reshape(B, -1, N * D) for x in arrays]
        hidden = [x[:, 0] for x in hidden]
    check_hidden(WithGradients(Score(layout), 3), arrays, dict(enumerate(hidden)))


class PackedRows(nn.Cell):
    def __init__(self, tensors: bool):
        super().__init__()
        ends = [5, 33], [30, 60]
        self.q_ends, self.kv_ends = (Tensor(x, ms.int32) if tensors else x for x in ends)

    def construct(self, query, key, value):
        return mco.ops.flash_attention(
            query, key, value, actual_seq_qlen=self.q_ends, actual_seq_kvlen=self.kv_ends, layout="TND", sparse_mode=3
        )


@pytest.mark.graph_at_night("lists")
@pytest.mark.parametrize("tensors", [False, True], ids=["lists", "tensors"])
def test_rows_behind_packed_sequences(mode: str, tensors: bool) -> None:
    mco.set_soc("Ascend910B1" if tensors else "Ascend910A")
    arrays = made((S1, N, D), (S2, N, D), (S2, N, D), (S1, N, D))
    statistics = [x.astype(np.float32) for x in made((N, S1), (N, S1))]
    rows, keys = behind([33], S1)[0][:, None, None], behind([60], S2)[0][:, None, None]
    hidden = {0: rows, 1: keys, 2: keys, 3: rows, 4: rows[..., 0].T, 5: rows[..., 0].T}
    found = check_hidden(WithGradients(PackedRows(tensors), 3), [*arrays, *statistics], hidden)
    assert not found[0][33:].any()


class Rounded(nn.Cell):
    """float32 operands that are rounded, and dropout."""

    def construct(self, query, key, value):
        return mco.ops.flash_attention(
            query, key, value, actual_seq_kvlen=[50, 61], compute_dtype="float16", keep_prob=0.8, seed=3
        )[0]


@pytest.mark.nightly
def test_float32_operands_and_dropout(mode: str) -> None:
    shapes = (B, N, S1, D), (B, N, S2, D), (B, N, S2, D), (B, N, S1, D)
    keys = behind([50, 61], S2)[:, None, :, None]
    check_hidden(WithGradients(Rounded(), 3), [x.astype(np.float32) for x in made(*shapes)], {1: keys, 2: keys})


class Masked(nn.Cell):
    def __init__(self):
        super().__init__()
        self.attention, self.mask = mco.nn.FlashAttention(D, N), Tensor(_MASK[:, 0].astype(np.float16))

    def construct(self, query, key, value):
        return self.attention(query, key, value, self.mask)


@pytest.mark.graph_at_night("Ascend910B1")
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_flash_attention_layer(mode: str, soc: str) -> None:
    mco.set_soc(soc)
    rows, keys = _MASK.all(3)[..., None], _MASK.all(2)[..., None]
    arrays = made((B, N, S1, D), (B, N, S2, D), (B, N, S2, D), (B, N, S1, D))
    check_hidden(WithGradients(Masked(), 3), arrays, {0: rows, 1: keys, 2: keys, 3: rows})


class Latent(nn.Cell):
    """nn.SparseMLA with lengths."""

    def __init__(self, dense: bool):
        super().__init__()
        self.dense, self.lengths = dense, Tensor([17, 9], ms.int32)
        self.layer = mco.nn.SparseMLA(
            24, 2, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=16, v_head_dim=12,
            index_n_heads=2, index_head_dim=32, index_topk=6, max_length=17, seed=0,
        )  # fmt: skip

    def construct(self, x):
        return self.layer(x, self.lengths, self.dense)


class LatentWithGradients(nn.Cell):
    """Sum of the outputs' products with fixed numbers and the KL loss; gradients of x and every weight."""

    def __init__(self, dense: bool):
        super().__init__()
        self.net = Latent(dense)
        self.weights = ms.ParameterTuple(self.net.trainable_params())
        self.grad = ops_grad()

    def construct(self, x, d_out):
        return self.net(x), self.grad(self.net, self.weights)(x, (d_out, Tensor(1.0, ms.float32)))


def ops_grad() -> Any:
    return ms.ops.GradOperation(get_all=True, get_by_list=True, sens_param=True)


@pytest.mark.graph_at_night("dense", "sparse")
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
def test_sparse_mla_layer(mode: str, dense: bool) -> None:
    mco.set_soc("Ascend910B1" if dense else "Ascend910A")
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((2, 17, 24)).astype(np.float32) for _ in range(2)]
    rows = behind([17, 9], 17)[..., None]
    found = check_hidden(LatentWithGradients(dense), arrays, {0: rows, 1: rows})
    assert len(found) == 2 + 1 + len(Latent(dense).trainable_params())
    assert not found[2][1, 9:].any()


class Mixer(nn.Cell):
    """nn.Mamba2 over packed sequences with a tail."""

    def __init__(self):
        super().__init__()
        self.layer = mco.nn.Mamba2(24, d_state=16, headdim=16, chunk_size=16, seed=0)
        self.cu = Tensor([0, 7, 19], ms.int32)

    def construct(self, u):
        return self.layer(u, cu_seqlens=self.cu)


def test_mamba2_layer(mode: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((1, 41, 24)).astype(np.float32) for _ in range(2)]
    check_hidden(WithWeights(Mixer()), arrays, {0: behind([19], 41)[..., None]})
