# SPDX-License-Identifier: Apache-2.0
"""The segment-sum functions over the generated primitives. Usable in construct and in plain Python.

A sequence of S steps is cut into chunks of C steps; ``cu_seqlens`` packs several sequences into the S axis.
The primitives know whole chunks only: what is shorter is filled up with zeros here, which touches tensors of
shape (B, H, S); the (B, H, N, C, C) ones are copied only for C below 16.
"""

from __future__ import annotations

from mindspore import Parameter, Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.segsum_slots import (
    about,
    bounds_or_none,
    eager,
    from_slots,
    narrow,
    plan_of_matrices,
    plan_of_trapezoid,
    plan_of_vectors,
    slot_lengths,
    to_slots,
    wide,
    zeros_after,
)

__all__ = ["bwd_dadt_cumsum", "bwd_dadt_fused", "bwd_dtrap_ddt", "bwd_segsum_dadt", "dacs_segsum", "segsum_decay"]


def bwd_segsum_dadt(
    dSSdA: Tensor,
    SSdA: Tensor,
    ddt_out: Tensor,
    chunk_size: int,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> Tensor:
    """Adds to ``ddt_out`` the gradient of da through exp(segment sums).

    ``ddt[c*C + k] = ddt_out[c*C + k] + sum over j < k <= i of dSSdA[c, j, i] * exp(SSdA[c, i, j])``

    Args:
        dSSdA: (B, H, N, C, C), float32, float16, or bfloat16 on split-core chips: gradient of exp(SSdA), indexed
            (key, query). N = ceil(S/C), or S//C + sequences with cu_seqlens.
        SSdA: shape and dtype of dSSdA: the segment sums (logarithm of the decay), indexed (query, key). Of
            both, only entries with query > key are used; the others, and those beyond the end of a sequence,
            may hold anything.
        ddt_out: (B, H, S), float32 or the dtype of dSSdA. It is updated as well where MindSpore allows it: in
            PYNATIVE mode, and in GRAPH mode if it is a Parameter. The return value holds in every case.
        chunk_size: C, from 1 to 256.
        cu_seqlens: int32 or int64 tensor, or list: first steps of the packed sequences, and S at the end. The
            chunk c of sequence i is slot ``cu_seqlens[i]//C + i + c`` of dSSdA and SSdA.

    Returns:
        ddt, shape and dtype of ddt_out. It carries no gradient. An inf or NaN among the used entries spreads
        to the later steps of its chunk.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = plan_of_matrices(
        "bwd_segsum_dadt", (about(dSSdA), about(SSdA)), ("ddt_out",), (about(ddt_out),), chunk_size, about(cu_seqlens)
    )
    empty, _, chunk, _, _, widen, _, _, through_float32 = plan
    if empty:
        return ddt_out
    bounds = bounds_or_none(cu_seqlens)
    start = ops.cast(ddt_out, mstype.float32) if through_float32 else ddt_out
    ddt = mco_generated_ops.bwd_segsum_dadt(
        wide(dSSdA, widen),
        wide(SSdA, widen),
        to_slots(start, bounds, plan),
        slot_lengths(bounds, plan),
        chunk_size=chunk + widen,
    )
    ddt = from_slots(ddt, bounds, plan)
    if through_float32:
        ddt = ops.cast(ddt, ddt_out.dtype)
    if isinstance(ddt_out, Parameter):
        ops.assign(ddt_out, ddt)
    elif eager():
        ddt_out.assign_value(ddt)
    return ddt


def dacs_segsum(
    da: Tensor, chunk_size: int, cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of the log-decays ``da`` inside chunks, each clamped at 0 from above.

    Args:
        da: (B, H, S) float32. A last chunk that is not full counts as filled up with zeros.
        chunk_size: C, from 1 to 256.
        cu_seqlens: as in :func:`bwd_segsum_dadt`.

    Returns:
        da_cs (B, H, S): ``sum of da[k], k <= i``; da_cs_rev (B, H, S): ``sum of da[k], k > i``; segsum (B, H,
        N, C, C), N = ceil(S/C) or S//C + sequences: ``segsum[i, j] = sum of da[k], j < k <= i`` for i > j, 0
        elsewhere and in slots of no chunk. They carry no gradient: :func:`bwd_dadt_fused` is the gradient of
        what is made of them.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = plan_of_vectors("dacs_segsum", ("da",), (about(da),), chunk_size, about(cu_seqlens))
    empty, _, chunk, slots, _, widen, _, _, _ = plan
    if empty:
        return da, da, ops.zeros(da.shape[:2] + (slots, chunk, chunk), mstype.float32)
    bounds = bounds_or_none(cu_seqlens)
    da_cs, da_cs_rev, segsum = mco_generated_ops.dacs_segsum(to_slots(da, bounds, plan), chunk_size=chunk + widen)
    return from_slots(da_cs, bounds, plan), from_slots(da_cs_rev, bounds, plan), narrow(segsum, chunk)


def segsum_decay(da: Tensor, chunk_size: int, cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None) -> Tensor:
    """``tril(exp(segsum), -1)``: the decay from key to query inside a chunk. Differentiable in ``da``.

    The sums are clamped at 0 from above; the clamp has no gradient.

    Args:
        da: (B, H, S) float32. A last chunk that is not full counts as filled up with zeros.
        chunk_size: C, from 1 to 256.
        cu_seqlens: as in :func:`bwd_segsum_dadt`.

    Returns:
        (B, H, N, C, C) float32, N = ceil(S/C) or S//C + sequences, indexed (query, key); 0 on and above the
        diagonal.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = plan_of_vectors("segsum_decay", ("da",), (about(da),), chunk_size, about(cu_seqlens))
    empty, _, chunk, slots, _, widen, _, _, _ = plan
    if empty:
        return ops.zeros(da.shape[:2] + (slots, chunk, chunk), mstype.float32)
    bounds = bounds_or_none(cu_seqlens)
    decay, _ = mco_generated_ops.segsum_decay(to_slots(da, bounds, plan), chunk_size=chunk + widen)
    return narrow(decay, chunk)


def bwd_dadt_cumsum(
    ddA_cs: Tensor,
    ddA_cs_rev: Tensor,
    dA_cs: Tensor,
    dA_cs_rev: Tensor,
    chunk_size: int,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> Tensor:
    """Gradient of da through exp(dA_cs) and exp(dA_cs_rev).

    ``dadt[k] = sum over i >= k of exp(dA_cs[i])*ddA_cs[i] + sum over i < k of
    exp(dA_cs_rev[i])*ddA_cs_rev[i]`` in each chunk.

    Args:
        ddA_cs, ddA_cs_rev: (B, H, S) float32, gradients of exp(dA_cs) and exp(dA_cs_rev).
        dA_cs, dA_cs_rev: (B, H, S) float32, from :func:`dacs_segsum`.
        chunk_size: C, from 1 to 256.
        cu_seqlens: as in :func:`bwd_segsum_dadt`.

    Returns:
        (B, H, S) float32, without gradient.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = plan_of_vectors(
        "bwd_dadt_cumsum",
        ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev"),
        (about(ddA_cs), about(ddA_cs_rev), about(dA_cs), about(dA_cs_rev)),
        chunk_size,
        about(cu_seqlens),
    )
    if plan[0]:
        return ddA_cs
    bounds = bounds_or_none(cu_seqlens)
    dadt = mco_generated_ops.bwd_dadt_cumsum(
        to_slots(ddA_cs, bounds, plan),
        to_slots(ddA_cs_rev, bounds, plan),
        to_slots(dA_cs, bounds, plan),
        to_slots(dA_cs_rev, bounds, plan),
        chunk_size=plan[2] + plan[5],
    )
    return from_slots(dadt, bounds, plan)


def bwd_dadt_fused(
    dSSdA: Tensor,
    SSdA: Tensor,
    ddA_cs: Tensor,
    ddA_cs_rev: Tensor,
    dA_cs: Tensor,
    dA_cs_rev: Tensor,
    chunk_size: int,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> Tensor:
    """Whole gradient of da: :func:`bwd_dadt_cumsum` plus :func:`bwd_segsum_dadt`, in one kernel.

    Args:
        dSSdA, SSdA: as in :func:`bwd_segsum_dadt`.
        ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev: as in :func:`bwd_dadt_cumsum`.
        chunk_size: C, from 1 to 256.
        cu_seqlens: as in :func:`bwd_segsum_dadt`.

    Returns:
        (B, H, S) float32, without gradient.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = plan_of_matrices(
        "bwd_dadt_fused",
        (about(dSSdA), about(SSdA)),
        ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev"),
        (about(ddA_cs), about(ddA_cs_rev), about(dA_cs), about(dA_cs_rev)),
        chunk_size,
        about(cu_seqlens),
    )
    empty, _, chunk, _, _, widen, _, _, _ = plan
    if empty:
        return ddA_cs
    bounds = bounds_or_none(cu_seqlens)
    dadt = mco_generated_ops.bwd_dadt_fused(
        wide(dSSdA, widen),
        wide(SSdA, widen),
        to_slots(ddA_cs, bounds, plan),
        to_slots(ddA_cs_rev, bounds, plan),
        to_slots(dA_cs, bounds, plan),
        to_slots(dA_cs_rev, bounds, plan),
        slot_lengths(bounds, plan),
        chunk_size=chunk + widen,
    )
    return from_slots(dadt, bounds, plan)


def bwd_dtrap_ddt(
    trap: Tensor,
    dt: Tensor,
    dfactor: Tensor,
    dgamma_diag: Tensor,
    chunk_size: int | None = None,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of dt and trap from those of the trapezoid's factors.

    With s = sigmoid(trap): the forward has gamma[t] = s[t]*dt[t] on the diagonal and gamma[t] + (1 -
    s[t+1])*dt[t+1] below it; dgamma_diag and dfactor are their gradients.

    Args:
        trap, dt, dfactor, dgamma_diag: (B, H, S), float32, float16 or bfloat16 each; computed in float32.
        chunk_size: accepted for the sake of the original's signature; the result does not depend on it.
        cu_seqlens: as in :func:`bwd_segsum_dadt`; the first step of each sequence has no step before it.

    Returns:
        (ddt, dtrap), shapes and dtypes of dt and trap, without gradient.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    empty, fill, more_bounds = plan_of_trapezoid(
        (about(trap), about(dt), about(dfactor), about(dgamma_diag)), about(cu_seqlens)
    )
    if empty:
        return dt, trap
    bounds = None if cu_seqlens is None else zeros_after(bounds_or_none(cu_seqlens), more_bounds, -1)
    steps = trap.shape[2]
    ddt, dtrap = mco_generated_ops.bwd_dtrap_ddt(
        zeros_after(ops.cast(trap, mstype.float32), fill, -1),
        zeros_after(ops.cast(dt, mstype.float32), fill, -1),
        zeros_after(ops.cast(dfactor, mstype.float32), fill, -1),
        zeros_after(ops.cast(dgamma_diag, mstype.float32), fill, -1),
        bounds,
    )
    if fill > 0:
        ddt, dtrap = ddt[..., :steps], dtrap[..., :steps]
    return ops.cast(ddt, dt.dtype), ops.cast(dtrap, trap.dtype)
