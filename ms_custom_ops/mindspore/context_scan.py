# SPDX-License-Identifier: Apache-2.0
"""The Mamba scans of a sequence whose steps lie on several ranks: each rank holds the steps behind those of the rank
before it.

What a rank's steps do to a state is ``end = exp(log_decay) * start + gained``. Each rank computes its (log_decay,
gained) without knowing its start, one collective takes these summaries to all ranks, each rank runs them up to its own
start, and the kernel takes that as its initial state. A sequence thus costs two collectives, one for each direction,
of one state per rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore.context_check import check_ranks
from ms_custom_ops.mindspore.context_parallel import ContextGroup, nothing_like
from ms_custom_ops.mindspore.mamba2_layer import Mamba2
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan

_LAYER = "nn.ContextParallelMamba2"


class _Alone(nn.Cell):
    """The part of one rank, among one."""

    def construct(self, x):
        return ops.expand_dims(x, 0)


class _Gathered(nn.Cell):
    """(size, *shape) of the ranks' float32 tensors. The gradient that AllGather has of its own is a ReduceScatter."""

    def __init__(self, group: ContextGroup):
        super().__init__()
        self.all_gather = ops.AllGather(group.name)

    def construct(self, x):
        return self.all_gather(ops.expand_dims(x, 0))


class _Summed(nn.Cell):
    """The same where the backend gathers and scatters in the group of all ranks alone, or not at all (CPU): a sum of
    one rank's part and the others' zeros; its gradient is this rank's part of a sum."""

    def __init__(self, group: ContextGroup):
        super().__init__()
        self.rank = group.rank
        self.mine = Tensor(np.arange(group.size) == group.rank)
        self.all_reduce = ops.AllReduce(ops.ReduceOp.SUM, group.name)

    def construct(self, x):
        x = ops.expand_dims(x, 0)
        mine = ops.reshape(self.mine, (-1,) + (1,) * (len(x.shape) - 1))
        return self.all_reduce(ops.where(mine, x, nothing_like(x)))

    def bprop(self, x, out, d_out):
        # After the forward collective: each of them is on every rank the same one in turn.
        return (self.all_reduce(ops.depend(d_out, out))[self.rank],)


def gathering(group: ContextGroup) -> nn.Cell:
    """The cell that brings a float32 tensor of every rank to all of them, by what the backend has."""
    if group.size == 1:
        return _Alone()
    return _Gathered(group) if group.broadcasts else _Summed(group)


def _masks(rank: int, size: int) -> Tensor:
    """float32 (size, size + 1): row j says of rank j's gain by which ranks' decays it reaches the start of ``rank``;
    the last column whether it does at all. Rank ``size`` stands for the end of the sequence."""
    j, k = np.arange(size)[:, None], np.arange(size)[None]
    return Tensor(np.concatenate([(j < k) & (k < rank), j < rank], 1).astype(np.float32))


class StatePassing(nn.Cell):
    """Summaries of the ranks to the state before this rank's steps and the one after all steps.

    Inputs: log_decay (B, H) and gained (B, H, P, N), float32, of this rank; initial (B, H, P, N), the same on
    all ranks.
    """

    def __init__(self, group: ContextGroup):
        super().__init__()
        self.gather = gathering(group)
        self.before, self.after = _masks(group.rank, group.size), _masks(group.size, group.size)

    def state(self, masks, decays, gains, initial):
        # Computed masks: a product with constant zeros would be folded, and with it what the rank gathers.
        reaches = (masks + nothing_like(ops.reshape(decays, (-1,))[:1])) > 0.5
        between = ops.reshape(reaches[:, :-1], reaches[:, :-1].shape + (1, 1))
        there = ops.reshape(reaches[:, -1:], (-1, 1, 1))
        # Selected, not multiplied: what a later rank holds does not reach an earlier one, were it NaN.
        sums = ops.where(between, ops.expand_dims(decays, 0), ops.zeros_like(decays)).sum(1)
        weights = ops.expand_dims(ops.expand_dims(ops.exp(sums), 3), 4)
        there_too = ops.expand_dims(ops.expand_dims(there, 3), 4)
        state = ops.where(there_too, weights * gains, ops.zeros_like(gains)).sum(0)
        whole = ops.where(there, decays, ops.zeros_like(decays)).sum(0)
        return state + ops.expand_dims(ops.expand_dims(ops.exp(whole), 2), 3) * initial

    def construct(self, log_decay, gained, initial):
        batch, heads, size, width = gained.shape
        flat = ops.concat((ops.expand_dims(log_decay, 2), ops.reshape(gained, (batch, heads, size * width))), 2)
        flat = self.gather(flat)
        decays = flat[:, :, :, 0]
        gains = ops.reshape(flat[:, :, :, 1:], (flat.shape[0], batch, heads, size, width))
        return self.state(self.before, decays, gains, initial), self.state(self.after, decays, gains, initial)


