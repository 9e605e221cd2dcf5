# SPDX-License-Identifier: Apache-2.0
"""Plan of lightning_indexer: which instructions put the list in order, and what fits the on-chip buffers."""

from __future__ import annotations

import pytest

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tiling.budget import fits, peak_bytes
from ms_custom_ops.tiling.lightning_indexer import PROPOSALS, RANKS, RECORDS, orders, plan_indexer
from ms_custom_ops.tiling.sparse_flash_attention_problem import SparseProblem


def problem(keys: int = 8192, heads: int = 64, head_dim: int = 128, count: int = 2048) -> SparseProblem:
    return SparseProblem(1, 64, 64, keys, keys, heads, 1, head_dim, head_dim, 0, count, "float16", 1.0, 1, False, 3)


@pytest.mark.parametrize(
    "soc, expected",
    [
        ("Ascend310", [RANKS]),
        ("Ascend910A", [RANKS]),
        ("Ascend310P3", [PROPOSALS, RANKS]),
        ("Ascend910B1", [RECORDS, RANKS]),
        ("Ascend910_9391", [RECORDS, RANKS]),
    ],
)
def test_orders_of_a_chip_are_those_whose_instructions_take_float32(soc: str, expected: list[str]) -> None:
    assert orders(problem(), get_soc(soc)) == expected


def test_proposals_hold_no_id_that_float32_does_not() -> None:
    soc = get_soc("Ascend310P3")
    assert orders(problem(1 << 24), soc) == [PROPOSALS, RANKS] and orders(problem((1 << 24) + 1), soc) == [RANKS]


@pytest.mark.parametrize(
    "soc, count, order",
    [
        ("Ascend910A", 2048, RANKS),
        ("Ascend310P3", 2048, PROPOSALS),
        ("Ascend310P3", 4096, RANKS),
        ("Ascend910B1", 2048, RECORDS),
        ("Ascend910B1", 8192, RECORDS),
    ],
)
@pytest.mark.parametrize("keys", (2048, 8192, 131072))
def test_order_of_a_plan(soc: str, count: int, order: str, keys: int) -> None:
    plan = plan_indexer(problem(keys, count=count), count, get_soc(soc))
    assert plan.order == order
    assert plan.listed >= count and plan.kept == (0 if plan.chunk >= keys else plan.listed)
    assert plan.candidates >= plan.kept + plan.chunk and plan.chunk % plan.tile == 0


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend310P3", "Ascend910B1"))
@pytest.mark.parametrize("count", (1, 15, 200, 2048, 3072, 8192))
@pytest.mark.parametrize("heads", (1, 64, 128))
@pytest.mark.parametrize("keys", (1, 17, 2049, 131072))
def test_plans_fit(soc: str, count: int, heads: int, keys: int) -> None:
    chip = get_soc(soc)
    plan = plan_indexer(problem(keys, heads, count=count), count, chip)
    assert fits(plan.buffers, chip) and 0 < peak_bytes(plan.buffers, "ub") <= chip.ub_bytes


def test_a_selection_has_as_many_new_keys_as_kept_ones_where_that_fits() -> None:
    """Otherwise most of the work would be on keys seen before."""
    plan = plan_indexer(problem(131072, 128), 2048, get_soc("Ascend910B1"))
    assert plan.tile < 256 and plan.chunk >= plan.kept


def test_budget_error_names_the_buffers_that_do_not_fit() -> None:
    with pytest.raises(BudgetError) as caught:
        plan_indexer(problem(count=60000, head_dim=16), 60000, get_soc("Ascend910B1"))
    text = str(caught.value)
    assert text.startswith("lightning_indexer: no tile of N1=64 D=16 K=60000 fits Ascend910B1:\n")
    assert "best" in text and "ub: peak" in text and "OVER" in text
