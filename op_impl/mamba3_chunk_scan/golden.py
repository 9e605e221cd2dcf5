# SPDX-License-Identifier: Apache-2.0
"""Golden of mamba3_chunk_scan in float64: the recurrence with the trapezoid rule, and its adjoint.

Per head, with the state h of shape (P, N), s = sigmoid(trap) and kv[t] = sum over ranks r of v[t,r]
k[t,r]^T::

    h[t] = exp(da[t]) * (h[t-1] + (1 - s[t]) * dt[t] * kv[t-1]) + s[t] * dt[t] * kv[t]
    o[t, r] = h[t] q[t, r]                                            kv[-1] = 0

Shapes: q, k (B, S, R, G, N); v, o (B, S, R, H, P); da, dt, trap (B, H, S); states (B, H, P, N). With cu_seqlens the
batch is 1, the states have one row per sequence, and each sequence is computed as if it were alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.op_impl.ssd_chunk_scan.golden import Arrays, join_gradients, split_packed, ssd_by_chunks

OP = "mamba3_chunk_scan"
AXES = dict(q=1, k=1, v=1, da=2, dt=2, trap=2, do=1, d_final=0, initial_states=0)
"""Axis of the steps of each argument; 0 for one row per sequence."""


def _checked(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    da: npt.ArrayLike,
    dt: npt.ArrayLike,
    trap: npt.ArrayLike,
    states: npt.ArrayLike | None,
) -> tuple[np.ndarray, ...]:
    q, k, v, da, dt, trap = (np.asarray(x, np.float64) for x in (q, k, v, da, dt, trap))
    if v.ndim != 5:
        raise OpArgumentError(describe(OP, "rank of v", f"{v.ndim} (shape {v.shape})", "5, shape (B, S, R, H, P)"))
    batch, steps, rank, heads, size = v.shape
    if q.ndim != 5 or q.shape != k.shape or q.shape[:3] != v.shape[:3] or heads % q.shape[3]:
        raise OpArgumentError(
            describe(
                OP,
                "q, k",
                f"of shapes {q.shape}, {k.shape}",
                f"both (B, S, R, G, N) with B, S, R = {v.shape[:3]} and G a divisor of {heads}",
            )
        )
    for name, x in (("da", da), ("dt", dt), ("trap", trap)):
        if x.shape != (batch, heads, steps):
            raise OpArgumentError(describe(OP, name, f"of shape {x.shape}", f"(B, H, S) = {(batch, heads, steps)}"))
    wanted = (batch, heads, size, q.shape[4])
    h = np.zeros(wanted) if states is None else np.asarray(states, np.float64)
    if h.shape != wanted:
        raise OpArgumentError(describe(OP, "states", f"of shape {h.shape}", f"(B, H, P, N) = {wanted}"))
    repeat = heads // q.shape[3]
    return np.repeat(q, repeat, 3), np.repeat(k, repeat, 3), v, da, dt, trap, h


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _wide(x: np.ndarray) -> np.ndarray:
    return x[..., None, None]


def _run(
    k: np.ndarray, v: np.ndarray, da: np.ndarray, dt: np.ndarray, trap: np.ndarray, h: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """States after every step, with the initial one in front; kv of every step, with 0 in front."""
    states, products = [h], [np.zeros_like(h)]
    for t in range(v.shape[1]):
        s = _sigmoid(trap[:, :, t])
        kv = np.einsum("brhp,brhn->bhpn", v[:, t], k[:, t])
        held = states[-1] + _wide((1 - s) * dt[:, :, t]) * products[-1]
        states.append(_wide(np.exp(da[:, :, t])) * held + _wide(s * dt[:, :, t]) * kv)
        products.append(kv)
    return states, products


def mamba3_chunk_scan(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    da: npt.ArrayLike,
    dt: npt.ArrayLike,
    trap: npt.ArrayLike,
    chunk_size: int = 16,
    initial_states: npt.ArrayLike | None = None,
    cu_seqlens: Sequence[int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """o and final states by the recurrence (module docstring); chunk_size has no influence. Raises
    OpArgumentError."""
    if cu_seqlens is not None:
        given = dict(q=q, k=k, v=v, da=da, dt=dt, trap=trap, initial_states=initial_states)
        outputs = [mamba3_chunk_scan(**piece) for piece in split_packed(OP, "v", cu_seqlens, given, AXES)]
        return np.concatenate([o for o, _ in outputs], 1), np.concatenate([h for _, h in outputs])
    q, k, v, da, dt, trap, h = _checked(q, k, v, da, dt, trap, initial_states)
    states, _ = _run(k, v, da, dt, trap, h)
    return np.einsum("tbhpn,btrhn->btrhp", np.stack(states)[1:], q), states[-1]


def trapezoid(
    dt: npt.ArrayLike, trap: npt.ArrayLike, cu_seqlens: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(factor, gamma), both (B, H, S): gamma = s dt, factor[t] = gamma[t] + (1 - s[t+1]) dt[t+1], without the
    second term at the last step of a sequence.

    kv[j] enters every state h[i], i > j, as ``exp(cs[i] - cs[j]) * factor[j]``, and its own h[j] as gamma[j].
    """
    dt, s = np.asarray(dt, np.float64), _sigmoid(np.asarray(trap, np.float64))
    gamma = s * dt
    following = np.concatenate([((1 - s) * dt)[..., 1:], np.zeros_like(dt[..., :1])], -1)
    for stop in () if cu_seqlens is None else cu_seqlens:
        following[..., max(int(stop), 1) - 1 : int(stop)] = 0
    return gamma + following, gamma


