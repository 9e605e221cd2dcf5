# SPDX-License-Identifier: Apache-2.0
"""What Python unrolled, rolled up again: constants stored in a row, instructions that differ by equal steps."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr, binary, var
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.names import MASK_COUNT

_FEWEST = 6


def stores(body: list, index: int) -> tuple[int, list[int]] | None:
    """How many constants are stored one behind the other, by one run or two that take turns, and where they begin."""
    for width in (1, 2):
        runs = [body[index + k : index + k + 1] for k in range(width)]
        if not all(r and _constant_store(r[0]) for r in runs):
            return None
        first = [body[index + k] for k in range(width)]
        if width == 2 and first[0].ref.buffer is first[1].ref.buffer:
            continue
        count = 0
        while all(_continues(body, index + count * width + k, first[k], count) for k in range(width)):
            count += 1
        if count >= _FEWEST:
            return count, [int(s.ref.offset) for s in first]
    return None


def _constant_store(s: Any) -> bool:
    return (isinstance(s, ir.Store) and isinstance(_known(s.ref.offset), int) and _known(s.value) is not None
            and s.ref.dtype in ("float32", "int32", "uint32", "int16", "uint16"))  # fmt: skip


def _known(value: Any) -> Any:
    return value if not isinstance(value, Expr) else value.eval_value()


def _continues(body: list, index: int, first: ir.Store, step: int) -> bool:
    if index >= len(body) or not _constant_store(body[index]):
        return False
    s = body[index]
    return (s.ref.buffer is first.ref.buffer and s.ref.dtype == first.ref.dtype
            and _known(s.ref.offset) == _known(first.ref.offset) + step)  # fmt: skip


COUNTER = -1
"""Number of the register that counts the turns of a rolled loop."""
_ROLLED = 4  # turns that are worth a loop
_LONGEST = 4  # statements of a turn
_WITH_MASK = frozenset(("vadd", "vsub", "vmul", "vmax", "vmin", "vadds", "vmuls", "vexp", "vector_dup", "vmla", "vdiv"))


def series(body: list, index: int) -> tuple[int, list[ir.Instr]] | None:
    """How often a group of instructions is repeated from ``index`` on, and the group with a counter in its numbers."""
    for width in range(1, _LONGEST + 1):
        group = body[index : index + 2 * width]
        if len(group) < 2 * width or not all(isinstance(s, ir.Instr) for s in group):
            return None
        forms = [_form(s) for s in group]
        if any(forms[k][0] != forms[k + width][0] for k in range(width)):
            continue
        steps = [[b - a for a, b in zip(forms[k][1], forms[k + width][1], strict=True)] for k in range(width)]
        count = 2
        while _goes_on(body, index + count * width, forms[:width], steps, count):
            count += 1
        if count >= _ROLLED:
            return count, [_counted(s, step) for s, step in zip(group[:width], steps, strict=True)]
    return None


def _goes_on(body: list, at: int, forms: list, steps: list, count: int) -> bool:
    for k, (form, step) in enumerate(zip(forms, steps, strict=True)):
        s = body[at + k] if at + k < len(body) else None
        if not isinstance(s, ir.Instr):
            return False
        shape, numbers = _form(s)
        if shape != form[0] or numbers != [a + count * d for a, d in zip(form[1], step, strict=True)]:
            return False
    return True


def _form(s: ir.Instr) -> tuple[Any, list[int]]:
    """What must be equal of instructions of a series, and the numbers that may differ by equal steps."""
    fixed: list[Any] = [s.op, s.attrs, s.loc]
    numbers: list[int] = []
    for ref in s.tensors:
        rest, number = split(ref.offset)
        fixed += [id(ref.buffer), ref.dtype, repr(rest)]
        numbers.append(number)
    for name, value in zip(ISA[s.op].args, s.args, strict=True):
        if _may_differ(s, name, value):
            numbers.append(_number(value))
            fixed.append(name)
        else:
            fixed.append(repr(value))
    return tuple(fixed), numbers


def split(e: int | Expr) -> tuple[Expr | None, int]:
    """What varies of an offset, and the constant added to it."""
    if isinstance(e, int):
        return None, e
    if e.op == "const":
        return None, int(e.value)
    if e.op == "+" and e.a is not None and e.b is not None and e.b.op == "const":
        rest, number = split(e.a)
        return rest, number + int(e.b.value)
    return e, 0


def _may_differ(s: ir.Instr, name: str, value: Any) -> bool:
    """Whether an argument may go by steps, as offsets of tensors may: a start, or a count of lanes."""
    if not isinstance(_number(value), int):
        return False
    return name == "index" or (name == "mask0" and s.op in _WITH_MASK and s.attrs[0] == MASK_COUNT)


def _number(value: Any) -> Any:
    """A known argument as a number."""
    return value.eval_value() if isinstance(value, Expr) else value


def _counted(s: ir.Instr, steps: list[int]) -> ir.Instr:
    left = iter(steps)
    tensors = tuple(ir.Ref(t.buffer, t.dtype, _stepped(t.offset, next(left))) for t in s.tensors)
    args = tuple(_stepped(_number(value), next(left)) if _may_differ(s, name, value) else value
                 for name, value in zip(ISA[s.op].args, s.args, strict=True))  # fmt: skip
    return ir.Instr(s.op, tensors, args, s.attrs, s.loc)


def _stepped(start: int | Expr, step: int) -> int | Expr:
    """``start + counter * step``."""
    if not step:
        return start
    rest, number = split(start)
    turned = binary("*", var(COUNTER, "uint32" if step > 0 else "int32"), step)
    found = turned if rest is None else binary("+", rest, turned)
    return binary("+", found, number)
