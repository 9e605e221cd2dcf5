# SPDX-License-Identifier: Apache-2.0
"""lightning_indexer puts the selected keys in order exactly, and without quadratic work where the chip can sort."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.engine.reference import DEFINITIONS
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tiling.lightning_indexer import RANKS, IndexerPlan, plan_indexer
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, SparseProblem

sys.path.insert(0, str(Path(__file__).parent))
from indexer_cases import IndexCase, golden_indexer, index_tensors, run_indexer, trace_indexer

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")
COUNTS = (1, 15, 17, 63, 200, 2048)
LENGTHS = (1, 17, 63, 200, 2049, 8192)
DIGIT = 64


def score_rows(length: int) -> dict[str, np.ndarray]:
    """Integer scores of ``length`` keys."""
    rng, token = np.random.default_rng(length), np.arange(length)
    return {
        "ascending": token - length // 2,
        "descending": length // 2 - token,
        "equal": np.full(length, 5),
        "zero": np.zeros(length, int),
        "two values": token % 2,
        "few values": rng.integers(-2, 3, length),
        "distinct": rng.permutation(length),
        "pairs": rng.permutation(length) // 2,
        "one above": np.where(token == length - 1, 9, 1),
        "one below": np.where(token == 0, -9, 1),
        "blocks": token // 32 % 7 - 3,
    }


def tensors_with(scores: np.ndarray) -> list[np.ndarray]:
    """query, key, weights of one row per sequence whose scores are ``scores`` (B, S2), integers below 2^17: key = two
    digits, one head for positive and one for negative scores."""
    batch, length = scores.shape
    query, key = np.zeros((batch, 1, 2, 16), np.float16), np.zeros((batch, length, 1, 16), np.float16)
    query[..., 0, :2], query[..., 1, :2] = (DIGIT, 1), (-DIGIT, -1)
    high = np.trunc(scores / DIGIT)
    key[:, :, 0, 0], key[:, :, 0, 1] = high, scores - DIGIT * high
    return [query, key, np.broadcast_to(np.array([1, -1], np.float16), (batch, 1, 2)).copy()]


def check_exact(case: IndexCase, tensors: list[np.ndarray], soc: str, engine: str = "native") -> None:
    """Indices and scores are the golden's."""
    (indices, values), (wanted, scores) = run_indexer(case, tensors, soc, engine), golden_indexer(case, tensors)
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(values, scores.astype(np.float32))


def check_scores(length: int, count: int, soc: str, engine: str = "native") -> None:
    scores = np.stack(list(score_rows(length).values()))
    case = IndexCase(s1=1, s2=length, n1=2, d=16, count=count, mode=0, batch=len(scores))
    check_exact(case, tensors_with(scores), soc, engine)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("count", COUNTS, ids=lambda k: f"K{k}")
@pytest.mark.parametrize("length", LENGTHS, ids=lambda s: f"S{s}")
def test_order(length: int, count: int, soc: str) -> None:
    check_scores(length, count, soc)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("length, count", [(17, 15), (200, 63), (130, 200)])
def test_order_on_the_reference_engine(length: int, count: int, soc: str) -> None:
    check_scores(length, count, soc, "reference")


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("count", (15, 200, 2048))
def test_order_over_several_selections(count: int, soc: str) -> None:
    length = 35001
    assert plan_of(length, count, soc).kept
    scores = np.stack([score_rows(length)[n] for n in ("ascending", "equal", "few values", "pairs", "one above")])
    case = IndexCase(s1=1, s2=length, n1=2, d=16, count=count, mode=0, batch=len(scores))
    check_exact(case, tensors_with(scores), soc)


@pytest.mark.parametrize("soc, count", [("Ascend910B1", 8192), ("Ascend310P3", 3000), ("Ascend310P3", 4100)])
def test_long_lists(soc: str, count: int) -> None:
    """More groups than one instruction repeats; records that leave no room for two; ranks again."""
    check_scores(9001, count, soc)