class _Before(nn.Cell):
    """The last ``count`` of the steps before this rank's, (B, count, ...) in the dtype of x (B, S / n, ...); zeros
    before the first step of the sequence. They may lie on several ranks."""

    def __init__(self, group: ContextGroup, count: int):
        super().__init__()
        self.gather, self.rank, self.count = gathering(group), group.rank, count

    def construct(self, x):
        kept = min(self.count, x.shape[1])
        last = self.gather(ops.cast(x[:, x.shape[1] - kept :], mstype.float32))  # exact for what has fewer bits
        last = ops.swapaxes(last, 0, 1)
        last = ops.reshape(last, (x.shape[0], last.shape[1] * kept) + x.shape[2:])
        empty = ops.zeros((x.shape[0], self.count) + x.shape[2:], mstype.float32)
        whole = ops.concat((empty, last), 1)
        return ops.cast(whole[:, self.rank * kept : self.rank * kept + self.count], x.dtype)


def _members(group: Any) -> ContextGroup:
    return ContextGroup(*group) if isinstance(group, tuple) else ContextGroup.of(group)


@ops.constexpr
def _passing(group):
    return StatePassing(_members(group))


@ops.constexpr
def _before(group, count):
    return _Before(_members(group), count)


@ops.constexpr
def _check_rank(op, name, shape, accepted):
    if len(shape) != len(accepted):
        raise OpArgumentError(describe(op, name, f"shape {shape}", f"({', '.join(accepted)})"))


@ops.constexpr
def _check_initial(op, given, wanted):
    if given != wanted:
        raise OpArgumentError(describe(op, "initial_states", f"shape {given}", f"(B, H, P, N) = {wanted}, or None"))


def _to_the_end(da):
    """Sum of da over the steps behind each one: summed from the end, so that a large sum loses no digits near it."""
    return ops.CumSum(exclusive=True, reverse=True)(da, 2)


