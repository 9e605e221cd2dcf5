# SPDX-License-Identifier: Apache-2.0
"""What pipes have touched and who is known to come after it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ms_custom_ops.exporter.accesses import Actor, Touch

Group = tuple[Actor, bool, frozenset]
"""The pipe, whether it writes, and the pipes that come after it (itself among them)."""


class Spans:
    """Disjoint ranges of bytes, in order."""

    __slots__ = ("lows", "highs")

    def __init__(self, lows: list[int] | None = None, highs: list[int] | None = None):
        self.lows, self.highs = lows or [], highs or []

    def copy(self) -> Spans:
        """A copy."""
        return Spans(self.lows[:], self.highs[:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and self.lows == other.lows and self.highs == other.highs

    def __bool__(self) -> bool:
        return bool(self.lows)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.lows, self.highs, strict=True))

    def meets(self, low: int, high: int) -> bool:
        """Whether a byte of [low, high) is in them."""
        at = bisect_right(self.highs, low)
        return at < len(self.lows) and self.lows[at] < high

    def add(self, low: int, high: int) -> None:
        """[low, high) as well."""
        first, last = bisect_left(self.highs, low), bisect_right(self.lows, high)
        if first < last:
            low, high = min(low, self.lows[first]), max(high, self.highs[last - 1])
        self.lows[first:last] = [low]
        self.highs[first:last] = [high]

    def remove(self, low: int, high: int) -> None:
        """Without [low, high)."""
        first, last = bisect_right(self.highs, low), bisect_left(self.lows, high)
        if first >= last:
            return
        lows, highs = [], []
        if self.lows[first] < low:
            lows.append(self.lows[first])
            highs.append(low)
        if self.highs[last - 1] > high:
            lows.append(high)
            highs.append(self.highs[last - 1])
        self.lows[first:last] = lows
        self.highs[first:last] = highs


class Pending:
    """Accesses by memory and group. Accesses that another one comes after, and covers, are left out: who waits for that
    one has waited for them."""

    __slots__ = ("memories",)

    def __init__(self, memories: dict[object, dict[Group, Spans]] | None = None):
        self.memories = memories or {}

    def copy(self) -> Pending:
        """A copy."""
        return Pending({m: {key: spans.copy() for key, spans in groups.items()} for m, groups in self.memories.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and self.memories == other.memories

    def needed(self, touch: Touch) -> set[Actor]:
        """Pipes that an access has to wait for."""
        return {
            actor
            for (actor, writes, after), spans in self.memories.get(touch.memory, {}).items()
            if (writes or touch.writes) and touch.actor not in after and spans.meets(touch.low, touch.high)
        }

    def order(self, before: Actor, after: frozenset) -> None:
        """Everything that ``before`` did or waited for comes before the pipes ``after`` from here on."""
        for groups in self.memories.values():
            for key in [k for k in groups if before in k[2] and not after <= k[2]]:
                _join(groups, (key[0], key[1], key[2] | after), groups.pop(key))

    def add(self, touch: Touch) -> None:
        """An access that has waited for what it must."""
        groups = self.memories.setdefault(touch.memory, {})
        for key in list(groups):
            actor, writes, after = key
            if touch.actor in after and (touch.writes or (actor == touch.actor and not writes)):
                groups[key].remove(touch.low, touch.high)
                if not groups[key]:
                    del groups[key]
        _join(groups, (touch.actor, touch.writes, frozenset((touch.actor,))), Spans([touch.low], [touch.high]))

    def forget(self, memory: object, low: int, high: int) -> None:
        """Without the accesses of [low, high)."""
        groups = self.memories.get(memory, {})
        for key in list(groups):
            groups[key].remove(low, high)
            if not groups[key]:
                del groups[key]

    def within(self, ranges: Iterable[tuple[object, int, int]]) -> Pending:
        """The accesses of some ranges alone."""
        found = Pending()
        for memory, low, high in ranges:
            for key, spans in self.memories.get(memory, {}).items():
                part = Spans([max(a, low) for a, b in spans if a < high and low < b],
                             [min(b, high) for a, b in spans if a < high and low < b])  # fmt: skip
                if part:
                    _join(found.memories.setdefault(memory, {}), key, part)
        return found

    def merged(self, other: Pending) -> Pending:
        """What may be pending where two ways meet."""
        found = self.copy()
        for memory, groups in other.memories.items():
            there = found.memories.setdefault(memory, {})
            for key, spans in groups.items():
                _join(there, key, spans.copy())
        return found


def _join(groups: dict[Group, Spans], key: Group, spans: Spans) -> None:
    there = groups.get(key)
    if there is None:
        groups[key] = spans
        return
    for low, high in spans:
        there.add(low, high)
