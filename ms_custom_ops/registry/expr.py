# SPDX-License-Identifier: Apache-2.0
"""The expression language of op_info files: a whitelist of Python's syntax, parsed and never ``eval``-ed.

Names, integers, floats, quoted strings, ``+ - * // %``, comparisons (also ``in (..)``), ``and or not``,
``min(..)``, ``max(..)``, ``present(arg)`` and ``dtype(arg)``. Values and errors are Python's own: a
division by zero or a string in arithmetic is refused when the expression is evaluated.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ms_custom_ops.errors import OpInfoError

MAX_LENGTH, MAX_DEPTH = 400, 60  # characters and levels: keeps every recursion over the tree shallow
GRAMMAR = (
    "names, numbers, quoted strings, + - * // %, comparisons, in (..), and/or/not, "
    "min(..), max(..), present(arg), dtype(arg)"
)

Env = Mapping[str, Any]
Evaluator = Callable[[Env], Any]


class ExpressionError(OpInfoError):
    """An expression outside the grammar, or one whose evaluation failed."""


@dataclass(frozen=True)
class Expr:
    """A parsed expression. ``names`` are its free names, ``tensors`` the arguments of present() and
    dtype(), ``dtypes`` those of dtype() alone."""

    text: str
    names: frozenset[str]
    tensors: frozenset[str]
    dtypes: frozenset[str]
    _run: Evaluator = field(repr=False, compare=False)

    def evaluate(self, env: Env) -> Any:
        """Value under ``env`` (name -> number, bool or str; ``present:x`` and ``dtype:x`` for the two
        functions).

        Raises:
            ExpressionError: a name is unbound, a divisor is zero, or arithmetic meets something else than
            numbers.
        """
        try:
            return self._run(env)
        except KeyError as error:
            raise ExpressionError(f"'{self.text}': {error.args[0]} is not bound") from None
        except (ArithmeticError, TypeError) as error:
            raise ExpressionError(f"'{self.text}': {error}") from None


_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_REDUCE: dict[str, Callable[..., Any]] = {"min": min, "max": max}


def _number(value: Any) -> Any:
    if not isinstance(value, (int, float)):  # str % and str * have another meaning in Python
        raise TypeError(f"arithmetic needs numbers, got {value!r}")
    return value


class _Compiler:
    """Turns a whitelisted syntax tree into nested closures, so that a call costs no tree walk."""

    def __init__(self, text: str):
        self.text = text
        self.depth = 0
        self.names: set[str] = set()
        self.tensors: set[str] = set()
        self.dtypes: set[str] = set()

    def refuse(self, what: str) -> ExpressionError:
        return ExpressionError(f"'{self.text}': {what} is not part of the expression grammar; accepted: {GRAMMAR}")

    def compile(self, node: ast.AST) -> Evaluator:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"nesting deeper than {MAX_DEPTH}")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.refuse(type(node).__name__)
        result = method(node)
        self.depth -= 1
        return result

    def _constant(self, node: ast.Constant) -> Evaluator:
        value = node.value
        if not isinstance(value, (int, float, str)):
            raise self.refuse(f"the constant {value!r}")
        return lambda env: value

    def _name(self, node: ast.Name) -> Evaluator:
        name = node.id
        self.names.add(name)
        return lambda env: env[name]

    def _binop(self, node: ast.BinOp) -> Evaluator:
        apply = _ARITHMETIC.get(type(node.op))
        if apply is None:
            raise self.refuse(f"the operator {type(node.op).__name__}")
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda env: apply(_number(left(env)), _number(right(env)))

    def _unaryop(self, node: ast.UnaryOp) -> Evaluator:
        value = self.compile(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda env: not value(env)
        apply = _UNARY.get(type(node.op))
        if apply is None:
            raise self.refuse(f"the operator {type(node.op).__name__}")
        return lambda env: apply(_number(value(env)))

    def _boolop(self, node: ast.BoolOp) -> Evaluator:
        values = [self.compile(value) for value in node.values]
        stop_at = isinstance(node.op, ast.Or)

        def run(env: Env) -> Any:
            result = None
            for value in values:
                result = value(env)
                if bool(result) is stop_at:
                    break
            return result

        return run

    def _compare(self, node: ast.Compare) -> Evaluator:
        tests = []
        for op, comparator in zip(node.ops, node.comparators, strict=False):
            apply = _COMPARE.get(type(op))
            if apply is None:
                raise self.refuse(f"the comparison {type(op).__name__}")
            if isinstance(op, (ast.In, ast.NotIn)):
                tests.append((apply, self._choices(comparator)))
            else:
                tests.append((apply, self.compile(comparator)))
        first = self.compile(node.left)

        def run(env: Env) -> bool:
            left = first(env)
            for apply, operand in tests:
                right = operand(env)
                if not apply(left, right):
                    return False
                left = right
            return True

        return run

    def _choices(self, node: ast.AST) -> Evaluator:
        if not isinstance(node, (ast.Tuple, ast.List, ast.Set)) or not all(
            isinstance(item, ast.Constant) and isinstance(item.value, (int, float, str)) for item in node.elts
        ):
            raise self.refuse("'in' without a list of literals at its right")
        values = tuple(item.value for item in node.elts if isinstance(item, ast.Constant))
        return lambda env: values

    def _call(self, node: ast.Call) -> Evaluator:
        name = node.func.id if isinstance(node.func, ast.Name) else "a call of an attribute"
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise self.refuse("a keyword or starred argument")
        if name in _REDUCE and len(node.args) >= 2:
            reduce, values = _REDUCE[name], [self.compile(arg) for arg in node.args]
            return lambda env: reduce(*[_number(value(env)) for value in values])
        if name in ("present", "dtype") and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
            self.tensors.add(node.args[0].id)
            if name == "dtype":
                self.dtypes.add(node.args[0].id)
            key = f"{name}:{node.args[0].id}"
            return lambda env: env[key]
        raise self.refuse(f"a call of {name} with {len(node.args)} argument(s)")


@lru_cache(maxsize=1024)
def parse_expr(text: str) -> Expr:
    """Parses ``text``.

    Raises:
        ExpressionError: the text is no expression of the grammar; the message names the offending part.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; accepted: at most {MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"'{text}': not an expression ({error}); accepted: {GRAMMAR}") from None
    compiler = _Compiler(text)
    run = compiler.compile(tree.body)
    return Expr(text, frozenset(compiler.names), frozenset(compiler.tensors), frozenset(compiler.dtypes), run)
