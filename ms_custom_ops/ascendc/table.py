# SPDX-License-Identifier: Apache-2.0
"""Launches that MindSpore's graphs find by a key: the table of the engine's library, and the same run on arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

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

    ``inputs``: the numbers, in the OpDef, of the tensors that a run gives, in its order; ``shapes`` and ``dtypes`` are
    theirs. A run's outputs come in the order of the OpDef.
    """
    if key in _kept:
        return
    if any(launch.init.values()):
        accepted = "outputs that start as zeros (InitValue(0)) in a graph"
        raise AscendcError(describe(name, "InitValue", next(v for v in launch.init.values() if v), accepted))
    if any(launch.groups):
        raise AscendcError(describe(name, "outputs", "lists of tensors (DYNAMIC)", "one tensor each, in a graph"))
    place = {number: at for at, number in enumerate(inputs)}
    count = len(inputs)
    slots = [_slot(slot, place, count) for slot in launch.slots]
    copies = [
        place[launch.copies[n]] if n in launch.copies else _ZEROS if n in launch.init else _NOTHING
        for n in range(len(launch.outputs))
    ]
    tensors = [*zip(shapes, dtypes, strict=True), *launch.outputs]
    record = launch.kernel.record(launch.tiling.block_dim, launch.tiling.tiling_key)
    packed = _Put(ctypes.sizeof(_Put), count, len(launch.outputs), name.encode(), record)
    packed.bytes = (ctypes.c_int64 * len(tensors))(*[_bytes(shape, dtype) for shape, dtype in tensors])
    packed.slots, packed.slot_count = (ctypes.c_int32 * len(slots))(*slots), len(slots)
    packed.copies = (ctypes.c_int32 * len(copies))(*copies)
    packed.tiling, packed.tiling_size = launch.tiling.data, len(launch.tiling.data)
    packed.system_workspace, packed.user_workspace = SYSTEM_WORKSPACE, launch.user_workspace
    if launch.call is not None:
        packed.host_call, packed.host_data, packed.host_tile = launch.call.functions
        packed.depends = (ctypes.c_int32 * count)(*[launch.call.instance_of(number) for number in inputs])
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    if _library().mco_launch_put(key.encode(), ctypes.byref(packed), text, _ERROR_BYTES):
        raise AscendcError(text.value.decode(errors="replace"))
    _kept[key] = launch


def _slot(slot: tuple[str, int] | None, place: Mapping[int, int], inputs: int) -> int:
    if slot is None:
        return -1
    side, number = slot
    return place[number] if side == "input" else inputs + number


def _bytes(shape: Sequence[int], dtype: str) -> int:
    size = SIZE[dtype]
    for n in shape:
        size *= n
    return size
