# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions of a Program as C++ with the same value: widths, rounding and division are TIK's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE, SIZE
from ms_custom_ops.program.expr import COMPARE, Expr

CPP = {
    "float16": "half", "bfloat16": "bfloat16_t", "float32": "float", "int8": "int8_t", "uint8": "uint8_t",
    "int16": "int16_t", "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "bool": "bool",
}  # fmt: skip
"""C++ type of a dtype."""

_LEVEL = {"or": 1, "and": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7, "<<": 8,
          ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}  # fmt: skip
_UNARY, _ATOM = 11, 12
_BRACKETED = frozenset(("|", "^", "&", "<<", ">>", "or", "and"))  # beside other operators, compilers ask for brackets
_WORDS = {"or": "||", "and": "&&"}
_WIDE = {"float16": "float", "bfloat16": "float"}
_INT = 4  # bytes of what C++ computes narrower integers in


class NoCppError(ValueError):
    """An expression that has no C++ of the same value on the chip; the text says which, and what is accepted."""


def literal(value: Any, dtype: str) -> str:
    """A constant of a dtype."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in FLOATS:
        return _float_literal(float(value), dtype)
    value = int(value)
    low, high = INT_RANGE["int32"]
    if low < value <= high:
        return str(value)
    if dtype in ("uint32", "uint64"):
        return f"{value}u" if value <= INT_RANGE["uint32"][1] else f"{value}ull"
    if value in (low, INT_RANGE["int64"][0]):
        return f"(-{-(value + 1)}{'' if value == low else 'll'} - 1)"
    return f"{value}ll"


def _float_literal(value: float, dtype: str) -> str:
    if math.isnan(value):
        text = '__builtin_nanf("")'
    elif math.isinf(value):
        text = "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    else:
        text = f"{np.float32(value)!s}"
        text = text if any(c in text for c in ".e") else text + ".0"
        text += "f"
    return text if dtype == "float32" else f"{CPP[dtype]}({text})"


class Writer:
    """Writes expressions; ``scalar`` gives the C++ name of a register. ``helpers`` collects the functions that the
    text calls (:mod:`ms_custom_ops.exporter.helpers`)."""

    def __init__(self, scalar: Callable[[int], str], helpers: set[str]):
        self.scalar, self.helpers = scalar, helpers

    def text(self, value: Any, dtype: str | None = None) -> str:
        """C++ of an expression or number, converted to ``dtype`` where it has another."""
        return self._converted(value, dtype)[0]

    def operand(self, value: Any, dtype: str | None = None) -> str:
        """The same, in brackets unless it is a name, a number or a call."""
        text, level = self._converted(value, dtype)
        return text if level >= _ATOM else f"({text})"

    def _converted(self, value: Any, dtype: str | None) -> tuple[str, int]:
        if not isinstance(value, Expr):
            kind = dtype or ("float32" if isinstance(value, float) else "int32")
            if kind not in FLOATS and kind != "bool" and isinstance(value, float):
                value = int(value)
            return self._constant(literal(value, kind))
        if dtype is not None and value.dtype != dtype:
            value = Expr("cast", dtype, value) if value.op != "const" else Expr("const", dtype, value=value.value)
        return self._node(value)

    @staticmethod
    def _constant(text: str) -> tuple[str, int]:
        return text, _UNARY if text.startswith("-") else _ATOM

    def _node(self, e: Expr) -> tuple[str, int]:
        if e.op == "const":
            return self._constant(literal(e.value, e.dtype))
        if e.op == "var":
            return self.scalar(e.value), _ATOM
        if e.op == "cast":
            return self._cast(e)
        assert e.a is not None
        if e.op == "bitcast":
            self.helpers.add("BitsAs")
            return f"BitsAs<{CPP[e.dtype]}>({self._node(e.a)[0]})", _ATOM
        if e.b is None:
            return self._unary(e)
        if e.op in ("min", "max"):
            name = "Smaller" if e.op == "min" else "Larger"
            self.helpers.add(name)
            kind = CPP[e.dtype]
            return f"{name}<{kind}>({self._node(e.a)[0]}, {self._node(e.b)[0]})", _ATOM
        return self._binary(e)

    def _cast(self, e: Expr) -> tuple[str, int]:
        assert e.a is not None
        source, kind = e.a.dtype, CPP[e.dtype]
        text, level = self._node(e.a)
        if e.dtype == "bool":
            return f"{text if level >= _ATOM else f'({text})'} != 0", _LEVEL["!="]
        if source in FLOATS and e.dtype not in FLOATS:
            self.helpers.add("ToInteger")
            return f"ToInteger<{kind}>({text})", _ATOM
        if e.dtype == "bfloat16":
            return f"ToBfloat16(float({text}))", _ATOM
        if source == "bfloat16":
            text = f"ToFloat({text})"
            return (text, _ATOM) if e.dtype == "float32" else (f"{kind}({text})", _ATOM)
        return f"{kind}({text})", _ATOM

    def _unary(self, e: Expr) -> tuple[str, int]:
        assert e.a is not None
        text, level = self._node(e.a)
        inner = text if level >= _ATOM else f"({text})"
        narrow = SIZE[e.dtype] < _INT and e.dtype not in FLOATS
        if e.op in ("neg", "not", "invert"):
            sign = {"neg": "-", "not": "!", "invert": "~"}[e.op]
            found = sign + inner
            return (f"{CPP[e.dtype]}({found})", _ATOM) if narrow and e.op != "not" else (found, _UNARY)
        if e.op == "abs":
            self.helpers.add("Magnitude")
            return f"Magnitude<{CPP[e.dtype]}>({text})", _ATOM
        if e.op == "sqrt" and e.dtype == "float32":
            return f"sqrt({text})", _ATOM
        if e.op in ("bitcount0", "bitcount1", "clz") and e.dtype == "uint64":
            call = "ScalarCountLeadingZero" if e.op == "clz" else f"ScalarGetCountOfValue<{e.op[-1]}>"
            return f"{CPP[e.dtype]}({call}({text}))", _ATOM
        raise NoCppError(f"{e.op} of {e.dtype}; accepted: sqrt of float32, counts of bits of uint64")

    def _binary(self, e: Expr) -> tuple[str, int]:
        assert e.a is not None and e.b is not None
        common, level = e.a.dtype, _LEVEL[e.op]
        if e.op == "%" and common in FLOATS:
            raise NoCppError(f"% of {common}; accepted: % of integers")
        sides = [self._side(side, level, right, e.op) for right, side in enumerate((e.a, e.b))]
        if e.op in ("<<", ">>"):
            sides[1] = self._shift(e.b, SIZE[common] * 8, sides[1])
        elif common in _WIDE:
            convert = "ToFloat" if common == "bfloat16" else "float"
            sides = [f"{convert}({self._node(side)[0]})" for side in (e.a, e.b)]
        text = f"{sides[0]} {_WORDS.get(e.op, e.op)} {sides[1]}"
        if e.op in COMPARE or e.op in ("and", "or"):
            return text, level
        if common in _WIDE:
            return (f"ToBfloat16({text})" if common == "bfloat16" else f"half({text})"), _ATOM
        if SIZE[common] < _INT and common not in FLOATS:
            return f"{CPP[common]}({text})", _ATOM
        return text, level

    def _side(self, side: Expr, level: int, right: int, op: str) -> str:
        text, found = self._node(side)
        nests = found < level or (found == level and bool(right)) or (found < _UNARY and op in _BRACKETED)
        if found < _UNARY and side.op in _BRACKETED and side.op != op:
            nests = True
        if nests or (right and text.startswith("-")):
            return f"({text})"
        return text

    @staticmethod
    def _shift(by: Expr, bits: int, text: str) -> str:
        if by.op == "const":
            return str(int(by.value) & (bits - 1))
        return f"({text} & {bits - 1})"


def is_integer(dtype: str) -> bool:
    """Whether a dtype is one of the integers."""
    return DTYPES[dtype].kind in "iu"
