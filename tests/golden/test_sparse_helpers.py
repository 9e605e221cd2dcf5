# SPDX-License-Identifier: Apache-2.0
"""Host-side helpers of sparse attention."""

from __future__ import annotations

import numpy as np
import pytest

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.sparse_flash_attention.golden import sparse_flash_attention
from ms_custom_ops.op_impl.sparse_flash_attention.helpers import (
    check_sparse_indices,
    counts_to_prefix_sums,
    dense_sparse_indices,
    get_workspace_size,
    prefix_sums_to_counts,
)
from ms_custom_ops.soc import get_soc


@pytest.mark.parametrize("counts", [[3], [3, 0, 5], [0, 0], []], ids=str)
def test_counts_and_prefix_sums_are_inverse(counts):
    sums = counts_to_prefix_sums(np.array(counts, np.int64))
    assert sums.dtype == np.int32 and sums.tolist() == np.cumsum(counts).tolist()
    assert prefix_sums_to_counts(sums).tolist() == counts


@pytest.mark.parametrize(
    ("call", "given", "text"),
    [
        (counts_to_prefix_sums, [3, -1], "counts is [3, -1]; accepted: counts of at least 0"),
        (counts_to_prefix_sums, [1.5], "counts is float64 of shape (1,); accepted: integers of shape (B,)"),
        (prefix_sums_to_counts, [3, 2], "prefix_sums is [3, 2]; accepted: non-negative, non-decreasing values"),
        (prefix_sums_to_counts, [[1]], "prefix_sums is int64 of shape (1, 1)"),
    ],
    ids=["negative", "float", "descending", "rank"],
)
def test_lengths_are_refused(call, given, text):
    with pytest.raises(OpArgumentError) as error:
        call(given)
    assert text in str(error.value)


def rows(*ids):
    """Index tensor (1, S1, 1, K)."""
    return np.array(ids, np.int32)[None, :, None]


GOOD = {
    "tail": (rows([0, 2, -1], [1, -1, -1]), 1, 0),
    "causal": (rows([0, 1, 8], [9, 0, 3]), 1, 3),
    "partial_block_last": (rows([0, 1, 2], [1, 2, -1]), 4, 0),
    "empty": (rows([-1, -1], [-1, -1]), 1, 3),
}


@pytest.mark.parametrize(("ids", "block", "mode"), GOOD.values(), ids=GOOD.keys())
def test_good_indices_pass(ids, block, mode):
    check_sparse_indices(ids, (1, 2, 4, 16), (1, 10, 1, 16), sparse_block_size=block, sparse_mode=mode)


WHERE = "check_sparse_indices: row of sequence 0, query 1, key head 0 is "
BAD = {
    "gap": (rows([0, 1, 2], [0, -1, 2]), 1, 0, "id 2 after the first negative id at slot 1; accepted: valid ids first"),
    "repeated": (rows([0, 1, 2], [4, 3, 4]), 1, 0, "id 4 more than once; accepted: unique ids"),
    "out_of_range": (
        rows([0, 1, 2], [0, 10, -1]),
        1,
        0,
        "id 10 beyond the 10 visible keys; accepted: block ids from 0 to 9",
    ),
    "future": (rows([0, 1, 8], [0, 10, -1]), 1, 3, "id 10 beyond the 10 visible keys"),
    "partial_first": (
        rows([0, 1, -1], [2, 1, -1]),
        4,
        0,
        "the partial last block 2 at slot 0; accepted: that block in the last slot, 1",
    ),
}


@pytest.mark.parametrize(("ids", "block", "mode", "text"), BAD.values(), ids=BAD.keys())
def test_bad_indices_are_named(ids, block, mode, text):
    with pytest.raises(OpArgumentError) as error:
        check_sparse_indices(ids, (1, 2, 4, 16), (1, 10, 1, 16), sparse_block_size=block, sparse_mode=mode)
    assert WHERE + text in str(error.value)


def test_future_id_of_an_early_query():
    with pytest.raises(OpArgumentError, match=r"query 0, key head 0 is id 9 beyond the 9 visible keys"):
        check_sparse_indices(rows([9, 0], [9, 0]), (1, 2, 4, 16), (1, 10, 1, 16), sparse_mode=3)


def test_shape_and_packed_indices():
    with pytest.raises(
        OpArgumentError, match=r"sparse_indices is int32 of shape \(1, 2, 1, 3\); accepted: integers of shape \(1, 3"
    ):
        check_sparse_indices(GOOD["tail"][0], (1, 3, 4, 16), (1, 10, 1, 16))
    packed = np.array([[[0]], [[3]]], np.int32)
    check_sparse_indices(
        packed[:1], (1, 4, 16), (10, 1, 16), layout="TND", actual_seq_lengths_query=[1], actual_seq_lengths_kv=[2]
    )
    with pytest.raises(OpArgumentError, match="sequence 1, query 0"):
        check_sparse_indices(
            packed, (2, 4, 16), (10, 1, 16), layout="TND", actual_seq_lengths_query=[1, 2], actual_seq_lengths_kv=[2, 5]
        )


@pytest.mark.parametrize("block", [1, 4])
def test_dense_indices_select_everything(block):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 3, 4, 8)), rng.standard_normal((2, 10, 2, 8))
    ids = dense_sparse_indices(q.shape, 10, kv_heads=2, sparse_block_size=block)
    assert ids.shape == (2, 3, 2, -(-10 // block))
    check_sparse_indices(ids[..., : -(-8 // block)], q.shape, (2, 8, 2, 8), sparse_block_size=block, sparse_mode=0)
    out = sparse_flash_attention(q, k, k, ids, 0.5, sparse_block_size=block, sparse_mode=0)[0]
    scores = 0.5 * np.einsum("bingd,bjnd->bingj", q.reshape(2, 3, 2, 2, 8), k)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dense = np.einsum("bingj,bjnd->bingd", weights, k).reshape(2, 3, 4, 8)
    np.testing.assert_allclose(out, dense, rtol=1e-12)


def test_dense_indices_refuse_nothing_to_select():
    with pytest.raises(
        OpArgumentError, match="kv_tokens, sparse_block_size, kv_heads is 0, 1, 1; accepted: at least 1"
    ):
        dense_sparse_indices((1, 2, 4, 8), 0)


def test_workspace_is_the_published_formula():
    """1059 MiB at block size 1 and 26.1 GiB at 64 for T1 = T2 = 4096, N1 = 64, K = 2048 on 24 cores."""
    soc = get_soc("Ascend910B1")
    sizes = [get_workspace_size(4096, 4096, 64, 512, 512, 64, 2048, block, soc) for block in (1, 64)]
    assert round(sizes[0] / 2**20) in (1058, 1059) and round(sizes[1] / 2**30, 1) == 26.1
