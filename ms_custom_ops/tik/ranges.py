# SPDX-License-Identifier: Apache-2.0
"""What the known bounds of loops say about a condition: a branch that can never run is not checked or recorded."""

from __future__ import annotations

from ms_custom_ops.program.dtypes import FLOATS, INT_RANGE
from ms_custom_ops.program.expr import COMPARE, Expr

Interval = tuple[int, int]
Ranges = dict[int, Interval]
"""Register of a loop variable: its lowest and highest value."""


def decided(e: Expr, ranges: Ranges) -> bool | None:
    """The value that a condition has in every turn of the loops around it, None where it may differ."""
    if e.op == "const":
        return bool(e.value)
    if e.op == "cast" and e.dtype == "bool" and e.a is not None and e.a.dtype == "bool":
        return decided(e.a, ranges)
    if e.op == "not":
        assert e.a is not None
        inner = decided(e.a, ranges)
        return None if inner is None else not inner
    if e.op in ("and", "or"):
        assert e.a is not None and e.b is not None
        sides = decided(e.a, ranges), decided(e.b, ranges)
        absorbing = e.op == "or"
        if absorbing in sides:
            return absorbing
        return None if None in sides else not absorbing
    return _compared(e, ranges) if e.op in COMPARE else None


def _compared(e: Expr, ranges: Ranges) -> bool | None:
    assert e.a is not None and e.b is not None
    a, b = interval(e.a, ranges), interval(e.b, ranges)
    if a is None or b is None:
        return None
    if e.op in (">", ">="):
        a, b = b, a
    if e.op in ("<", ">"):
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if e.op in ("<=", ">="):
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    apart, same = a[1] < b[0] or b[1] < a[0], a == b and a[0] == a[1]
    if e.op == "==":
        return False if apart else True if same else None
    return True if apart else False if same else None


def interval(e: Expr, ranges: Ranges) -> Interval | None:
    """Lowest and highest value of an integer expression over loop variables, None where it is not known."""
    if e.dtype in FLOATS or e.dtype == "bool":
        return None
    found = _interval(e, ranges)
    if found is None:
        return None
    low, high = INT_RANGE[e.dtype]
    return found if low <= found[0] and found[1] <= high else None


def _interval(e: Expr, ranges: Ranges) -> Interval | None:
    if e.op == "const":
        return int(e.value), int(e.value)
    if e.op == "var":
        return ranges.get(e.value)
    if e.a is None:
        return None
    a = interval(e.a, ranges)
    if a is None or e.op == "cast":
        return a
    b = interval(e.b, ranges) if e.b is not None else None
    if b is None:
        return None
    if e.op == "+":
        return a[0] + b[0], a[1] + b[1]
    if e.op == "-":
        return a[0] - b[1], a[1] - b[0]
    if e.op == "*":
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    if e.op in ("min", "max"):
        pick = min if e.op == "min" else max
        return pick(a[0], b[0]), pick(a[1], b[1])
    if e.op in ("/", "%") and a[0] >= 0 and b[0] == b[1] > 0:
        return (a[0] // b[0], a[1] // b[0]) if e.op == "/" else (0, min(a[1], b[0] - 1))
    return None


__all__ = ["Ranges", "decided", "interval"]
