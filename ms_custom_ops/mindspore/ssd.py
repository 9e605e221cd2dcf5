# SPDX-License-Identifier: Apache-2.0
"""``ssd_chunk_scan`` and ``mamba3_chunk_scan``: the public functions over the generated primitives. Usable in
construct and in plain Python."""

from __future__ import annotations

from mindspore import Tensor

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.lowered import lowered


def ssd_chunk_scan(
    x: Tensor,
    da: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int = 64,
    initial_states: Tensor | None = None,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> tuple[Tensor, Tensor]:
    """State-space scan of Mamba-2 (SSD): ``h[t] = exp(da[t]) h[t-1] + x[t] B[t]^T``, ``y[t] = h[t] C[t]``.

    The steps are taken in chunks: masked products inside, the state h (P, N) between them. Source of the
    chunked form: Dao and Gu, "Transformers are SSMs", 2024, section 6; op_impl/ssd_chunk_scan/bwd.py has the
    gradient.

    Args:
        x: (B, S, H, P), float16, or bfloat16 on split-core chips; P from 1 to 128. In a Mamba-2 layer dt * x.
        da: (B, H, S) float32, logarithm of each step's decay; in a Mamba-2 layer dt * A, never above 0.
        B: (B, S, G, N), dtype of x; G divides H, head i uses group i // (H / G); N from 1 to 256.
        C: shape and dtype of B.
        chunk_size: steps per chunk, 1 to 256; rounded up to a multiple of 16. It changes speed and rounding
            only.
        initial_states: (B, H, P, N) float32, None = zeros. With ``cu_seqlens`` one row per sequence.
        cu_seqlens: packed batch (B = 1): sums of the lengths, from 0 to S, as a list, or as an int32 or int64
            tensor (then steps from its last value on give 0). No state passes from one sequence to the next.

    Returns:
        y, shape and dtype of x; final_states, shape of initial_states, float32. Products take operands in the
        dtype of x and accumulate in float32; sums of da and the states between chunks are float32. A state
        enters a product in the dtype of x: beyond 65504 in float16 it saturates, and a decay factor below
        6e-8 counts as 0 there.
        Gradients flow to x, da, B, C and initial_states. S = 0 returns the initial states.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (x, da, B, C, initial_states, cu_seqlens)
    return lowered("ssd_chunk_scan", mco_generated_ops.ssd_chunk_scan, given, {"chunk_size": chunk_size})


def mamba3_chunk_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    da: Tensor,
    dt: Tensor,
    trap: Tensor,
    chunk_size: int = 16,
    initial_states: Tensor | None = None,
    cu_seqlens: Tensor | list[int] | tuple[int, ...] | None = None,
) -> tuple[Tensor, Tensor]:
    """Core scan of Mamba-3: rank R (MIMO) and the trapezoid rule.

    With s = sigmoid(trap) and ``kv[t] = sum over ranks r of v[t, r] k[t, r]^T``::

        h[t] = exp(da[t]) (h[t-1] + (1 - s[t]) dt[t] kv[t-1]) + s[t] dt[t] kv[t]        o[t, r] = h[t] q[t, r]

    Biases, rotary angles, the D skip, gates and the MIMO projections of the layer are outside.

    Args:
        q, k: (B, S, R, G, N), dtype of v; R from 1 to 16, N from 1 to 256, G divides H.
        v: (B, S, R, H, P), float16, or bfloat16 on split-core chips; P from 1 to 128.
        da: (B, H, S) float32, logarithm of each step's decay.
        dt: (B, H, S) float32, step sizes.
        trap: (B, H, S) float32, before the sigmoid.
        chunk_size: steps per chunk, 1 to 256; rounded up so that a chunk has a multiple of 16 (step, rank)
            rows, and at most 256 of them. It changes speed and rounding only.
        initial_states: (B, H, P, N) float32, None = zeros. kv[-1] is 0; to continue a sequence, pass
            ``h + (1 - s[0]) dt[0] kv`` of its last step. With ``cu_seqlens`` one row per sequence.
        cu_seqlens: packed batch (B = 1), as in :func:`ssd_chunk_scan`. Neither state nor kv pass from one
            sequence to the next: kv before the first step of each is 0.

    Returns:
        o, shape and dtype of v; final_states, shape of initial_states, float32. Precision as in :func:`ssd_chunk_scan`.
        Gradients flow to all tensors but cu_seqlens. S = 0 returns the initial states.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (q, k, v, da, dt, trap, initial_states, cu_seqlens)
    return lowered("mamba3_chunk_scan", mco_generated_ops.mamba3_chunk_scan, given, {"chunk_size": chunk_size})
