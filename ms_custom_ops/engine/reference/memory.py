# SPDX-License-Identifier: Apache-2.0
"""Memory of one run: global tensors and the on-chip arenas of a block, both as plain bytes.

Every access of an instruction goes through :meth:`Operand.positions`, which checks it against its tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES

POISON = 0xFF  # NaN in every float format, -1 or the largest value as an integer

_NOTHING = np.zeros(0, np.uint8)  # a GM buffer that nobody feeds


def round_up(value: int, unit: int) -> int:
    """``value`` up to the next multiple of ``unit``."""
    return -(-value // unit) * unit


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of a C-contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8)


class GlobalMemory:
    """Bytes of every GM buffer of a Program: the caller's arrays, and workspaces made here."""

    def __init__(self, program: ir.Program, inputs: list[np.ndarray], outputs: list[np.ndarray]):
        self.bytes: dict[int, np.ndarray] = {}
        self._bind(program, "input", program.inputs, inputs)
        fed = dict(self.bytes)
        self._bind(program, "output", program.outputs, outputs)
        for index, array in zip(program.outputs, outputs, strict=True):
            if index in fed:
                bytes_of(array)[:] = fed[index]
            elif program.buffers[index].atomic_init:
                fill(program.buffers[index], bytes_of(array))
        for index in program.workspaces:
            self.bytes[index] = _workspace(program, program.buffers[index])

    def _bind(self, program: ir.Program, kind: str, indices: list[int], arrays: list[np.ndarray]) -> None:
        if len(indices) != len(arrays):
            raise EngineError(f"{program.name}: {kind}s are {len(arrays)} arrays; accepted: {len(indices)}")
        for index, array in zip(indices, arrays, strict=True):
            buffer = program.buffers[index]
            where = f"{program.name}: {kind} {buffer.name}"
            if array.dtype.itemsize != SIZE[buffer.dtype]:
                raise EngineError(f"{where} has dtype {array.dtype}; accepted: {buffer.dtype}")
            if 0 <= buffer.size_bytes != array.nbytes:
                raise EngineError(f"{where} has {array.nbytes} bytes; accepted: {buffer.size_bytes}")
            if kind == "output" and not (array.flags.c_contiguous and array.flags.writeable):
                raise EngineError(f"{where} is not a writeable C-contiguous array; accepted: one that is")
            self.bytes[index] = bytes_of(np.ascontiguousarray(array))


def _workspace(program: ir.Program, buffer: ir.Buffer) -> np.ndarray:
    if buffer.size_bytes < 0:
        raise EngineError(
            f"{program.name}: {buffer.kind} {buffer.name} has an unknown size; accepted: a GM tensor of "
            "known size, or one that is fed"
        )
    raw = np.full(buffer.size_bytes, POISON, np.uint8)
    if buffer.init_value is not None or buffer.atomic_init:
        fill(buffer, raw)
    return raw


def fill(buffer: ir.Buffer, raw: np.ndarray) -> None:
    """What a buffer starts with: its number, its table, or zeros."""
    if isinstance(buffer.init_value, bytes):
        raw[:] = np.frombuffer(buffer.init_value, np.uint8)
    else:
        raw.view(DTYPES[buffer.dtype].numpy)[:] = buffer.init_value or 0


class BlockMemory:
    """The on-chip buffers of one block over the shared global memory."""

    def __init__(self, program: ir.Program, gm: GlobalMemory):
        self.gm = gm
        self.arenas = {scope: np.full(size, POISON, np.uint8) for scope, size in program.scope_bytes.items()}
        for buffer in program.buffers:
            if buffer.scope != ir.GM:
                self._check_placement(program, buffer)

    def _check_placement(self, program: ir.Program, buffer: ir.Buffer) -> None:
        have = self.arenas[buffer.scope].size if buffer.scope in self.arenas else 0
        if buffer.address < 0 or buffer.size_bytes < 0 or buffer.address + buffer.size_bytes > have:
            raise EngineError(
                f"{program.name}: {buffer.name} lies in bytes [{buffer.address}, "
                f"{buffer.address + buffer.size_bytes}) of {buffer.scope}, it has {have} "
                f"[{program.location(buffer.loc)}]"
            )

    def alloc(self, buffer: ir.Buffer) -> None:
        """The buffer comes to life with undefined content."""
        if buffer.scope != ir.GM:
            self.arenas[buffer.scope][buffer.address : buffer.address + self.occupied(buffer)] = POISON

    def occupied(self, buffer: ir.Buffer) -> int:
        """Bytes of a local tensor: it occupies whole blocks and may be used to their end."""
        return min(round_up(buffer.size_bytes, BLOCK_BYTES), self.arenas[buffer.scope].size - buffer.address)

    def operand(self, op: str, name: str, ref: ir.Ref, offset: int, where: str) -> Operand:
        """An instruction's operand ``name`` at ``offset`` elements into its buffer."""
        buffer = ref.buffer
        if buffer.scope == ir.GM:
            storage = self.gm.bytes.get(buffer.index, _NOTHING)
            return Operand(op, name, buffer.name, where, ref.dtype, storage, 0, storage.size, offset, buffer.scope)
        return Operand(
            op,
            name,
            buffer.name,
            where,
            ref.dtype,
            self.arenas[buffer.scope],
            buffer.address,
            self.occupied(buffer),
            offset,
            buffer.scope,
        )


