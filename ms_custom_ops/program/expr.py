# SPDX-License-Identifier: Apache-2.0
"""Typed scalar expressions of TIK with the arithmetic of the chip's scalar unit.

Operators differ from Python's: ``/`` and ``//`` on integers truncate toward zero, ``%`` takes the sign of the
dividend, results wrap at the width of their dtype, and comparisons give expressions for ``if_scope`` and not Python
truth. Both sides known means the result is folded while tracing.
"""

from __future__ import annotations

import math
import struct
import warnings
from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE, SIZE, round_to
from ms_custom_ops.where import in_host_call, user_frame, user_location

ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("<<", ">>", "&", "|", "^")
COMPARE = ("<", "<=", ">", ">=", "==", "!=")
LOGICAL = ("and", "or")
SELECT = ("min", "max")
BINARY_OPS = ARITHMETIC + BITWISE + COMPARE + LOGICAL + SELECT
UNARY_OPS = ("neg", "not", "invert", "abs", "sqrt", "bitcount0", "bitcount1", "clz")


def wrap_int(value: int, dtype: str) -> int:
    """``value`` modulo the width of ``dtype``, as two's complement for signed dtypes."""
    if dtype == "bool":
        return int(bool(value))
    bits = SIZE[dtype] * 8
    value &= (1 << bits) - 1
    if DTYPES[dtype].kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return value


def int_dtype_of(value: int) -> str:
    """dtype of a Python int immediate: int32 if it fits, else int64, else uint64."""
    for name in ("int32", "int64", "uint64"):
        low, high = INT_RANGE[name]
        if low <= value <= high:
            return name
    raise TikError(f"immediate {value} does not fit in 64 bits", user_location())


def promote(left: str, right: str) -> str:
    """Result dtype of ``+ - *``: float beats int, wider beats narrower, equal width and mixed sign gives unsigned."""
    if left == right:
        return left
    lf, rf = left in FLOATS, right in FLOATS
    if lf or rf:
        if lf and rf:
            return left if SIZE[left] > SIZE[right] else right if SIZE[right] > SIZE[left] else "float32"
        return left if lf else right
    if SIZE[left] != SIZE[right]:
        return left if SIZE[left] > SIZE[right] else right
    return left if DTYPES[left].kind == "u" else right


class Expr:
    """A node: ``op`` is "const", "var", "cast", "bitcast", a unary or a binary operator; ``value`` is the constant
    of a "const" and the register number of a "var"."""

    __slots__ = ("op", "dtype", "a", "b", "value")

    def __init__(self, op: str, dtype: str, a: Expr | None = None, b: Expr | None = None, value: Any = None):
        self.op = op
        self.dtype = dtype
        self.a = a
        self.b = b
        self.value = value

    def eval_value(self) -> int | float | None:
        """The Python number if it is known while tracing, else None."""
        return self.value if self.op == "const" else None

    def get(self) -> Expr:
        """The expression itself (TIK compatibility)."""
        return self

    def astype(self, dtype: str) -> Expr:
        """Numeric conversion to ``dtype``."""
        return cast(self, dtype)

    def reinterpret_cast_to(self, dtype: str) -> Expr:
        """The same bits read as ``dtype`` (equal width)."""
        if SIZE[dtype] != SIZE[self.dtype]:
            raise TikError(
                f"reinterpret_cast_to: {self.dtype} to {dtype}; accepted: a dtype of {SIZE[self.dtype]} bytes",
                user_location(),
            )
        return bitcast(self, dtype)

    def __bool__(self) -> bool:
        if self.op == "const":
            return bool(self.value)
        if in_host_call(user_frame()):
            warnings.warn(
                f"a call of Python's (min, max, sorted, ...) compares TIK expressions at {user_location()}: they are "
                "true for Python, so min and max take their last argument; accepted: scalar_min, scalar_max",
                stacklevel=2,
            )
            return True
        raise TikError(
            "a TIK expression has no Python truth value: use tik_instance.if_scope(...), tik.all(...), "
            "tik.any(...) or tik.negate(...) instead of python if/and/or/not",
            user_location(),
        )

    def __index__(self) -> int:
        if self.op == "const" and self.dtype not in FLOATS:
            return int(self.value)
        raise TikError(
            "a TIK expression that is unknown while tracing cannot be used as a Python integer", user_location()
        )

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, o):
        return binary("+", self, o)

    def __radd__(self, o):
        return binary("+", o, self)

    def __sub__(self, o):
        return binary("-", self, o)

    def __rsub__(self, o):
        return binary("-", o, self)

    def __mul__(self, o):
        return binary("*", self, o)

    def __rmul__(self, o):
        return binary("*", o, self)

    def __truediv__(self, o):
        return binary("/", self, o)

    def __rtruediv__(self, o):
        return binary("/", o, self)

    def __floordiv__(self, o):
        return binary("/", self, o)

    def __rfloordiv__(self, o):
        return binary("/", o, self)

    def __mod__(self, o):
        return binary("%", self, o)

    def __rmod__(self, o):
        return binary("%", o, self)

    def __lshift__(self, o):
        return binary("<<", self, o)

    def __rlshift__(self, o):
        return binary("<<", o, self)

    def __rshift__(self, o):
        return binary(">>", self, o)

    def __rrshift__(self, o):
        return binary(">>", o, self)

    def __and__(self, o):
        return binary("&", self, o)

    def __rand__(self, o):
        return binary("&", o, self)

    def __or__(self, o):
        return binary("|", self, o)

    def __ror__(self, o):
        return binary("|", o, self)

    def __xor__(self, o):
        return binary("^", self, o)

    def __rxor__(self, o):
        return binary("^", o, self)

    def __lt__(self, o):
        return binary("<", self, o)

    def __le__(self, o):
        return binary("<=", self, o)

    def __gt__(self, o):
        return binary(">", self, o)

    def __ge__(self, o):
        return binary(">=", self, o)

    def __eq__(self, o):
        return binary("==", self, o)

    def __ne__(self, o):
        return binary("!=", self, o)

    def __neg__(self):
        return unary("neg", self)

    def __invert__(self):
        return unary("invert", self)

    def __abs__(self):
        return unary("abs", self)

    def __repr__(self) -> str:
        from ms_custom_ops.program.expr_text import write

        return write(self)


