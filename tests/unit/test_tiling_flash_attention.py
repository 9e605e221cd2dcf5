# SPDX-License-Identifier: Apache-2.0
"""Tiling plans of FlashAttention: they fit the chip, cover every row once, and refuse what cannot fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_custom_ops.errors import BudgetError, TilingError
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tiling.budget import BufferSpec, fits, peak_bytes, require, table
from ms_custom_ops.tiling.flash_attention import SPARSE_BLOCK, AttentionProblem, plan_backward, plan_forward
from ms_custom_ops.tiling.split import CoreSplit

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1", "Ascend910B4", "Ascend910_9391")


def problem(**kwargs: object) -> AttentionProblem:
    base = dict(batch=1, q_heads=8, kv_heads=8, q_len=1024, kv_len=1024, head_dim=64, dtype="float16")
    return AttentionProblem(**(base | kwargs))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", (plan_forward, plan_backward), ids=("forward", "backward"))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_plan_fits_its_chip(make, data) -> None:  # type: ignore[no-untyped-def]
    soc = get_soc(data.draw(st.sampled_from(SOCS)))
    p = problem(
        batch=data.draw(st.integers(1, 64)),
        q_len=data.draw(st.integers(1, 5000)),
        kv_len=data.draw(st.integers(1, 5000)),
        head_dim=16 * data.draw(st.integers(1, 16)),
        keep_prob=data.draw(st.sampled_from((1.0, 0.9))),
        has_attn_mask=data.draw(st.booleans()),
        has_real_shift=data.draw(st.booleans()),
        has_q_lengths=data.draw(st.booleans()),
        has_kv_lengths=data.draw(st.booleans()),
        prev_block_num=data.draw(st.sampled_from((1, 65536))),
    )
    plan = make(p, soc)
    assert fits(plan.buffers, soc), table(plan.buffers, soc)
    assert plan.q_block % 16 == 0 and plan.kv_block % 16 == 0
    assert plan.q_full * plan.q_block + plan.q_tail == p.q_len
    assert plan.kv_full * plan.kv_block + plan.kv_tail == p.kv_len
    if p.block_sparse:
        assert SPARSE_BLOCK % plan.q_block == 0 or plan.q_blocks == 1
        assert SPARSE_BLOCK % plan.kv_block == 0 or plan.kv_blocks == 1


@given(total=st.integers(1, 10000), cores=st.integers(1, 64))
def test_split_covers_every_task_once(total: int, cores: int) -> None:
    split = CoreSplit(total, cores)
    sizes = [split.quotient + (c < split.remainder) for c in range(split.block_num)]
    assert sum(sizes) == total and max(sizes) - min(sizes) <= 1
    assert [task for c in range(split.block_num) for task in split.tasks(c)] == list(range(total))
    dealt = CoreSplit(total, cores, dealt=True)
    assert sorted(task for c in range(dealt.block_num) for task in dealt.tasks(c)) == list(range(total))
    assert {len(dealt.tasks(c)) for c in range(dealt.block_num)} == set(sizes)


@settings(deadline=None)
@given(heads=st.integers(1, 40), length=st.integers(129, 5000), soc=st.sampled_from(SOCS))
def test_cores_of_a_causal_plan_see_about_as_many_keys(heads: int, length: int, soc: str) -> None:
    """Where tasks are dealt no core has more than another one but for the keys of one task, and less than it would have
    with the tasks of heads together."""
    p = problem(q_heads=heads, kv_heads=heads, q_len=length, kv_len=length, sparse_mode=3)
    plan = plan_forward(p, get_soc(soc))
    blocks, together = plan.q_blocks, CoreSplit(plan.split.total, plan.split.cores)
    dealt = replace(together, dealt=True)
    one, other = together.heaviest(lambda t: t % blocks + 1), dealt.heaviest(lambda t: blocks - t // heads)
    assert plan.split == (dealt if other < one else together)
    work = [sum(blocks - task // heads for task in dealt.tasks(c)) for c in range(dealt.block_num)]
    assert max(work) - min(work) <= blocks


@pytest.mark.parametrize("way", [{}, {"sparse_mode": 4, "pre_tokens": 64, "next_tokens": 0}, {"has_row_bounds": True}])
def test_tasks_that_weigh_the_same_are_not_dealt(way: dict) -> None:
    assert not plan_forward(problem(**way), get_soc("Ascend910B1")).split.dealt


@pytest.mark.parametrize(
    "strategy, lengths, blocks",
    [
        ("sparse", (1024, 1024), (128, 128)),
        ("xunfei", (1024, 1024), (128, 128)),
        ("sparse", (100, 70), (112, 80)),
        ("wukong", (4096, 4096), (64, 64)),
        ("wukong", (4096, 77), (64, 80)),
        ("wukong", (50, 1000), (64, 64)),
    ],
)
def test_named_strategies_have_the_public_block_sizes(strategy, lengths, blocks) -> None:  # type: ignore[no-untyped-def]
    plan = plan_forward(problem(q_len=lengths[0], kv_len=lengths[1]), get_soc("Ascend910A"), strategy)
    assert (plan.q_block, plan.kv_block) == blocks


def test_a_named_strategy_that_does_not_fit_says_what_does() -> None:
    with pytest.raises(
        BudgetError,
        match=r"'sparse' \(128x128\) at head size 256 does not fit Ascend910B1; accepted: 'auto' \(\d+x\d+\).*\n"
        r"(.|\n)*OVER",
    ):
        plan_forward(problem(head_dim=256), get_soc("Ascend910B1"), "sparse")


def test_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(TilingError, match="tiling_stgy_name is 'huge'; accepted: auto, sparse, wukong, xunfei"):
        plan_forward(problem(), get_soc("Ascend910A"), "huge")


def test_budget_takes_the_largest_phase() -> None:
    buffers = (
        BufferSpec("a", "ub", "float32", 16),
        BufferSpec("b", "ub", "float16", 100, "one"),
        BufferSpec("c", "ub", "float32", 8, "two"),
        BufferSpec("d", "l1", "float16", 16),
    )
    assert peak_bytes(buffers, "ub") == 64 + 224
    assert peak_bytes(buffers, "l1") == 32
    require(buffers, get_soc("Ascend910A"), "test", "")


def test_unknown_buffer_name_lists_the_known_ones() -> None:
    plan = plan_forward(problem(), get_soc("Ascend910A"))
    with pytest.raises(KeyError, match="plan has no buffer 'nope'"):
        plan.buffer("nope")
