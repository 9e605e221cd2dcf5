# SPDX-License-Identifier: Apache-2.0
"""What a row of the instruction table says, and the short form in which rows are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "count": "a number of things, 0 or more",
    "bytes": "a distance or length in bytes, 0 or more",
    "elements": "a distance in elements, 0 or more",
    "blocks": "a distance in blocks of 32 bytes, 0 or more",
    "fractals": "a distance in fractals of 512 bytes, 0 or more",
    "mask": "lanes: a count or 64 bits (mask_kind)",
    "word": "a pattern of 64 bits",
    "value": "a number, converted to a dtype",
}
"""Kinds of arguments. All but "value" are integers, all but "mask", "word" and "value" are not negative."""

SIGNED_KINDS = frozenset({"mask", "word", "value"})
MARKS = ("r", "w", "rw")
CMPMASK_BYTES = 16
"""Of the compare-mask register: a bit for each of 128 lanes."""


@dataclass(frozen=True)
class OperandSpec:
    """A tensor operand. ``mark``: "r", "w" or "rw". ``read_if``: an "rw" operand is read only where this attribute
    is (true) or is not (false) set. ``anywhere``: at which places it is touched is known only while running.
    ``start``: in UB it may start at multiples of so many elements; 0: of a block of 32 bytes."""

    name: str
    mark: str
    read_if: tuple[str, bool] | None = None
    anywhere: bool = False
    start: int = 0


@dataclass(frozen=True)
class ArgSpec:
    """A run-time argument. ``kind`` is one of :data:`KINDS`; ``low`` to ``high`` (inclusive) where its range is
    narrower than the kind. ``run``: the range of a value that is known only while running, as the hardware has it; what
    is known while tracing was held to the rules of the method that was called."""

    name: str
    kind: str
    low: int | None = None
    high: int | None = None
    run: tuple[int, int] | None = None

    @property
    def is_value(self) -> bool:
        """Whether it may be a float."""
        return self.kind == "value"

    @property
    def accepted(self) -> str:
        """Its range, in words."""
        return f"{self.low} to {self.high}" if self.high is not None else "0 or more"


@dataclass(frozen=True)
class AttrSpec:
    """A trace-time attribute: an integer from ``low`` to ``high`` (inclusive), or one of ``values``."""

    name: str
    low: int
    high: int
    values: tuple[int, ...] = ()

    def allows(self, value: int) -> bool:
        """Whether it may be ``value``."""
        return value in self.values if self.values else self.low <= value <= self.high

    @property
    def accepted(self) -> str:
        """Its range, in words."""
        if not self.values:
            return f"{self.low} to {self.high}"
        return f"{', '.join(map(str, self.values[:-1]))} or {self.values[-1]}"


def start_align(scope: str, size: int, elements: int = 0, beside: str = "") -> int:
    """Bytes to which the start of an operand must be aligned; ``size`` is its dtype's size in bytes, ``elements`` what
    its row says of UB, ``beside`` the scope of a move's other operand: the compare mask is moved by its own width."""
    if scope == "ub" and elements:
        return elements * size
    if scope == "ub" and beside == "smask":
        return CMPMASK_BYTES
    if scope in ("ub", "l1"):
        return 32
    if scope == "l0c":
        return 1024 if size == 4 else 512
    return {"gm": 1, "smask": 32, "bt": 64}.get(scope, 512)


class UnknownRouteError(ValueError):
    """A move between scopes that the chip does not have."""