def const(value: int | float | bool, dtype: str | None = None) -> Expr:
    """An immediate. Without ``dtype``: bool, int32/int64/uint64 by size, float32."""
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, float):
            dtype = "float32"
        else:
            dtype = int_dtype_of(int(value))
    if dtype in FLOATS:
        return Expr("const", dtype, value=round_to(float(value), dtype))
    return Expr("const", dtype, value=wrap_int(int(value), dtype))


def var(register: int, dtype: str) -> Expr:
    """A reference to a scalar register."""
    return Expr("var", dtype, value=register)


def as_expr(value: Any) -> Expr:
    """Expr of an Expr, of an object with ``get()`` (Scalar, InputScalar, loop variable) or of a Python number."""
    if isinstance(value, Expr):
        return value.get()
    if isinstance(value, (bool, int, float)):
        return const(value)
    if hasattr(value, "__tik_expr__"):
        return value.__tik_expr__()
    if hasattr(value, "__index__"):
        return const(int(value))
    if hasattr(value, "__float__"):
        return const(float(value))
    raise TikError(
        f"scalar operand is {type(value).__name__}; accepted: a number, Scalar, InputScalar or expression",
        user_location(),
    )


def cast(a: Expr, dtype: str) -> Expr:
    """Numeric conversion; float to integer truncates toward zero and saturates, as the scalar unit does."""
    if a.dtype == dtype:
        return a
    if a.op == "const":
        if dtype not in FLOATS and a.dtype in FLOATS:
            return const(float_to_int(a.value, dtype), dtype)
        return const(a.value, dtype)
    return Expr("cast", dtype, a)


def float_to_int(value: float, dtype: str) -> int:
    """Truncation toward zero with saturation; NaN gives 0."""
    if math.isnan(value):
        return 0
    if dtype == "bool":
        return int(value != 0)
    low, high = INT_RANGE[dtype]
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(math.trunc(value), low), high)


def bitcast(a: Expr, dtype: str) -> Expr:
    """The bits of ``a`` read as ``dtype`` of equal width."""
    if a.dtype == dtype:
        return a
    if a.op == "const":
        return const(_from_bits(_to_bits(a.value, a.dtype), dtype), dtype)
    return Expr("bitcast", dtype, a)


