# SPDX-License-Identifier: Apache-2.0
"""The Program: what a kernel records and what the engines run.

A Program is a tree of statements over typed expressions (:mod:`ms_custom_ops.program.expr`), tables of buffers and
scalar registers, and a source location per statement. It knows no chip: every size and address was decided while
tracing. :mod:`ms_custom_ops.program.text` is the readable form, :mod:`ms_custom_ops.program.codec` the binary one;
docs/program.md describes both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr

GM, UB, L1, L0A, L0B, L0C, BT, SMASK = "gm", "ub", "l1", "l0a", "l0b", "l0c", "bt", "smask"
SCOPES = (GM, UB, L1, L0A, L0B, L0C, BT, SMASK)
KINDS = ("input", "output", "workspace", "local")
MEMORY_META = "memory"  # key of Program.meta: the number of the last input, which stands for memory behind addresses


class Buffer:
    """A tensor's storage. ``size_bytes`` is -1 for a GM buffer whose size is known only when it is fed.

    ``address`` is the byte offset inside the on-chip buffer of its scope (0 for GM). A tensor made inside loops with
    ``thread_num`` exists once per thread: ``addresses`` has the place of every copy, the first is ``address``.
    ``atomic_init`` says that the framework fills the GM buffer before launch: with ``init_value``, else with zeros.
    ``init_value`` is the initial content of a workspace: a number for all elements, or the bytes of all of them.
    """

    __slots__ = (
        "index",
        "name",
        "scope",
        "dtype",
        "shape",
        "size_bytes",
        "addresses",
        "kind",
        "atomic_init",
        "init_value",
        "loc",
    )

    def __init__(
        self,
        index: int,
        name: str,
        scope: str,
        dtype: str,
        shape: tuple,
        size_bytes: int,
        address: int = 0,
        kind: str = "local",
        atomic_init: bool = False,
        init_value: Any = None,
        loc: int = 0,
        addresses: tuple[int, ...] = (),
    ):
        self.index = index
        self.name = name
        self.scope = scope
        self.dtype = dtype
        self.shape = shape
        self.size_bytes = size_bytes
        self.addresses = addresses or (address,)
        self.kind = kind
        self.atomic_init = atomic_init
        self.init_value = init_value
        self.loc = loc

    @property
    def address(self) -> int:
        """Place of the first copy."""
        return self.addresses[0]

    @address.setter
    def address(self, value: int) -> None:
        self.addresses = (value, *self.addresses[1:])


class Ref:
    """A tensor operand: ``offset`` elements of ``dtype`` into ``buffer``."""

    __slots__ = ("buffer", "dtype", "offset")

    def __init__(self, buffer: Buffer, dtype: str, offset: int | Expr):
        self.buffer = buffer
        self.dtype = dtype
        self.offset = offset


@dataclass
class Register:
    """A scalar register. ``kind`` is "scalar", "loop" or "input" (an InputScalar, fed by the host)."""

    index: int
    name: str
    dtype: str
    kind: str = "scalar"


class Instr:
    """One instruction of :mod:`ms_custom_ops.program.isa`: tensors, run-time arguments, trace-time attributes."""

    __slots__ = ("op", "tensors", "args", "attrs", "loc")

    def __init__(self, op: str, tensors: tuple[Ref, ...], args: tuple[Any, ...], attrs: tuple[int, ...], loc: int):
        self.op = op
        self.tensors = tensors
        self.args = args  # Expr or Python int
        self.attrs = attrs
        self.loc = loc


class For:
    """``for register in [begin, end)``. ``block`` marks the multi-core loop, ``threads`` the double buffering."""

    __slots__ = ("register", "begin", "end", "body", "block", "threads", "loc")

    def __init__(self, register: int, begin: Any, end: Any, body: list, block: bool, threads: int, loc: int):
        self.register = register
        self.begin = begin
        self.end = end
        self.body = body
        self.block = block
        self.threads = threads
        self.loc = loc


class If:
    """``then`` if ``cond`` else ``orelse``; an elif chain nests in ``orelse``."""

    __slots__ = ("cond", "then", "orelse", "loc")

    def __init__(self, cond: Expr, then: list, orelse: list, loc: int):
        self.cond = cond
        self.then = then
        self.orelse = orelse
        self.loc = loc


class Assign:
    """``register = value``, converted to the register's dtype."""

    __slots__ = ("register", "value", "loc")

    def __init__(self, register: int, value: Expr, loc: int):
        self.register = register
        self.value = value
        self.loc = loc


