# SPDX-License-Identifier: Apache-2.0
"""The recorder behind a ``Tik`` instance: statement lists, scopes, on-chip memory, source locations.

Local tensors are placed by a bump allocator per buffer whose pointer goes back when a scope ends, so the
address of a tensor follows from the scopes around it. Code of a branch that is statically false is walked
but not recorded (``dead``), and nothing in it is checked.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from ms_custom_ops.errors import TikCapacityError, TikError, TikScopeError, describe
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.expr import Expr, const, var
from ms_custom_ops.soc import Soc
from ms_custom_ops.soc.support import column
from ms_custom_ops.tik.scopes import ALLOC_ALIGN, CONSTANT_NAME, REGISTER_BYTES, SMASK_BYTES, scope_bytes
from ms_custom_ops.where import INTERNAL, user_location

_LOCAL_SCOPES = tuple(ALLOC_ALIGN)
_BEHIND = "behind "  # pointers of the places behind an on-chip buffer, see allocate_rest
_METHOD = {"for": "for_range", "block": "for_range", "branch": "if_scope", "stmt": "new_stmt_scope"}

# Code of the library that a call came through, by id; kept, since the id of a dead one could be given to another.
_internal_codes: dict[int, CodeType] = {}


class Storage:
    """A tensor's memory while tracing: the IR buffer, and whether its scope is still open."""

    __slots__ = ("builder", "buffer", "alive", "used", "is_workspace", "reserved", "location", "address")

    def __init__(self, builder: Builder, buffer: ir.Buffer, reserved: int, location: str | None):
        self.builder = builder
        self.buffer = buffer
        self.alive = True
        self.used = False
        self.is_workspace = False
        self.reserved = reserved
        self.location = location
        self.address: Expr | None = None  # of a GM tensor that is placed at an address


class Chain:
    """State of an if/elif/else chain: where the next branch goes, and whether a branch is statically
    taken."""

    __slots__ = ("target", "taken", "length", "count")

    def __init__(self, target: list, taken: bool, length: int, count: int):
        self.target = target
        self.taken = taken
        self.length = length
        self.count = count


class Frame:
    """An open scope. ``kind`` is "root", "for", "block", "branch" or "stmt"."""

    __slots__ = (
        "kind",
        "body",
        "dead",
        "threads",
        "disable_sync",
        "chain",
        "storages",
        "scalars",
        "pointers",
        "live",
        "outer_body",
        "closed_chain",
        "allocated",
        "depth",
    )

    def __init__(self, kind: str, body: list, dead: bool = False, threads: int = 1, disable_sync: bool = False):
        self.kind = kind
        self.body = body
        self.dead = dead
        self.threads = threads
        self.disable_sync = disable_sync
        self.chain: Chain | None = None
        self.storages: list[Storage] = []
        self.scalars: list[Any] = []
        self.pointers: dict[str, int] = {}
        self.live: dict[str, int] = {}
        self.outer_body: list = []
        self.closed_chain: Chain | None = None
        self.allocated: list[ir.Buffer] = []
        self.depth = 0  # of its statements: bodies around them


