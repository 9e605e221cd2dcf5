# SPDX-License-Identifier: Apache-2.0
"""Golden of ssd_chunk_scan in float64: the recurrence as definition, the chunked form as second formula.

Per head, with the state h of shape (P, N)::

    h[t] = exp(da[t]) * h[t-1] + x[t] B[t]^T        y[t] = h[t] C[t]

Shapes: x (B, S, H, P); da (B, H, S); B, C (B, S, G, N) with G a divisor of H, head i uses group i // (H/G);
states (B, H, P, N). With cu_seqlens the batch is 1 and the states have one row per sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe

Arrays = dict[str, np.ndarray]
AXES = dict(x=1, da=2, B=1, C=1, dy=1, d_final=0, initial_states=0)
"""Axis of the steps of each argument; 0 for one row per sequence."""


def checked(
    op: str, x: npt.ArrayLike, da: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, states: npt.ArrayLike | None
) -> tuple[np.ndarray, ...]:
    """The arguments in float64, B and C repeated for every head, states zeros when None. Raises
    OpArgumentError."""
    x, da, b, c = (np.asarray(v, np.float64) for v in (x, da, b, c))
    if x.ndim != 4:
        raise OpArgumentError(describe(op, "rank of x", f"{x.ndim} (shape {x.shape})", "4, shape (B, S, H, P)"))
    batch, steps, heads, size = x.shape
    if da.shape != (batch, heads, steps):
        raise OpArgumentError(describe(op, "da", f"of shape {da.shape}", f"(B, H, S) = {(batch, heads, steps)}"))
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
        out.append(np.exp(da[:, :, t])[..., None, None] * out[-1] + np.einsum("bhp,bhn->bhpn", x[:, t], b[:, t]))
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
        given = dict(x=x, da=da, B=B, C=C, initial_states=initial_states)
        pieces = split_packed("ssd_chunk_scan", "x", cu_seqlens, given, AXES)
        outputs = [ssd_chunk_scan(**piece) for piece in pieces]
        return np.concatenate([y for y, _ in outputs], 1), np.concatenate([h for _, h in outputs])
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
        given = dict(x=x, da=da, B=B, C=C, dy=dy, d_final=d_final, initial_states=initial_states)
        pieces = split_packed("ssd_chunk_scan_grad", "x", cu_seqlens, given, AXES)
        return join_gradients([ssd_chunk_scan_grad(**piece) for piece in pieces], AXES)
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
        scores = np.einsum("bihn,bjhn->bhij", c[:, at], b[:, at]) * np.where(lower, np.exp(np.where(lower, seg, 0)), 0)
        y[:, at] = np.einsum("bhij,bjhp->bihp", scores, x[:, at])
        y[:, at] += np.einsum("bhi,bihn,bhpn->bihp", np.exp(cs), c[:, at], h)
        rest = np.exp(cs[..., -1:] - cs)
        h = np.exp(cs[..., -1])[..., None, None] * h + np.einsum("bhj,bjhp,bjhn->bhpn", rest, x[:, at], b[:, at])
    return y, h


def split_packed(
    op: str, first: str, cu_seqlens: Sequence[int], given: Mapping[str, npt.ArrayLike | None], axes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The arguments of every sequence of a packed batch, without those that are None. ``axes``: the axis of the
    steps, or 0 for one row per sequence; argument ``first`` is (1, S, ...). Raises OpArgumentError."""
    arrays = {name: np.asarray(x, np.float64) for name, x in given.items() if x is not None}
    bounds, shape = [int(v) for v in cu_seqlens], arrays[first].shape
    if len(bounds) < 2 or bounds[0] != 0 or shape[:2] != (1, bounds[-1]) or sorted(bounds) != bounds:
        raise OpArgumentError(
            describe(
                op,
                "cu_seqlens",
                f"{bounds} with {first} of shape {shape}",
                "sums of lengths from 0 to S, with a batch of 1",
            )
        )
    count = len(bounds) - 1
    for name, x in arrays.items():
        if axes[name] == 0 and len(x) != count:
            raise OpArgumentError(describe(op, name, f"of shape {x.shape}", f"{count} rows, one per sequence"))
        if axes[name] > 0 and (x.ndim <= axes[name] or x.shape[axes[name]] != bounds[-1]):
            wanted = f"S = {bounds[-1]} steps along axis {axes[name]}"
            raise OpArgumentError(describe(op, name, f"of shape {x.shape}", wanted))
    return [
        {
            name: x[i : i + 1] if axes[name] == 0 else np.take(x, np.arange(start, stop), axes[name])
            for name, x in arrays.items()
        }
        for i, (start, stop) in enumerate(pairwise(bounds))
    ]


def join_gradients(parts: Sequence[Arrays], axes: Mapping[str, int]) -> Arrays:
    """Gradients of the sequences, one behind the other."""
    return {name: np.concatenate([part[name] for part in parts], axes[name]) for name in parts[0]}