@dataclass(frozen=True)
class Row:
    """One instruction.

    ``pipe`` is a name of PIPES without its prefix, or a table {(dst scope, src scope): pipe} for fused and one for
    split cores (:meth:`pipe_on`). ``lanewise``: a lane of dst depends on the same lane of the sources alone.
    ``access`` (use, operand name) gives the bytes, see :mod:`ms_custom_ops.program.access`. ``layout`` names rows
    that share their operands and arguments, "" where the row stands alone.
    """

    name: str
    operands: tuple[OperandSpec, ...]
    arguments: tuple[ArgSpec, ...]
    attributes: tuple[AttrSpec, ...]
    pipe: str | tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]]
    lanewise: bool
    access: Callable[[Any, str], Any]
    doc: str
    layout: str = ""
    tensors: tuple[str, ...] = field(init=False)
    args: tuple[str, ...] = field(init=False)
    attrs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        for names, specs in (("tensors", self.operands), ("args", self.arguments), ("attrs", self.attributes)):
            object.__setattr__(self, names, tuple(s.name for s in specs))
        every = (*self.tensors, *self.args, *self.attrs)
        if len(set(every)) != len(every):
            raise ValueError(f"{self.name}: a name stands twice in {every}")

    def writes(self, operand: int) -> bool:
        """Whether the bytes of an operand are written."""
        return "w" in self.operands[operand].mark

    def reads(self, operand: int, attrs: Sequence[int]) -> bool:
        """Whether the bytes of an operand are read, with these attributes."""
        spec = self.operands[operand]
        if spec.read_if is not None:
            name, wanted = spec.read_if
            return bool(attrs[self.attrs.index(name)]) == wanted
        return "r" in spec.mark

    def pipe_on(self, split_core: bool, scopes: Sequence[str]) -> str:
        """The pipe that executes it, between these scopes of its operands, on chips whose cube and vector units are
        one core or (``split_core``) two. UnknownRouteError where the chip has no such way."""
        if isinstance(self.pipe, str):
            return self.pipe
        routes = self.pipe[split_core]
        found = routes.get((scopes[0], scopes[1]))
        if found is None:
            have = ", ".join(f"{src} to {dst}" for dst, src in routes)
            kind = "split" if split_core else "fused"
            raise UnknownRouteError(
                f"{self.name}: route on a {kind} core is {scopes[1]} to {scopes[0]}; accepted: {have}"
            )
        return found


_OPERAND = re.compile(r"(\w+):(rw?|w)(?:\[(any|!?\w+)\])?")
_ARG = re.compile(r"(\w+):(\w+)(?:\[(\d+)\.\.(\d+)\])?(?:\{(\d+)\.\.(\d+)\})?")
_ATTR = re.compile(r"(\w+)\[(\d+)\.\.(\d+)\]|(\w+)\[(\d+(?:,\d+)+)\]")


def _parsed(pattern: re.Pattern, row: str, word: str) -> re.Match:
    found = pattern.fullmatch(word)
    if found is None:
        raise ValueError(f"row {row}: {word!r} is none of {pattern.pattern}")
    return found


def _operand(row: str, word: str) -> OperandSpec:
    name, mark, note = _parsed(_OPERAND, row, word).groups()
    if note == "any":
        return OperandSpec(name, mark, anywhere=True)
    if note and note.isdigit():
        return OperandSpec(name, mark, start=int(note))
    return OperandSpec(name, mark, (note.lstrip("!"), note[0] != "!") if note else None)


def _argument(row: str, word: str) -> ArgSpec:
    name, kind, low, high, first, last = _parsed(_ARG, row, word).groups()
    if kind not in KINDS:
        raise ValueError(f"row {row}: kind of {name} is {kind}; accepted: {', '.join(KINDS)}")
    run = (int(first), int(last)) if last else None
    return ArgSpec(name, kind, int(low) if high else None, int(high) if high else None, run)


def _attribute(row: str, word: str) -> AttrSpec:
    name, low, high, other, listed = _parsed(_ATTR, row, word).groups()
    if other:
        values = tuple(map(int, listed.split(",")))
        return AttrSpec(other, min(values), max(values), values)
    return AttrSpec(name, int(low), int(high))


def row(
    name: str,
    operands: str,
    args: str,
    attrs: str,
    pipe: Any,
    access: Callable[[Any, str], Any],
    doc: str,
    lanewise: bool = False,
    layout: str = "",
) -> Row:
    """A row from its short form.

    ``operands``: ``name:mark``, mark r, w or rw, then ``[any]`` where the place is known only while running, ``[8]``
    where it may start at any multiple of 8 elements, or ``[attr]``, ``[!attr]`` where an rw operand is read only with,
    without that attribute. ``args``: ``name:kind``, ``name:kind[low..high]``, ``name:kind{low..high}`` (known only
    while running). ``attrs``: ``name[low..high]`` or ``name[a,b,c]``.
    """
    return Row(
        name,
        tuple(_operand(name, w) for w in operands.split()),
        tuple(_argument(name, w) for w in args.split()),
        tuple(_attribute(name, w) for w in attrs.split()),
        pipe,
        lanewise,
        access,
        doc,
        layout,
    )
