# SPDX-License-Identifier: Apache-2.0
"""The op_host of a project as a library: its ops, shape inference and tiling of one call."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.ascendc.definition import DTYPES, FORMAT_ND, NUMBER, Definition, TilingStruct, read
from ms_custom_ops.ascendc.variants import read_templates
from ms_custom_ops.errors import AscendcError, describe

_MOST_DIMS = 25
_HEADERS = Path(__file__).parent / "include_host"
_FAILURE = {1: "GRAPH_FAILED", 2: "an exception"}
_SIGNALS = {
    signal.SIGFPE: "a division of integers by zero",
    signal.SIGSEGV: "an address that is not there, such as a null pointer's",
    signal.SIGABRT: "abort",
}


class Failure(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("signal_number", ctypes.c_int32),
        ("addresses", ctypes.c_uint64 * 16),
        ("address_count", ctypes.c_int32),
        ("text", ctypes.c_char * 4096),
    ]


class _Tiling(ctypes.Structure):
    _fields_ = [
        ("block_dim", ctypes.c_uint32),
        ("schedule_mode", ctypes.c_uint32),
        ("tiling_key", ctypes.c_uint64),
        ("data", ctypes.POINTER(ctypes.c_uint8)),
        ("size", ctypes.c_size_t),
        ("workspace", ctypes.c_size_t),
        ("need_atomic", ctypes.c_int32),
    ]


@dataclass(frozen=True)
class Tiling:
    """What a tiling function answers. ``workspace``: bytes, those of the library included."""

    block_dim: int
    tiling_key: int
    data: bytes
    workspace: int


@dataclass(frozen=True)
class Tensor:
    """An input as the host sees it. ``values``: the array, where the op says that its host functions read it."""

    shape: tuple[int, ...]
    dtype: str
    values: np.ndarray | None = None


class HostLibrary:
    """Loaded library of a project.

    ``ops``: by name; ``structs``: what tiling functions fill; ``templates``: what tiling keys stand for.
    """

    def __init__(self, path: Path):
        self.path = path
        self._library = _load(path)
        failure = Failure()
        self._library.mco_host_describe.restype = ctypes.c_char_p
        text = self._library.mco_host_describe(ctypes.byref(failure))
        if text is None:
            raise AscendcError(self.said("op_host", "constructors of the OpDefs", failure))
        described = json.loads(text.decode(errors="replace"))
        ops, structs = read(described)
        self.ops: dict[str, Definition] = ops
        self.structs: list[TilingStruct] = structs
        self.templates = read_templates(described["templates"])

    def call(self, op: Definition, soc: str) -> HostCall:
        """A call of ``op`` on a chip, to which tensors and attributes are added."""
        return HostCall(self, op, soc)

    def said(self, op: str, function: str, failure: Failure) -> str:
        """The message of a failure: where, what it is, and what the project logged or threw."""
        given, accepted = _FAILURE.get(failure.kind, ""), "GRAPH_SUCCESS"
        if failure.kind == 3:
            number = signal.Signals(failure.signal_number)
            given, accepted = f"{number.name} ({_SIGNALS.get(number, 'a fault')})", "a return of GRAPH_SUCCESS"
        text = failure.text.decode(errors="replace")
        place = self.place(list(failure.addresses[: failure.address_count]))
        at = f"{place}: " if place else ""
        if failure.kind == 4:
            return f"{at}{op}: result of {function} is {text}"
        return at + describe(op, f"result of {function}", given, accepted) + (f"; it said: {text}" if text else "")

    def place(self, addresses: Sequence[int]) -> str:
        """file:line of the first address that lies in the project's own source, '' where it is not known."""
        tool = shutil.which("addr2line")
        if tool is None or not addresses:
            return ""
        # What is behind a call's address is the line after it.
        asked = [hex(address - (number > 1)) for number, address in enumerate(addresses)]
        told = subprocess.run([tool, "-e", str(self.path), "-i", *asked], capture_output=True, text=True)
        for line in told.stdout.splitlines():
            file, _, number = line.partition(" ")[0].rpartition(":")
            if (
                file not in ("", "??")
                and _HEADERS not in Path(file).parents
                and number.isdigit()
                and "/c++/" not in file
            ):
                return f"{file}:{number}"
        return ""


