# SPDX-License-Identifier: Apache-2.0
"""Text of scalar expressions and back. Every operator has its brackets; a dtype is written where it does not follow.

A constant beside an operand that is none has the dtype of that operand; elsewhere ``5`` is the smallest of int32,
int64, uint64 that holds it, ``2.5`` is float32, and any other constant has its dtype behind it, as ``5:int8``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import limits
from ms_custom_ops.program.dtypes import DTYPES, FLOATS
from ms_custom_ops.program.expr import BINARY_OPS, COMPARE, LOGICAL, UNARY_OPS, Expr, const, int_dtype_of

_CASTS = ("cast", "bitcast")
_TOKEN = re.compile(
    r"\s*(?:(?P<bits>bits<0x[0-9a-f]{16}>)|(?P<number>-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.]))"
    r"|(?P<scalar>%[\w.#]+)|(?P<word>[a-z]\w*)|(?P<op><<|>>|<=|>=|==|!=|[-+*/%&|^<>(),:]))"
)


def number(value: Any, dtype: str) -> str:
    """Digits of a constant; ``bits<...>`` for a float that digits do not give back (a NaN with a payload)."""
    if dtype not in FLOATS:
        return str(int(value))
    digits = repr(float(value))
    exact = struct.pack("<d", float(digits)) == struct.pack("<d", value)
    return digits if exact else f"bits<0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}>"


def _literal_dtype(digits: str) -> str:
    return int_dtype_of(int(digits)) if re.fullmatch(r"-?\d+", digits) else "float32"


def write(root: Any, scalar: Callable[[int], str] = lambda n: f"%{n}") -> str:
    """Text of an expression or a Python number; ``scalar`` gives the name of a register."""
    if not isinstance(root, Expr):
        return str(int(root)) if isinstance(root, int) else number(root, "float32")
    out: list[str] = []
    stack: list[Any] = [(root, "")]  # text to append, or a node and the dtype that a constant there has anyway
    size = 0
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        e, known = item
        size += 1
        if size > limits.EXPRESSION_OPERATORS:
            raise EngineError(f"program text: an expression has more than {limits.EXPRESSION_OPERATORS} operators")
        if e.op == "const":
            digits = number(e.value, e.dtype)
            plain = e.dtype == (known or ("" if digits.startswith("bits") else _literal_dtype(digits)))
            out.append(digits if plain else f"{digits}:{e.dtype}")
        elif e.op == "var":
            out.append(scalar(e.value))
        elif e.op in _CASTS:
            stack += [")", (e.a, ""), f"{e.op}<{e.dtype}>("]
        elif e.b is None:
            stack += [")", (e.a, ""), f"{e.op}("]
        else:
            a = e.b.dtype if e.b.op != "const" else ""
            b = e.a.dtype if e.a.op != "const" else ""
            word = e.op in ("min", "max")
            stack += [")", (e.b, b), ", " if word else f" {e.op} ", (e.a, a), f"{e.op}(" if word else "("]
    return "".join(out)


class _Literal:
    """Digits whose dtype is not settled yet."""

    def __init__(self, digits: str):
        self.digits = digits

    def value(self) -> int | float:
        if self.digits.startswith("bits"):
            return struct.unpack("<d", struct.pack("<Q", int(self.digits[5:-1], 16)))[0]
        return int(self.digits) if re.fullmatch(r"-?\d+", self.digits) else float(self.digits)

    def node(self, dtype: str) -> Expr:
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype}")
        value = self.value()
        if self.digits.startswith("bits"):
            return Expr("const", dtype, value=value)
        return const(value, dtype)


def parse(text: str, scalar: Callable[[str], Expr]) -> Any:
    """Expression of a text, an int of plain digits; ``scalar`` gives the node of a name. ValueError when it is none."""
    reader = _Reader(text, scalar)
    result = reader.operand()
    if reader.at != len(reader.tokens):
        raise ValueError(f"{reader.tokens[reader.at][1]!r} after the end of {text!r}")
    if isinstance(result, _Literal):
        value = result.value()
        return value if isinstance(value, int) else result.node("float32")
    return result


class _Reader:
    def __init__(self, text: str, scalar: Callable[[str], Expr]):
        self.text, self.scalar, self.at = text, scalar, 0
        self.tokens: list[tuple[str, str]] = []
        place, end = 0, len(text.rstrip())
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                raise ValueError(f"{text[place:].strip()!r} in {text!r}")
            self.tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            place = found.end()

    def take(self, wanted: str = "") -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise ValueError(f"the end of {self.text!r} where an operand or a bracket should be")
        token = self.tokens[self.at]
        if wanted and token[1] != wanted:
            raise ValueError(f"{token[1]!r} instead of {wanted!r} in {self.text!r}")
        self.at += 1
        return token

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def operand(self) -> Any:
        """One operand. Brackets nest as deep as expressions may, so the open ones are kept in a list."""
        stack: list[list[Any]] = []  # [operator or "(" , dtype, operands...]
        while True:
            value = self.leaf(stack)
            if value is None:
                continue
            while stack:
                frame = stack[-1]
                frame.append(value)
                value = self.close(stack)
                if value is None:
                    break
            else:
                return value

    def leaf(self, stack: list[list[Any]]) -> Any:
        kind, word = self.take()
        if kind in ("number", "bits"):
            literal = _Literal(word)
            if self.peek() != ":":
                return literal
            self.take(":")
            return literal.node(self.take()[1])
        if kind == "scalar":
            return self.scalar(word)
        dtype = ""
        if kind == "word" and word in _CASTS:
            self.take("<")
            dtype = self.take()[1]
            if dtype not in DTYPES:
                raise ValueError(f"dtype {dtype} in {self.text!r}")
            self.take(">")
        elif word != "(" and word not in UNARY_OPS and word not in ("min", "max"):
            raise ValueError(f"{word!r} in {self.text!r}")
        if word != "(":
            self.take("(")
        stack.append([word, dtype])
        return None

    def close(self, stack: list[list[Any]]) -> Any:
        """The node of the innermost bracket when it ends here; None when another operand follows."""
        word, dtype, *operands = stack[-1]
        if word in _CASTS or word in UNARY_OPS:
            self.take(")")
            stack.pop()
            a = _settle(operands[0], "")
            return Expr(word, dtype or ("bool" if word == "not" else a.dtype), a)
        if len(operands) == 1:
            op = self.take("," if word != "(" else "")[1]
            if word == "(" and op not in BINARY_OPS:
                raise ValueError(f"operator {op!r} in {self.text!r}")
            if word == "(":
                stack[-1][0] = f"({op}"
            return None
        self.take(")")
        stack.pop()
        op = word.lstrip("(")
        a, b = operands
        a = _settle(a, "" if isinstance(b, _Literal) or b.op == "const" else b.dtype)
        b = _settle(b, "" if a.op == "const" else a.dtype)
        return Expr(op, "bool" if op in COMPARE or op in LOGICAL else a.dtype, a, b)


def _settle(value: Any, dtype: str) -> Expr:
    return value.node(dtype or _literal_dtype(value.digits)) if isinstance(value, _Literal) else value
