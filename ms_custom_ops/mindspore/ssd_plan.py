# SPDX-License-Identifier: Apache-2.0
"""Static decisions of ssd_chunk_scan and mamba3_chunk_scan: checks of shapes and dtypes, and what is padded.

Without MindSpore, so that every message can be tested alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ms_custom_ops.errors import OpDtypeError, describe
from ms_custom_ops.mindspore.attention_plan import Operand, Shape, refuse, round_up, static_shape
from ms_custom_ops.op_impl.segsum.chunks import chunk_slots, slot_count

ROWS = 16
"""Steps of a chunk, P and N come in multiples of this to the primitive."""
CHUNK_MAX = 256
SIZE_MAX = 128
STATE_MAX = 256
RANK_MAX = 16
OPERAND_DTYPES = ("float16", "bfloat16")


@dataclass(frozen=True)
class ScanCall:
    """``chunk`` in rows, of which a step has ``rank``, and the elements to append to the steps, P, N and
    ranks; ``sequences`` 0 for a dense batch."""

    empty: bool
    batch: int
    steps: int
    heads: int
    size: int
    state: int
    chunk: int
    pad_steps: int
    pad_size: int
    pad_state: int
    sequences: int = 0
    rank: int = 1
    pad_rank: int = 0

    @property
    def chunk_steps(self) -> int:
        """Steps of a chunk."""
        return self.chunk // self.rank

    @property
    def states_shape(self) -> Shape:
        """Shape of initial and final states."""
        return (self.sequences or self.batch, self.heads, self.size, self.state)


def _dtype(op: str, name: str, given: str | None, accepted: Sequence[str], why: str = "") -> None:
    if given not in accepted:
        raise OpDtypeError(describe(op, f"dtype of {name}", given, " or ".join(accepted) + why))


def _shape(op: str, name: str, operand: Operand, text: str) -> Shape:
    shape = static_shape(name, operand.shape or (), op)
    rank = text.count(",") + 1
    if len(shape) != rank:
        refuse(f"rank of {name}", f"{len(shape)} (shape {shape})", f"{rank}, shape {text}", op)
    return shape


def _float32(op: str, name: str, operand: Operand, wanted: Shape, text: str) -> None:
    shape = static_shape(name, operand.shape or (), op)
    if shape != wanted:
        refuse(name, f"of shape {shape}", f"{text} = {wanted}", op)
    _dtype(op, name, operand.dtype, ("float32",))


def _chunk(op: str, chunk_size: Any) -> int:
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or not 1 <= chunk_size <= CHUNK_MAX:
        refuse("chunk_size", repr(chunk_size), f"an int from 1 to {CHUNK_MAX}", op)
    return chunk_size


def _sizes(op: str, size: int, state: int) -> None:
    if not 1 <= size <= SIZE_MAX:
        refuse("head size P", size, f"1 to {SIZE_MAX}", op)
    if not 1 <= state <= STATE_MAX:
        refuse("state size N", state, f"1 to {STATE_MAX}", op)


def _pair(
    op: str,
    names: tuple[str, str],
    first: Operand,
    second: Operand,
    text: str,
    leading: Shape,
    heads: int,
    dtype: str | None,
    owner: str,
) -> int:
    """N of two operands of equal shape (leading..., G, N)."""
    shapes = [_shape(op, name, x, text) for name, x in zip(names, (first, second), strict=True)]
    for name, operand, shape in zip(names, (first, second), shapes, strict=True):
        _dtype(op, name, operand.dtype, (str(dtype),), f", the dtype of {owner}")
        if shape[:-2] != leading:
            refuse(name, f"of shape {shape}", f"{text} with {leading} of {owner} in front", op)
    if shapes[0] != shapes[1]:
        refuse(names[1], f"of shape {shapes[1]}", f"the shape of {names[0]} {shapes[0]}", op)
    groups = shapes[0][-2]
    if groups < 1 or heads % groups:
        refuse(f"groups G of {names[0]}", groups, f"a divisor of H = {heads} of {owner}", op)
    return shapes[0][-1]


def _sequences(op: str, cu: Operand | None, batch: int, steps: int, owner: str) -> int:
    """Number of packed sequences of ``owner``, 0 for a dense batch."""
    if cu is None or (cu.shape is None and cu.values is None):
        return 0
    if batch != 1:
        refuse(f"batch of {owner}", batch, "1 with cu_seqlens: the sequences lie one after the other", op)
    if cu.values is not None:
        bounds = list(cu.values)
        good = all(isinstance(v, Integral) and not isinstance(v, bool) for v in bounds)
        if not good or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != steps or sorted(bounds) != bounds:
            refuse("cu_seqlens", bounds, f"non-decreasing ints from 0 to S = {steps}", op)
        return len(bounds) - 1
    shape = static_shape("cu_seqlens", cu.shape or (), op)
    if len(shape) != 1 or shape[0] < 2:
        refuse("cu_seqlens", f"of shape {shape}", "(number of sequences + 1,), at least 2 values", op)
    _dtype(op, "cu_seqlens", cu.dtype, ("int32", "int64"))
    return shape[0] - 1


def _check_states(op: str, states: Operand, sequences: int, batch: int, rest: Shape) -> None:
    if states.shape is not None:
        text = "(sequences, H, P, N)" if sequences else "(B, H, P, N)"
        _float32(op, "initial_states", states, (sequences or batch, *rest), text)


def _padded_steps(steps: int, chunk: int, sequences: int) -> int:
    """Steps of whole chunks: of the dense batch, or of all slots of the packed one."""
    return slot_count(steps, chunk, sequences) * chunk if sequences else round_up(steps, chunk)


def plan_ssd(
    x: Operand, da: Operand, b: Operand, c: Operand, chunk_size: Any, states: Operand, cu: Operand | None
) -> ScanCall:
    """Plan of ssd_chunk_scan. Raises OpArgumentError, OpDtypeError."""
    op = "ssd_chunk_scan"
    batch, steps, heads, size = _shape(op, "x", x, "(B, S, H, P)")
    _dtype(op, "x", x.dtype, OPERAND_DTYPES)
    _float32(op, "da", da, (batch, heads, steps), "(B, H, S)")
    state = _pair(op, ("B", "C"), b, c, "(B, S, G, N)", (batch, steps), heads, x.dtype, "x")
    _sizes(op, size, state)
    sequences = _sequences(op, cu, batch, steps, "x")
    _check_states(op, states, sequences, batch, (heads, size, state))
    chunk = min(round_up(_chunk(op, chunk_size), ROWS), max(round_up(steps, ROWS), ROWS))
    return ScanCall(
        batch * steps * heads == 0,
        batch,
        steps,
        heads,
        size,
        state,
        chunk,
        _padded_steps(steps, chunk, sequences) - steps,
        round_up(size, ROWS) - size,
        round_up(state, ROWS) - state,
        sequences,
    )


def plan_mamba3(
    q: Operand,
    k: Operand,
    v: Operand,
    da: Operand,
    dt: Operand,
    trap: Operand,
    chunk_size: Any,
    states: Operand,
    cu: Operand | None,
) -> ScanCall:
    """Plan of mamba3_chunk_scan. Raises OpArgumentError, OpDtypeError."""
    op = "mamba3_chunk_scan"
    batch, steps, rank, heads, size = _shape(op, "v", v, "(B, S, R, H, P)")
    _dtype(op, "v", v.dtype, OPERAND_DTYPES)
    if not 1 <= rank <= RANK_MAX:
        refuse("rank R of v", rank, f"1 to {RANK_MAX}", op)
    for name, operand in (("da", da), ("dt", dt), ("trap", trap)):
        _float32(op, name, operand, (batch, heads, steps), "(B, H, S)")
    state = _pair(op, ("q", "k"), q, k, "(B, S, R, G, N)", (batch, steps, rank), heads, v.dtype, "v")
    _sizes(op, size, state)
    sequences = _sequences(op, cu, batch, steps, "v")
    _check_states(op, states, sequences, batch, (heads, size, state))
    full = 1 << (rank - 1).bit_length()
    unit = ROWS // full  # steps in 16 rows
    most = round_up(max(steps, 1), unit)
    chunk = min(round_up(_chunk(op, chunk_size), unit), most, CHUNK_MAX // full)
    return ScanCall(
        batch * steps * heads == 0,
        batch,
        steps,
        heads,
        size,
        state,
        chunk * full,
        _padded_steps(steps, chunk, sequences) - steps,
        round_up(size, ROWS) - size,
        round_up(state, ROWS) - state,
        sequences,
        rank=full,
        pad_rank=full - rank,
    )


def packed_positions(cu_seqlens: Sequence[int], steps: int, chunk: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int32 arrays: the step in every place of the slots (``steps`` where there is none), the place of every
    step, and the first slot of each sequence, padded to whole blocks.

    ``chunk`` in steps. At least one place without a step follows each sequence: of a last chunk that is full,
    the next slot stays unused, since ``b // chunk - a // chunk`` is the number of chunks then."""
    bounds = [int(v) for v in cu_seqlens]
    rows = slot_count(steps, chunk, len(bounds) - 1) * chunk
    source = np.full(rows, steps, np.int32)
    target = np.zeros(steps, np.int32)
    for slot, first, length in chunk_slots(steps, chunk, bounds):
        source[slot * chunk : slot * chunk + length] = np.arange(first, first + length)
        target[first : first + length] = np.arange(slot * chunk, slot * chunk + length)
    first_chunks = np.array([v // chunk + i for i, v in enumerate(bounds)], np.int32)
    return source, target, np.pad(first_chunks, (0, -len(bounds) % 8))
