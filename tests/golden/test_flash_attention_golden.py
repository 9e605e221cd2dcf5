# SPDX-License-Identifier: Apache-2.0
"""The golden of flash_attention against finite differences, a second formula and MindSpore's autograd."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import ms_custom_ops.op_impl
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.flash_attention.golden import (
    dropout_bits,
    dropout_keep_mask,
    flash_attention,
    flash_attention_grad,
)


class Case:
    """Shapes (B, N1, N2, S1, S2, D), keyword arguments, and the names of random array arguments to make."""

    def __init__(self, shape, make=(), **options):
        self.shape, self.make, self.options = shape, make, options

    def arrays(self):
        """q, k, v, d_out and the arguments of flash_attention, from a fixed seed."""
        b, n1, n2, s1, s2, d = self.shape
        rng = np.random.default_rng(20)
        q, d_out = rng.standard_normal((2, b, n1, s1, d))
        k, v = rng.standard_normal((2, b, n2, s2, d))
        options = dict(self.options)
        makers = {
            "attn_mask": lambda: rng.random((b, 1, s1, s2)) < 0.3,
            "attn_mask_heads": lambda: (rng.random((n1, s1, s2)) < 0.3).astype(np.uint8),
            "attn_mask_full_rows": lambda: (rng.random((b, n1, s1, 1)) < 0.5).astype(np.float16),
            "real_shift": lambda: rng.standard_normal((b, n1, s1, s2)),
            "alibi": lambda: -rng.random((1, n1, 1, 1)) * np.arange(s2)[None, None, None, ::-1],
            "drop_mask": lambda: rng.random((b, n1, s1, s2)) < 0.8,
        }
        argument = {"attn_mask_heads": "attn_mask", "attn_mask_full_rows": "attn_mask", "alibi": "real_shift"}
        for name in self.make:
            options[argument.get(name, name)] = makers[name]()
        return q, k, v, d_out, options


CASES = {
    "plain_S1-1_S2-1_D1": Case((1, 1, 1, 1, 1, 1)),
    "plain_S1-17_S2-63_D15": Case((2, 2, 2, 17, 63, 15)),
    "scale_2.5": Case((1, 2, 2, 15, 17, 8), scale_value=2.5),
    "scale_0": Case((1, 1, 1, 7, 9, 8), scale_value=0.0),
    "gqa_6over2": Case((2, 6, 2, 17, 15, 16)),
    "mqa_4over1_mask_per_head": Case((2, 4, 1, 15, 17, 8), ("attn_mask_heads",)),
    "attn_mask_batch": Case((2, 2, 1, 17, 33, 8), ("attn_mask",)),
    "attn_mask_full_rows": Case((2, 2, 2, 17, 33, 8), ("attn_mask_full_rows",)),
    "causal_square_17": Case((1, 2, 2, 17, 17, 8), sparse_mode=3),
    "causal_S1-15_S2-63": Case((1, 2, 1, 15, 63, 8), sparse_mode=3),
    "causal_S1-63_S2-15_empty_rows": Case((1, 2, 1, 63, 15, 8), sparse_mode=3),
    "causal_lengths": Case(
        (3, 2, 1, 17, 33, 8), sparse_mode=3, actual_seq_qlen=[17, 0, 5], actual_seq_kvlen=[4, 33, 31]
    ),
    "band_pre5_next2": Case((1, 2, 2, 33, 47, 8), sparse_mode=4, pre_tokens=5, next_tokens=2),
    "band_next_negative": Case((1, 1, 1, 33, 17, 8), sparse_mode=4, pre_tokens=9, next_tokens=-3),
    "band_lengths": Case(
        (2, 2, 2, 17, 33, 8),
        sparse_mode=4,
        pre_tokens=3,
        next_tokens=0,
        actual_seq_qlen=[3, 17],
        actual_seq_kvlen=[33, 1],
    ),
    "band_int64_max_tokens": Case((1, 1, 1, 15, 17, 8), sparse_mode=4, pre_tokens=2**63 - 1, next_tokens=2**63 - 1),
    "mode0_ignores_tokens": Case((1, 1, 1, 15, 17, 8), pre_tokens=0, next_tokens=0),
    "lengths_zero_kv": Case((2, 2, 1, 15, 17, 8), actual_seq_qlen=[15, 7], actual_seq_kvlen=[0, 17]),
    "blocks_prev0_next0_S200": Case((1, 1, 1, 200, 257, 4), prev_block_num=0, next_block_num=0),
    "blocks_prev1_next0_S300_S400": Case((1, 1, 1, 300, 400, 4), prev_block_num=1, next_block_num=0),
    "blocks_next0_causal_S200": Case((1, 1, 1, 200, 200, 4), next_block_num=0, sparse_mode=3),
    "blocks_next-1_S300_empty_rows": Case((1, 1, 1, 300, 129, 4), next_block_num=-1),
    "bias": Case((2, 4, 2, 15, 17, 8), ("real_shift",)),
    "alibi_causal": Case((2, 2, 1, 17, 17, 8), ("alibi",), sparse_mode=3),
    "dropout_0.9_seed7": Case((2, 2, 1, 17, 63, 8), keep_prob=0.9, seed=7),
    "dropout_0.1_seed-1": Case((1, 2, 2, 63, 17, 8), keep_prob=0.1, seed=-1),
    "drop_mask_keep1": Case((1, 2, 2, 15, 17, 8), ("drop_mask",)),
    "drop_mask_0.8_causal_bias": Case((2, 4, 2, 17, 33, 8), ("drop_mask", "real_shift"), keep_prob=0.8, sparse_mode=3),
    "all_at_once": Case(
        (2, 4, 2, 33, 63, 8),
        ("attn_mask", "real_shift"),
        keep_prob=0.7,
        seed=3,
        sparse_mode=4,
        pre_tokens=20,
        next_tokens=4,
        actual_seq_qlen=[33, 15],
        actual_seq_kvlen=[63, 17],
        prev_block_num=1,
        next_block_num=0,
        scale_value=0.2,
    ),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def visible_by_element(case, options):
    """The visibility rules as scalar conditions on each (b, n, i, j)."""
    b_, n1, _, s1, s2, _ = case.shape
    get = options.get
    mask = np.broadcast_to(np.asarray(get("attn_mask", 0)), (b_, n1, s1, s2))
    visible = np.zeros((b_, n1, s1, s2), bool)
    for b, n, i, j in np.ndindex(b_, n1, s1, s2):
        qlen = get("actual_seq_qlen", [s1] * b_)[b]
        kvlen = get("actual_seq_kvlen", [s2] * b_)[b]
        diagonal = i + kvlen - qlen
        ok = i < qlen and j < kvlen and not mask[b, n, i, j]
        if get("sparse_mode", 0) == 3:
            ok = ok and j <= diagonal
        if get("sparse_mode", 0) == 4:
            ok = ok and diagonal - options["pre_tokens"] <= j <= diagonal + options["next_tokens"]
        first = i // 128 - get("prev_block_num", 65536)
        visible[b, n, i, j] = ok and first <= j // 128 <= i // 128 + get("next_block_num", 65536)
    return visible


def composition_constants(case, options):
    """visible, shift and dropout factor, all (B,N1,S1,S2), and the scale."""
    b, n1, _, s1, s2, d = case.shape
    full = (b, n1, s1, s2)
    keep_prob = options.get("keep_prob", 1.0)
    if "drop_mask" in options:
        factor = np.asarray(options["drop_mask"], float) / keep_prob
    else:
        factor = dropout_keep_mask(options.get("seed", 0), *full, keep_prob) / keep_prob
    shift = np.broadcast_to(np.asarray(options.get("real_shift", 0.0)), full)
    return visible_by_element(case, options), shift, factor, options.get("scale_value", 1 / np.sqrt(d))


@every_case
def test_forward_matches_einsum_with_scipy_softmax(case):
    q, k, v, _, options = case.arrays()
    visible, shift, factor, scale = composition_constants(case, options)
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("bnid,bnjd->bnij", q, np.repeat(k, group, axis=1)) * scale + shift
    scores = np.where(visible, scores, -np.inf)
    with np.errstate(invalid="ignore"):  # a fully masked row is softmax of -inf only: NaN, then 0
        p = np.nan_to_num(softmax(scores, axis=-1))
    expected = np.einsum("bnij,bnjd->bnid", p * factor, np.repeat(v, group, axis=1))

    out, row_max, row_sum = flash_attention(q, k, v, **options)
    some = visible.any(-1)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        (row_max + np.log(np.where(some, row_sum, 1)))[some], logsumexp(scores, axis=-1)[some], rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(row_max[some], scores.max(-1)[some], rtol=1e-12, atol=1e-13)
    for x in (out, row_max, row_sum):
        assert x.dtype == np.float64
        assert not x[~some].any()


@every_case
def test_gradients_match_finite_differences(case):
    q, k, v, d_out, options = case.arrays()
    rng = np.random.default_rng(1)
    d_outputs = [d_out, *(rng.standard_normal(d_out.shape[:3]) for _ in range(2))]
    grads = flash_attention_grad(q, k, v, d_out, **options, d_softmax_max=d_outputs[1], d_softmax_sum=d_outputs[2])
    step = 1e-5
    arguments = {"query": q, "key": k, "value": v, **options}
    names = ["query", "key", "value"] + ["real_shift"] * (len(grads) == 4)
    assert len(grads) == 3 + ("real_shift" in options)
    for name, grad in zip(names, grads, strict=True):
        assert grad.shape == np.shape(arguments[name])
        for _ in range(3):
            direction = rng.standard_normal(grad.shape)
            losses = []
            for sign in (1, -1):
                moved = {**arguments, name: arguments[name] + sign * step * direction}
                results = flash_attention(**moved)
                losses.append(sum(np.sum(d * x) for d, x in zip(d_outputs, results, strict=True)))
            numeric = (losses[0] - losses[1]) / (2 * step)
            analytic = np.sum(grad * direction)
            bound = 1e-7 * np.linalg.norm(direction) * (np.linalg.norm(grad) + 1e-2)
            assert abs(numeric - analytic) <= bound, f"{name}: numeric {numeric}, analytic {analytic}"


@every_case
def test_matches_mindspore_autograd_of_the_composition(case):
    ms = pytest.importorskip("mindspore")
    q, k, v, d_out, options = case.arrays()
    visible, shift, factor, scale = composition_constants(case, options)
    b, n1, n2, s1, s2, d = case.shape
    ops = ms.ops
    # Scalars go in as tensors: a Python float would be rounded to float32 before it meets a float64 tensor.
    constants = [
        ms.Tensor(x, ms.float64) for x in (scale, visible, shift, factor, ~visible.any(-1, keepdims=True), d_out)
    ]

    def heads(x):
        return ops.broadcast_to(x.reshape(b, n2, 1, s2, d), (b, n2, n1 // n2, s2, d)).reshape(b, n1, s2, d)

    def composition(q, k, v):
        scale, visible, shift, factor, empty, d_out = constants
        scores = ops.matmul(q, heads(k).swapaxes(2, 3)) * scale + shift
        row_max = ops.stop_gradient(ops.amax(scores, -1, True))
        exps = ops.exp(scores - row_max) * visible
        p = exps / (exps.sum(-1, keepdims=True) + empty)
        out = ops.matmul(p * factor, heads(v))
        return (out * d_out).sum(), out

    tensors = [ms.Tensor(x, ms.float64) for x in (q, k, v)]
    (_, out), grads = ms.value_and_grad(composition, (0, 1, 2), has_aux=True)(*tensors)
    golden = (flash_attention(q, k, v, **options)[0], *flash_attention_grad(q, k, v, d_out, **options)[:3])
    for name, theirs, ours in zip(("out", "dq", "dk", "dv"), (out, *grads), golden, strict=True):
        np.testing.assert_allclose(theirs.asnumpy(), ours, rtol=1e-9, atol=1e-11, err_msg=name)


def test_statistics_exclude_dropout_and_gradient_follows_dropped_elements():
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, 1, 1, 17, 8))
    plain = flash_attention(q, k, v)
    dropped = flash_attention(q, k, v, keep_prob=0.5, seed=4)
    np.testing.assert_array_equal(plain[1], dropped[1])
    np.testing.assert_array_equal(plain[2], dropped[2])
    assert np.abs(plain[0] - dropped[0]).max() > 0.1
    keep = dropout_keep_mask(4, 1, 1, 17, 17, 0.5)
    np.testing.assert_array_equal(flash_attention(q, k, v, drop_mask=keep, keep_prob=0.5)[0], dropped[0])


def test_masked_element_is_excluded_even_when_its_score_is_by_far_the_largest():
    q = np.full((1, 1, 1, 1), 100.0)
    k = np.array([100.0, 0.0, 0.1]).reshape(1, 1, 3, 1)
    v = np.array([5.0, 1.0, 1.0]).reshape(1, 1, 3, 1)
    out, row_max, row_sum = flash_attention(q, k, v, attn_mask=[[True, False, False]], scale_value=1.0)
    assert (out.item(), row_max.item()) == (1.0, 10.0)
    assert row_sum.item() == pytest.approx(1 + np.exp(-10.0), rel=1e-15)


def test_fully_masked_rows_get_and_give_no_gradient():
    rng = np.random.default_rng(3)
    q, k, v, d_out = rng.standard_normal((4, 1, 2, 9, 5))
    mask = np.zeros((9, 9), bool)
    mask[[0, 4]] = True
    first = flash_attention_grad(q, k, v, d_out, mask)
    assert not first[0][:, :, [0, 4]].any()
    q[:, :, [0, 4]], d_out[:, :, [0, 4]] = 1e3, -1e3
    for a, b in zip(first, flash_attention_grad(q, k, v, d_out, mask), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
    everything = flash_attention_grad(q, k, v, d_out, np.ones((1, 1), bool))
    assert not any(x.any() for x in everything)


def test_half_precision_inputs_are_widened_first():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(5)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        q, k, v = rng.standard_normal((3, 1, 1, 17, 8)).astype(dtype)
        wide = flash_attention(*(x.astype(np.float64) for x in (q, k, v)))
        for a, b in zip(flash_attention(q, k, v), wide, strict=True):
            np.testing.assert_array_equal(a, b)


def test_empty_batch_gives_empty_results():
    q, k = np.zeros((0, 4, 3, 8)), np.zeros((0, 2, 5, 8))
    assert [x.shape for x in flash_attention(q, k, k)] == [(0, 4, 3, 8), (0, 4, 3), (0, 4, 3)]
    assert [x.shape for x in flash_attention_grad(q, k, k, q)] == [q.shape, k.shape, k.shape]


Q, K = np.zeros((2, 4, 3, 8)), np.zeros((2, 2, 5, 8))

BAD = {
    "query_rank": (dict(query=Q[0]), r"query is shape \(4, 3, 8\); accepted: 4 dimensions"),
    "key_batch": (dict(key=K[:1]), r"key is shape \(1, 2, 5, 8\); accepted: \(B=2,N2,S2,D=8\)"),
    "key_head_size": (dict(key=K[..., :4]), r"key is shape \(2, 2, 5, 4\)"),
    "value_shape": (dict(value=K[:, :, :4]), r"value is shape \(2, 2, 4, 8\); accepted: the shape of key"),
    "head_count": (dict(key=Q[:, :3], value=Q[:, :3]), r"query is N1 = 4 heads; .* multiple of N2 = 3"),
    "length_0": (dict(key=K[:, :, :0], value=K[:, :, :0]), r"key is shape \(2, 2, 0, 8\)"),
    "attn_mask_shape": (dict(attn_mask=np.zeros((3, 4))), r"attn_mask is shape \(3, 4\).*\(2, 4, 3, 5\)"),
    "real_shift_shape": (dict(real_shift=np.zeros((3, 1, 1, 5))), r"real_shift is shape \(3, 1, 1, 5\)"),
    "drop_mask_rank": (dict(drop_mask=np.zeros((1, 2, 4, 3, 5))), r"drop_mask is shape \(1, 2, 4, 3, 5\)"),
    "qlen_shape": (dict(actual_seq_qlen=[1]), r"actual_seq_qlen is shape \(1,\); .*shape \(2,\)"),
    "qlen_too_long": (dict(actual_seq_qlen=[1, 4]), r"actual_seq_qlen is \[1, 4\]; .*lengths from 0 to 3"),
    "kvlen_negative": (dict(actual_seq_kvlen=[-1, 5]), r"actual_seq_kvlen is \[-1, 5\].*from 0 to 5"),
    "keep_prob_0": (dict(keep_prob=0.0), r"keep_prob is 0.0; accepted: 0 < keep_prob <= 1"),
    "keep_prob_nan": (dict(keep_prob=float("nan")), r"keep_prob is nan"),
    "sparse_mode_2": (dict(sparse_mode=2), r"sparse_mode is 2; accepted: 0 \(.*3 \(causal.*4 \(band"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_refused_by_name(change, message):
    arguments = dict(query=Q, key=K, value=K) | change
    with pytest.raises(OpArgumentError, match="^flash_attention: " + message):
        flash_attention(**arguments)
    with pytest.raises(OpArgumentError, match="^flash_attention_grad: " + message):
        flash_attention_grad(**arguments, d_out=Q)


def test_d_out_shape_is_refused():
    with pytest.raises(OpArgumentError, match=r"flash_attention_grad: d_out is shape \(2, 4, 3, 7\)"):
        flash_attention_grad(Q, K, K, Q[..., :7])


def test_op_impl_refuses_its_folder_name():
    folder = Path(ms_custom_ops.op_impl.__file__).parent
    if folder.name != "op_impl":
        pytest.skip("installed without a folder named op_impl")
    run = subprocess.run(
        [sys.executable, "-c", "import op_impl"], cwd=folder.parent, text=True, capture_output=True, check=False
    )
    assert run.returncode == 1
    assert "ImportError: import ms_custom_ops.op_impl" in run.stderr


# Dropout generator


def word_by_element(seed, index, i, j):
    """The definition of the README with Python integers."""

    def signed(x):
        return (x + 2**31) % 2**32 - 2**31

    z = (seed + 0x9E3779B97F4A7C15 * (index + 1)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z = z ^ (z >> 31)
    k1 = (z >> 32) | 1
    x = signed(i * 0xC2B2AE35 + j * 0x27D4EB2F + z % 2**32)
    x = signed(x * (x + k1))
    x = signed(x + int(np.float32(x)) // 2**16)
    return signed(x * (x + k1))


@pytest.mark.parametrize("seed", [0, 1, -1, 12345, 2**63 - 1, -(2**63)])
def test_dropout_words_match_integer_arithmetic(seed):
    words = dropout_bits(seed, 2, 3, 17, 63)
    for b, n, i, j in np.ndindex(words.shape):
        assert words[b, n, i, j] == word_by_element(seed, b * 3 + n, i, j)


def test_dropout_words_are_pinned():
    # The words are an interface between forward, backward and saved runs: they may not change.
    words = dropout_bits(0, 1, 2, 200, 1000)
    places = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 199, 999)]
    picked = [int(words[0][place]) for place in places]
    assert picked == [623131742, -1869674822, 857650934, 182047176, -1629465330]


def test_dropout_mask_is_independent_of_lengths():
    large = dropout_keep_mask(9, 2, 2, 200, 257, 0.8)
    np.testing.assert_array_equal(dropout_keep_mask(9, 2, 2, 17, 63, 0.8), large[:, :, :17, :63])


def test_dropout_keeps_all_at_1_and_almost_none_near_0():
    assert dropout_keep_mask(0, 1, 1, 200, 1000, 1.0).all()
    assert dropout_keep_mask(0, 1, 1, 200, 1000, 1e-6).sum() <= 5
    with pytest.raises(OpArgumentError, match="dropout_keep_mask: keep_prob is 1.5"):
        dropout_keep_mask(0, 1, 1, 1, 1, 1.5)


STAT_SHAPES = [(4096, 17), (1024, 64), (512, 512), (300, 1000), (16, 16384)]
STAT_SEEDS = [0, 1, -1, 2**62 + 7]
by_shape = pytest.mark.parametrize("shape", STAT_SHAPES, ids=lambda s: f"S1-{s[0]}_S2-{s[1]}")
by_keep_prob = pytest.mark.parametrize("keep_prob", [0.9, 0.5, 0.1])


def deviation(x, y, variance):
    """|mean of x*y| in standard errors, for independent centred x and y of the given variance."""
    return abs(np.sum(x * y)) / np.sqrt(max(x.size, 1)) / variance


@by_keep_prob
@by_shape
def test_dropout_mean(shape, keep_prob):
    for seed in STAT_SEEDS:
        keep = dropout_keep_mask(seed, 1, 4, *shape, keep_prob)
        sigma = np.sqrt(keep_prob * (1 - keep_prob) / keep.size)
        assert abs(keep.mean() - keep_prob) < 4 * sigma


@by_keep_prob
@by_shape
def test_dropout_is_uncorrelated_along_rows_and_columns(shape, keep_prob):
    variance = keep_prob * (1 - keep_prob)
    for seed in STAT_SEEDS[:2]:
        x = dropout_keep_mask(seed, 1, 1, *shape, keep_prob)[0, 0] - keep_prob
        for axis in (0, 1):
            y = np.moveaxis(x, axis, 0)
            for lag in [*range(1, 65), *(2**e for e in range(7, 14))]:
                if lag < len(y):
                    # About 4000 comparisons in all: chance exceeds 5 sigma in one of 400 such sets.
                    assert deviation(y[lag:], y[:-lag], variance) < 5, f"axis {axis}, lag {lag}"


@by_keep_prob
@by_shape
def test_dropout_is_uncorrelated_between_diagonals_heads_and_seeds(shape, keep_prob):
    variance = keep_prob * (1 - keep_prob)
    x = dropout_keep_mask(5, 2, 2, *shape, keep_prob) - keep_prob
    heads = x.reshape(4, *shape)
    pairs = [(heads[a], heads[b]) for a in range(4) for b in range(a)]
    pairs += [
        (heads[0], dropout_keep_mask(seed, 1, 1, *shape, keep_prob)[0, 0] - keep_prob)
        for seed in (4, 6, 7, 69, 5 + 2**32)
    ]
    pairs += [(heads[0, 1:, 1:], heads[0, :-1, :-1]), (heads[0, 1:, :-1], heads[0, :-1, 1:])]
    for number, (a, b) in enumerate(pairs):
        assert deviation(a, b, variance) < 5, f"pair {number}"


@by_shape
def test_dropout_patterns_of_8_are_uniform(shape):
    for seed in STAT_SEEDS:
        keep = dropout_keep_mask(seed, 1, 1, *shape, 0.5)[0, 0]
        for lines in (keep, keep.T):
            groups = lines[: len(lines) // 8 * 8].reshape(-1, 8, lines.shape[1])
            windows = groups.swapaxes(1, 2).reshape(-1, 8)
            count = np.bincount(np.packbits(windows, axis=1).ravel(), minlength=256)
            expected = len(windows) / 256
            assert abs(np.sum((count - expected) ** 2 / expected) - 255) < 5 * np.sqrt(2 * 255)