def mamba3_by_ssd(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    da: npt.ArrayLike,
    dt: npt.ArrayLike,
    trap: npt.ArrayLike,
    chunk_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Second formula, initial state 0: chunked Mamba-2 scans of factor * v, one per pair of ranks, and the
    step's own term with gamma in place of factor."""
    q, k, v, da, dt, trap, _ = _checked(q, k, v, da, dt, trap, None)
    factor, gamma = trapezoid(dt, trap)
    o, final = np.zeros_like(v), np.zeros(1)
    steps = np.moveaxis(factor, 1, 2)[..., None]
    for j in range(v.shape[2]):
        for i in range(v.shape[2]):
            y, h = ssd_by_chunks(v[:, :, j] * steps, da, k[:, :, j], q[:, :, i], chunk_size)
            o[:, :, i] += y
        final = final + h
    own = np.einsum("bsihn,bsjhn,bsjhp->bsihp", q, k, v)
    return o + np.moveaxis(gamma - factor, 1, 2)[:, :, None, :, None] * own, final


def mamba3_chunk_scan_grad(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    da: npt.ArrayLike,
    dt: npt.ArrayLike,
    trap: npt.ArrayLike,
    do: npt.ArrayLike,
    d_final: npt.ArrayLike | None = None,
    initial_states: npt.ArrayLike | None = None,
    cu_seqlens: Sequence[int] | None = None,
) -> Arrays:
    """Gradients ``q, k, v, da, dt, trap, initial_states`` by the adjoint of the recurrence. Raises
    OpArgumentError."""
    if cu_seqlens is not None:
        given = dict(q=q, k=k, v=v, da=da, dt=dt, trap=trap, do=do, d_final=d_final, initial_states=initial_states)
        pieces = split_packed(OP, "v", cu_seqlens, given, AXES)
        return join_gradients([mamba3_chunk_scan_grad(**piece) for piece in pieces], AXES)
    groups = np.asarray(q).shape[3]
    q, k, v, da, dt, trap, h = _checked(q, k, v, da, dt, trap, initial_states)
    do = np.asarray(do, np.float64)
    states, products = _run(k, v, da, dt, trap, h)
    dh = np.zeros_like(h) if d_final is None else np.asarray(d_final, np.float64).copy()
    out = {n: np.zeros_like(x) for n, x in dict(q=q, k=k, v=v, da=da, dt=dt, trap=trap).items()}
    d_kv_next = np.zeros_like(h)  # gradient of kv[t] through step t+1

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum("bhpn,bhpn->bh", a, b)

    for t in reversed(range(v.shape[1])):
        s, step = _sigmoid(trap[:, :, t]), dt[:, :, t]
        dh = dh + np.einsum("brhp,brhn->bhpn", do[:, t], q[:, t])
        out["q"][:, t] = np.einsum("bhpn,brhp->brhn", states[t + 1], do[:, t])
        d_kv = d_kv_next + _wide(s * step) * dh
        out["v"][:, t] = np.einsum("bhpn,brhn->brhp", d_kv, k[:, t])
        out["k"][:, t] = np.einsum("bhpn,brhp->brhn", d_kv, v[:, t])
        decay = np.exp(da[:, :, t])
        held = states[t] + _wide((1 - s) * step) * products[t]
        out["da"][:, :, t] = decay * dot(dh, held)
        own, before = dot(dh, products[t + 1]), decay * dot(dh, products[t])
        out["dt"][:, :, t] = s * own + (1 - s) * before
        out["trap"][:, :, t] = s * (1 - s) * step * (own - before)
        dh = _wide(decay) * dh
        d_kv_next = _wide((1 - s) * step) * dh
    for name in ("q", "k"):
        d = out[name]
        out[name] = d.reshape(*d.shape[:3], groups, d.shape[3] // groups, d.shape[4]).sum(4)
    return out | dict(initial_states=dh)