class Operand:
    """A tensor operand of one executed instruction: bytes, bounds and dtype."""

    __slots__ = (
        *("op", "name", "tensor", "where", "dtype", "numpy", "size", "storage", "low", "bytes", "start", "scope"),
        "grid",
    )

    def __init__(
        self,
        op: str,
        name: str,
        tensor: str,
        where: str,
        dtype: str,
        storage: np.ndarray,
        low: int,
        size_bytes: int,
        offset: int,
        scope: str,
    ):
        self.op, self.name, self.tensor, self.where = op, name, tensor, where
        self.dtype, self.numpy, self.size = dtype, DTYPES[dtype].numpy, SIZE[dtype]
        self.storage, self.low, self.bytes, self.scope = storage, low, size_bytes, scope
        self.start = low + offset * self.size
        self.grid = 1  # bytes to which the start is aligned, where it is known only while running

    def check(self, first: int, end: int, spare: int = 0) -> None:
        """Bytes [first, end) from the operand's start must lie in its tensor, or ``spare`` bytes behind it."""
        a, b = self.start - self.low + first, self.start - self.low + end
        if first < end and (self.start - self.low) % self.grid:
            raise EngineError(
                f"{self.op}: the start of {self.name} is byte {self.start - self.low} of {self.tensor}; accepted: "
                f"multiples of {self.grid} bytes [{self.where}]"
            )
        if first < end and (a < 0 or b > self.bytes + spare):
            raise EngineError(
                f"{self.op}: {self.name} needs bytes [{a}, {b}) of {self.tensor}, it has {self.bytes} [{self.where}]"
            )

    @property
    def tail(self) -> int:
        """Bytes behind a GM tensor that moves of whole blocks may reach: the device allocates ALIGN_UP(n, 32) + 32."""
        if not self.is_gm or self.storage is _NOTHING:
            return 0
        return round_up(self.bytes, BLOCK_BYTES) + BLOCK_BYTES - self.bytes

    def held(self, first: int, count: int) -> int:
        """How many of ``count`` bytes from byte ``first`` of the operand lie in its tensor."""
        return min(max(self.bytes - (self.start - self.low + first), 0), count)

    @property
    def is_gm(self) -> bool:
        """Whether the operand lies in global memory."""
        return self.scope == ir.GM

    def positions(self, offsets: np.ndarray, on: np.ndarray | None = None, size: int = 0) -> np.ndarray:
        """Storage positions of elements at byte ``offsets`` from the operand's start, checked.

        Elements that are off (``on`` false) are not accessed: they are not checked and get the position of
        one that is on, so that whole arrays can be loaded.
        """
        used = offsets if on is None else offsets[on]
        if used.size == 0:
            return np.full(offsets.shape, self.low, np.int64)
        first = int(used.min())
        self.check(first, int(used.max()) + (size or self.size))
        return self.start + (offsets if on is None else np.where(on, offsets, first))

    def load(self, positions: np.ndarray, numpy: Any = None) -> np.ndarray:
        """The elements at ``positions``, as an array of their shape."""
        numpy = np.dtype(numpy or self.numpy)
        if numpy.itemsize == 1:
            return self.storage[positions].view(numpy)
        whole = self._elements(positions, numpy)
        if whole is not None:
            return whole[positions // numpy.itemsize]
        bytes_at = positions[..., None] + np.arange(numpy.itemsize)
        return self.storage[bytes_at].view(numpy)[..., 0]

    def store(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Write ``values`` at ``positions`` (same shape); where positions repeat, the last one stays."""
        values = np.ascontiguousarray(values)
        if values.itemsize == 1:
            self.storage[positions] = values.view(np.uint8)
            return
        whole = self._elements(positions, values.dtype)
        if whole is not None:
            whole[positions // values.itemsize] = values
            return
        raw = values.view(np.uint8).reshape(*values.shape, values.itemsize)
        self.storage[positions[..., None] + np.arange(values.itemsize)] = raw

    def _elements(self, positions: np.ndarray, numpy: np.dtype) -> np.ndarray | None:
        """The storage as elements if all positions are whole elements of it, else None."""
        if (positions % numpy.itemsize).any():
            return None
        return self.storage[: self.storage.size // numpy.itemsize * numpy.itemsize].view(numpy)

    def view(self, first: int, count: int) -> np.ndarray:
        """``count`` bytes from byte ``first`` of the operand, checked, as a writable view."""
        self.check(first, first + count)
        return self.storage[self.start + first : self.start + first + count]
