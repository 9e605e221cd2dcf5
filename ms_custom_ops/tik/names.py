# SPDX-License-Identifier: Apache-2.0
"""The name that the kernel's source gives to a value: the target of the assignment, or of ``as``, that receives it.

It is read from the bytecode after the running call, so ``count = tik_instance.Scalar(...)`` is ``count`` and
``with tik_instance.for_range(...) as j`` is ``j``. A function of the kernel that only returns the value is looked
through. Values that go into no plain name (an element of a list, an argument) have none.
"""

from __future__ import annotations

import opcode
from types import CodeType, FrameType

from ms_custom_ops.where import user_frame

_SKIPPED = tuple(opcode.opmap[n] for n in ("CACHE", "NOP", "PRECALL") if n in opcode.opmap)
_EXTENDED, _UNPACK, _RETURN = (opcode.opmap[n] for n in ("EXTENDED_ARG", "UNPACK_SEQUENCE", "RETURN_VALUE"))
_LOCAL = opcode.opmap["STORE_FAST"]
_CELL = opcode.opmap["STORE_DEREF"]
_GLOBAL = (opcode.opmap["STORE_NAME"], opcode.opmap["STORE_GLOBAL"])
_ATTRIBUTE = opcode.opmap["STORE_ATTR"]
_LOADS = tuple(opcode.opmap[n] for n in ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF") if n in opcode.opmap)

# Code is kept with its answers: the id of a dead one could be given to another.
_known: dict[tuple[int, int], tuple[CodeType, tuple[str, ...] | None]] = {}
_LIMIT = 1 << 16


def stored_names() -> tuple[str, ...]:
    """The names that the value of the running call of the front end is stored in; empty when there is none."""
    frame: FrameType | None = user_frame()
    while frame is not None:
        code = frame.f_code
        key = id(code), frame.f_lasti
        known = _known.get(key)
        if known is None:
            if len(_known) >= _LIMIT:
                _known.clear()
            known = _known[key] = code, _names_after(code, frame.f_lasti)
        if known[1] is not None:
            return known[1]
        frame = frame.f_back
    return ()


def stored_name() -> str:
    """The one name, or an empty string."""
    names = stored_names()
    return names[0] if len(names) == 1 else ""


def _names_after(code: CodeType, at: int) -> tuple[str, ...] | None:
    """Names stored by the instructions after ``at``; None when the value is returned to the caller."""
    steps = _Steps(code, at)
    op, arg = steps.next()
    if op == _RETURN:
        return None
    if op == _UNPACK:
        return tuple([steps.name(*steps.next()) for _ in range(arg)])
    if op in _LOADS:
        op, arg = steps.next()
        return (code.co_names[arg],) if op == _ATTRIBUTE else ()
    name = steps.name(op, arg)
    return (name,) if name else ()


class _Steps:
    """The instructions of a code object after a place."""

    def __init__(self, code: CodeType, at: int):
        self.code, self.raw, self.at = code, code.co_code, at + 2

    def next(self) -> tuple[int, int]:
        """Operation and argument of the next one."""
        high = 0
        while self.at + 1 < len(self.raw):
            op, arg = self.raw[self.at], self.raw[self.at + 1] | high
            self.at += 2
            if op == _EXTENDED:
                high = arg << 8
            elif op not in _SKIPPED:
                return op, arg
        return -1, 0

    def name(self, op: int, arg: int) -> str:
        """The plain name that an instruction stores into, or an empty string."""
        code = self.code
        if op == _LOCAL:
            return code.co_varnames[arg]
        if op in _GLOBAL:
            return code.co_names[arg]
        if op != _CELL:
            return ""
        find = getattr(code, "_varname_from_oparg", None)  # from Python 3.11 on, cells are numbered with the locals
        return find(arg) if find is not None else (code.co_cellvars + code.co_freevars)[arg]
