# SPDX-License-Identifier: Apache-2.0
"""The sparse flash attention kernels against the float64 golden, without MindSpore, on both chip families."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.op_impl.sparse_flash_attention import golden
from ms_custom_ops.soc import get_soc
from ms_custom_ops.testing import assert_rms
from ms_custom_ops.tiling.budget import peak_bytes
from ms_custom_ops.tiling.sparse_flash_attention import plan_backward, plan_forward
from ms_custom_ops.tiling.sparse_flash_attention_problem import SparseProblem

sys.path.insert(0, str(Path(__file__).parent))
import sparse_cases
from sparse_cases import (
    FORWARD_INPUTS,
    LIMIT,
    Case,
    primitive_tensors,
    run_backward,
    run_forward,
    run_golden,
    run_kernels,
    tensors_of,
)

import ms_custom_ops as mco

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")

CASES = [
    Case(s1=1, s2=1, n1=1, k=1, d=16, rope=0),
    Case(),
    Case(mode=0, rope=0, n1=3),
    Case(s1=3, s2=200, k=150, full_rows=True),
    Case(s1=3, s2=300, k=256, n1=17, d=48, dv=32, mode=0, full_rows=True),
    Case(s1=15, s2=7, k=8, note="empty_rows"),
    Case(batch=3, q_lengths=(5, 0, 3), kv_lengths=(40, 9, 0), sinks=True),
    Case(batch=2, q_lengths=(4, 2), kv_lengths=(3, 40), mode=0),
    Case(block=8, k=4, s2=60, s1=6),
    Case(block=64, k=3, s2=300, s1=4, n1=16, merged=True),
    Case(block=16, k=17, s2=333, s1=5, mode=0, full_rows=True),
    Case(block=3, k=5, n1=8, n2=2),
    Case(block=20, k=40, s2=300, s1=4, n1=17, mode=0),
    Case(block=128, k=2, s2=200, s1=3, rope=0),
    Case(block=2, k=70, s2=200, s1=3, full_rows=True),
    Case(packed=True, s1=9, s2=60, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55)),
    Case(packed=True, s1=9, s2=60, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55), merged=True, block=4, k=7),
    Case(packed=True, s1=6, s2=30, q_lengths=(0, 6), kv_lengths=(10, 10), sinks=True, mode=0),
    Case(s1=2, s2=150, n1=8, k=130, d=512, rope=64, full_rows=True),
    Case(s1=2, s2=140, n1=128, k=64, d=64, rope=16),
    Case(s1=2, s2=140, n1=128, k=64, d=512, rope=64, merged=True),
    Case(s1=2, s2=140, n1=80, k=64, d=512, rope=0),
    Case(s1=2, s2=300, n1=63, k=256, d=512, rope=64, mode=0, full_rows=True, sinks=True),
    Case(batch=3, q_lengths=(5, 0, 3), kv_lengths=(40, 9, 1), sinks=True, statistics=True),
    Case(packed=True, s1=9, s2=60, n1=80, q_lengths=(3, 3, 8), kv_lengths=(20, 30, 55), block=4, k=7, statistics=True),
]


def check(case: Case, soc: str, engine: str = "native", deterministic: bool = False, rounded_out: bool = False) -> None:
    """Every output and gradient within the limit of its dtype. ``rounded_out``: the golden gradient takes attention_out
    from the kernel, as the op does."""
    t = tensors_of(case)
    actual = run_kernels(case, t, soc, engine, deterministic)
    expected = run_golden(case, t, actual["attention_out"] if rounded_out else None)
    for name, wanted in expected.items():
        limit = 1e-5 if name.startswith("softmax") else LIMIT[case.dtype]
        value = actual[name].astype(np.float64)
        if not wanted.any():  # one key: the exact gradient of the scores is 0, so the error is measured against d_out
            assert np.sqrt(np.mean(value**2)) <= limit * np.sqrt(np.mean(t["d_out"].astype(np.float64) ** 2)), name
            continue
        assert_rms(name, value, wanted, limit)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_float16(case: Case, soc: str) -> None:
    check(case, soc)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_bfloat16(case: Case) -> None:
    check(replace(case, dtype="bfloat16"), "Ascend910B1")


@pytest.mark.parametrize("case", [c for c in CASES if c.s1 * c.n1 <= 60], ids=lambda c: c.id)
def test_deterministic(case: Case) -> None:
    check(case, "Ascend910B1", deterministic=True)


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
@pytest.mark.parametrize(
    "case",
    [
        Case(s1=2),
        Case(block=8, k=4, s2=60, s1=3),
        Case(packed=True, s1=5, s2=60, q_lengths=(3, 3, 4), kv_lengths=(20, 30, 55), sinks=True),
    ],
    ids=lambda c: c.id,
)
def test_reference_engine(case: Case, soc: str) -> None:
    check(case, soc, "reference")


@pytest.mark.nightly
@pytest.mark.parametrize("n1", (1, 8, 64, 128), ids=lambda n: f"N1_{n}")
@pytest.mark.parametrize("block", (1, 8, 16, 64), ids=lambda b: f"block_{b}")
@pytest.mark.parametrize("mode", (0, 3), ids=lambda m: f"mode{m}")
@pytest.mark.parametrize("packed", (False, True), ids=lambda p: "TND" if p else "BSND")
@pytest.mark.parametrize("lengths", ("s1<s2", "s1>s2", "zero"))
def test_grid(lengths: str, packed: bool, mode: int, block: int, n1: int) -> None:
    s1, s2 = (6, 200) if lengths != "s1>s2" else (20, 9)
    q_lengths = kv_lengths = None
    if packed:
        q_lengths, kv_lengths = ((0, s1 - 1), (0, s2 - 3)) if lengths == "zero" else ((2, s1), (4, s2))
    elif lengths == "zero":
        q_lengths, kv_lengths = (0, s1 - 2), (s2, 0)
    for (d, rope), dtype in itertools.product(((64, 0), (64, 16), (512, 64)), ("float16", "bfloat16")):
        case = Case(
            s1,
            s2,
            n1,
            max(128 // block, 4),
            d,
            None,
            rope,
            block,
            mode,
            1 if packed else 2,
            1,
            dtype,
            packed,
            q_lengths,
            kv_lengths,
        )
        for soc in SOCS if dtype == "float16" and n1 < 64 else ("Ascend910B1",):
            check(case, soc, rounded_out=True)


def test_gradients_of_keys_never_selected_are_exactly_zero() -> None:
    case = Case(s1=4, s2=100, k=24, full_rows=True, mode=0)
    t = tensors_of(case)
    ids = t["sparse_indices"]
    ids[ids >= 50] -= 50
    out = run_kernels(case, t, "Ascend910B1")
    for name in ("d_key", "d_value", "d_key_rope"):
        assert not out[name][:, 50:].any() and out[name][:, :50].any(), name


@pytest.mark.parametrize("deterministic", (False, True))
def test_bits_do_not_depend_on_threads(deterministic: bool) -> None:
    case = Case(batch=3, s1=20, s2=90, k=40)
    t = tensors_of(case)
    runs = []
    for threads in (1, 2):
        mco.set_num_threads(threads)
        runs.append(run_kernels(case, t, "Ascend910B1", deterministic=deterministic))
    mco.set_num_threads(None)
    for name, value in runs[0].items():
        assert value.tobytes() == runs[1][name].tobytes(), name


def test_future_ids_and_ids_out_of_range_are_cut() -> None:
    case = Case(s1=6, s2=20, k=10)
    t = tensors_of(case)
    t["sparse_indices"][0, :, 0] = np.array([19, 3, 1000000, 18, 0, 17, 2**31 - 1, 1, 16, 15], np.int32)
    actual, expected = run_kernels(case, t, "Ascend910A"), run_golden(case, t)
    for name in ("attention_out", "d_query", "d_key"):
        assert_rms(name, actual[name], expected[name], LIMIT["float16"])


@pytest.mark.parametrize("block", [1, 4])
def test_ids_out_of_range_do_not_end_the_list(block: int) -> None:
    """They name no token; ids behind them count, once for each time they stand there."""
    case = Case(s1=3, s2=30, k=6, mode=0, block=block)
    t = tensors_of(case)
    t["sparse_indices"][0, :, 0] = np.array([2**31 - 1, 1000, 2, 2, 5, -1], np.int32)
    same = dict(t, sparse_indices=t["sparse_indices"].copy())
    same["sparse_indices"][0, :, 0] = np.array([2, 2, 5, -1, -1, -1], np.int32)
    actual, expected = run_kernels(case, t, "Ascend910B1"), run_kernels(case, same, "Ascend910B1")
    golden_of = run_golden(case, t)
    for name in ("attention_out", "softmax_max", "softmax_sum", "d_query", "d_key", "d_value"):
        assert_rms(name, actual[name], golden_of[name], LIMIT["float16"])
        assert_rms(name, actual[name], expected[name].astype(np.float64), LIMIT["float16"])


@pytest.mark.parametrize("soc", SOCS)
def test_infinite_sinks(soc: str) -> None:
    """+inf: the head attends to nothing; -inf: as without a sink; rows that select nothing and rows beyond a length
    among them."""
    case = Case(batch=3, q_lengths=(5, 0, 3), kv_lengths=(40, 9, 0), sinks=True)
    t = tensors_of(case)
    kinds = np.array([np.inf, -np.inf, 0.5, -np.inf], np.float32)
    t["sinks"] = np.resize(kinds, case.n1)
    actual, expected = run_kernels(case, t, soc), run_golden(case, t)
    plain = run_kernels(replace(case, sinks=False), {n: x for n, x in t.items() if n != "sinks"}, soc)
    closed, absent = t["sinks"] == np.inf, t["sinks"] == -np.inf
    for name, wanted in expected.items():
        assert np.isfinite(actual[name].astype(np.float64)).all(), name
        if name == "softmax_max":
            assert ((actual[name] == np.finfo(np.float32).max) == (wanted >= np.finfo(np.float32).max)).all()
            continue
        assert_rms(name, actual[name].astype(np.float64), wanted, LIMIT["float16"])
    for name in ("attention_out", "d_query", "d_query_rope"):
        assert not actual[name][:, :, closed].any(), name
        assert actual[name][:, :, absent].tobytes() == plain[name][:, :, absent].tobytes(), name
    for name in ("softmax_max", "softmax_sum"):
        heads = [x.transpose(0, 2, 1, 3).reshape(3, -1, case.n1)[:, :, absent] for x in (actual[name], plain[name])]
        assert heads[0].tobytes() == heads[1].tobytes(), name
    assert not actual["d_sinks"][closed | absent].any()
    assert actual["d_sinks"][~(closed | absent)].all()


def test_a_sink_that_is_no_number_is_not_hidden() -> None:
    case = Case(sinks=True)
    t = tensors_of(case)
    t["sinks"][3] = np.nan
    actual = run_kernels(case, t, "Ascend910B1")
    for name in ("attention_out", "softmax_sum", "d_query", "d_sinks"):
        head = (
            actual[name][3]
            if name == "d_sinks"
            else actual[name][..., 3]
            if "softmax" in name
            else actual[name][:, :, 3]
        )
        assert np.isnan(head.astype(np.float64)).all(), name
    assert np.isfinite(actual["attention_out"][:, :, :3].astype(np.float64)).all()


def test_repeated_ids_count_again() -> None:
    case = Case(s1=3, s2=30, k=16, mode=0)
    t = tensors_of(case)
    t["sparse_indices"][..., 8:] = t["sparse_indices"][..., :1]
    actual, expected = run_kernels(case, t, "Ascend910B1"), run_golden(case, t)
    for name in ("attention_out", "d_value", "d_key"):
        assert_rms(name, actual[name], expected[name], LIMIT["float16"])


def test_large_scores() -> None:
    """Published forward case: query up to 100, keys 5 to 100."""
    case = Case(s1=4, s2=300, n1=8, k=16, d=128, rope=0, mode=0)
    t = tensors_of(case)
    rng = np.random.default_rng(0)
    t["query"] = rng.uniform(-10, 100, t["query"].shape).astype(np.float16)
    t["key"] = rng.uniform(5, 100, t["key"].shape).astype(np.float16)
    p = primitive_tensors(case, t)
    out, top, total = run_forward(case, p, "Ascend910B1")
    wide = {
        n: None if x is None else x.astype(np.float64) for n, x in t.items() if n not in ("d_out", "sparse_indices")
    }
    expected = golden.sparse_flash_attention(
        **wide, sparse_indices=t["sparse_indices"], scale_value=case.d**-0.5, sparse_mode=0
    )
    assert_rms("attention_out", out, expected[0], LIMIT["float16"])
    assert_rms("softmax_max", top[..., :8], expected[1], 1e-5)


@pytest.mark.parametrize("soc", SOCS)
def test_specification_example(soc: str) -> None:
    """The published call: one query of 16 heads over 2048 keys, K 2048, TND, rope, mode 0, the key is the value."""
    check(
        Case(
            s1=1,
            s2=2048,
            n1=16,
            k=2048,
            d=512,
            rope=64,
            mode=0,
            packed=True,
            q_lengths=(1,),
            kv_lengths=(2048,),
            full_rows=True,
            merged=True,
        ),
        soc,
    )


@pytest.mark.parametrize(("soc", "block"), [("Ascend910A", 1), ("Ascend910B1", 1), ("Ascend910B1", 8)])
@pytest.mark.parametrize("packed", (False, True), ids=("BSND", "TND"))
def test_paged_keys(packed: bool, soc: str, block: int) -> None:
    rng = np.random.default_rng(1)
    case = Case(
        s1=6 if packed else 3,
        batch=1 if packed else 2,
        s2=96,
        n1=4,
        k=24,
        d=32,
        rope=16,
        block=block,
        mode=0,
        packed=packed,
        q_lengths=(2, 6) if packed else None,
        kv_lengths=(90, 33),
        page=32,
    )
    t = tensors_of(case)
    table = np.array([[4, 0, 2, 0, 0, 0, 0, 0], [5, 1, 3, 0, 0, 0, 0, 0]], np.int32)
    for name in ("key", "value", "key_rope"):
        t[name] = rng.standard_normal((6, 32, 1, t[name].shape[-1])).astype(np.float16)
    p = primitive_tensors(case, t)
    pages = {n: t[n] for n in ("key", "value", "key_rope")}
    counts = np.array([90, 33, 0, 0, 0, 0, 0, 0], np.int32)
    p.update(pages, block_table=np.pad(table, ((0, 6 if packed else 0), (0, 0))), actual_seq_lengths_kv=counts)
    out = run_forward(case, p, soc)[0]
    wide = {n: t[n].astype(np.float64) for n in ("query", "key", "value", "query_rope", "key_rope")}
    expected = golden.sparse_flash_attention(
        **wide,
        sparse_indices=t["sparse_indices"],
        scale_value=(case.d + case.rope) ** -0.5,
        sparse_block_size=block,
        block_table=table[:, :3],
        layout_query="TND" if packed else "BSND",
        layout_kv="PA_BSND",
        sparse_mode=0,
        actual_seq_lengths_query=case.q_lengths,
        actual_seq_lengths_kv=(90, 33),
    )[0]
    assert_rms("attention_out", out[0] if packed else out, expected, LIMIT["float16"])
    assert FORWARD_INPUTS[4] == "block_table"


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("heads", (1, 3, 12, 24, 48, 64, 80, 128))
@pytest.mark.parametrize("merged", (False, True))
def test_plans_fit_at_the_documented_sizes(soc: str, heads: int, merged: bool) -> None:
    chip = get_soc(soc)
    for block in (1, 8, 64, 100):
        p = SparseProblem(
            1, 64, 64, 2048, 2048, heads, 1, 512, 512, 64, 2048, "float16", 0.1, block, False, 3, merged=merged
        )
        for plan in (plan_forward(p, chip), plan_backward(p, chip, False)):
            assert all(peak_bytes(plan.buffers, scope) <= size for scope, size in chip.scope_bytes.items())
            assert sum(count for _, count in plan.head_tiles) == heads


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("heads", (33, 64))
def test_up_to_64_heads_share_what_is_gathered(soc: str, heads: int) -> None:
    """Where the weights of 128 tokens have no room beside their scores, they are cast in parts; where sums of dQ have
    none in L0C, they are spilled."""
    p = SparseProblem(1, 64, 64, 2048, 2048, heads, 1, 512, 512, 64, 2048, "float16", 0.1, 1, False, 3)
    assert plan_forward(p, get_soc(soc)).head_tiles == [(0, heads)]
    backward = plan_backward(p, get_soc(soc), False)
    assert backward.head_tiles == [(0, heads)] and backward.spilled == (soc == "Ascend910B1")


def test_no_plan_is_an_error_with_the_buffers() -> None:
    p = SparseProblem(1, 1, 1, 8, 8, 128, 1, 8192, 8192, 64, 8, "float16", 0.1, 1, False, 3)
    for plan in (
        lambda: plan_forward(p, get_soc("Ascend910B1")),
        lambda: plan_backward(p, get_soc("Ascend910B1"), True),
    ):
        with pytest.raises(
            BudgetError, match=r"no tile of D=8192 Dv=8192 float16 fits Ascend910B1:\n(.*\n)+.*OVER"
        ) as error:
            plan()
        assert "sparse_flash_attention" in str(error.value)


def test_backward_takes_the_statistics_of_the_forward() -> None:
    """Rounded outputs of the forward, not recomputed ones, decide: another softmax_sum changes the gradient."""
    case = Case(s1=2)
    p = primitive_tensors(case, tensors_of(case))
    forward = run_forward(case, p, "Ascend910B1")
    plain = run_backward(case, p, forward, "Ascend910B1")["d_value"]
    doubled = run_backward(case, p, [forward[0], forward[1], forward[2] * 2], "Ascend910B1")["d_value"]
    assert_rms("d_value", doubled * 2, plain, 1e-3)
    assert sparse_cases.LIMIT["float16"] == 1e-3
