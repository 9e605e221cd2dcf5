# SPDX-License-Identifier: Apache-2.0
"""Numbering of the chunks of ragged and packed sequences; NumPy, for goldens, plans and tests.

A sequence of L steps has ceil(L/C) chunks. In a packed batch, sequence i holds steps cu_seqlens[i] to
cu_seqlens[i+1]-1 and its chunk c has slot cu_seqlens[i]//C + i + c of S//C + (number of sequences) slots:
found without knowing the other lengths, at the price of slots that stay unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe


def split_chunks(op: str, name: str, value: npt.ArrayLike, chunk_size: int) -> np.ndarray:
    """(B, H, S) as float64 (B, H, S/C, C). Raises OpArgumentError unless C divides S."""
    x = np.asarray(value, np.float64)
    if x.ndim != 3:
        raise OpArgumentError(describe(op, f"rank of {name}", f"{x.ndim} (shape {x.shape})", "3, shape (B, H, S)"))
    if chunk_size < 1 or x.shape[2] % chunk_size:
        raise OpArgumentError(describe(op, "chunk_size", chunk_size, f"a divisor of S = {x.shape[2]}"))
    return x.reshape(*x.shape[:2], -1, chunk_size)


def slot_count(steps: int, chunk_size: int, sequences: int | None) -> int:
    """Chunk slots of ``steps`` steps: ceil(S/C) of one sequence (None), S//C + number of packed ones."""
    return -(-steps // chunk_size) if sequences is None else steps // chunk_size + sequences


def chunk_slots(steps: int, chunk_size: int, cu_seqlens: Sequence[int] | None = None) -> list[tuple[int, int, int]]:
    """``(slot, first step, length)`` of every chunk that holds steps."""
    bounds = [0, steps] if cu_seqlens is None else [int(x) for x in cu_seqlens]
    found = []
    for i, (start, stop) in enumerate(pairwise(bounds)):
        for c in range(-(-(stop - start) // chunk_size)):
            first = start + c * chunk_size
            found.append((bounds[i] // chunk_size + i + c, first, min(chunk_size, stop - first)))
    return found


def slot_lengths(steps: int, chunk_size: int, cu_seqlens: Sequence[int] | None = None) -> np.ndarray:
    """int32 (slots,): steps in each slot, 0 where it is unused."""
    sequences = None if cu_seqlens is None else len(cu_seqlens) - 1
    lengths = np.zeros(slot_count(steps, chunk_size, sequences), np.int32)
    for slot, _, length in chunk_slots(steps, chunk_size, cu_seqlens):
        lengths[slot] = length
    return lengths


def pack(x: np.ndarray, chunk_size: int, cu_seqlens: Sequence[int] | None = None) -> np.ndarray:
    """(B, H, S) spread over slots, (B, H, slots*C); 0 where a slot has no step."""
    sequences = None if cu_seqlens is None else len(cu_seqlens) - 1
    out = np.zeros((*x.shape[:2], slot_count(x.shape[2], chunk_size, sequences) * chunk_size), x.dtype)
    for slot, first, length in chunk_slots(x.shape[2], chunk_size, cu_seqlens):
        out[..., slot * chunk_size : slot * chunk_size + length] = x[..., first : first + length]
    return out


def unpack(x: np.ndarray, steps: int, chunk_size: int, cu_seqlens: Sequence[int] | None = None) -> np.ndarray:
    """The steps of (B, H, slots*C) in their order, (B, H, S); steps of no sequence are 0."""
    out = np.zeros((*x.shape[:2], steps), x.dtype)
    for slot, first, length in chunk_slots(steps, chunk_size, cu_seqlens):
        out[..., first : first + length] = x[..., slot * chunk_size : slot * chunk_size + length]
    return out


def slot_places(cu_seqlens: np.ndarray, steps: int, chunk_size: int, slots: int, _: int) -> tuple[np.ndarray, ...]:
    """int32 (slots*C,): step at each place of the slots, ``steps`` where there is none; int32 (slots,): steps per
    slot."""
    bounds = [int(x) for x in cu_seqlens]
    places = np.full(slots * chunk_size, steps, np.int32)
    for slot, first, length in chunk_slots(steps, chunk_size, bounds):
        places[slot * chunk_size : slot * chunk_size + length] = np.arange(first, first + length)
    return places, slot_lengths(steps, chunk_size, bounds)


def packed_steps(cu_seqlens: np.ndarray, steps: int) -> tuple[np.ndarray, ...]:
    """bool (S,): some sequence has the step."""
    return (np.arange(steps) < int(cu_seqlens[-1]),)


def step_places(cu_seqlens: np.ndarray, steps: int, chunk_size: int, slots: int, _: int) -> tuple[np.ndarray, ...]:
    """int32 (S,): place of each step in the slots; behind the slots for steps of no sequence."""
    places = np.full(steps, slots * chunk_size, np.int32)
    for slot, first, length in chunk_slots(steps, chunk_size, [int(x) for x in cu_seqlens]):
        places[first : first + length] = np.arange(slot * chunk_size, slot * chunk_size + length)
    return (places,)
