# SPDX-License-Identifier: Apache-2.0
"""Golden of ssd_chunk_scan in float64: the recurrence as definition, the chunked form as second formula.

Per head, with the state h of shape (P, N)::

    h[t] = exp(da[t]) * h[t-1] + x[t] B[t]^T        y[t] = h[t] C[t]

Shapes: x (B, S, H, P); da (B, H, S); B, C (B, S, G, N) with G a divisor of H, head i uses group i // (H/G);
states (B, H, P, N). With cu_seqlens the batch is 1 and the states have one row per sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe

Arrays = dict[str, np.ndarray]
Piece = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, "np.ndarray | None"]


def checked(
    op: str,
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    states: npt.ArrayLike | None,
) -> tuple[np.ndarray, ...]:
    """The arguments in float64, B and C repeated for every head, states zeros when None. Raises
    OpArgumentError."""
    x, da, b, c = (np.asarray(v, np.float64) for v in (x, da, b, c))
    if x.ndim != 4:
        raise OpArgumentError(
            describe(op, "rank of x", f"{x.ndim} (shape {x.shape})", "4, shape (B, S, H, P)")
        )
    batch, steps, heads, size = x.shape
    if da.shape != (batch, heads, steps):
        raise OpArgumentError(
            describe(op, "da", f"of shape {da.shape}", f"(B, H, S) = {(batch, heads, steps)}")
        )
    if b.ndim != 4 or b.shape != c.shape or b.shape[:2] != (batch, steps) or heads % b.shape[2]:
        raise OpArgumentError(
            describe(
                op,
                "B, C",
                f"of shapes {b.shape}, {c.shape}",
                f"both (B, S, G, N) with B, S = {batch}, {steps} and G a divisor of {heads}",
            )
        )
    wanted = (batch, heads, size, b.shape[3])
    h = np.zeros(wanted) if states is None else np.asarray(states, np.float64)
    if h.shape != wanted:
        raise OpArgumentError(describe(op, "states", f"of shape {h.shape}", f"(B, H, P, N) = {wanted}"))
    repeat = heads // b.shape[2]
    return x, da, np.repeat(b, repeat, 2), np.repeat(c, repeat, 2), h


def _states(x: np.ndarray, da: np.ndarray, b: np.ndarray, h: np.ndarray) -> np.ndarray:
    """States before every step and after the last, (S+1, B, H, P, N)."""
    out = [h]
    for t in range(x.shape[1]):
        out.append(
            np.exp(da[:, :, t])[..., None, None] * out[-1] + np.einsum("bhp,bhn->bhpn", x[:, t], b[:, t])
        )
    return np.stack(out)


def ssd_chunk_scan(
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    B: npt.ArrayLike,
    C: npt.ArrayLike,
    chunk_size: int = 64,
    initial_states: npt.ArrayLike | None = None,
    cu_seqlens: Sequence[int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """y (B, S, H, P) and final states, by the recurrence (module docstring); chunk_size has no influence."""
    if cu_seqlens is not None:
        parts = [
            ssd_chunk_scan(*piece[:4], chunk_size, piece[4])
            for piece in split_packed(x, da, B, C, initial_states, cu_seqlens)
        ]
        return np.concatenate([y for y, _ in parts], 1), np.concatenate([h for _, h in parts])
    x, da, b, c, h = checked("ssd_chunk_scan", x, da, B, C, initial_states)
    states = _states(x, da, b, h)
    return np.einsum("tbhpn,bthn->bthp", states[1:], c), states[-1]


def ssd_chunk_scan_grad(
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    B: npt.ArrayLike,
    C: npt.ArrayLike,
    dy: npt.ArrayLike,
    d_final: npt.ArrayLike | None = None,
    initial_states: npt.ArrayLike | None = None,
    cu_seqlens: Sequence[int] | None = None,
) -> Arrays:
    """Gradients ``x, da, B, C, initial_states`` by the adjoint of the recurrence, step by step from the
    last."""
    if cu_seqlens is not None:
        return _packed_grad(x, da, B, C, dy, d_final, initial_states, cu_seqlens)
    groups = np.asarray(B).shape[2]
    x, da, b, c, h = checked("ssd_chunk_scan_grad", x, da, B, C, initial_states)
    dy = np.asarray(dy, np.float64)
    states = _states(x, da, b, h)
    dh = np.zeros_like(h) if d_final is None else np.asarray(d_final, np.float64).copy()
    dx, dda, db, dc = np.zeros_like(x), np.zeros_like(da), np.zeros_like(b), np.zeros_like(c)
    for t in reversed(range(x.shape[1])):
        dh = dh + np.einsum("bhp,bhn->bhpn", dy[:, t], c[:, t])
        dc[:, t] = np.einsum("bhpn,bhp->bhn", states[t + 1], dy[:, t])
        dx[:, t] = np.einsum("bhpn,bhn->bhp", dh, b[:, t])
        db[:, t] = np.einsum("bhpn,bhp->bhn", dh, x[:, t])
        decay = np.exp(da[:, :, t])
        dda[:, :, t] = decay * np.einsum("bhpn,bhpn->bh", dh, states[t])
        dh = decay[..., None, None] * dh
    return dict(x=dx, da=dda, B=sum_groups(db, groups), C=sum_groups(dc, groups), initial_states=dh)


def sum_groups(d: np.ndarray, groups: int) -> np.ndarray:
    """(B, S, H, N) summed over the heads of each group, (B, S, G, N)."""
    return d.reshape(*d.shape[:2], groups, d.shape[2] // groups, d.shape[3]).sum(3)


def ssd_by_chunks(
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    B: npt.ArrayLike,
    C: npt.ArrayLike,
    chunk_size: int,
    initial_states: npt.ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The same as ssd_chunk_scan by the chunked form: inside a chunk a masked product, between chunks the
    state.

    With cs the running sum of da in the chunk::

        y = (C B^T * exp(cs_i - cs_j) for j <= i) x + exp(cs) * (C h^T)
        h' = exp(cs_last) h + (exp(cs_last - cs) * x)^T B
    """
    x, da, b, c, h = checked("ssd_by_chunks", x, da, B, C, initial_states)
    y = np.zeros_like(x)
    for start in range(0, x.shape[1], chunk_size):
        at = slice(start, start + chunk_size)
        cs = np.cumsum(da[:, :, at], 2)
        seg = cs[..., :, None] - cs[..., None, :]
        lower = np.tril(np.ones(seg.shape[-2:], bool))
        scores = np.einsum("bihn,bjhn->bhij", c[:, at], b[:, at]) * np.where(
            lower, np.exp(np.where(lower, seg, 0)), 0
        )
        y[:, at] = np.einsum("bhij,bjhp->bihp", scores, x[:, at])
        y[:, at] += np.einsum("bhi,bihn,bhpn->bihp", np.exp(cs), c[:, at], h)
        rest = np.exp(cs[..., -1:] - cs)
        h = np.exp(cs[..., -1])[..., None, None] * h + np.einsum(
            "bhj,bjhp,bjhn->bhpn", rest, x[:, at], b[:, at]
        )
    return y, h


