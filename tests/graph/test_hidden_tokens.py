# SPDX-License-Identifier: Apache-2.0
"""NaN and Inf reach the rows that see them and no other: beyond a length, under a mask, outside a band results are
those without them, bit for bit, whether no row sees the place or only some rows of a tile do."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import random
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.lower.run import run_public
from ms_custom_ops.op_impl.flash_attention import golden

B, N1, N2, S1, S2, D = 2, 4, 2, 70, 150, 24
LENGTHS = {"actual_seq_qlen": [33, 64], "actual_seq_kvlen": [130, 50]}
_MASK = np.random.default_rng(0).random((B, N1, S1, S2)) < 0.3
_MASK[0, :, :, 100:] = _MASK[1, :, 60:] = _MASK[1, :2, :, 3] = True
CASES: dict[str, dict[str, Any]] = {
    "lengths": LENGTHS,
    "causal lengths": {**LENGTHS, "sparse_mode": 3},
    "mask": {"attn_mask": _MASK},
    "mask and lengths": {"attn_mask": _MASK[1, 0], **LENGTHS},
    "band": {"sparse_mode": 4, "pre_tokens": 5, "next_tokens": -3},
    "blocks": {"next_block_num": 0},
}
NAMES = ("query", "key", "value", "d_out")
PLACES = {"causal lengths": 40, "mask": 40, "band": 100}  # a key that some rows of a tile see


def visible(case: dict[str, Any]) -> np.ndarray:
    """(B, N1, S1, S2), the golden's matrix of what each row sees."""
    q, k = np.zeros((B, N1, S1, 1)), np.zeros((B, N2, S2, 1))
    return golden._prepare("test", q, k, k, case.get("attn_mask"), None, None,
                           *(case.get(name) for name in LENGTHS), 1.0, 1.0, (0, (0, 0)), case.get("sparse_mode", 0),
                           case.get("pre_tokens", 0), case.get("next_tokens", 0),
                           case.get("prev_block_num", 65536), case.get("next_block_num", 65536)).visible  # fmt: skip


