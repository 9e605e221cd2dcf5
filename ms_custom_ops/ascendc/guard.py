# SPDX-License-Identifier: Apache-2.0
"""Zones around the arrays of a checked call, which show what a kernel writes through pointers of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ms_custom_ops.engine.findings import Finding, Report

_ZONE = 4096  # bytes on each side
_ALIGNED = 512  # as memory of the device is
_FILL = 0xA5


class _Guarded:
    """One array's place between two zones."""

    def __init__(self, number: int, array: np.ndarray):
        self.number, self.array = number, array
        whole = np.full(array.nbytes + 2 * _ZONE + _ALIGNED, _FILL, np.uint8)
        start = _ZONE + -(whole.ctypes.data + _ZONE) % _ALIGNED
        self.before, self.bytes = whole[:start], whole[start : start + array.nbytes]
        self.behind = whole[start + array.nbytes :]
        self.copy = self.bytes.view(array.dtype).reshape(array.shape)
        self.copy[...] = array

    def found(self, name: str) -> Iterator[Finding]:
        size = self.array.nbytes
        for zone, first, side in ((self.before, -self.before.size, "before"), (self.behind, size, "behind")):
            hit = np.flatnonzero(zone != _FILL)
            if hit.size:
                start, end = int(hit[0]) + first, int(hit[-1]) + 1 + first
                text = (
                    f"{name} writes bytes [{start}, {end}) of argument {self.number}, which has {size}, through a "
                    f"pointer of its own, {side} the argument"
                )
                yield Finding("out_of_bounds", text, tensor=f"argument {self.number}", start=start, end=end,
                              language="ascendc")  # fmt: skip


def _alone(array: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether no other array of the call has bytes of this one, which would then part."""
    return not any(other is not array and np.may_share_memory(array, other) for other in others)


@contextmanager
def guarded(
    name: str, args: Sequence[Any], reachable: Sequence[np.ndarray], report: Report
) -> Iterator[dict[int, np.ndarray]]:
    """Within it the call is to use the arrays given, by ``id`` of those of ``args``; afterwards these hold what the
    kernel has written, and what it wrote into the zones is in the report.

    Arrays that share memory with others, that a kernel finds by addresses (``reachable``) or that may not be written
    stay where they are.
    """
    arrays = [*args, *reachable]
    arrays = [array for array in arrays if isinstance(array, np.ndarray) and array.nbytes]
    known = {id(array) for array in reachable}
    places: dict[int, _Guarded] = {}
    for number, array in enumerate(args):
        fits = isinstance(array, np.ndarray) and array.nbytes and array.flags.c_contiguous and array.flags.writeable
        if fits and id(array) not in known and id(array) not in places and _alone(array, arrays):
            places[id(array)] = _Guarded(number, array)
    try:
        yield {key: place.copy for key, place in places.items()}
    finally:
        for place in places.values():
            place.array[...] = place.copy
            report.findings.extend(place.found(name))
