# SPDX-License-Identifier: Apache-2.0
"""lightning_indexer and the KL loss of the indexer against their goldens, without MindSpore."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc import get_soc
from ms_custom_ops.testing import assert_rms
from ms_custom_ops.tiling.lightning_indexer import plan_indexer
from ms_custom_ops.tiling.lightning_indexer_kl import plan_kl
from ms_custom_ops.tiling.sparse_flash_attention_problem import SparseProblem

sys.path.insert(0, str(Path(__file__).parent))
from indexer_cases import IndexCase, KlCase, golden_indexer, golden_kl, index_tensors, kl_tensors, run_indexer, run_kl
from sparse_cases import LIMIT, Case

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")

INDEX_CASES = [
    IndexCase(),
    IndexCase(s1=1, s2=1, n1=1, count=1),
    IndexCase(batch=2, s1=5, s2=70, n1=3, d=32, count=100, mode=0),
    IndexCase(s1=4, s2=300, n1=16, d=64, count=64, ties=True),
    IndexCase(s1=3, s2=7, n1=17, count=5),
    IndexCase(s1=7, s2=5, n1=8, count=3),
    IndexCase(batch=3, q_lengths=(3, 0, 2), kv_lengths=(40, 9, 0), count=15),
    IndexCase(packed=True, s1=9, s2=60, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55), count=17),
    IndexCase(s1=2, s2=700, n1=64, d=128, count=200),
    IndexCase(s1=2, s2=40000, n1=2, count=100, mode=0),
    IndexCase(s1=2, s2=17000, n1=2, count=70, ties=True),
]


def check_indexer(case: IndexCase, soc: str, engine: str = "native") -> None:
    """The kernel's keys are the golden's, or score as well: float32 sums may swap neighbours that nearly tie."""
    tensors = index_tensors(case)
    (indices, values), (wanted, scores) = run_indexer(case, tensors, soc, engine), golden_indexer(case, tensors)
    size = np.abs(scores).max() + 1.0
    np.testing.assert_allclose(values, scores, rtol=1e-5, atol=1e-5 * size)
    np.testing.assert_array_equal(indices < 0, wanted < 0)
    swapped = indices != wanted
    assert swapped.mean() <= 0.01
    if case.ties:
        assert not swapped.any()
    for row in indices.reshape(-1, case.count):
        used = row[row >= 0]
        assert len(np.unique(used)) == len(used)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", INDEX_CASES, ids=lambda c: c.id)
def test_indexer(case: IndexCase, soc: str) -> None:
    check_indexer(case, soc)


def test_indexer_bfloat16() -> None:
    check_indexer(IndexCase(dtype="bfloat16", s1=4, s2=200, count=33), "Ascend910B1")


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
def test_indexer_reference_engine(soc: str) -> None:
    check_indexer(IndexCase(s1=2, s2=33, count=9, ties=True), soc, "reference")


def test_all_scores_zero_select_the_first_keys() -> None:
    case = IndexCase(s1=1, s2=100, count=10, mode=0)
    tensors = index_tensors(case)
    tensors[2][:] = 0
    indices, values = run_indexer(case, tensors, "Ascend910B1")
    assert indices[0, 0, 0].tolist() == list(range(10)) and not values.any()


KL_CASES = [
    KlCase(Case(merged=True)),
    KlCase(Case(merged=True, s1=1, s2=1, k=1, n1=1, rope=0), 1, 16),
    KlCase(Case(merged=True, s2=300, k=150, n1=20, rope=0), 8, 64, 0.01),
    KlCase(Case(merged=True, s2=300, k=256, s1=3, full_rows=True), 17, 16),
    KlCase(Case(merged=True, packed=True, s1=9, s2=60, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55)), 17, 16),
    KlCase(Case(merged=True, s1=15, s2=7, k=8, batch=2), 4, 16),
    KlCase(Case(merged=True, batch=3, q_lengths=(5, 0, 3), kv_lengths=(40, 9, 0)), 3, 48),
    KlCase(Case(merged=True, s1=2, s2=200, n1=128, k=128, d=512, rope=64, full_rows=True), 64, 128, 0.01),
]


def check_kl(case: KlCase, soc: str, engine: str = "native", deterministic: bool = False) -> None:
    t, index = kl_tensors(case)
    actual, expected = run_kl(case, t, index, soc, engine, deterministic), golden_kl(case, t, index)
    assert actual["loss"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-5)
    for name in ("d_query_index", "d_key_index", "d_weights"):
        wanted = getattr(expected, name)
        if np.abs(wanted).max() < 1e-12:  # one key: softmax and target are both 1
            assert np.abs(actual[name].astype(np.float64)).max() < 1e-6, name
            continue
        assert_rms(name, actual[name], wanted, LIMIT[case.main.dtype])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", KL_CASES, ids=lambda c: c.id)
def test_kl_loss(case: KlCase, soc: str) -> None:
    check_kl(case, soc)


@pytest.mark.parametrize("case", KL_CASES[:6], ids=lambda c: c.id)
def test_kl_loss_deterministic_and_bfloat16(case: KlCase) -> None:
    check_kl(replace(case, main=replace(case.main, dtype="bfloat16")), "Ascend910B1", deterministic=True)


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
def test_kl_loss_reference_engine(soc: str) -> None:
    check_kl(KlCase(Case(merged=True, s1=2), 3, 16), soc, "reference")


def test_gradients_of_index_keys_never_selected_are_exactly_zero() -> None:
    case = KlCase(Case(merged=True, s1=4, s2=100, k=24, full_rows=True, mode=0))
    t, index = kl_tensors(case)
    t["sparse_indices"][t["sparse_indices"] >= 50] -= 50
    d_key = run_kl(case, t, index, "Ascend910A")["d_key_index"]
    assert not d_key[:, 50:].any() and d_key[:, :50].any()


def problem(head_dim: int, slots: int = 2048) -> SparseProblem:
    """A problem of the documented size but for the head size."""
    return SparseProblem(
        1, 64, 64, 131072, 131072, 64, 1, head_dim, head_dim, 64, slots, "float16", 0.1, 1, False, 3, merged=True
    )


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("count", (1, 2048, 8192))
def test_plans_fit_at_the_documented_sizes(soc: str, count: int) -> None:
    plan = plan_indexer(problem(128), count, get_soc(soc))
    assert plan.chunk % plan.tile == 0 and plan.kept >= count
    assert plan_kl(problem(512, -(-count // 8) * 8), 64, 128, get_soc(soc), False).head_rows >= 16


def test_no_plan_is_an_error_with_the_buffers() -> None:
    with pytest.raises(BudgetError, match=r"lightning_indexer: no tile of N1=64 D=8192 K=8 fits Ascend910B1:\n"):
        plan_indexer(problem(8192), 8, get_soc("Ascend910B1"))
    with pytest.raises(
        BudgetError, match=r"sparse_lightning_indexer_grad_kl_loss: no tile of N1=64 D=8192 K=2048 fits"
    ):
        plan_kl(problem(8192), 64, 128, get_soc("Ascend910A"), False)
