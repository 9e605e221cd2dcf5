# SPDX-License-Identifier: Apache-2.0
"""Golden of flash_attention and flash_attention_grad: naive float64 NumPy on whole score matrices.

It follows README.md of this folder formula by formula and shares no code with the kernels. Inputs of any real
dtype are widened to float64 first. NaN and Inf reach what a row sees and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe

#: Edge of the blocks that prev_block_num and next_block_num count: an interface constant of the public TIK
#: package, not the tile of a kernel.
MASK_BLOCK = 128

SPARSE_MODES = {0: "no mode mask", 3: "causal, lower right", 4: "band, lower right"}

_MASK32 = 2**32 - 1
_MASK64 = 2**64 - 1

#: Multipliers of the row and the column in the dropout generator. Two positions of a head share a counter
#: only if di*ROW + dj*COLUMN = 0 mod 2^32; the nearest such (di, dj) is (15343, 64907).
DROPOUT_ROW = 0xC2B2AE35
DROPOUT_COLUMN = 0x27D4EB2F


@dataclass(frozen=True)
class _Problem:
    """Checked float64 arguments. visible, shift and dropout are (B,N1,S1,S2); dropout is 0 or 1/keep_prob."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scale: float
    visible: np.ndarray
    shift: np.ndarray
    dropout: np.ndarray

    def heads(self) -> list[tuple[int, int, int]]:
        """All (batch, query head, key head)."""
        batch, n1 = self.query.shape[:2]
        group = n1 // self.key.shape[1]
        return [(b, n, n // group) for b in range(batch) for n in range(n1)]


def flash_attention(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike,
    attn_mask: npt.ArrayLike | None = None,
    real_shift: npt.ArrayLike | None = None,
    drop_mask: npt.ArrayLike | None = None,
    actual_seq_qlen: npt.ArrayLike | None = None,
    actual_seq_kvlen: npt.ArrayLike | None = None,
    seed_words: npt.ArrayLike | None = None,
    row_bounds: npt.ArrayLike | None = None,
    *,
    scale_value: float | None = None,
    keep_prob: float = 1.0,
    seed: int = 0,
    sparse_mode: int = 0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    prev_block_num: int = 65536,
    next_block_num: int = 65536,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attention output and softmax statistics.

    query (B,N1,S1,D); key, value (B,N2,S2,D), N1 a multiple of N2. attn_mask (1 = masked) and real_shift
    broadcast to (B,N1,S1,S2), drop_mask likewise (1 = keep). actual_seq_qlen, actual_seq_kvlen (B,): tokens
    per batch, None = all. scale_value None = D^-0.5. keep_prob in (0, 1]; seed any integer, taken mod 2^64;
    seed_words take its place: its two 32-bit words, low first, row and column of the first query and key in the whole.
    row_bounds (2,S1): the first and one past the last key that a row sees.
    pre_tokens, next_tokens (tokens) act in sparse_mode 4; prev_block_num, next_block_num (blocks of 128) in
    every mode.

    Returns float64 (attention_out (B,N1,S1,D), softmax_max (B,N1,S1), softmax_sum (B,N1,S1)); the statistics
    are of scaled, shifted scores with natural exponent and without dropout. A fully masked row has 0 in all
    three. Raises OpArgumentError.
    """
    problem = _prepare(
        "flash_attention",
        query,
        key,
        value,
        attn_mask,
        real_shift,
        drop_mask,
        actual_seq_qlen,
        actual_seq_kvlen,
        scale_value,
        keep_prob,
        _drawing(seed_words, seed),
        sparse_mode,
        pre_tokens,
        next_tokens,
        prev_block_num,
        next_block_num,
        row_bounds,
    )
    out = np.zeros_like(problem.query)
    softmax_max = np.zeros(problem.query.shape[:3])
    softmax_sum = np.zeros(problem.query.shape[:3])
    for b, n, n2 in problem.heads():
        p, softmax_max[b, n], softmax_sum[b, n] = _softmax(problem, b, n, n2)
        out[b, n] = _seen_product(p * problem.dropout[b, n], problem.value[b, n2], problem.visible[b, n])
    return out, softmax_max, softmax_sum


def flash_attention_grad(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike,
    d_out: npt.ArrayLike,
    attn_mask: npt.ArrayLike | None = None,
    real_shift: npt.ArrayLike | None = None,
    drop_mask: npt.ArrayLike | None = None,
    actual_seq_qlen: npt.ArrayLike | None = None,
    actual_seq_kvlen: npt.ArrayLike | None = None,
    seed_words: npt.ArrayLike | None = None,
    row_bounds: npt.ArrayLike | None = None,
    *,
    scale_value: float | None = None,
    keep_prob: float = 1.0,
    seed: int = 0,
    sparse_mode: int = 0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    prev_block_num: int = 65536,
    next_block_num: int = 65536,
    d_softmax_max: npt.ArrayLike | None = None,
    d_softmax_sum: npt.ArrayLike | None = None,
) -> tuple[np.ndarray, ...]:
    """Gradients of sum(d_out * attention_out) + sum(d_softmax_max * softmax_max) + sum(d_softmax_sum * softmax_sum),
    d_out (B,N1,S1,D), the statistics' (B,N1,S1), None = 0; the other arguments as in flash_attention.

    Recomputes the softmax instead of taking it, so it depends on no forward result.
    Returns float64 (dq, dk, dv) in the shapes of query, key, value, and with real_shift its gradient in its shape.
    Raises OpArgumentError.
    """
    op = "flash_attention_grad"
    problem = _prepare(
        op,
        query,
        key,
        value,
        attn_mask,
        real_shift,
        drop_mask,
        actual_seq_qlen,
        actual_seq_kvlen,
        scale_value,
        keep_prob,
        _drawing(seed_words, seed),
        sparse_mode,
        pre_tokens,
        next_tokens,
        prev_block_num,
        next_block_num,
        row_bounds,
    )
    d_out = np.asarray(d_out).astype(np.float64)
    if d_out.shape != problem.query.shape:
        _refuse(op, "d_out", f"shape {d_out.shape}", f"the shape of query {problem.query.shape}")
    dq, dk, dv = (np.zeros_like(x) for x in (problem.query, problem.key, problem.value))
    d_scores = np.zeros(problem.visible.shape)
    rows = d_out.shape[:3]
    d_max, d_sum = (np.zeros(rows) if x is None else np.asarray(x, np.float64) for x in (d_softmax_max, d_softmax_sum))
    some = problem.visible.any(-1)
    d_max, d_sum = np.where(some, d_max, 0.0), np.where(some, d_sum, 0.0)
    for b, n, n2 in problem.heads():
        p, _, row_sum = _softmax(problem, b, n, n2)
        dropout = problem.dropout[b, n]
        visible = problem.visible[b, n]
        dp = np.where(visible, (d_out[b, n] @ problem.value[b, n2].T) * dropout, 0.0)
        d_lse = (d_sum[b, n] * row_sum)[:, None]
        ds = np.where(visible, p * (dp - np.sum(p * dp, axis=-1, keepdims=True) + d_lse), 0.0)
        peak = np.where(some[b, n], d_max[b, n] - d_lse[:, 0], 0.0)  # l falls as m rises
        ds[np.arange(len(peak)), p.argmax(-1)] += peak
        d_scores[b, n] = ds
        dq[b, n] = problem.scale * _seen_product(ds, problem.key[b, n2], visible)
        dk[b, n2] += problem.scale * _seen_product(ds.T, problem.query[b, n], visible.T)
        dv[b, n2] += _seen_product((p * dropout).T, d_out[b, n], visible.T)
    if real_shift is None:
        return dq, dk, dv
    return dq, dk, dv, _summed(d_scores, np.shape(real_shift))


def _summed(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the axes along which an array of ``shape`` was broadcast to that of ``x``."""
    shape = (1,) * (x.ndim - len(shape)) + shape
    return x.sum(tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True).reshape(shape)


def dropout_bits(seed: int, batch: int, heads: int, s1: int, s2: int, first: tuple[int, int] = (0, 0)) -> np.ndarray:
    """The int32 (B,N1,S1,S2) words of the dropout generator, defined in README.md ("Dropout generator").

    Position (b, n, i, j) depends on seed, b*heads + n, i and j alone, so any tile can be made on its own; ``first`` is
    the row and column of the first element.
    """
    bits = np.empty((batch, heads, s1, s2), np.int32)
    i = np.arange(s1, dtype=np.int32)[:, None] + _int32(first[0])
    j = np.arange(s2, dtype=np.int32)[None, :] + _int32(first[1])
    counter = i * _int32(DROPOUT_ROW) + j * _int32(DROPOUT_COLUMN)
    for b in range(batch):
        for n in range(heads):
            z = _splitmix64(seed, b * heads + n)
            k0, k1 = _int32(z & _MASK32), _int32(z >> 32 | 1)
            x = counter + k0
            x = x * (x + k1)
            x = x + _shr16(x)
            bits[b, n] = x * (x + k1)
    return bits


def dropout_keep_mask(
    seed: int, batch: int, heads: int, s1: int, s2: int, keep_prob: float, first: tuple[int, int] = (0, 0)
) -> np.ndarray:
    """bool (B,N1,S1,S2), True with probability keep_prob: f32(bits) < f32(keep_prob * 2^32 - 2^31).

    keep_prob is resolved to about 2^-24. Raises OpArgumentError unless 0 < keep_prob <= 1.
    """
    _check_keep_prob("dropout_keep_mask", keep_prob)
    if keep_prob == 1.0:
        # The largest words round up to the threshold 2^31 and would be dropped.
        return np.ones((batch, heads, s1, s2), bool)
    threshold = np.float32(keep_prob * 2.0**32 - 2.0**31)
    return dropout_bits(seed, batch, heads, s1, s2, first).astype(np.float32) < threshold


def _seen_product(weights: np.ndarray, x: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """weights @ x, where row j of x takes part in the rows that see it and in no other."""
    weights = np.where(visible, weights, 0.0)
    finite = np.isfinite(x)
    out = weights @ np.where(finite, x, 0.0)
    for j in np.flatnonzero(~finite.all(-1)):
        seen = visible[:, j]
        out[seen] += np.outer(weights[seen, j], np.where(finite[j], 0.0, x[j]))
    return out


def _softmax(problem: _Problem, b: int, n: int, n2: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P (S1,S2), row maximum (S1,) and row sum (S1,) of one head; zeros for fully masked rows."""
    scores = problem.scale * (problem.query[b, n] @ problem.key[b, n2].T) + problem.shift[b, n]
    visible = problem.visible[b, n]
    some = visible.any(axis=-1)
    row_max = np.where(some, np.max(np.where(visible, scores, -np.inf), axis=-1), 0.0)
    exps = np.exp(np.where(visible, scores - row_max[:, None], -np.inf))
    row_sum = exps.sum(axis=-1)
    return np.where(visible, exps / np.where(some, row_sum, 1.0)[:, None], 0.0), row_max, row_sum


def _prepare(
    op: str,
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike,
    attn_mask: npt.ArrayLike | None,
    real_shift: npt.ArrayLike | None,
    drop_mask: npt.ArrayLike | None,
    actual_seq_qlen: npt.ArrayLike | None,
    actual_seq_kvlen: npt.ArrayLike | None,
    scale_value: float | None,
    keep_prob: float,
    drawing: tuple[int, tuple[int, int]],
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    prev_block_num: int,
    next_block_num: int,
    row_bounds: npt.ArrayLike | None = None,
) -> _Problem:
    q, k, v = (np.asarray(x).astype(np.float64) for x in (query, key, value))
    _check_shapes(op, q, k, v)
    _check_keep_prob(op, keep_prob)
    _check_sparse_mode(op, sparse_mode)
    batch, n1, s1, d = q.shape
    s2 = k.shape[2]
    full = (batch, n1, s1, s2)
    qlen = _lengths(op, "actual_seq_qlen", actual_seq_qlen, batch, s1)
    kvlen = _lengths(op, "actual_seq_kvlen", actual_seq_kvlen, batch, s2)

    visible = np.empty(full, bool)
    for b in range(batch):
        visible[b] = _visible(
            s1, s2, qlen[b], kvlen[b], sparse_mode, pre_tokens, next_tokens, prev_block_num, next_block_num
        )
    if row_bounds is not None:
        low, high = np.asarray(row_bounds).astype(np.int64)[:, :s1, None]
        visible &= (np.arange(s2) >= low) & (np.arange(s2) < high)
    if attn_mask is not None:
        visible &= _broadcast(op, "attn_mask", attn_mask, full) == 0
    shift = np.zeros(full) if real_shift is None else _broadcast(op, "real_shift", real_shift, full)
    if drop_mask is not None:
        dropout = (_broadcast(op, "drop_mask", drop_mask, full) != 0) / keep_prob
    else:
        dropout = dropout_keep_mask(drawing[0], batch, n1, s1, s2, keep_prob, drawing[1]) / keep_prob
    scale = d**-0.5 if scale_value is None else float(scale_value)
    return _Problem(q, k, v, scale, visible, shift, dropout)


def _visible(
    s1: int,
    s2: int,
    qlen: int,
    kvlen: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    prev_block_num: int,
    next_block_num: int,
) -> np.ndarray:
    """bool (S1,S2) of one batch: lengths, mode and block window, without attn_mask."""
    i = np.arange(s1)[:, None]
    j = np.arange(s2)[None, :]
    visible = (i < qlen) & (j < kvlen)
    # Distance from the lower-right diagonal; compared with Python integers, so 2^63-1 tokens cannot overflow.
    distance = j - i - (kvlen - qlen)
    if sparse_mode == 3:
        visible &= distance <= 0
    elif sparse_mode == 4:
        visible &= (distance >= -pre_tokens) & (distance <= next_tokens)
    block_distance = j // MASK_BLOCK - i // MASK_BLOCK
    return visible & (block_distance >= -prev_block_num) & (block_distance <= next_block_num)


def _check_shapes(op: str, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    if q.ndim != 4:
        _refuse(op, "query", f"shape {q.shape}", "4 dimensions (B,N1,S1,D)")
    batch, n1, s1, d = q.shape
    if k.ndim != 4 or (k.shape[0], k.shape[3]) != (batch, d):
        _refuse(op, "key", f"shape {k.shape}", f"(B={batch},N2,S2,D={d}) as query {q.shape}")
    if v.shape != k.shape:
        _refuse(op, "value", f"shape {v.shape}", f"the shape of key {k.shape}")
    for name, x in (("query", q), ("key", k)):
        if min(x.shape[1:]) < 1:
            _refuse(op, name, f"shape {x.shape}", "heads, length and head size of at least 1")
    if n1 % k.shape[1]:
        _refuse(op, "query", f"N1 = {n1} heads", f"a multiple of N2 = {k.shape[1]} heads of key")


def _check_sparse_mode(op: str, sparse_mode: int) -> None:
    if sparse_mode not in SPARSE_MODES:
        accepted = ", ".join(f"{mode} ({what})" for mode, what in SPARSE_MODES.items())
        _refuse(op, "sparse_mode", sparse_mode, accepted)


def _check_keep_prob(op: str, keep_prob: float) -> None:
    if not 0.0 < keep_prob <= 1.0:
        _refuse(op, "keep_prob", keep_prob, "0 < keep_prob <= 1")


def _lengths(op: str, name: str, given: npt.ArrayLike | None, batch: int, full: int) -> list[int]:
    if given is None:
        return [full] * batch
    lengths = np.asarray(given)
    if lengths.shape != (batch,):
        _refuse(op, name, f"shape {lengths.shape}", f"one length per batch, shape ({batch},)")
    if lengths.size and not (0 <= lengths.min() and lengths.max() <= full):
        _refuse(op, name, lengths.tolist(), f"lengths from 0 to {full}")
    return [int(n) for n in lengths]


def _broadcast(op: str, name: str, given: npt.ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    x = np.asarray(given).astype(np.float64)
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        _refuse(op, name, f"shape {x.shape}", f"a shape that broadcasts to (B,N1,S1,S2) = {shape}")


def _refuse(op: str, argument: str, given: object, accepted: str) -> NoReturn:
    raise OpArgumentError(describe(op, argument, given, accepted))


def _int32(word: int) -> np.ndarray:
    """The int32 of the low 32 bits of ``word``, as a 1-element array: arrays wrap silently, scalars warn."""
    return np.array([word & _MASK32], np.uint32).view(np.int32)


def _shr16(x: np.ndarray) -> np.ndarray:
    """floor(f32(x) / 2^16): an arithmetic shift made of float conversions, up to the rounding of f32(x)."""
    return np.floor(x.astype(np.float32) * np.float32(2.0**-16)).astype(np.int32)


def _drawing(words: npt.ArrayLike | None, seed: int) -> tuple[int, tuple[int, int]]:
    """Seed and place of the first element: low and high word, row and column of ``words``; ``seed`` at 0, 0 without."""
    if words is None:
        return seed, (0, 0)
    low, high, row, column = (int(word) & _MASK32 for word in np.asarray(words).ravel()[:4])
    return high << 32 | low, (row, column)


def _splitmix64(seed: int, index: int) -> int:
    """Output number ``index`` of SplitMix64 from ``seed`` (Steele, Lea, Flood, OOPSLA 2014)."""
    z = (seed + 0x9E3779B97F4A7C15 * (index + 1)) & _MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK64
    return z ^ z >> 31