class HostCall:
    """One call. The order is: inputs, attributes, ``infer``, ``tile``."""

    def __init__(self, host: HostLibrary, op: Definition, soc: str):
        self._host, self._op = host, op
        self._alive: list[np.ndarray] = []
        self._instances: dict[int, int] = {}  # of each input the first
        self._instance_count = 0
        self._library = host._library
        self._call = self._library.mco_host_new(op.name.encode(), soc.encode())
        if not self._call:
            raise AscendcError(describe(op.name, "soc", soc, "a chip of the table"))

    def __del__(self) -> None:
        if getattr(self, "_call", None):
            self._library.mco_host_free(self._call)
            self._call = None

    @property
    def functions(self) -> tuple[int, ...]:
        """The call and the functions that give it values and tile it, as addresses for the engine."""
        library = self._library
        found = (ctypes.cast(f, ctypes.c_void_p).value for f in (library.mco_host_data, library.mco_host_tile))
        return (int(self._call), *(address or 0 for address in found))

    def instance_of(self, number: int, item: int = 0) -> int:
        """The instance of input ``number``, ``item`` of its list, where host functions read its values, else -1."""
        return self._instances[number] + item if self._op.inputs[number].reads_values else -1

    def add_input(self, number: int, tensor: Tensor) -> None:
        """An instance of input ``number`` of the definition."""
        data = None
        self._instances.setdefault(number, self._instance_count)
        self._instance_count += 1
        if tensor.values is not None:
            self._alive.append(tensor.values)
            data = tensor.values.ctypes.data
        self._library.mco_host_input(
            self._call, number, NUMBER[tensor.dtype], FORMAT_ND, len(tensor.shape), _dims(tensor.shape), data
        )

    def add_attributes(self, values: Sequence[Any]) -> None:
        """One value of each attribute of the definition, checked before."""
        add = self._library
        for attribute, value in zip(self._op.attributes, values, strict=True):
            if attribute.kind == 0:
                add.mco_host_attr_bool(self._call, int(value))
            elif attribute.kind == 1:
                add.mco_host_attr_int(self._call, ctypes.c_int64(value))
            elif attribute.kind == 2:
                add.mco_host_attr_float(self._call, ctypes.c_float(value))
            elif attribute.kind == 3:
                add.mco_host_attr_string(self._call, value.encode())
            elif attribute.kind == 4:
                add.mco_host_attr_ints(self._call, len(value), (ctypes.c_int64 * len(value))(*value))
            elif attribute.kind == 5:
                add.mco_host_attr_floats(self._call, len(value), (ctypes.c_float * len(value))(*value))
            elif attribute.kind == 6:
                add.mco_host_attr_bools(self._call, len(value), (ctypes.c_uint8 * len(value))(*map(int, value)))
            else:
                flat = [item for row in value for item in row]
                lengths = (ctypes.c_size_t * len(value))(*map(len, value))
                add.mco_host_attr_int_lists(self._call, len(value), lengths, (ctypes.c_int64 * len(flat))(*flat))

    def infer(
        self, outputs: Sequence[tuple[int, str]], shapes: Sequence[Sequence[int]] | None = None
    ) -> list[tuple[tuple[int, ...], str]]:
        """(shape, dtype) of every tensor of the outputs.

        ``outputs``: for each the number of its output in the definition, and the dtype there, for ops without an
        inference of their own; ``shapes``: those the caller gives, instead of the op's inference.
        """
        if not outputs:
            return []
        for place, (number, dtype) in enumerate(outputs):
            shape = () if shapes is None else shapes[place]
            self._library.mco_host_output(
                self._call, number, NUMBER.get(dtype, 28), FORMAT_ND, len(shape), _dims(shape)
            )
        failure = Failure()
        if shapes is None:
            if not self._op.infer_shape:
                accepted = "SetInferShape or IMPL_OP_INFERSHAPE in op_host, or out_shapes=[...] in the call"
                at = f"{self._op.file}:{self._op.line}: "
                raise AscendcError(at + describe(self._op.name, "shape inference", "missing", accepted))
            if self._library.mco_host_infer_shape(self._call, ctypes.byref(failure)):
                raise AscendcError(self._host.said(self._op.name, "shape inference", failure))
        if (self._op.infer_dtype or self._op.same_as_first) and self._library.mco_host_infer_dtype(
            self._call, ctypes.byref(failure)
        ):
            raise AscendcError(self._host.said(self._op.name, "dtype inference", failure))
        return [self._result(place, self._op.outputs[number].name) for place, (number, _) in enumerate(outputs)]

    def _result(self, place: int, name: str) -> tuple[tuple[int, ...], str]:
        dtype, rank = ctypes.c_int(), ctypes.c_int()
        dims = (ctypes.c_int64 * _MOST_DIMS)()
        self._library.mco_host_result(self._call, place, ctypes.byref(dtype), ctypes.byref(rank), dims, _MOST_DIMS)
        shape = tuple(dims[: rank.value])
        if any(size < 0 for size in shape):
            given = f"shape {list(shape)}"
            raise AscendcError(describe(self._op.name, f"output {name}", given, "sizes of at least 0 from InferShape"))
        if dtype.value not in DTYPES:
            given = f"ge::DataType {dtype.value}"
            raise AscendcError(
                describe(self._op.name, f"output {name}", given, ", ".join(row[2] for row in DTYPES.values()))
            )
        return shape, DTYPES[dtype.value][0]

    def tile(self) -> Tiling:
        """Runs the project's tiling function."""
        if not self._op.tiling:
            at = f"{self._op.file}:{self._op.line}: "
            accepted = "AICore().SetTiling or IMPL_OP_OPTILING in op_host"
            raise AscendcError(at + describe(self._op.name, "tiling function", "missing", accepted))
        tiling, failure = _Tiling(), Failure()
        if self._library.mco_host_tile(self._call, ctypes.byref(tiling), ctypes.byref(failure)):
            raise AscendcError(self._host.said(self._op.name, "the tiling function", failure))
        data = ctypes.string_at(tiling.data, tiling.size)
        return Tiling(tiling.block_dim, tiling.tiling_key, data, tiling.workspace)


def _dims(shape: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(shape), 1))(*shape)


def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.mco_host_new.restype = ctypes.c_void_p
    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    library.mco_host_free.argtypes = [pointer]
    library.mco_host_input.argtypes = [pointer, integer, integer, integer, integer, pointer, pointer]
    library.mco_host_output.argtypes = [pointer, integer, integer, integer, integer, pointer]
    library.mco_host_attr_int.argtypes = [pointer, ctypes.c_int64]
    library.mco_host_attr_float.argtypes = [pointer, ctypes.c_float]
    library.mco_host_attr_bool.argtypes = [pointer, integer]
    library.mco_host_attr_string.argtypes = [pointer, ctypes.c_char_p]
    for kind in ("ints", "floats", "bools"):
        getattr(library, f"mco_host_attr_{kind}").argtypes = [pointer, size, pointer]
    library.mco_host_attr_int_lists.argtypes = [pointer, size, pointer, pointer]
    for name in ("infer_shape", "infer_dtype"):
        getattr(library, f"mco_host_{name}").argtypes = [pointer, pointer]
    library.mco_host_tile.argtypes = [pointer, pointer, pointer]
    library.mco_host_result.argtypes = [pointer, integer, pointer, pointer, pointer, integer]
    return library
