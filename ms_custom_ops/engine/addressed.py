# SPDX-License-Identifier: Apache-2.0
"""Device memory that a kernel reaches through addresses (``TensorAddrList``).

A Program that moves data at an address has one more input, its last: ``memory``, the bytes of all arrays that its
tables of addresses name, each at its place. Addresses are places in it, so that every access is checked as one of a
GM tensor. A feed gives a table as the list of its arrays; the memory is laid out from them here, and what a run has
written goes back into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_custom_ops.errors import EngineError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE

_STEP = 512  # addresses are multiples of it, as the device's allocator gives them; below it there is nothing
_BLOCK = 32
_GUARD = 0xFF  # between arrays


def memory_of(program: ir.Program) -> int | None:
    """Number of the buffer that stands for device memory; None in a Program that uses no address."""
    said = program.meta.get(ir.MEMORY_META)
    if said is None:
        return None
    if not program.inputs or str(program.inputs[-1]) != said:
        raise EngineError(f"{program.name}: meta {ir.MEMORY_META} is {said!r}; accepted: the number of the last input")
    return program.inputs[-1]


class Memory(np.ndarray):
    """Bytes of the arrays of one feed, ready to be the last input of a run."""

    program: str
    places: list[tuple[int, np.ndarray]]

    def give_back(self) -> None:
        """What the run has written goes to the arrays.

        Raises:
            EngineError: bytes between the arrays were written, or an array that is read-only.
        """
        raw, end = self.view(np.ndarray), 0
        for start, array in [*self.places, (raw.size, np.zeros(0, np.uint8))]:
            wrong = np.flatnonzero(raw[end:start] != _GUARD)
            if wrong.size:
                raise EngineError(
                    f"{self.program}: {wrong.size} bytes outside of the arrays that addresses were given of are "
                    f"written, the first at {end + int(wrong[0])}; accepted: up to 32 bytes behind an array's last "
                    "block"
                )
            found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            if array.flags.writeable:
                array[...] = found
            elif found.tobytes() != array.tobytes():
                raise EngineError(f"{self.program}: a read-only array at address {start} is written; accepted: read")
            end = _behind(start, array) if array.nbytes else start


def _behind(start: int, array: np.ndarray) -> int:
    """End of what moves of whole blocks may reach of an array, as behind any GM tensor."""
    return start + -(-array.nbytes // _BLOCK) * _BLOCK + _BLOCK


def lay_out(program: ir.Program, buffers: Sequence[ir.Buffer], values: Sequence[Any]) -> tuple[list[Any], Memory]:
    """The values of the inputs with tables of addresses in place of lists of arrays, and the memory of these arrays.

    None in a list, and what it lacks at its end, is address 0, where nothing is.

    Raises:
        EngineError: more arrays than a table has room for, what is no C-contiguous array, arrays that overlap.
    """
    places: dict[tuple[int, int], int] = {}
    arrays: list[tuple[int, np.ndarray]] = []
    end = _STEP
    given: list[Any] = []
    for buffer, value in zip(buffers, values, strict=True):
        if not isinstance(value, (list, tuple)) or DTYPES[buffer.dtype].kind not in "iu" or SIZE[buffer.dtype] != 8:
            given.append(value)
            continue
        table = _table(program, buffer, len(value))
        for k, array in enumerate(value):
            if array is None:
                continue
            if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.nbytes):
                what = (
                    type(array).__name__ if not isinstance(array, np.ndarray) else "an array that is empty or strided"
                )
                raise EngineError(
                    describe(program.name, f"element {k} of {buffer.name}", what, "a C-contiguous NumPy array, or None")
                )
            key = (array.ctypes.data, array.nbytes)
            if key not in places:
                places[key] = end
                arrays.append((end, array))
                end = (_behind(end, array) // _STEP + 2) * _STEP
            table[k] = places[key]
        dims = [d for d in _dims(buffer) if d is not None]
        given.append(table.reshape(dims if len(dims) == len(buffer.shape) else -1))
    _check_apart(program, arrays, [v for v in values if isinstance(v, np.ndarray)])
    raw = np.full(end, _GUARD, np.uint8)
    for start, array in arrays:
        raw[start : _behind(start, array)] = 0
        raw[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
    memory = raw.view(Memory)
    memory.program, memory.places = program.name, arrays
    return given, memory


def _dims(buffer: ir.Buffer) -> tuple[int | None, ...]:
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in buffer.shape)


def _table(program: ir.Program, buffer: ir.Buffer, count: int) -> np.ndarray:
    """Addresses of one table, all 0."""
    room = buffer.size_bytes // 8 if buffer.size_bytes >= 0 else count
    if count > room:
        raise EngineError(
            describe(program.name, f"input {buffer.name}", f"a list of {count} arrays", f"at most {room}")
        )
    return np.zeros(room, DTYPES[buffer.dtype].numpy)


def _check_apart(program: ir.Program, arrays: list[tuple[int, np.ndarray]], others: list[np.ndarray]) -> None:
    """Arrays in two places of the memory, or there and an input of their own, would lose what the other writes."""
    spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in [a for _, a in arrays] + others if a.nbytes)
    for (_, end), (start, _) in zip(spans, spans[1:], strict=False):
        if start < end:
            raise EngineError(
                f"{program.name}: arrays of a table of addresses overlap each other or another input; accepted: arrays "
                "that are apart, or the same one again"
            )


def give_back(inputs: Sequence[np.ndarray]) -> None:
    """:meth:`Memory.give_back` of the inputs of a run that ended."""
    if inputs and isinstance(inputs[-1], Memory):
        inputs[-1].give_back()