def split_packed(
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    states: npt.ArrayLike | None,
    cu_seqlens: Sequence[int],
) -> list[Piece]:
    """``(x, da, B, C, states)`` of every sequence of a packed batch of one row."""
    x, da, b, c = (np.asarray(v, np.float64) for v in (x, da, b, c))
    bounds = [int(v) for v in cu_seqlens]
    if x.shape[0] != 1 or bounds[0] != 0 or bounds[-1] != x.shape[1] or sorted(bounds) != bounds:
        raise OpArgumentError(
            describe(
                "ssd_chunk_scan",
                "cu_seqlens",
                f"{bounds} with x of shape {x.shape}",
                "sums of lengths from 0 to S, with a batch of 1",
            )
        )
    out: list[Piece] = []
    for i, (start, stop) in enumerate(zip(bounds, bounds[1:], strict=False)):
        h = None if states is None else np.asarray(states)[i : i + 1]
        at = slice(start, stop)
        out.append((x[:, at], da[:, :, at], b[:, at], c[:, at], h))
    return out


def _packed_grad(
    x: npt.ArrayLike,
    da: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    dy: npt.ArrayLike,
    d_final: npt.ArrayLike | None,
    states: npt.ArrayLike | None,
    cu_seqlens: Sequence[int],
) -> Arrays:
    parts = []
    for i, piece in enumerate(split_packed(x, da, b, c, states, cu_seqlens)):
        at = slice(int(cu_seqlens[i]), int(cu_seqlens[i + 1]))
        last = None if d_final is None else np.asarray(d_final)[i : i + 1]
        parts.append(ssd_chunk_scan_grad(*piece[:4], np.asarray(dy)[:, at], last, piece[4]))
    axis = dict(x=1, da=2, B=1, C=1, initial_states=0)
    return {name: np.concatenate([p[name] for p in parts], k) for name, k in axis.items()}