def _gained(values, keys, weights):
    """float32 (B, H, P, N): sum over the steps of weights * values keys^T; values (B, S, H, P), keys (B, S, G, N),
    weights (B, H, S)."""
    batch, steps, heads, size = values.shape
    groups, width = keys.shape[2], keys.shape[3]
    scaled = ops.cast(values, mstype.float32) * ops.expand_dims(ops.transpose(weights, (0, 2, 1)), 3)
    scaled = ops.transpose(ops.reshape(scaled, (batch, steps, groups, heads // groups * size)), (0, 2, 3, 1))
    keys = ops.transpose(ops.cast(keys, mstype.float32), (0, 2, 1, 3))
    return ops.reshape(ops.bmm(scaled, keys), (batch, heads, size, width))


def context_parallel_ssd_chunk_scan(
    x: Tensor,
    da: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int = 64,
    initial_states: Tensor | None = None,
    *,
    group: str | tuple | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`ssd_chunk_scan` of a sequence whose steps lie on the ranks of a group, in their order; in both modes.

    Every rank calls it at the same place with equal shapes. Steps behind the end of the sequence (:func:`context_rows`
    with ``zigzag=False``) have x = 0 and da = 0, and change no state.

    Args:
        x: (B, S/n, H, P), this rank's steps; float16, or bfloat16 on split-core chips.
        da: (B, H, S/n) float32.
        B, C: (B, S/n, G, N), dtype of x.
        chunk_size: steps per chunk.
        initial_states: (B, H, P, N) float32 before the first step of the whole sequence, the same on all ranks; None =
            zeros.
        group: name of a communication group; None means all ranks.

    Returns:
        y of this rank's steps, shape and dtype of x; final_states (B, H, P, N) float32 after the last step of the whole
        sequence, on every rank.
        Gradients flow to x, da, B, C and initial_states. The loss is the sum over the ranks: that of a tensor which is
        the same on all ranks is the sum of theirs, as with weights.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    op = "context_parallel_ssd_chunk_scan"
    _check_rank(op, "x", x.shape, ("B", "S / n", "H", "P"))
    _check_rank(op, "B", B.shape, ("B", "S / n", "G", "N"))
    _check_rank(op, "da", da.shape, ("B", "H", "S / n"))
    wanted = (x.shape[0], x.shape[2], x.shape[3], B.shape[3])
    if initial_states is None:
        initial_states = ops.zeros(wanted, mstype.float32)
    _check_initial(op, initial_states.shape, wanted)
    gained = _gained(x, B, ops.exp(_to_the_end(da)))
    start, end = _passing(group)(da.sum(2), gained, initial_states)
    y, _ = ssd_chunk_scan(x, da, B, C, chunk_size, start)
    return y, end


def context_parallel_mamba3_chunk_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    da: Tensor,
    dt: Tensor,
    trap: Tensor,
    chunk_size: int = 16,
    initial_states: Tensor | None = None,
    *,
    group: str | tuple | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`mamba3_chunk_scan` of a sequence whose steps lie on the ranks of a group, in their order; in both modes.

    The trapezoid rule reaches one step back, so a rank gets the last keys and values of the one before it as well.
    Steps behind the end of the sequence have da = 0 and dt = 0.

    Args:
        q, k: (B, S/n, R, G, N), dtype of v. v: (B, S/n, R, H, P). da, dt, trap: (B, H, S/n) float32. This rank's steps.
        chunk_size: steps per chunk.
        initial_states: (B, H, P, N) float32 before the first step of the whole sequence, the same on all ranks; None =
            zeros.
        group: name of a communication group; None means all ranks.

    Returns:
        o of this rank's steps, shape and dtype of v; final_states (B, H, P, N) float32 after the last step of the whole
        sequence, on every rank. Gradients as in :func:`context_parallel_ssd_chunk_scan`, to all tensors.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    op = "context_parallel_mamba3_chunk_scan"
    _check_rank(op, "v", v.shape, ("B", "S / n", "R", "H", "P"))
    _check_rank(op, "k", k.shape, ("B", "S / n", "R", "G", "N"))
    for name, tensor in (("da", da), ("dt", dt), ("trap", trap)):
        _check_rank(op, name, tensor.shape, ("B", "H", "S / n"))
    batch, steps, rank, heads, size = v.shape
    groups, width = k.shape[3], k.shape[4]
    wanted = (batch, heads, size, width)
    if initial_states is None:
        initial_states = ops.zeros(wanted, mstype.float32)
    _check_initial(op, initial_states.shape, wanted)
    own = ops.sigmoid(trap) * dt
    later = dt - own  # (1 - sigmoid) dt, with which a step takes the product of the one before it
    last = _before(group, 1)(ops.concat((v.reshape(batch, steps, -1), k.reshape(batch, steps, -1)), 2))
    values = last[:, :, : rank * heads * size].reshape(batch, rank, heads, size)
    keys = last[:, :, rank * heads * size :].reshape(batch, rank, groups, width)
    taken = _gained(values, keys, ops.tile(ops.expand_dims(later[:, :, 0], 2), (1, 1, rank)))
    behind = ops.concat((later[:, :, 1:], ops.zeros((batch, heads, 1), mstype.float32)), 2)
    weights = ops.exp(_to_the_end(da)) * (own + behind)
    gained = _gained(
        v.reshape(batch, steps * rank, heads, size), k.reshape(batch, steps * rank, groups, width),
        ops.repeat_interleave(weights, rank, 2),
    )  # fmt: skip
    log_decay = da.sum(2)
    gained = gained + ops.expand_dims(ops.expand_dims(ops.exp(log_decay), 2), 3) * taken
    start, end = _passing(group)(log_decay, gained, initial_states)
    o, _ = mamba3_chunk_scan(q, k, v, da, dt, trap, chunk_size, start + taken)
    return o, end


class ContextParallelMamba2(Mamba2):
    """:class:`Mamba2` of a sequence whose steps lie on the ranks of ``group``, in their order: the same parameters, so
    that a checkpoint of one is one of the other.

    Args:
        group: name of a communication group, or None for all ranks, which then check that they agree (check_ranks); or
            a :class:`ContextGroup`. The others, by position
            and by name, are those of :class:`Mamba2`; give all ranks one ``seed``.

    Inputs:
        u (B, S/n, d_model), rows ``context_rows(S, group, zigzag=False)`` of the sequence; rows behind its end are
        zeros. Before the first step the states are zeros.

    Outputs:
        (B, S/n, d_model); unspecified behind the end of the sequence.
    """

    def __init__(self, *sizes: Any, group: str | ContextGroup | None = None, **options: Any):
        super().__init__(*sizes, **options)
        members = group if isinstance(group, ContextGroup) else ContextGroup.of(group)
        if members is not group:
            check_ranks(members, **{_LAYER: (sizes, options)})
        self.group = (members.rank, members.size, members.name, members.broadcasts)
        self.before = _Before(members, self.d_conv - 1)

    def construct(self, u: Any) -> Any:  # type: ignore[override]  # what decoding takes is refused
        out, _, _ = self._whole(u, None, None, None)
        return out

    def prefill(self, u: Any, conv_state: Any = None, ssm_state: Any = None, cu_seqlens: Any = None) -> Any:
        """Refused: decoding is for nn.Mamba2, which takes the same parameters."""
        raise OpArgumentError(describe(_LAYER, "prefill", "called", "construct; nn.Mamba2 of the same parameters"))

    def step(self, u: Any, conv_state: Any, ssm_state: Any) -> Any:
        """Refused: decoding is for nn.Mamba2, which takes the same parameters."""
        raise OpArgumentError(describe(_LAYER, "step", "called", "construct; nn.Mamba2 of the same parameters"))

    def _no_steps_before(self, mixed: Any, rows: Any) -> Any:
        if self.d_conv == 1:
            return mixed[:, :0]
        return self.before(mixed)

    def _scan(self, x: Any, da: Any, b: Any, c: Any, ssm_state: Any, cu_seqlens: Any) -> Any:
        return context_parallel_ssd_chunk_scan(x, da, b, c, self.chunk_size, group=self.group)
