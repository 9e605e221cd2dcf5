# SPDX-License-Identifier: Apache-2.0
"""Run-time values of scalar expressions: Python numbers that always fit the dtype of their node."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.engine.reference.numbers import int_to_float64_odd, narrow
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, SIZE
from ms_custom_ops.program.expr import Expr, float_to_int, wrap_int

Number = int | float


def fit(value: Number, dtype: str) -> Number:
    """``value`` rounded (floats, to nearest even) or wrapped (integers) to ``dtype``."""
    if dtype in FLOATS:
        return float(narrow(np.asarray(value, np.float64), dtype, False))
    return wrap_int(int(value), dtype)


def convert(value: Number, source: str, dtype: str) -> Number:
    """Numeric conversion between dtypes, as :func:`ms_custom_ops.program.expr.cast` defines it."""
    if dtype in FLOATS:
        if source not in FLOATS:
            wide = np.asarray(value, np.uint64 if value > np.iinfo(np.int64).max else np.int64)
            value = float(int_to_float64_odd(wide.reshape(1))[0])
        return fit(value, dtype)
    return float_to_int(value, dtype) if source in FLOATS else wrap_int(int(value), dtype)


def to_bits(value: Number, dtype: str) -> bytes:
    """The little-endian bytes of a value of ``dtype``."""
    if dtype in FLOATS:
        return narrow(np.asarray(value, np.float64), dtype, False).tobytes()
    return (int(value) & ((1 << SIZE[dtype] * 8) - 1)).to_bytes(SIZE[dtype], "little")


def from_bits(raw: bytes, dtype: str) -> Number:
    """The value that the first bytes of ``raw`` hold in ``dtype``."""
    if dtype == "bool":
        return int(raw[0] != 0)
    value = np.frombuffer(raw, DTYPES[dtype].numpy, 1)[0]
    return float(value) if dtype in FLOATS else int(value)


def _quotient(x: Number, y: Number, dtype: str) -> Number:
    if dtype in FLOATS:
        return float(np.float64(x) / np.float64(y))
    if y == 0:
        raise ZeroDivisionError
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: Number, y: Number, dtype: str) -> Number:
    if dtype in FLOATS:
        return float(np.fmod(np.float64(x), np.float64(y)))
    return x - _quotient(x, y, dtype) * y


def _root(x: Number, dtype: str) -> Number:
    if dtype in FLOATS:
        return float(np.sqrt(np.float64(x)))
    if x < 0:
        raise ValueError(f"sqrt of {x}")
    return math.isqrt(int(x))


def _pattern(x: Number, dtype: str) -> int:
    return int(x) & ((1 << SIZE[dtype] * 8) - 1)


def _shift(x: Number, y: Number, dtype: str) -> tuple[int, int]:
    return int(x), int(y) & (SIZE[dtype] * 8 - 1)


UNARY: dict[str, Callable[[Number, str], Number]] = {
    "neg": lambda x, t: -x,
    "not": lambda x, t: int(not x),
    "invert": lambda x, t: ~int(x),
    "abs": lambda x, t: abs(x),
    "sqrt": _root,
    "bitcount0": lambda x, t: SIZE[t] * 8 - bin(_pattern(x, t)).count("1"),
    "bitcount1": lambda x, t: bin(_pattern(x, t)).count("1"),
    "clz": lambda x, t: SIZE[t] * 8 - _pattern(x, t).bit_length(),
}

BINARY: dict[str, Callable[[Number, Number, str], Number]] = {
    "+": lambda x, y, t: x + y,
    "-": lambda x, y, t: x - y,
    "*": lambda x, y, t: x * y,
    "/": _quotient,
    "%": _remainder,
    "<<": lambda x, y, t: operator.lshift(*_shift(x, y, t)),
    ">>": lambda x, y, t: operator.rshift(*_shift(x, y, t)),
    "&": lambda x, y, t: int(x) & int(y),
    "|": lambda x, y, t: int(x) | int(y),
    "^": lambda x, y, t: int(x) ^ int(y),
    "<": lambda x, y, t: x < y,
    "<=": lambda x, y, t: x <= y,
    ">": lambda x, y, t: x > y,
    ">=": lambda x, y, t: x >= y,
    "==": lambda x, y, t: x == y,
    "!=": lambda x, y, t: x != y,
    "min": lambda x, y, t: y if y < x else x,
    "max": lambda x, y, t: y if y > x else x,
}


class Registers:
    """The scalar registers of one block; reading one that was never set is an error."""

    def __init__(self, names: list[str], dtypes: list[str]):
        self.names, self.dtypes = names, dtypes
        self.values: list[Number | None] = [None] * len(names)

    def set(self, index: int, value: Number, source: str) -> None:
        """Assign with numeric conversion to the register's dtype."""
        self.values[index] = convert(value, source, self.dtypes[index])

    def evaluate(self, e: Expr | Number, where: str) -> Number:
        """Value of an expression (or of a Python number) in its dtype."""
        if not isinstance(e, Expr):
            return e
        if e.op == "const":
            return e.value
        if e.op == "var":
            return self._read(e, where)
        return self._tree(e, where)

    def _read(self, e: Expr, where: str) -> Number:
        value = self.values[e.value]
        if value is None:
            raise EngineError(f"scalar {self.names[e.value]} is read before it was set [{where}]")
        return value

    def _tree(self, root: Expr, where: str) -> Number:
        """Operands before their operator, left to right; the right side of and, or only where it decides. Without
        recursion: expressions may be deep."""
        values: list[Number] = []
        stack: list[tuple[Any, int]] = [(root, 0)]  # a node, and how many of its operands have a value
        while stack:
            e, done = stack.pop()
            if e.op == "const" or e.op == "var":
                values.append(e.value if e.op == "const" else self._read(e, where))
                continue
            if e.op in ("and", "or") and done == 1:
                if bool(values[-1]) == (e.op == "or"):
                    done = 2
                else:
                    values.pop()  # the result is the right side
            if done < (1 if e.b is None else 2):
                stack += [(e, done + 1), (e.b if done else e.a, 0)]
                continue
            try:
                values.append(self._apply(e, values))
            except ZeroDivisionError:
                raise EngineError(f"scalar: integer division by zero in operator {e.op} [{where}]") from None
            except ValueError as error:
                raise EngineError(f"scalar: {error}; accepted: 0 or more [{where}]") from None
        return values.pop()

    def _apply(self, e: Any, values: list[Number]) -> Number:
        """Value of a node whose operands are the last of ``values``, which are taken off."""
        last = values.pop()
        if e.op == "cast":
            return convert(last, e.a.dtype, e.dtype)
        if e.op == "bitcast":
            return from_bits(to_bits(last, e.a.dtype), e.dtype)
        if e.op in ("and", "or"):
            return int(bool(last))
        if e.b is None:
            return fit(UNARY[e.op](last, e.a.dtype), e.dtype)
        return fit(BINARY[e.op](values.pop(), last, e.a.dtype), e.dtype)
