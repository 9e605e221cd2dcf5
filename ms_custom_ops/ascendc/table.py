# SPDX-License-Identifier: Apache-2.0
"""Launches that MindSpore's graphs find by a key: the table of the engine's library, and the same run on arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from ms_custom_ops.ascendc.arguments import descriptor_words
from ms_custom_ops.ascendc.kernel import SYSTEM_WORKSPACE, LaunchRecord
from ms_custom_ops.ascendc.op import Launch
from ms_custom_ops.engine import native
from ms_custom_ops.errors import AscendcError, describe
from ms_custom_ops.program.dtypes import SIZE

_ERROR_BYTES = 4096


class _Put(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("launch", LaunchRecord),
        ("bytes", ctypes.POINTER(ctypes.c_int64)),
        ("slots", ctypes.POINTER(ctypes.c_int32)),
        ("slot_count", ctypes.c_int32),
        ("list_tensors", ctypes.POINTER(ctypes.c_int32)),
        ("list_words", ctypes.POINTER(ctypes.c_int32)),
        ("words", ctypes.POINTER(ctypes.c_uint64)),
        ("copies", ctypes.POINTER(ctypes.c_int32)),
        ("tiling", ctypes.c_char_p),
        ("tiling_size", ctypes.c_size_t),
        ("system_workspace", ctypes.c_size_t),
        ("user_workspace", ctypes.c_size_t),
        ("host_call", ctypes.c_void_p),
        ("host_data", ctypes.c_void_p),
        ("host_tile", ctypes.c_void_p),
        ("depends", ctypes.POINTER(ctypes.c_int32)),
    ]


_NOTHING, _ZEROS = -1, -2  # what an output starts with that is no copy
_kept: dict[str, Launch] = {}  # kernels and calls that the table points into


@functools.cache
def _library() -> Any:
    library = native._library()
    library.mco_launch_put.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Put), ctypes.c_char_p, ctypes.c_size_t]
    return library


def put(key: str, name: str, launch: Launch, inputs: Sequence[int], shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[str]) -> None:  # fmt: skip
    """Make ``launch`` known under ``key``.

    ``inputs``: for each tensor that a run gives, in its order, the number of its input in the OpDef; those of a list
    follow each other. ``shapes`` and ``dtypes`` are theirs. A run's outputs come in the order of the OpDef.
    """
    if key in _kept:
        return
    if any(launch.init.values()):
        accepted = "outputs that start as zeros (InitValue(0)) in a graph"
        raise AscendcError(describe(name, "InitValue", next(v for v in launch.init.values() if v), accepted))
    count = len(inputs)
    tensors = [*zip(shapes, dtypes, strict=True), *launch.outputs]
    places = Places(inputs, launch)
    slots = [(-1, ()) if slot is None else places.of(*slot) for slot in launch.slots]
    lists = [[tensors[at + item][0] for item in items] for at, items in slots]
    words = [descriptor_words(shapes) if shapes else [] for shapes in lists]
    copies = [start for number in range(len(launch.groups)) for start in places.starts(number)]
    record = launch.kernel.record(launch.tiling.block_dim, launch.tiling.tiling_key)
    packed = _Put(ctypes.sizeof(_Put), count, len(launch.outputs), name.encode(), record)
    packed.bytes = (ctypes.c_int64 * len(tensors))(*[_bytes(shape, dtype) for shape, dtype in tensors])
    packed.slots, packed.slot_count = _ints([at for at, _ in slots]), len(slots)
    packed.list_tensors = _ints([len(shapes) for shapes in lists])
    packed.list_words = _ints([len(part) for part in words])
    flat = [word for part in words for word in part]
    packed.words = (ctypes.c_uint64 * max(len(flat), 1))(*flat)
    packed.copies = _ints(copies)
    packed.tiling, packed.tiling_size = launch.tiling.data, len(launch.tiling.data)
    packed.system_workspace, packed.user_workspace = SYSTEM_WORKSPACE, launch.user_workspace
    if launch.call is not None:
        packed.host_call, packed.host_data, packed.host_tile = launch.call.functions
        items = [at - inputs.index(number) for at, number in enumerate(inputs)]
        packed.depends = _ints([launch.call.instance_of(*pair) for pair in zip(inputs, items, strict=True)])
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    if _library().mco_launch_put(key.encode(), ctypes.byref(packed), text, _ERROR_BYTES):
        raise AscendcError(text.value.decode(errors="replace"))
    _kept[key] = launch


class Places:
    """Where inputs and outputs of an OpDef stand among the tensors of a run."""

    def __init__(self, inputs: Sequence[int], launch: Launch):
        self._inputs, self._launch = inputs, launch

    def of(self, side: str, number: int) -> tuple[int, range]:
        """The first tensor of an input or output; the items of its list, none where it is one tensor."""
        if side == "input":
            return self._inputs.index(number), range(self._launch.lists[number])
        groups = self._launch.groups
        first = sum(group or 1 for group in groups[:number])
        return len(self._inputs) + first, range(groups[number])

    def starts(self, number: int) -> list[int]:
        """What the tensors of an output start with: that tensor of the run, nothing (-1), or zeros that count (-2)."""
        size = self._launch.groups[number] or 1
        if number in self._launch.copies:
            first = self._inputs.index(self._launch.copies[number])
            return [first + item for item in range(size)]
        return [_ZEROS if number in self._launch.init else _NOTHING] * size


def _ints(values: Sequence[int]) -> Any:
    return (ctypes.c_int32 * max(len(values), 1))(*values)


def _bytes(shape: Sequence[int], dtype: str) -> int:
    size = SIZE[dtype]
    for n in shape:
        size *= n
    return size
