# SPDX-License-Identifier: Apache-2.0
"""The segment-sum functions over the generated primitives. Usable in construct and in plain Python.

A sequence of S steps is cut into chunks of C steps; ``cu_seqlens`` packs several sequences into the S axis.
The primitives know whole chunks only; op_impl/segsum/public.py fills up what is shorter.
"""

from __future__ import annotations

from mindspore import Parameter, Tensor, ops

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.lowered import eager, lowered

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
    given = (dSSdA, SSdA, ddt_out, cu_seqlens)
    (ddt,) = lowered("bwd_segsum_dadt", mco_generated_ops.bwd_segsum_dadt, given, {"chunk_size": chunk_size})
    if isinstance(ddt_out, Parameter):
        ops.assign(ddt_out, ddt)
    elif eager() and ddt_out.size > 0:
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
    return lowered("dacs_segsum", mco_generated_ops.dacs_segsum, (da, cu_seqlens), {"chunk_size": chunk_size})


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
    (decay,) = lowered("segsum_decay", mco_generated_ops.segsum_decay, (da, cu_seqlens), {"chunk_size": chunk_size})
    return decay


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
    given = (ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, cu_seqlens)
    (dadt,) = lowered("bwd_dadt_cumsum", mco_generated_ops.bwd_dadt_cumsum, given, {"chunk_size": chunk_size})
    return dadt


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
    given = (dSSdA, SSdA, ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, cu_seqlens)
    (dadt,) = lowered("bwd_dadt_fused", mco_generated_ops.bwd_dadt_fused, given, {"chunk_size": chunk_size})
    return dadt


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
            Behind the end of a tensor the results are 0.

    Returns:
        (ddt, dtrap), shapes and dtypes of dt and trap, without gradient.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (trap, dt, dfactor, dgamma_diag, cu_seqlens)
    return lowered("bwd_dtrap_ddt", mco_generated_ops.bwd_dtrap_ddt, given, {})
