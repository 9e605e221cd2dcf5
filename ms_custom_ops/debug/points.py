# SPDX-License-Identifier: Apache-2.0
"""Print points: places of a Program at which a debugging run prints values. They are no statements: other
engines and the binary form do not know them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, as_expr
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

Key = tuple[int, int]
_CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*[0-9]*(?:\.[0-9]+)?)(?P<length>hh|h|ll|l)?(?P<kind>[a-zA-Z%])")
_INTEGER, _FLOAT = "diuxXoc", "fFeEgG"


@dataclass(frozen=True)
class Value:
    """A value to print: a number, an expression, or the elements of a tensor view."""

    number: Any = None
    expr: Expr | None = None
    tensor: Tensor | None = None

    def read(self, block: Any, where: str) -> Any:
        """The value in a block that is running: a number or an array of the view's shape."""
        if self.tensor is not None:
            return read_tensor(block, self.tensor, where)
        return self.number if self.expr is None else block.registers.evaluate(self.expr, where)


def capture(value: Any, api: str) -> Value:
    """A TIK value or Python number as it is to be read later; TikError for anything else."""
    if isinstance(value, Tensor):
        value.storage.builder.check_alive(value.storage, api)
        return Value(tensor=value)
    if isinstance(value, Expr):
        return Value(expr=as_expr(value))
    if isinstance(value, (bool, int, float, str, np.generic)):
        return Value(number=value)
    raise TikError(
        describe(api, "value", type(value).__name__, "a tensor, Scalar, expression, number or string"), user_location()
    )


def read_tensor(block: Any, tensor: Tensor, where: str) -> np.ndarray:
    """Elements of a tensor view in a running block; EngineError when they reach beyond the tensor."""

    def known(e: Any) -> int:
        return int(block.registers.evaluate(e, where))

    ref = tensor.ref()
    shape = tuple(known(d) for d in tensor.shape)
    operand = block.memory.operand("debug", "value", ref, known(ref.offset), where)
    steps = np.zeros(shape, np.int64)
    for axis, stride in enumerate(tensor.strides):
        line = np.arange(shape[axis]) * (known(stride) * SIZE[tensor.dtype])
        steps += line.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return operand.load(operand.positions(steps))


@dataclass(frozen=True)
class PrintPoint:
    """One place: after ``previous`` in ``body`` (at its start when None), and the text to print there."""

    body: list
    previous: Any
    location: str
    text: Callable[[Any], str]
    write: Callable[[str], None]

    def run(self, block: Any) -> None:
        """Print the text for a block that is running."""
        self.write(self.text(block))


def points_of(program: ir.Program) -> list[PrintPoint]:
    """The print points of a Program that was traced in this process (a decoded one has none)."""
    # An attribute beside the fields: encoding and comparing Programs must not see it.
    return vars(program).setdefault("debug_points", [])


def by_place(points: list[PrintPoint]) -> dict[Key, list[PrintPoint]]:
    """Points by (body, statement before them)."""
    table: dict[Key, list[PrintPoint]] = {}
    for point in points:
        table.setdefault((id(point.body), id(point.previous)), []).append(point)
    return table


def parse_format(text: Any, count: int) -> Callable[[list[Any]], str]:
    """Formatter of a C format string for ``count`` values; TikError for a conversion it does not have."""
    if not isinstance(text, str):
        raise TikError(describe("printf", "format_string", type(text).__name__, "a string"), user_location())
    kinds = [m.group("kind") for m in _CONVERSION.finditer(text)]
    wrong = [k for k in kinds if k not in f"{_INTEGER}{_FLOAT}s%"]
    stray = _CONVERSION.sub("", text).count("%")
    if wrong or stray:
        given = ", ".join(f"%{k}" for k in wrong) or "a % without a conversion"
        accepted = ", ".join(f"%{k}" for k in f"{_INTEGER}{_FLOAT}s%")
        raise TikError(describe("printf", "format_string", given, accepted), user_location())
    wanted = sum(k != "%" for k in kinds)
    if wanted != count:
        raise TikError(describe("printf", "number of values", count, f"{wanted} for {text!r}"), user_location())

    def render(values: list[Any]) -> str:
        items = iter(values)

        def one(m: re.Match[str]) -> str:
            kind = m.group("kind")
            if kind == "%":
                return "%"
            value = next(items)
            if kind != "s":
                value = np.asarray(value).reshape(-1)[0].item()
                value = int(value) if kind in _INTEGER else float(value)
            return f"%{m.group('flags')}{'d' if kind == 'u' else kind}" % (value,)

        return _CONVERSION.sub(one, text)

    return render