@pytest.mark.parametrize("soc", (*SOCS, "Ascend910_9391"))
@pytest.mark.parametrize(
    "case",
    [
        IndexCase(s1=70, s2=65, n1=4, count=17, ties=True),
        IndexCase(s1=3, s2=300, n1=4, count=200, ties=True, batch=2),
        IndexCase(batch=3, s1=5, s2=260, q_lengths=(5, 0, 2), kv_lengths=(260, 9, 0), count=63, ties=True),
        IndexCase(packed=True, s1=9, s2=700, q_lengths=(3, 3, 8), kv_lengths=(20, 330, 655), count=200, ties=True),
        IndexCase(batch=2, s1=4, s2=500, kv_lengths=(500, 131), count=200, ties=True, page=64),
        IndexCase(batch=2, s1=4, s2=500, kv_lengths=(500, 131), count=15, ties=True, page=16, mode=0),
    ],
    ids=lambda c: c.id,
)
def test_ties_in_every_layout(case: IndexCase, soc: str) -> None:
    check_exact(case, index_tensors(case), soc)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("count", (3, 63, 200))
@pytest.mark.parametrize("length, pairs", [(17, 1), (256, 1), (300, 1), (300, 8), (300, 60)])
def test_scores_that_are_nan_or_infinite(length: int, pairs: int, count: int, soc: str) -> None:
    """Some keys are infinite: scores of +inf stand first, -inf and NaN last, in ascending order. Padded heads do not
    disturb them."""
    rng = np.random.default_rng(length)
    key = rng.integers(1, 4, (1, length, 1, 16)).astype(np.float16)
    key[0, rng.random(length) < 0.3] = np.inf
    weights = np.tile(np.array([[1, 1], [-1, -1], [1, -1]], np.float16)[None], pairs)
    query = np.ones((1, 3, 2 * pairs, 16), np.float16)
    query[:, :, 1::2] = 2
    case = IndexCase(s1=3, s2=length, n1=2 * pairs, d=16, count=count, mode=0)
    with np.errstate(invalid="ignore"):
        check_exact(case, [query, key, weights], soc)


def plan_of(length: int, count: int, soc: str) -> IndexerPlan:
    return plan_indexer(
        SparseProblem(1, 1, 1, length, length, 2, 1, 16, 16, 0, count, "float16", 1.0, 1, False, 0), count, get_soc(soc)
    )


class VectorWork:
    """Elements (records of a merge) that the executed vector instructions of the reference engine handle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.elements = 0
        for name, definition in list(DEFINITIONS.items()):
            if ISA[name].pipe == "V" and "repeat" in ISA[name].args:
                monkeypatch.setitem(DEFINITIONS, name, self._counted(name, definition))

    def _counted(self, name, definition):
        def run(call):
            args, each = call.args, F32_LANES
            if name == "vmrgsort":
                each = sum(args[f"len{i}"] for i in range(4))
            elif name == "vreduce" and call.attrs["mask_kind"]:
                each = args["mask0"]
            self.elements += args["repeat"] * each
            definition(call)

        return run

    def of(self, count: int, soc: str) -> int:
        """For one row that selects ``count`` keys out of as many."""
        case = IndexCase(s1=1, s2=count, n1=2, d=16, count=count, mode=0)
        program, inputs = trace_indexer(case, tensors_with(score_rows(count)["distinct"][None]), soc)
        self.elements = 0
        mco.run(program, [x for x in inputs if x is not None], engine="reference")
        return self.elements


@pytest.mark.parametrize("soc, small", [("Ascend910A", 128), ("Ascend310P3", 512), ("Ascend910B1", 512)])
def test_vector_work_against_count(soc: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many keys: four times the work and one more merge, or sixteen times with ranks."""
    work = VectorWork(monkeypatch)
    growth = work.of(4 * small, soc) / work.of(small, soc)
    if plan_of(small, small, soc).order == RANKS:
        assert 8 < growth < 16
    else:
        assert 3 < growth < 5
