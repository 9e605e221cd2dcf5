# SPDX-License-Identifier: Apache-2.0
"""A compiled Ascend C kernel: its arguments, its launch."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.ascendc import chips
from ms_custom_ops.ascendc.guard import guarded
from ms_custom_ops.config import config
from ms_custom_ops.cost.chip import CostChip, cost_chip
from ms_custom_ops.cost.launch import profile_launch
from ms_custom_ops.cost.result import Profile
from ms_custom_ops.engine import native
from ms_custom_ops.engine.checked import take_findings
from ms_custom_ops.engine.findings import Report
from ms_custom_ops.errors import AscendcError, describe
from ms_custom_ops.program.dtypes import numpy_dtype
from ms_custom_ops.soc.table import Soc

SYSTEM_WORKSPACE = 16 << 20
"""Bytes of the workspace before the user's part, which GetUserWorkspace skips."""
MOST_BLOCKS = 65535
_FILL = 0xFF  # reads as NaN, -1, or the largest integer
_ERROR_BYTES = 16384
_STOPPED = 2


class _Memory(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("fresh", ctypes.c_int64),
        ("output", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class LaunchRecord(ctypes.Structure):
    """mco_asc_launch of mco/abi.h."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("abi", ctypes.c_uint32),
        ("entry", ctypes.c_void_p * 2),
        ("args", ctypes.POINTER(ctypes.c_void_p)),
        ("memory", ctypes.POINTER(_Memory)),
        ("memories", ctypes.c_int32),
        ("strict", ctypes.c_int32),
        ("blocks", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("tiling_key", ctypes.c_uint64),
        ("scope_bytes", ctypes.POINTER(ctypes.c_int64)),
        ("saturate", ctypes.c_int32),
        ("split", ctypes.c_int32),
        ("arch", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("reverse", ctypes.c_int32),
        ("check", ctypes.c_int32),
        ("time_limit", ctypes.c_double),
        ("poll", ctypes.c_void_p),
        ("check_values", ctypes.c_int32),
        ("keep_memory", ctypes.c_int32),
        ("findings", ctypes.c_void_p),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char), ("bytes", ctypes.c_uint32)]


class _Entry(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("arguments", ctypes.POINTER(_Argument)),
        ("call", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
    ]


ABI = 3
UNKNOWN_KIND = -1


@dataclass(frozen=True)
class Parameter:
    """A parameter of the entry: a pointer into GM, a number, or a struct by value."""

    kind: str  # p pointer, i signed, u unsigned, f float, h float16, b bfloat16, s struct
    bytes: int

    def __str__(self) -> str:
        names = {"p": "a pointer", "s": f"a struct of {self.bytes} bytes", "h": "float16", "b": "bfloat16"}
        word = {"i": "int", "u": "uint", "f": "float"}
        return names.get(self.kind) or f"{word[self.kind]}{8 * self.bytes}"


@dataclass(frozen=True)
class Kernel:
    """An entry that can be called. ``cached``: its build was found in the cache; ``seconds``: how long building, or
    finding, it took."""

    name: str
    soc: str
    parameters: tuple[Parameter, ...]
    cached: bool
    seconds: float
    libraries: tuple[Path, ...]
    _entries: tuple[int, int] = field(repr=False)
    _kind: int = field(repr=False)
    _chip: Soc = field(repr=False)

    def __call__(
        self,
        block_dim: int,
        *args: Any,
        tiling: Any = None,
        tiling_key: int | None = None,
        workspace: int = 0,
        threads: int = 0,
        reverse: bool = False,
        deterministic: bool = False,
        time_limit: float | None = None,
        reachable: Sequence[np.ndarray] = (),
        outputs: Sequence[np.ndarray] = (),
    ) -> None:
        """Run the kernel on ``block_dim`` blocks; it writes into the arrays it is given.

        ``args``: C-contiguous arrays are memory in GM, numbers and bytes go by value, None is a null pointer.
        ``tiling``: bytes (or an array) of the tiling data, and ``workspace``: bytes that the kernel may use beyond what
        the system takes; their pointers follow ``args`` in that order. ``tiling_key``: the number of TILING_KEY_IS.
        ``threads``: at most so many, 0 is the number of ``set_num_threads``; ``reverse`` starts the last block first.
        ``deterministic``: on one thread, the cores in their order, so that atomic adds of floats land in one order.
        ``time_limit``: seconds, None is MS_CUSTOM_OPS_TIME_LIMIT. ``reachable``: arrays that the memory of ``args`` has
        pointers to. ``outputs``: those of ``args`` that a checked run takes to hold nothing before the kernel has
        written it (``mco.set_check``; its findings are then the error). Raises AscendcError with core, line and what is
        accepted; what was written before stays written.
        """
        if deterministic and (reverse or threads > 1):
            given = "reverse=True" if reverse else f"threads={threads}"
            raise AscendcError(
                describe(self.name, "deterministic", f"True with {given}", "neither: it fixes the order")
            )
        call = _Call(self, args, tiling, workspace, reachable, outputs)
        self._launch(self.record(block_dim, tiling_key, time_limit), call, 1 if deterministic else threads, reverse)

    def check(
        self,
        block_dim: int,
        *args: Any,
        outputs: Sequence[np.ndarray] = (),
        values: bool = False,
        tiling: Any = None,
        tiling_key: int | None = None,
        workspace: int = 0,
        reverse: bool = False,
        time_limit: float | None = None,
        reachable: Sequence[np.ndarray] = (),
    ) -> Report:
        """Run the kernel, on one thread, with every access looked at; what it does that it may not is in the report.

        Arguments as of the call. ``outputs``: those arrays of ``args`` that hold nothing before the kernel has written
        them, and have to hold something in the end; they are the ``outputs`` of the report. ``values``: also results
        that are NaN though no operand is, and float16 results that saturate. Raises AscendcError for what no finding is
        made of: arguments that do not fit, a crash of the kernel's own code, the time limit.
        """
        launch = self.record(block_dim, tiling_key, time_limit)
        launch.check, launch.check_values = 1, int(values)
        found = ctypes.c_void_p()
        launch.findings = ctypes.addressof(found)
        report = Report(self.name, outputs=list(outputs))
        with guarded(self.name, args, reachable, report) as places:
            moved, made = ([places.get(id(value), value) for value in side] for side in (args, outputs))
            call = _Call(self, moved, tiling, workspace, reachable, made)
            try:
                self._launch(launch, call, 1, reverse)
            except AscendcError as error:
                take_findings(found, report, "ascendc")
                if report.findings:
                    raise AscendcError(f"{error}\n{report}") from None
                raise
            take_findings(found, report, "ascendc")
        return report

    def profile(
        self,
        block_dim: int,
        *args: Any,
        chip: CostChip | None = None,
        traced_blocks: int = 2,
        traced_slices: int = 100_000,
        tiling: Any = None,
        tiling_key: int | None = None,
        workspace: int = 0,
        time_limit: float | None = None,
        reachable: Sequence[np.ndarray] = (),
    ) -> Profile:
        """Modelled time of a call, and where its cycles go (docs/profiler.md). The kernel runs twice, on one thread;
        its memory is put back in between.

        Arguments as of the call. ``chip``: numbers of the model in place of those of the chip that the kernel was built
        for. ``traced_blocks``, ``traced_slices``: of how many blocks the timeline is kept, how many slices of each
        core. Raises AscendcError as the call does.
        """
        numbers = chip or cost_chip(self._chip.name)
        if numbers.soc.split_core != self._chip.split_core:
            accepted = f"{self._chip.name}, or a chip with cores of its kind"
            raise AscendcError(describe(self.name, "chip of profile", numbers.soc.name, accepted))
        call = _Call(self, args, tiling, workspace, reachable, ())
        launch = self.record(block_dim, tiling_key, time_limit)

        def run(function: Callable[..., int]) -> None:
            self._launch(launch, call, 1, False, function)

        return profile_launch(self.name, numbers, launch, run, traced_blocks=traced_blocks, traced_slices=traced_slices)

    def _launch(
        self, launch: LaunchRecord, call: _Call, threads: int, reverse: bool, run: Callable[..., int] | None = None
    ) -> None:
        launch.args = call.pointers
        launch.memory, launch.memories = call.memory, len(call.named)
        launch.threads, launch.reverse = threads, reverse
        library = native._library()
        if threading.current_thread() is threading.main_thread():
            launch.poll = ctypes.cast(library.mco_python_signals, ctypes.c_void_p)
        text = ctypes.create_string_buffer(_ERROR_BYTES)
        status = (run or library.mco_asc_run)(ctypes.byref(launch), text, ctypes.c_size_t(_ERROR_BYTES))
        call.end()
        if status == _STOPPED:
            raising = ctypes.PyDLL(str(native.library_path())).mco_python_raise
            raising.restype = ctypes.py_object
            raising()
        if status:
            raise AscendcError(f"{self.name}: {text.value.decode(errors='replace')}")

    def record(self, block_dim: int, tiling_key: int | None = None, time_limit: float | None = None) -> LaunchRecord:
        """A launch without its arguments; see the call."""
        _check_count(self.name, "block_dim", block_dim, 1, MOST_BLOCKS)
        _check_count(self.name, "tiling_key", tiling_key or 0, 0, (1 << 64) - 1)
        limit = config().time_limit if time_limit is None else time_limit
        launch = LaunchRecord(ctypes.sizeof(LaunchRecord), ABI)
        launch.entry[0], launch.entry[1] = self._entries
        launch.strict = 1
        launch.blocks, launch.kind, launch.tiling_key = block_dim, self._kind, tiling_key or 0
        sizes = chips.scope_bytes(self._chip)
        launch.scope_bytes = (ctypes.c_int64 * len(sizes))(*sizes)
        launch.saturate, launch.split = self._chip.saturate_default, self._chip.split_core
        launch.arch = chips.arch(self._chip)
        launch.time_limit = 0.0 if limit is None or limit == math.inf else float(limit)
        return launch


_workspaces: list[np.ndarray] = []  # of calls that have ended, the longest unused first
_KEPT_BYTES = 256 << 20
_workspace_lock = threading.Lock()


def _take_workspace(size: int) -> np.ndarray:
    """The first ``size`` bytes of a kept workspace, whatever they hold, or new memory."""
    with _workspace_lock:
        for number, memory in enumerate(_workspaces):
            if size <= memory.size <= 2 * size:
                return _workspaces.pop(number)[:size]
    return np.empty(size, np.uint8)


def _keep_workspace(memory: np.ndarray) -> None:
    whole = memory if memory.base is None else memory.base
    with _workspace_lock:
        _workspaces.append(whole)
        while sum(kept.size for kept in _workspaces) > _KEPT_BYTES:
            _workspaces.pop(0)


class _Call:
    """Values of one call as the entry takes them, alive as long as it runs."""

    def __init__(
        self,
        kernel: Kernel,
        args: Sequence[Any],
        tiling: Any,
        workspace: int,
        reachable: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ):
        self.kernel = kernel
        self._workspace: np.ndarray | None = None
        self.fresh: dict[int, int] = {}  # bytes at the end that hold nothing, by number in named
        self.named: list[tuple[str, np.ndarray]] = [(f"reachable {i}", array) for i, array in enumerate(reachable)]
        values = [*args, *self._trailing(len(args), tiling, workspace)]
        self.slots = [
            self._slot(number, value, parameter)
            for number, (value, parameter) in enumerate(zip(values, kernel.parameters, strict=True))
        ]
        addresses = [ctypes.addressof(slot) for slot in self.slots]
        self.pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        made = [self._is_output(array, outputs) for _, array in self.named]
        self.memory = (_Memory * max(len(self.named), 1))(
            *[
                _Memory(array.ctypes.data, array.nbytes, name.encode(), self.fresh.get(number, 0), int(made[number]))
                for number, (name, array) in enumerate(self.named)
            ]
        )
        if sum(made) != len(outputs):
            accepted = "arrays that are arguments of the kernel, each once"
            raise AscendcError(describe(kernel.name, "outputs", f"{len(outputs)} arrays", accepted))

    def end(self) -> None:
        """Keeps the workspace for a later call; the kernel has ended."""
        if self._workspace is not None:
            _keep_workspace(self._workspace)
            self._workspace = None

    @staticmethod
    def _is_output(array: np.ndarray, outputs: Sequence[np.ndarray]) -> bool:
        return any(array is output for output in outputs)

    def _trailing(self, given: int, tiling: Any, workspace: int) -> list[Any]:
        """Workspace and tiling where the entry has parameters for them behind the arguments."""
        name, parameters = self.kernel.name, self.kernel.parameters
        _check_count(name, "workspace", workspace, 0, 1 << 40)
        missing = len(parameters) - given
        listed = f"({', '.join(map(str, parameters))})"
        wanted = 2 if tiling is not None and missing != 1 else int(tiling is not None or workspace > 0)
        if missing != wanted or (missing and any(p.kind != "p" for p in parameters[given:])):
            extra = "" if tiling is None else " and tiling"
            accepted = f"{len(parameters)} for {listed}, the last of which may be workspace and tiling"
            raise AscendcError(describe(name, "number of arguments", f"{given}{extra}", accepted))
        trailing: list[Any] = []
        if missing == 2 or (missing == 1 and tiling is None):
            memory = self._workspace = _take_workspace(SYSTEM_WORKSPACE + workspace)
            memory[SYSTEM_WORKSPACE:] = _FILL
            self.fresh[len(self.named)] = workspace
            trailing.append(self._name("workspace", memory))
        if tiling is not None:
            raw = tiling.tobytes() if isinstance(tiling, np.ndarray) else bytes(tiling)
            memory = np.zeros(-(-len(raw) // 32) * 32 + 32, np.uint8)
            memory[: len(raw)] = np.frombuffer(raw, np.uint8)
            trailing.append(self._name("tiling", memory))
        return trailing

    def _name(self, name: str, array: np.ndarray) -> np.ndarray:
        self.named.append((name, array))
        return array

    def _slot(self, number: int, value: Any, parameter: Parameter) -> Any:
        where = f"argument {number}"
        if parameter.kind == "p":
            return ctypes.c_void_p(self._address(where, number, value))
        if parameter.kind == "s" or isinstance(value, bytes | bytearray | np.void):
            raw = value.tobytes() if isinstance(value, np.generic | np.ndarray) else value
            if not isinstance(raw, bytes | bytearray) or len(raw) != parameter.bytes:
                self._refuse(where, value, f"{parameter.bytes} bytes for {parameter}")
            return (ctypes.c_uint8 * parameter.bytes)(*raw)
        if isinstance(value, np.ndarray) or not isinstance(value, int | float | np.generic):
            self._refuse(where, value, f"a number for {parameter}")
        return self._number(where, value, parameter)

    def _address(self, where: str, number: int, value: Any) -> int | None:
        if value is None:
            return None
        if not isinstance(value, np.ndarray):
            self._refuse(where, value, "a NumPy array, or None for a null pointer")
        if not value.flags.c_contiguous:
            self._refuse(where, f"an array with strides {value.strides}", "a C-contiguous array (np.ascontiguousarray)")
        if not any(value is array for _, array in self.named):
            self._name(f"argument {number}", value)
        return value.ctypes.data

    def _number(self, where: str, value: Any, parameter: Parameter) -> Any:
        raw = (ctypes.c_uint8 * parameter.bytes)()
        if parameter.kind in "fhb":
            name = {"f": f"float{8 * parameter.bytes}", "h": "float16", "b": "bfloat16"}[parameter.kind]
            dtype = np.dtype(np.float64) if name == "float64" else numpy_dtype(name)
            data = np.array(float(value)).astype(dtype).tobytes()
        else:
            bits, signed = 8 * parameter.bytes, parameter.kind == "i"
            low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
            if int(value) != value or not low <= int(value) < high:
                self._refuse(where, value, f"{parameter}: {low} to {high - 1}")
            data = int(value).to_bytes(parameter.bytes, "little", signed=signed)
        ctypes.memmove(raw, data, parameter.bytes)
        return raw

    def _refuse(self, where: str, given: object, accepted: str) -> None:
        shown = given if isinstance(given, str | int | float) else f"a {type(given).__name__}"
        raise AscendcError(describe(self.kernel.name, where, shown, accepted))


def _check_count(name: str, what: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise AscendcError(describe(name, what, repr(value), f"an integer from {low} to {high}"))


def load(name: str, libraries: Sequence[Path], chip: Soc, *, cached: bool, seconds: float) -> Kernel:
    """The entry of one library, or of two: the one for cube cores first."""
    native._library()
    found = []
    for path in libraries:
        library = ctypes.CDLL(str(path))
        library.mco_asc_entry.restype = ctypes.POINTER(_Entry)
        found.append(library.mco_asc_entry().contents)
    first = found[0]
    parameters = tuple(
        Parameter(first.arguments[i].kind.decode(), first.arguments[i].bytes) for i in range(first.count)
    )
    return Kernel(
        name=name,
        soc=chip.name,
        parameters=parameters,
        cached=cached,
        seconds=seconds,
        libraries=tuple(libraries),
        _entries=(found[0].call, found[-1].call),
        _kind=first.kind,
        _chip=chip,
    )