class Builder:
    """Records one kernel for one chip."""

    def __init__(self, soc: Soc, saturate: bool | None = None):
        self.soc: Soc = soc
        self.family: str = column(soc)
        self.capacity = {**scope_bytes(soc), ir.SMASK: REGISTER_BYTES + SMASK_BYTES}
        self.program = ir.Program(
            name="",
            soc=soc.name,
            scope_bytes=dict(self.capacity),
            saturate=bool(soc.saturate_default if saturate is None else saturate),
            split_cores=soc.split_core,
        )
        self.body: list = self.program.body
        self.frames: list[Frame] = [Frame("root", self.body)]
        self.dead = 0
        self.threads = 1
        self.pointers: dict[str, int] = {**dict.fromkeys(_LOCAL_SCOPES, 0), ir.SMASK: REGISTER_BYTES}
        self.live: dict[str, list[Storage]] = {s: [] for s in _LOCAL_SCOPES}
        self.block_loop: ir.For | None = None
        self.ranges: dict[int, tuple[int, int]] = {}  # of loop variables with known bounds, see ranges.py
        self.plans: dict[tuple, Any] = {}
        self.cmpmask: Any = None
        self.special: Any = None  # buffer of the special registers, see special.py
        self.memory: Storage | None = None  # device memory that addresses lead into, see memory.py
        self.prologue: list = []  # statements before the body: start values of modes
        self.modes: dict[str, int] = {}
        self.h_work: Any = None  # UB that the h_ methods work in, see h_views.py
        self._location_of: dict[tuple[int, int], int] = {}
        self._location_number: dict[tuple[str, int], int] = {}
        self._codes: dict[int, Any] = {}
        self._scalars: dict[tuple[Any, type, str], Expr] = {}

    # ---- source locations ----
    def loc(self) -> int:
        """Number of the kernel's current source line; looked up by bytecode position, which is cheap."""
        frame = sys._getframe(1)
        while True:
            code = frame.f_code
            if id(code) not in _internal_codes:
                key = (id(code), frame.f_lasti)
                number = self._location_of.get(key)
                if number is not None:
                    return number
                if not code.co_filename.startswith(INTERNAL):
                    break
                _internal_codes[id(code)] = code
            outer = frame.f_back
            if outer is None:
                return 0
            frame = outer
        self._codes[id(code)] = code  # as above
        place = (code.co_filename, frame.f_lineno or 0)
        number = self._location_number.get(place)
        if number is None:
            number = self._location_number[place] = len(self.program.locations)
            self.program.locations.append(place)
        self._location_of[key] = number
        return number

    # ---- errors ----
    def fail(self, cls: type[TikError], api: str, argument: str, given: object, accepted: object) -> TikError:
        """The error to raise: API, argument, given, accepted, chip-independent wording, user's file:line."""
        return cls(describe(api, argument, given, accepted), user_location())

    # ---- scopes ----
    def push(self, frame: Frame) -> None:
        """Open a scope: later statements go into its body. TikError when they would nest too deep."""
        frame.depth = self.frames[-1].depth + (frame.body is not self.body)
        if frame.depth > limits.NESTING and not (self.dead or frame.dead):
            raise self.fail(
                TikError,
                _METHOD[frame.kind],
                "depth of loops, branches and regions",
                frame.depth,
                f"at most {limits.NESTING}",
            )
        frame.outer_body = self.body
        frame.pointers = dict(self.pointers)
        frame.live = {s: len(items) for s, items in self.live.items() if items}
        self.frames.append(frame)
        self.body = frame.body
        self.dead += frame.dead
        self.threads = max(self.threads, frame.threads)  # double buffers in one another double once

    def pop(self) -> Frame:
        """Close the innermost scope: its tensors and scalars end here."""
        if self.frames[-1].allocated and not self.dead:
            loc = self.loc()
            self.body += [ir.Free(buffer, loc) for buffer in reversed(self.frames[-1].allocated)]
        frame = self.frames.pop()
        self.body = frame.outer_body
        self.dead -= frame.dead
        if frame.threads > 1:
            self.threads = max(f.threads for f in self.frames)
        for storage in frame.storages:
            storage.alive = False
        for scalar in frame.scalars:
            scalar.alive = False
        self.pointers = frame.pointers
        for scope, items in self.live.items():
            if items:
                del items[frame.live.get(scope, 0) :]
        return frame

    def in_scope(self, *kinds: str) -> bool:
        """Whether a scope of one of these kinds is open."""
        return any(f.kind in kinds for f in self.frames)

    # ---- memory ----
    def free_bytes(self, scope: str) -> int:
        """Bytes of an on-chip buffer that are not taken by live tensors."""
        return self.capacity[scope] - self.pointers[scope]

    def allocate(
        self, name: str, scope: str, dtype: str, shape: tuple, size_bytes: int, loc: int, address: int | None = None
    ) -> Storage:
        """Storage of a new local tensor; raises TikCapacityError with the list of live tensors."""
        align = ALLOC_ALIGN[scope]
        start = -(-self.pointers[scope] // align) * align if address is None else address
        stride = -(-size_bytes // 32) * 32
        reserved = stride * self.threads
        buffer = ir.Buffer(-1, name, scope, dtype, shape, size_bytes, start, "local", loc=loc)
        if self.threads > 1:
            buffer.addresses = tuple(range(start, start + reserved, stride)) if stride else (start,)
        storage = Storage(self, buffer, reserved, user_location() if self.dead == 0 else None)
        if not self.dead:
            if start + reserved > self.capacity[scope]:
                raise self._over_capacity(storage, start)
            buffer.index = self.next_tensor(name)
            self.program.buffers.append(buffer)
            self.pointers[scope] = max(self.pointers[scope], start + reserved)
            self.live[scope].append(storage)
            self.body.append(ir.Alloc(buffer, loc))
            self.frames[-1].allocated.append(buffer)
        self.frames[-1].storages.append(storage)
        return storage

    def allocate_rest(self, name: str, scope: str, dtype: str, shape: tuple, loc: int) -> Storage:
        """Storage of a local tensor whose size is known only at run time and not bounded by the kernel: it may be as
        large as the buffer is free here. Each such tensor has a place of its own behind the buffer, so that those
        made after it find their memory as well."""
        free = self.free_bytes(scope) // ALLOC_ALIGN[scope] * ALLOC_ALIGN[scope]
        start = self.pointers.get(_BEHIND + scope, self.capacity[scope])
        buffer = ir.Buffer(-1, name, scope, dtype, shape, free, start, "local", loc=loc)
        storage = Storage(self, buffer, 0, user_location() if self.dead == 0 else None)
        if not self.dead:
            buffer.index = self.next_tensor(name)
            self.program.buffers.append(buffer)
            self.pointers[_BEHIND + scope] = start + free
            self.program.scope_bytes[scope] = max(self.program.scope_bytes[scope], start + free)
            self.body.append(ir.Alloc(buffer, loc))
            self.frames[-1].allocated.append(buffer)
        self.frames[-1].storages.append(storage)
        return storage

    def next_tensor(self, name: str) -> int:
        """Number of the next buffer of the Program."""
        number = len(self.program.buffers)
        if number >= limits.TENSORS:
            raise self.fail(TikError, f"Tensor {name}", "number of tensors", number + 1, f"at most {limits.TENSORS}")
        return number

    def _over_capacity(self, storage: Storage, start: int) -> TikCapacityError:
        """What fits comes first, then who holds the rest, the largest first."""
        buffer = storage.buffer
        free = max(self.capacity[buffer.scope] - start, 0)
        one = storage.reserved // self.threads
        times = f" ({one} x {self.threads} for thread_num)" if self.threads > 1 else ""
        fits = ""
        if len(buffer.shape) and all(isinstance(d, int) for d in buffer.shape) and buffer.shape[0]:
            row = -(-one // buffer.shape[0]) * self.threads
            largest = (free // row, *buffer.shape[1:])
            fits = f", shape {largest} in the place of {tuple(buffer.shape)}" if largest[0] else ""
        live = self.live[buffer.scope]
        used = sum(s.reserved for s in live)
        location = user_location()
        text = describe(
            f"Tensor {buffer.name}",
            f"{CONSTANT_NAME[buffer.scope]} bytes asked",
            f"{storage.reserved}{times}",
            f"at most {free} bytes free of {self.capacity[buffer.scope]} on {self.soc.name}{fits}",
        )
        lines = [f"{text} [{location}]" if location else text]
        if live:
            lines.append(f"live tensors: {len(live)} with {used} bytes")
        for s in sorted(live, key=lambda s: -s.reserved):
            shape = "x".join(map(str, s.buffer.shape))
            lines.append(f"  {s.reserved:>8} {s.buffer.name} {s.buffer.dtype}[{shape}] {s.location or ''}".rstrip())
        error = TikCapacityError("\n".join(lines))
        error.location = location
        return error

    def global_buffer(self, name: str, dtype: str, shape: tuple, size_bytes: int, loc: int) -> Storage:
        """Storage of a GM tensor; its kind (input, output, workspace) is set by BuildCCE."""
        buffer = ir.Buffer(self.next_tensor(name), name, ir.GM, dtype, shape, size_bytes, 0, "input", loc=loc)
        self.program.buffers.append(buffer)
        storage = Storage(self, buffer, 0, user_location())
        self.frames[-1].storages.append(storage)
        return storage

    # ---- scalars ----
    def register(self, name: str, dtype: str, kind: str = "scalar") -> int:
        """Number of a new scalar register; its number is also the name of one without."""
        number = len(self.program.registers)
        if number >= limits.SCALARS:
            raise self.fail(TikError, "Scalar", "number of scalars", number + 1, f"at most {limits.SCALARS}")
        self.program.registers.append(ir.Register(number, name or str(number), dtype, kind))
        return number

    def temporary(self, dtype: str, name: str = "tmp") -> Expr:
        """A new register as an expression."""
        return var(self.register(name, dtype), dtype)

    def immediate(self, value: int | float, dtype: str) -> Expr:
        """A shared constant node."""
        key = (value, value.__class__, dtype)
        node = self._scalars.get(key)
        if node is None:
            node = const(value, dtype)
            if value == value and value != 0:  # NaN is no key, and -0.0 would find 0.0
                self._scalars[key] = node
        return node

    def check_alive(self, storage: Storage, api: str) -> None:
        """Raise TikScopeError when the tensor's scope has ended, or when it belongs to another Tik
        instance."""
        if not storage.alive:
            raise TikScopeError(
                f"{api}: tensor {storage.buffer.name} is used after its scope ended; it was created at "
                f"{storage.location}; accepted: tensors of the open scopes",
                user_location(),
            )
        if storage.builder is not self:
            raise TikScopeError(f"{api}: tensor {storage.buffer.name} belongs to another Tik instance", user_location())