class Load:
    """``register = bits of the element``: no numeric conversion; reads the register's width, little endian."""

    __slots__ = ("register", "ref", "loc")

    def __init__(self, register: int, ref: Ref, loc: int):
        self.register = register
        self.ref = ref
        self.loc = loc


class Store:
    """``element = value``, converted to the element's dtype before its bits are stored."""

    __slots__ = ("ref", "value", "loc")

    def __init__(self, ref: Ref, value: Expr, loc: int):
        self.ref = ref
        self.value = value
        self.loc = loc


class NoSync:
    """A region of ``disable_sync``: inside it the kernel says which pipes wait for which. Regions do not nest."""

    __slots__ = ("body", "loc")

    def __init__(self, body: list, loc: int):
        self.body = body
        self.loc = loc


class Alloc:
    """A local buffer comes to life here; its content is undefined. It lives until its Free, or until the statements
    around it are left (a jump, or their end)."""

    __slots__ = ("buffer", "loc")

    def __init__(self, buffer: Buffer, loc: int):
        self.buffer = buffer
        self.loc = loc


class Free:
    """The life of a local buffer ends here: its scope did."""

    __slots__ = ("buffer", "loc")

    def __init__(self, buffer: Buffer, loc: int):
        self.buffer = buffer
        self.loc = loc


class Jump:
    """``kind`` is "break", "continue" or "return" (ends the block of the multi-core loop)."""

    __slots__ = ("kind", "loc")

    def __init__(self, kind: str, loc: int):
        self.kind = kind
        self.loc = loc


Statement = Instr | For | If | NoSync | Assign | Load | Store | Alloc | Free | Jump


def bodies(statement: Any) -> tuple[list, ...]:
    """The statement lists directly inside a statement."""
    kind = statement.__class__
    if kind is For or kind is NoSync:
        return (statement.body,)
    return (statement.then, statement.orelse) if kind is If else ()


def walk(body: list) -> Iterator[Any]:
    """Every statement of a body and of the bodies inside it, in order."""
    stack = [iter(body)]
    while stack:
        for s in stack[-1]:
            yield s
            inner = bodies(s)
            if inner:
                stack += [iter(b) for b in reversed(inner)]
                break
        else:
            stack.pop()


def block_loop(body: list[Statement]) -> For | None:
    """The multi-core loop; it may lie in other loops and branches, which every block walks."""
    return next((s for s in walk(body) if s.__class__ is For and s.block), None)


@dataclass
class Program:
    """A traced kernel.

    ``scope_bytes`` holds the size of each on-chip buffer of the chip it was traced for, ``saturate`` whether float16
    and bfloat16 results saturate (inf to +-max, NaN to 0). ``locations[i]`` is (file, line) of location number i.
    ``split_cores`` says that cube and vector units of the chip are separate cores. ``final``: what a trace
    gave is not changed any more, so that an engine may keep what it made of it in ``loaded``; a copy is not final.
    """

    name: str
    soc: str
    scope_bytes: dict[str, int]
    saturate: bool = True
    buffers: list[Buffer] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    locations: list[tuple[str, int]] = field(default_factory=lambda: [("", 0)])
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    workspaces: list[int] = field(default_factory=list)
    input_scalars: list[int] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    split_cores: bool = False
    final: bool = field(default=False, init=False, repr=False, compare=False)
    loaded: Any = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("final", "loaded")}

    @property
    def block_num(self) -> int | None:
        """Number of blocks of the multi-core loop: 1 without one, None when it is known only at run time."""
        loop = block_loop(self.body)
        if loop is None:
            return 1
        return loop.end if isinstance(loop.end, int) else loop.end.eval_value()

    def location(self, loc: int) -> str:
        """``file:line`` of a statement's ``loc``."""
        file, line = self.locations[loc]
        return f"{file}:{line}" if file else "?"

    def to_bytes(self) -> bytes:
        """The binary form (see :mod:`ms_custom_ops.program.codec`)."""
        from ms_custom_ops.program.codec import encode

        return encode(self)

    @staticmethod
    def from_bytes(raw: bytes) -> Program:
        """Program of its binary form; raises EngineError when the bytes are corrupt or of another version."""
        from ms_custom_ops.program.codec import decode

        return decode(raw)

    def text(self) -> str:
        """The readable form (see :mod:`ms_custom_ops.program.text`)."""
        from ms_custom_ops.program.text import write

        return write(self)


def element_count(buffer: Buffer) -> int:
    """Elements of a buffer of known size."""
    return buffer.size_bytes // SIZE[buffer.dtype]
