# SPDX-License-Identifier: Apache-2.0
"""One use of an instruction as the functions that write calls see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ms_custom_ops.exporter.errors import refuse
from ms_custom_ops.exporter.expressions import CPP, Writer
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.names import BLOCK_BYTES, MASK_BITS, MASK_COUNTER, VECTOR_BYTES

if TYPE_CHECKING:
    from ms_custom_ops.errors import ExportError
    from ms_custom_ops.exporter.places import Places

MOST_REPEATS = 255


class Use:
    """Operands, arguments and attributes of one instruction by the names of its row, as C++.

    ``places`` writes tensors; ``before`` and ``after`` collect statements around the call; ``mixed``: there is a part
    for another core.
    """

    def __init__(self, program: ir.Program, s: ir.Instr, places: Places, writer: Writer,
                 fresh: Callable[[str], str], mixed: bool):  # fmt: skip
        self.program, self.s, self.row = program, s, ISA[s.op]
        self.places, self.writer, self.fresh, self.mixed = places, writer, fresh, mixed
        self.args = dict(zip(self.row.args, s.args, strict=True))
        self.attrs = dict(zip(self.row.attrs, s.attrs, strict=True))
        self.refs = dict(zip(self.row.tensors, s.tensors, strict=True))
        self.before: list[str] = []
        self.after: list[str] = []
        self.moved: dict[str, int] = {}  # bytes by which operands are further on than the instruction says

    def refuse(self, what: str, given: object, accepted: str) -> ExportError:
        """The error that names this instruction."""
        return refuse(self.program, self.s, what, given, accepted)

    def dtype(self, operand: str) -> str:
        """dtype of an operand."""
        return self.refs[operand].dtype

    def kind(self, operand: str) -> str:
        """Its C++ type."""
        return CPP[self.dtype(operand)]

    def scope(self, operand: str) -> str:
        """The memory it lies in."""
        return self.refs[operand].buffer.scope

    def need(self, operand: str, *dtypes: str) -> None:
        """ExportError unless an operand is of one of these dtypes."""
        if self.dtype(operand) not in dtypes:
            raise self.refuse(f"dtype of {operand}", self.dtype(operand), ", ".join(dtypes))

    def ref(self, operand: str, dtype: str | None = None) -> str:
        """An operand, read as another dtype of the same width if one is given."""
        ref = self.refs[operand]
        kind = dtype or ref.dtype
        return self.place(ref.buffer, kind, ref.offset, SIZE[ref.dtype], self.moved.get(operand, 0))

    def on_grid(self, operand: str, unit: int) -> bool:
        """Whether an operand is sure to start at a multiple of ``unit`` bytes."""
        ref = self.refs[operand]
        return all(a % unit == 0 for a in ref.buffer.addresses) and _divisible(ref.offset, SIZE[ref.dtype], unit)

    def place(self, buffer: ir.Buffer, dtype: str, offset: int | Expr, unit: int, moved: int = 0) -> str:
        """A tensor from an offset (elements of ``unit`` bytes) on."""
        size = SIZE[dtype]
        if unit != size:
            offset = _scaled(offset, unit, size)
        text = self.places.tensor(buffer, dtype)
        known = offset if isinstance(offset, int) else offset.eval_value()
        if known is not None:
            at = int(known) + moved // size
            return f"{text}[{at}]" if at else text
        index = self.writer.text(offset)
        return f"{text}[{index} + {moved // size}]" if moved else f"{text}[{index}]"

    def known(self, name: str) -> int | None:
        """An argument that is known while exporting."""
        value = self.args[name]
        if isinstance(value, int):
            return value
        found = value.eval_value() if isinstance(value, Expr) else value
        return None if found is None else int(found)

    def number(self, name: str) -> str:
        """An argument as it is."""
        return self.writer.text(self.args[name])

    def value(self, name: str, dtype: str) -> str:
        """A value, converted to a dtype."""
        return self.writer.text(self.args[name], dtype)

    def units(self, name: str, unit: int, what: str, most: int) -> str:
        """A distance in bytes as a number of units."""
        known = self.known(name)
        if known is None:
            return _divided(self.args[name], unit, self.writer)
        if known % unit:
            raise self.refuse(name, f"{known} bytes", f"a multiple of {unit} bytes: {what}")
        if known // unit > most:
            raise self.refuse(name, f"{known} bytes", f"at most {most} x {unit} bytes: {what} holds no more")
        return str(known // unit)

    def blocks(self, name: str, most: int = 255) -> str:
        """A distance in blocks of 32 bytes."""
        return self.units(name, BLOCK_BYTES, "the call counts blocks of 32 bytes", most)

    def lanes(self) -> int:
        """Lanes of a repeat."""
        widest = max(SIZE[t.dtype] for t, o in zip(self.s.tensors, self.row.operands, strict=True)
                     if o.name not in ("sel", "offset", "sr", "count"))  # fmt: skip
        return VECTOR_BYTES // widest

    def mask(self) -> str:
        """The argument that says which lanes are on; a statement before it where it is 128 bits."""
        kind = self.attrs["mask_kind"]
        if kind == MASK_COUNTER:
            self.before.append("SetMaskCount();")
            self.after.append("SetMaskNorm();")
            return _lanes(self.writer.text(self.args["mask0"], "int64"))
        if kind == MASK_BITS:
            name = self.fresh("mask")
            low, high = self.known("mask0"), self.known("mask1")
            words = [self.writer.text(self.args[m], "uint64") if v is None else f"0x{v & (1 << 64) - 1:x}"
                     for m, v in (("mask0", low), ("mask1", high))]  # fmt: skip
            self.before.append(f"uint64_t {name}[2] = {{{words[0]}, {words[1]}}};")
            return name
        return _lanes(self.number("mask0"))

    def repeat(self) -> str:
        """How often it is repeated."""
        return "1" if self.attrs.get("mask_kind") == MASK_COUNTER else self.number("repeat")


Call = Callable[[Use], Sequence[str]]


def _lanes(text: str) -> str:
    """A number of lanes; 0 by its type, since a plain 0 would be the null pointer of a mask in bits as well."""
    return "uint64_t(0)" if text == "0" else text


def _scaled(offset: int | Expr, unit: int, size: int) -> int | Expr:
    from ms_custom_ops.program.expr import binary

    if isinstance(offset, int):
        return offset * unit // size
    return binary("*", offset, unit // size) if unit > size else binary("/", offset, size // unit)


def _divisible(e: int | Expr, times: int, unit: int) -> bool:
    """Whether ``e * times`` is sure to be a multiple of ``unit``."""
    if not isinstance(e, Expr):
        return e * times % unit == 0
    if e.op == "const":
        return int(e.value) * times % unit == 0
    if e.op == "cast" and e.a is not None:
        return _divisible(e.a, times, unit)
    if e.op in ("+", "-") and e.a is not None and e.b is not None:
        return _divisible(e.a, times, unit) and _divisible(e.b, times, unit)
    if e.op == "*" and e.a is not None and e.b is not None:
        for side, other in ((e.a, e.b), (e.b, e.a)):
            if side.op == "const":
                return _divisible(other, times * int(side.value), unit)
    return times % unit == 0


def _divided(value: Any, unit: int, writer: Writer) -> str:
    """An expression over a unit; a product with the unit is taken apart."""
    if isinstance(value, Expr) and value.op == "*":
        for side, other in ((value.b, value.a), (value.a, value.b)):
            if side is not None and side.op == "const" and side.value % unit == 0:
                times = side.value // unit
                return writer.text(other) if times == 1 else f"{writer.operand(other)} * {times}"
    return f"{writer.operand(value)} / {unit}"
