# SPDX-License-Identifier: Apache-2.0
"""``ssd_chunk_scan`` and ``mamba3_chunk_scan``: the public functions over the generated primitives. Usable in
construct and in plain Python."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.attention_plan import Operand
from ms_custom_ops.mindspore.custom import dtype_name
from ms_custom_ops.mindspore.lowered import about as shape_dtype
from ms_custom_ops.mindspore.lowered import about as shape_dtype_or_values
from ms_custom_ops.mindspore.lowered import pad_last, take_last
from ms_custom_ops.mindspore.ssd_plan import packed_positions, plan_mamba3, plan_ssd


def _operand(given: Any) -> Operand:
    """Of (shape, dtype), (None, None), or (values, None)."""
    shape, dtype = given
    if shape is None:
        return Operand(None, None)
    if dtype is None:
        return Operand(None, None, tuple(shape))
    return Operand(tuple(shape), dtype_name(dtype))


def _as_tuple(call: Any) -> tuple:
    return (
        call.empty,
        call.states_shape,
        call.steps,
        call.chunk,
        call.pad_steps,
        call.pad_size,
        call.pad_state,
        call.sequences,
        call.rank,
        call.pad_rank,
    )


@ops.constexpr
def _plan_ssd(x, da, b, c, chunk_size, states, cu):
    return _as_tuple(
        plan_ssd(_operand(x), _operand(da), _operand(b), _operand(c), chunk_size, _operand(states), _operand(cu))
    )


@ops.constexpr
def _plan_mamba3(q, k, v, da, dt, trap, chunk_size, states, cu):
    return _as_tuple(
        plan_mamba3(
            _operand(q),
            _operand(k),
            _operand(v),
            _operand(da),
            _operand(dt),
            _operand(trap),
            chunk_size,
            _operand(states),
            _operand(cu),
        )
    )


@ops.constexpr
def _constant_positions(bounds, steps, chunk):
    source, target, first = packed_positions(bounds, steps, chunk)
    return Tensor(source), Tensor(target), Tensor(first), None


def _owner(at, bounds, sequences):
    """Index of the sequence that holds each place; ``bounds`` (sequences + 1,) begins with 0."""
    behind = ops.cast(ops.expand_dims(at, 1) >= ops.expand_dims(bounds[1:], 0), mstype.int32).sum(1)
    return ops.clamp(ops.cast(behind, mstype.int32), 0, sequences - 1)


def _divided(x, chunk):
    return ops.cast(ops.floor_divide(x, chunk), mstype.int32)


def _computed_positions(cu, sequences, steps, chunk, rows):
    """What :func:`packed_positions` gives, in the graph, of a tensor; and whether some sequence holds a
    step."""
    cu = ops.cast(ops.stop_gradient(cu), mstype.int32)
    first = _divided(cu, chunk) + ops.cast(ops.arange(sequences + 1), mstype.int32)
    row = ops.cast(ops.arange(rows), mstype.int32)
    one = _owner(_divided(row, chunk), first, sequences)
    step = ops.gather(cu, one, 0) + row - ops.gather(first, one, 0) * chunk
    source = ops.where(step < ops.gather(cu, one + 1, 0), step, ops.full_like(step, steps))
    step = ops.cast(ops.arange(steps), mstype.int32)
    one = _owner(step, cu, sequences)
    target = ops.clamp(ops.gather(first, one, 0) * chunk + step - ops.gather(cu, one, 0), 0, rows - 1)
    return source, target, pad_last(first, -(sequences + 1) % 8, 0), step < cu[sequences]


def _positions(cu, sequences, steps, chunk, rows):
    """``(source, target, first, inside)``, None where there is nothing to say: all of a dense batch, and the
    last one of a list, which covers all steps."""
    if sequences == 0:
        return None, None, None, None
    if isinstance(cu, (list, tuple)):
        return _constant_positions(tuple(cu), steps, chunk)
    return _computed_positions(cu, sequences, steps, chunk, rows)


def pad_axis(x, count, axis):
    """``count`` zeros appended along ``axis``."""
    if count == 0:
        return x
    shape = x.shape[:axis] + (count,) + x.shape[axis + 1 :]
    return ops.concat((x, ops.cast(ops.zeros(shape, mstype.float32), x.dtype)), axis)


def _take(x, index, axis):
    """ops.gather; MindSpore's CPU back end cannot gather bfloat16, which float32 holds exactly."""
    if x.dtype == mstype.bfloat16:
        return ops.cast(ops.gather(ops.cast(x, mstype.float32), index, axis), mstype.bfloat16)
    return ops.gather(x, index, axis)


def _first(x, count, axis):
    """The first ``count`` places of axis 1 or 2; bfloat16 by way of float32, see :func:`take_last`."""
    if x.shape[axis] == count:
        return x
    if x.dtype == mstype.bfloat16:
        return ops.cast(_first(ops.cast(x, mstype.float32), count, axis), mstype.bfloat16)
    if axis == 1:
        return x[:, :count]
    return x[:, :, :count]


def _in_chunks(x, axis, source, pad_steps):
    """Steps along ``axis`` in whole chunks, zeros where a chunk has no step."""
    if source is None:
        return pad_axis(x, pad_steps, axis)
    return _take(pad_axis(x, 1, axis), source, axis)


