# SPDX-License-Identifier: Apache-2.0
"""Scalar registers of a kernel: Scalar, ScalarArray, InputScalar and the variable of a loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ms_custom_ops.errors import TikError, TikOverflowError, TikScopeError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, as_expr, binary, cast, var
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import check_condition, check_scalar_conversion
from ms_custom_ops.tik.names import stored_name
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

SCALAR_DTYPES = (
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "bfloat16",
)
# The default of the argument `name`.
DEFAULT_SCALAR = "reg_buf"
DEFAULT_INPUT_SCALAR = "input_scalar"
GM_SCALAR_FAMILIES = ("910B",)


class Scalar(Expr):
    """A mutable register, usable in the scope that made it and in scopes inside that one."""

    __slots__ = ("_b", "name", "alive", "node")

    def __init__(self, builder: Builder, dtype: str, name: str, kind: str = "scalar"):
        if name == DEFAULT_SCALAR:
            name = stored_name()
        number = builder.register(name, dtype, kind)
        super().__init__("var", dtype, value=number)
        self._b = builder
        self.name = builder.program.registers[number].name
        self.alive = True
        self.node = var(number, dtype)
        builder.frames[-1].scalars.append(self)

    def get(self) -> Expr:
        """The register as a plain expression; TikScopeError after its scope ended."""
        if not self.alive:
            raise TikScopeError(
                f"scalar {self.name} is used after its scope ended; accepted: scalars of the open scopes",
                user_location(),
            )
        return self.node

    def set_as(self, value: Any, src_offset: int | Expr | None = None) -> None:
        """Assign a number, Scalar or expression (converted), or load the bits of a tensor element (not
        converted)."""
        b = self._b
        if b.dead:
            return
        node = self.get()
        if isinstance(value, Tensor):
            self._load(value if src_offset is None else value.shifted(src_offset))
            return
        e = as_expr(value)
        if e.op != "const":
            check_scalar_conversion(b, f"Scalar {self.name}.set_as", f"value on {b.soc.name}", e.dtype, self.dtype)
        check_condition(b, f"Scalar {self.name}.set_as", e)
        b.body.append(ir.Assign(node.value, cast(e, self.dtype), b.loc()))

    def _load(self, source: Tensor) -> None:
        b = self._b
        api = f"Scalar {self.name}.set_as"
        b.check_alive(source.storage, api)
        scope = source.storage.buffer.scope
        if scope == ir.GM and b.family not in GM_SCALAR_FAMILIES or scope not in (ir.GM, ir.UB):
            raise b.fail(
                TikScopeError,
                api,
                f"scope of tensor {source.name} on {b.soc.name}",
                scope,
                "ub and gm" if b.family in GM_SCALAR_FAMILIES else "ub",
            )
        width = max(SIZE[self.dtype], SIZE[source.dtype])
        have = source.bytes_left()
        if have is not None and width > have:
            raise TikOverflowError(
                f"{api}: tensor {source.name} overflow: bytes needed {width}, bytes there {have}", user_location()
            )
        source.storage.used = True
        b.body.append(ir.Load(self.node.value, source.ref(), b.loc()))


class LoopVar(Scalar):
    """The variable of a for_range: read only."""

    __slots__ = ()

    def set_as(self, value: Any, src_offset: int | Expr | None = None) -> None:
        """A loop variable cannot be assigned."""
        raise TikError(f"loop variable {self.name} cannot be assigned; accepted: a Scalar", user_location())


class InputScalar(Scalar):
    """A kernel parameter fed by the host: read only."""

    __slots__ = ()

    def set_as(self, value: Any, src_offset: int | Expr | None = None) -> None:
        """An InputScalar cannot be assigned."""
        raise TikError(f"InputScalar {self.name} cannot be assigned; accepted: a Scalar", user_location())


class _Element(Expr):
    """``array[i]`` with an index known only at run time: reads and writes go through a chain of ifs."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: ScalarArray, index: Expr):
        super().__init__("element", array.dtype)
        self._array = array
        self._index = index

    def get(self) -> Expr:
        b = self._array.builder
        result = b.temporary(self.dtype)
        loc = b.loc()
        for k, item in enumerate(self._array.items):
            b.body.append(ir.If(binary("==", self._index, k), [ir.Assign(result.value, item.get(), loc)], [], loc))
        return result

    def set_as(self, value: Any, src_offset: int | Expr | None = None) -> None:
        """Assign the element, see :meth:`Scalar.set_as`."""
        b = self._array.builder
        source = Scalar(b, self.dtype, "tmp")
        source.set_as(value, src_offset)
        loc = b.loc()
        for k, item in enumerate(self._array.items):
            b.body.append(ir.If(binary("==", self._index, k), [ir.Assign(item.value, source.get(), loc)], [], loc))


class ScalarArray:
    """``length`` registers of one dtype; ``array[i]`` is a Scalar, ``i`` a number, Scalar or expression."""

    def __init__(self, builder: Builder, dtype: str, length: int, name: str):
        self.builder = builder
        self.dtype = dtype
        self.name = name = (stored_name() if name == DEFAULT_SCALAR else name) or DEFAULT_SCALAR
        self.items = [Scalar(builder, dtype, f"{name}_{i}") for i in range(length)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        e = as_expr(index)
        known = e.eval_value()
        if known is None:
            return _Element(self, e)
        if not 0 <= known < len(self.items):
            raise TikOverflowError(
                describe(f"ScalarArray {self.name}", "index", known, f"0..{len(self.items) - 1}"), user_location()
            )
        return self.items[int(known)]

    def set_as(self, values: Iterable[Any]) -> None:
        """Assign all elements from a list of equal length (or one number for all of them)."""
        items = list(values) if isinstance(values, (list, tuple, ScalarArray)) else [values] * len(self.items)
        if len(items) != len(self.items):
            raise TikError(
                describe(f"ScalarArray {self.name}.set_as", "length of values", len(items), len(self.items)),
                user_location(),
            )
        for item, value in zip(self.items, items, strict=False):
            item.set_as(value)
