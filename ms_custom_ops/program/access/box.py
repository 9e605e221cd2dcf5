# SPDX-License-Identifier: Apache-2.0
"""Boxes of bytes: two nested arithmetic progressions of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Box:
    """Bytes ``start + i * step + j * outer_step + [0, bytes)`` for ``i < count``, ``j < outer_count``, from the
    start of an operand. Never empty."""

    start: int
    bytes: int
    count: int = 1
    step: int = 0
    outer_count: int = 1
    outer_step: int = 0

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + (self.count - 1) * self.step + (self.outer_count - 1) * self.outer_step + self.bytes


def box(start: int, bytes_: int, *loops: int) -> list[Box]:
    """One box, or none when it would be empty. ``loops``: count, step, outer_count, outer_step."""
    if bytes_ <= 0 or any(n <= 0 for n in loops[::2]):
        return []
    found = Box(start, bytes_, *loops)
    if found.count > 1 and found.step == found.bytes:  # runs that follow each other are one
        inner = found.bytes * found.count
        found = Box(start, inner, found.outer_count, found.outer_step)
        if found.count > 1 and found.step == inner:
            found = Box(start, inner * found.count)
    return [found]


def shifted(boxes: Iterable[Box], by: int) -> list[Box]:
    """The boxes ``by`` bytes further on."""
    return [replace(b, start=b.start + by) for b in boxes]


def hull(boxes: Iterable[Box]) -> tuple[int, int]:
    """First byte and one past the last of all boxes; (0, 0) when there are none."""
    found = list(boxes)
    if not found:
        return 0, 0
    return min(b.start for b in found), max(b.end for b in found)


def touched(boxes: Iterable[Box]) -> np.ndarray:
    """Numbers of the bytes in the boxes, ascending, each once (int64)."""
    parts = [
        (
            b.start
            + np.arange(b.outer_count)[:, None, None] * b.outer_step
            + np.arange(b.count)[:, None] * b.step
            + np.arange(b.bytes)
        ).reshape(-1)
        for b in boxes
    ]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def runs(flags: Iterable[bool]) -> list[tuple[int, int]]:
    """[first, end) of each stretch of true flags."""
    padded = [False, *flags, False]
    edges = [i for i, (a, b) in enumerate(pairwise(padded)) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))


def scattered(starts: np.ndarray, bytes_: int) -> list[Box]:
    """Boxes of runs of ``bytes_`` bytes that begin at ``starts`` (any order, repeated or not); runs that meet are
    joined, and equal runs at equal distances are one box."""
    firsts = np.unique(starts)
    if not firsts.size:
        return []
    cut = np.flatnonzero(np.diff(firsts) > bytes_) + 1
    heads = firsts[np.concatenate([[0], cut])]
    lengths = firsts[np.concatenate([cut - 1, [firsts.size - 1]])] + bytes_ - heads
    found: list[Box] = []
    for start, length in zip(heads.tolist(), lengths.tolist(), strict=True):
        last = found[-1] if found else None
        if last is not None and last.bytes == length:
            step = start - (last.start + (last.count - 1) * last.step)
            if last.count == 1 or step == last.step:
                found[-1] = replace(last, count=last.count + 1, step=step)
                continue
        found.append(Box(start, length))
    return found