def _in_order(y, steps, target, inside):
    """Steps along axis 1 back in their order; zeros for those of no sequence, whose chunks the kernel need not
    have written."""
    if target is None:
        return _first(y, steps, 1)
    y = _take(y, target, 1)
    if inside is None:
        return y
    kept = ops.cast(y, mstype.float32)
    inside = inside.reshape((1, -1) + (1,) * (kept.ndim - 2))
    return ops.cast(ops.where(inside, kept, ops.zeros_like(kept)), y.dtype)


def _padded_states(states, shape, pad_size, pad_state):
    if states is None:
        return ops.zeros(shape[:2] + (shape[2] + pad_size, shape[3] + pad_state), mstype.float32)
    return pad_axis(pad_last(states, pad_state, 0.0), pad_size, 2)


def _cut_states(states, shape):
    if states.shape == shape:
        return states
    return states[:, :, : shape[2], : shape[3]]


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
    empty, states_shape, steps, chunk, pad_steps, pad_size, pad_state, sequences, _, _ = _plan_ssd(
        shape_dtype(x),
        shape_dtype(da),
        shape_dtype(B),
        shape_dtype(C),
        chunk_size,
        shape_dtype(initial_states),
        shape_dtype_or_values(cu_seqlens),
    )
    if empty:
        final = ops.zeros(states_shape, mstype.float32) if initial_states is None else initial_states
        return ops.zeros_like(x), final
    states = _padded_states(initial_states, states_shape, pad_size, pad_state)
    size = x.shape[3]
    x, B, C = pad_last(x, pad_size, 0.0), pad_last(B, pad_state, 0.0), pad_last(C, pad_state, 0.0)
    source, target, first, inside = _positions(cu_seqlens, sequences, steps, chunk, steps + pad_steps)
    y, final = mco_generated_ops.ssd_chunk_scan(
        _in_chunks(x, 1, source, pad_steps),
        _in_chunks(da, 2, source, pad_steps),
        _in_chunks(B, 1, source, pad_steps),
        _in_chunks(C, 1, source, pad_steps),
        states,
        first,
        chunk_size=chunk,
    )
    return take_last(_in_order(y, steps, target, inside), size), _cut_states(final, states_shape)


def _by_step(x, rank):
    """(B, H, S) -> (B, H, S * rank), each value repeated."""
    batch, heads, steps = x.shape
    return ops.broadcast_to(ops.expand_dims(x, 3), (batch, heads, steps, rank)).reshape(batch, heads, steps * rank)


def _rows(x, source, pad_steps, pad_rank, pad_width):
    """(B, S, R, heads, width) in whole chunks and padded -> (B, S * R, heads, width)."""
    x = pad_axis(pad_last(_in_chunks(x, 1, source, pad_steps), pad_width, 0.0), pad_rank, 2)
    batch, steps, rank, heads, width = x.shape
    return _reshape(x, (batch, steps * rank, heads, width))


def _reshape(x, shape):
    """MindSpore's CPU back end cannot reshape bfloat16, which float32 holds exactly."""
    if x.dtype == mstype.bfloat16:
        return ops.cast(ops.cast(x, mstype.float32).reshape(shape), mstype.bfloat16)
    return x.reshape(shape)


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
    empty, states_shape, steps, chunk, pad_steps, pad_size, pad_state, sequences, rank, pad_rank = _plan_mamba3(
        shape_dtype(q),
        shape_dtype(k),
        shape_dtype(v),
        shape_dtype(da),
        shape_dtype(dt),
        shape_dtype(trap),
        chunk_size,
        shape_dtype(initial_states),
        shape_dtype_or_values(cu_seqlens),
    )
    if empty:
        final = ops.zeros(states_shape, mstype.float32) if initial_states is None else initial_states
        return ops.zeros_like(v), final
    source, target, first, inside = _positions(cu_seqlens, sequences, steps, chunk // rank, steps + pad_steps)
    gamma = ops.sigmoid(trap) * dt
    before, gamma = _in_chunks(dt - gamma, 2, source, pad_steps), _in_chunks(gamma, 2, source, pad_steps)
    # Shifted in chunks: each packed sequence ends before a place of no step, where ``before`` is 0.
    factor = gamma + pad_last(before[..., 1:], 1, 0.0)
    if source is not None:
        # Cuts the gradient from such a place to the first step of the next sequence: it is 0, or a NaN.
        factor = ops.where(source < steps, factor, ops.zeros_like(factor))
    # Rows of a step: the first carries the decay, so that all of them have one running sum.
    decay = ops.expand_dims(_in_chunks(da, 2, source, pad_steps), 3)
    decay = pad_last(decay, rank - 1, 0.0).reshape(decay.shape[0], decay.shape[1], -1)
    o, final = mco_generated_ops.mamba3_chunk_scan(
        _rows(v, source, pad_steps, pad_rank, pad_size),
        decay,
        _by_step(factor, rank),
        _by_step(gamma, rank),
        _rows(k, source, pad_steps, pad_rank, pad_state),
        _rows(q, source, pad_steps, pad_rank, pad_state),
        _padded_states(initial_states, states_shape, pad_size, pad_state),
        first,
        chunk_size=chunk,
        rank=rank,
    )
    batch, _, ranks, heads, size = v.shape
    o = _first(_reshape(o, (batch, -1, rank, heads, size + pad_size)), ranks, 2)
    o = _in_order(o, steps, target, inside)
    return take_last(o, size), _cut_states(final, states_shape)