def _to_bits(value: int | float, dtype: str) -> bytes:
    if dtype in FLOATS:
        import numpy as np

        return np.asarray(value, dtype=np.float64).astype(DTYPES[dtype].numpy).tobytes()
    return (int(value) & ((1 << SIZE[dtype] * 8) - 1)).to_bytes(SIZE[dtype], "little")


def _from_bits(raw: bytes, dtype: str) -> int | float:
    if dtype == "float32":
        return struct.unpack("<f", raw)[0]
    import numpy as np

    return (
        np.frombuffer(raw, dtype=DTYPES[dtype].numpy)[0].item()
        if dtype != "bfloat16"
        else float(np.frombuffer(raw, dtype=DTYPES[dtype].numpy)[0])
    )


def unary(op: str, value: Any) -> Expr:
    """A unary node, folded if the operand is known."""
    a = as_expr(value)
    dtype = "bool" if op == "not" else a.dtype
    if a.op == "const":
        if op == "neg":
            return const(-a.value, dtype)
        if op == "not":
            return const(not a.value, "bool")
        if op == "invert":
            return const(~int(a.value), dtype)
        if op == "abs":
            return const(abs(a.value), dtype)
    return Expr(op, dtype, a)


def _literal(value: Any, other: str) -> Expr:
    """A Python number beside an Expr: an integral number takes the Expr's dtype when it fits, a fraction beside an
    integer promotes to float32."""
    if isinstance(value, bool) or isinstance(value, Expr) or not isinstance(value, (int, float)):
        return as_expr(value)
    if other in FLOATS:
        return const(float(value), other)
    if isinstance(value, float) and not value.is_integer():
        return const(value, "float32")
    value = int(value)
    if other != "bool":
        low, high = INT_RANGE[other]
        if low <= value <= high:
            return const(value, other)
    return const(value)


def binary(op: str, left: Any, right: Any) -> Expr:
    """A binary node with TIK promotion, folded if both operands are known."""
    a = left.get() if isinstance(left, Expr) else None
    b = right.get() if isinstance(right, Expr) else None
    if a is None:
        a = _literal(left, b.dtype if b is not None else "int32")
    if b is None:
        b = _literal(right, a.dtype)
    if op in LOGICAL:
        common = dtype = "bool"
    elif op in ("<<", ">>"):
        common = dtype = a.dtype
    else:
        common = promote(a.dtype, b.dtype)
        dtype = "bool" if op in COMPARE else common
    if op in BITWISE and common in FLOATS:
        raise TikError(f"operator {op} on {common}; accepted: integer dtypes", user_location())
    if a.op == "const" and b.op == "const":
        return const(fold(op, cast(a, common).value, cast(b, common).value, common), dtype)
    if b.op == "const":
        if op in ("+", "-", "<<", ">>", "|", "^") and b.value == 0 and a.dtype == dtype:
            return a
        if op in ("*", "/") and b.value == 1 and a.dtype == dtype:
            return a
    elif a.op == "const":
        if (op == "+" and a.value == 0 or op == "*" and a.value == 1) and b.dtype == dtype:
            return b
    return Expr(op, dtype, cast(a, common), cast(b, common))


def fold(op: str, x: int | float, y: int | float, dtype: str) -> int | float | bool:
    """Value of ``x op y`` in ``dtype`` before rounding or wrapping."""
    if op == "+":
        return x + y
    if op == "-":
        return x - y
    if op == "*":
        return x * y
    if op in ("/", "%"):
        return _divide(op, x, y, dtype)
    if op in COMPARE:
        return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[op]
    if op == "and":
        return bool(x) and bool(y)
    if op == "or":
        return bool(x) or bool(y)
    if op in SELECT:
        return min(x, y) if op == "min" else max(x, y)
    bits = SIZE[dtype] * 8
    if op in ("<<", ">>"):
        shift = int(y) & (bits - 1)
        return int(x) << shift if op == "<<" else int(x) >> shift
    return {"&": int(x) & int(y), "|": int(x) | int(y), "^": int(x) ^ int(y)}[op]


def _divide(op: str, x: int | float, y: int | float, dtype: str) -> int | float:
    if dtype in FLOATS:
        if op == "/":
            return x / y if y != 0 else math.copysign(math.inf, x) if x else math.nan
        return math.fmod(x, y) if y != 0 else math.nan
    if y == 0:
        raise TikError(f"integer division by zero in {x} {op} {y}", user_location())
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient if op == "/" else x - quotient * y
