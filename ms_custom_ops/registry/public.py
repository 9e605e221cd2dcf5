# SPDX-License-Identifier: Apache-2.0
"""The public form of an op: what a caller may pass, before it is lowered to the primitive.

The ``public`` section of an op has args, returns and constraints in the grammar of the op's own, and:

* ``dtypes`` of a tensor: names of dtypes, or of a tensor whose dtype it has;
* ``shape`` may be a mapping from conditions on attributes (or ``else``) to shapes; the first that holds counts;
* ``broadcast: True``: any shape that broadcasts to it;
* ``values`` of integers that may come as a list: ``{counts: most}``, ``{sums: most}`` (prefix sums that do not fall) or
  ``{bounds: last}`` (from 0 to last, not falling), or a mapping from conditions to these;
* attributes are the primitive's where ``args`` does not name them, those of ``hides`` left out.

Constraints of the primitive that speak of public attributes alone hold here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.expr import Expr
from ms_custom_ops.registry.spec import ArgSpec, Constraint, Dim, ReturnSpec, Shape

KEYS = ("args", "returns", "constraints", "hides", "lower")
ARG_KEYS = ("shape", "dtypes", "default", "broadcast", "values", "dtype", "doc")
RETURN_KEYS = ("shape", "dtype_from", "present_if", "doc")
VALUES = ("counts", "sums", "bounds")
Cases = tuple[tuple[Expr | None, Any], ...]
"""(condition, what holds then); None always holds."""


@dataclass(frozen=True)
class PublicArg(ArgSpec):
    """``shapes``: Dims by condition. ``values``: (rule, limit) by condition, empty for tensors that are no list."""

    dtypes: tuple[str, ...] = ()
    shapes: Cases = ()
    broadcast: bool = False
    values: Cases = ()


@dataclass(frozen=True)
class PublicReturn(ReturnSpec):
    """``shapes``: Dims by condition. ``present_if`` may also name a bool attribute."""

    shapes: Cases = ()


@dataclass(frozen=True)
class PublicSpec:
    """Public form of the op ``name``. ``lower``: "module:function" from a call to its steps."""

    name: str
    args: tuple[PublicArg, ...]
    returns: tuple[PublicReturn, ...]
    constraints: tuple[Constraint, ...]
    lower: str
    symbols: Mapping[str, Expr]
    attributes: tuple[ArgSpec, ...]

    @property
    def tensors(self) -> tuple[PublicArg, ...]:
        return self.args


@dataclass(frozen=True)
class Operand:
    """Shape and dtype of an argument, None where it is absent; ``values`` for integers given as a list; ``other`` says
    what was given that is neither."""

    shape: Shape | None
    dtype: str | None
    values: tuple[Any, ...] | None = None
    other: str = ""

    @property
    def there(self) -> bool:
        """It was given."""
        return self.shape is not None or self.values is not None or bool(self.other)


ABSENT = Operand(None, None)


@dataclass(frozen=True)
class Call:
    """A call of a public function that broke no rule. ``sizes``: shape symbols and attributes, by name."""

    public: PublicSpec
    operands: Mapping[str, Operand]
    attrs: Mapping[str, Any]
    sizes: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """A size, or an attribute."""
        return self.sizes[name]

    def given(self, name: str) -> Operand | None:
        """An argument, None where it is absent."""
        operand = self.operands.get(name, ABSENT)
        return operand if operand.there else None

    def returns(self) -> dict[str, tuple[Shape, str] | None]:
        """Shape and dtype of every return; None for one that was not asked for."""
        found: dict[str, tuple[Shape, str] | None] = {}
        for ret in self.public.returns:
            wanted = ret.present_if is None or self.sizes.get(
                f"present:{ret.present_if}", self.sizes.get(ret.present_if)
            )
            dims: tuple[Dim, ...] = chosen(ret.shapes, self.sizes) if wanted else ()
            shape = tuple(dim.alternatives[0].evaluate(self.sizes) for dim in dims)
            source = ret.dtype_from
            dtype = source if source in NAME_TO_CODE else str(self.operands.get(source, ABSENT).dtype)
            found[ret.name] = (shape, dtype) if wanted else None
        return found


def chosen(cases: Cases, env: Mapping[str, Any]) -> Any:
    """What holds in ``env``, None where nothing does."""
    return next((value for condition, value in cases if condition is None or condition.evaluate(env)), None)