def rows_seen(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(B, N1, S1, 1) and (B, N2, S2, 1): queries that see a key, keys that a query sees."""
    seen = visible(case)
    return seen.any(-1)[..., None], seen.reshape(B, N2, -1, S1, S2).any((2, 3))[..., None]


def plain() -> list[np.ndarray]:
    shapes = ((N1, S1), (N2, S2), (N2, S2), (N1, S1))
    return [random(B, *shape, D, seed=i) for i, shape in enumerate(shapes)]


def filled(case: dict[str, Any], fill: float) -> list[np.ndarray]:
    """Operands with ``fill`` and its sign in turn in rows that take no part."""
    queries, keys = rows_seen(case)
    hidden = np.where(np.arange(D) % 2, fill, np.sign(fill)).astype(np.float16)
    return [np.where(kept, x, hidden) for x, kept in zip(plain(), (queries, keys, keys, queries), strict=True)]


class Loss(nn.Cell):
    """Depends on the output."""

    def __init__(self, case: dict[str, Any], tensors: bool):
        super().__init__()
        self.mask = Tensor(case["attn_mask"]) if "attn_mask" in case else None
        lengths = [case.get(name) for name in LENGTHS]
        self.lengths = tuple(Tensor(x, ms.int32) if tensors and x else x for x in lengths)
        self.numbers = {k: v for k, v in case.items() if isinstance(v, int)}

    def construct(self, query: Tensor, key: Tensor, value: Tensor, d_out: Tensor) -> Tensor:
        return ops.cast(self.results(query, key, value)[0], ms.float32) * ops.cast(d_out, ms.float32)

    def results(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return mco.ops.flash_attention(
            query, key, value, self.mask, None, None, self.lengths[0], self.lengths[1], **self.numbers
        )


class Results(Loss):
    def construct(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return self.results(query, key, value)


class Run:
    """Results and gradients of one case; a graph is built once."""

    def __init__(self, case: dict[str, Any], dtype: Any, tensors: bool):
        self.results, self.dtype = Results(case, tensors), dtype
        self.gradients = ms.grad(Loss(case, tensors), (0, 1, 2))

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        operands = [ops.cast(Tensor(x), self.dtype) for x in arrays]
        found = (*self.results(*operands[:3]), *self.gradients(*operands))
        return [ops.cast(x, ms.float32).asnumpy() for x in found]


def check_no_influence(case: str, dtype: Any, tensors: bool) -> None:
    run = Run(CASES[case], dtype, tensors)
    wanted = run(filled(CASES[case], 0.0))
    assert all(np.isfinite(x).all() for x in wanted)
    for fill in (np.nan, -np.inf):
        for x, y in zip(run(filled(CASES[case], fill)), wanted, strict=True):
            assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("soc, dtype", [("Ascend910A", ms.float16), ("Ascend910B1", ms.bfloat16)])
def test_what_takes_no_part_has_no_influence(soc: str, dtype: Any, case: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(soc)
    check_no_influence(case, dtype, tensors=soc == "Ascend910A")


@pytest.mark.parametrize("case", ["causal lengths", "mask and lengths"])
def test_what_takes_no_part_has_no_influence_in_a_graph(case: str) -> None:
    check_no_influence(case, ms.float16, tensors=True)  # lists would be constants of the graph


def touched(case: dict[str, Any], name: str, at: int) -> list[np.ndarray]:
    """For each result and gradient the rows (axis 2) that position ``at`` of ``name`` may change."""
    seen = visible(case)
    groups = seen.reshape(B, N2, -1, S1, S2)
    if name in ("key", "value"):
        queries = seen[..., at].any(1, keepdims=True).repeat(N1, 1)
    else:
        queries = np.zeros((B, N1, S1), bool)
        queries[:, :, at] = True
    keys = (groups & queries.reshape(B, N2, -1, S1, 1)).any((2, 3))
    stays = np.zeros_like(queries)
    out, stats = (stays if name == "d_out" else queries), (stays if name in ("value", "d_out") else queries)
    return [out, stats, stats, queries, keys, keys]


def check_some_rows(case: str, dtype: Any) -> None:
    """One position at a time, in the middle of the tiles."""
    run = Run(CASES[case], dtype, True)
    wanted = run(plain())
    key = PLACES[case]
    places = (("key", key, np.nan), ("value", key + 1, -np.inf), ("query", 20, np.nan), ("d_out", 21, np.inf))
    for name, at, fill in places:
        arrays = plain()
        arrays[NAMES.index(name)][:, :, at, 3:] = fill
        changed = touched(CASES[case], name, at)
        assert all(rows.any() and not rows.all() for rows in (changed[3], changed[4])), "a place that proves nothing"
        found = run(arrays)
        assert not np.isfinite(found[3]).all() or dtype == ms.float16, "nobody saw it"
        for x, y, rows in zip(found, wanted, changed, strict=True):
            assert x[~rows].tobytes() == y[~rows].tobytes(), (name, at)


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize("soc, dtype", [("Ascend910A", ms.float16), ("Ascend910B1", ms.bfloat16)])
def test_rows_of_a_tile_that_do_not_see_it_are_as_without_it(soc: str, dtype: Any, case: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(soc)
    check_some_rows(case, dtype)


@pytest.mark.parametrize("case", ["causal lengths", "mask"])
def test_rows_of_a_tile_that_do_not_see_it_are_as_without_it_in_a_graph(case: str) -> None:
    check_some_rows(case, ms.float16)


def test_arrays_take_the_same_way() -> None:
    case, arrays = CASES["mask and lengths"], {}
    for fill in (0.0, np.nan):
        given = dict(zip(NAMES[:3], filled(case, fill), strict=False))
        arrays[fill] = run_public("flash_attention", {**given, **case}, {})
    for name, x in arrays[0.0].items():
        assert arrays[np.nan][name].tobytes() == x.tobytes(), name


def test_golden_with_nan_in_hidden_rows() -> None:
    case = CASES["causal lengths"]
    found = []
    for fill in (0.0, np.nan):
        q, k, v, d_out = filled(case, fill)
        found.append([*golden.flash_attention(q, k, v, **case), *golden.flash_attention_grad(q, k, v, d_out, **case)])
    for x, y in zip(*found, strict=True):
        assert x.tobytes() == y.tobytes()
