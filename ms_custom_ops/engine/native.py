# SPDX-License-Identifier: Apache-2.0
"""Binding of the native engine: load, check and run Programs.

The shared library is opened with ctypes by the path of the extension module ``ms_custom_ops._engine``; a call gives
up the interpreter lock while it runs. Without it (no C++ compiler at install time) the native engine raises
EngineMissingError; the reference engine runs only when it is asked for by name.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.config import config
from ms_custom_ops.engine.addressed import give_back, lay_out, memory_of
from ms_custom_ops.errors import EngineError, EngineMissingError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE, SIZE

ENGINES = ("native", "reference")
MODES = {"fast": 0}
_COUNTED = 1

_MODULE = "ms_custom_ops._engine"
_ERROR_BYTES = 4096
_STOPPED = 2  # what mco_run returns when its poll function stopped it
_FILL = 0xFF  # NaN in every float format, -1 or the largest value as an integer

_KEPT = 64  # Programs whose loaded form is kept
_kept: deque[weakref.ref[ir.Program]] = deque()
_keeping = threading.Lock()

Feed = Sequence[Any] | Mapping[str, Any]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class _Scalar(ctypes.Structure):
    _fields_ = [("i", ctypes.c_int64), ("f", ctypes.c_double)]


class _Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("mode", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("deterministic", ctypes.c_int32),
        ("time_limit", ctypes.c_double),
        ("poll", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("findings", ctypes.c_void_p),
        ("events", ctypes.c_int32),
        ("values", ctypes.c_int32),
        ("within_pipe", ctypes.c_int32),
        ("nanoseconds", ctypes.c_void_p),
        ("work", ctypes.c_void_p),
    ]


def library_path() -> Path:
    """File of the native engine; EngineMissingError when it was not built."""
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or not spec.origin:
        raise EngineMissingError(
            "the native engine was not built: install a C++17 compiler (g++) and install ms_custom_ops again, or ask "
            "for engine='reference'"
        )
    return Path(spec.origin)


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineMissingError(
            f"the native engine {path} cannot be loaded ({error}): build it again with g++ on "
            "this machine, or ask for engine='reference'"
        ) from error
    text, size = ctypes.c_char_p, ctypes.c_size_t
    pointer = ctypes.c_void_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "mco_load": (ctypes.c_int, [text, size, ctypes.POINTER(pointer), text, size]),
        "mco_free": (None, [pointer]),
        "mco_run": (
            ctypes.c_int,
            [
                pointer,
                ctypes.POINTER(_Tensor),
                ctypes.c_int,
                ctypes.POINTER(_Scalar),
                ctypes.c_int,
                ctypes.POINTER(_Options),
                text,
                size,
            ],
        ),
        "mco_table_put": (ctypes.c_int, [text, text, size, text, size]),
        "mco_table_find": (pointer, [text]),
        "mco_table_size": (ctypes.c_int64, []),
        "mco_set_threads": (None, [ctypes.c_int]),
        "mco_get_threads": (ctypes.c_int, []),
        "mco_set_time_limit": (None, [ctypes.c_double]),
        "mco_program_steps": (ctypes.c_int64, [pointer]),
        "mco_program_step": (
            ctypes.c_int,
            [pointer, ctypes.c_int64, ctypes.POINTER(text), ctypes.POINTER(text), ctypes.POINTER(ctypes.c_uint32)],
        ),
        "mco_program_step_straight": (ctypes.c_int, [pointer, ctypes.c_int64]),
        "mco_program_step_route": (
            ctypes.c_int,
            [
                pointer,
                ctypes.c_int64,
                ctypes.POINTER(ctypes.c_uint32),
                ctypes.POINTER(ctypes.c_uint32),
                ctypes.POINTER(ctypes.c_int32),
            ],
        ),
        "mco_findings_count": (ctypes.c_int64, [pointer]),
        "mco_findings_dropped": (ctypes.c_int64, [pointer]),
        "mco_findings_get": (ctypes.c_int, [pointer, ctypes.c_int64, pointer]),
        "mco_findings_free": (None, [pointer]),
        "mco_set_check": (None, [ctypes.c_int]),
        "mco_get_check": (ctypes.c_int, []),
        "mco_set_isa": (ctypes.c_int, [text, text, size]),
        "mco_get_isa": (text, []),
        "mco_version": (text, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.mco_set_threads(config().num_threads or 0)
    library.mco_set_time_limit(config().time_limit or 0)
    library.mco_set_check(int(config().check))
    return library


def _check(call: Any, *arguments: Any) -> None:
    """Call a function that ends in an error buffer; EngineError with its text when it fails."""
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    status = call(*arguments, text, _ERROR_BYTES)
    if status == _STOPPED:  # by what a signal handler of Python raised, which goes on here
        raising = ctypes.PyDLL(str(library_path())).mco_python_raise
        raising.restype = ctypes.py_object
        raising()
    if status:
        raise EngineError(text.value.decode(errors="replace"))


class Handle:
    """A Program loaded into the native engine. It may run on several threads at once."""

    __slots__ = ("pointer", "free", "__weakref__")

    def __init__(self, raw: bytes):
        pointer = ctypes.c_void_p()
        self.free = _library().mco_free  # of its own: the names of this module may be gone when the interpreter ends
        _check(_library().mco_load, raw, len(raw), ctypes.byref(pointer))
        self.pointer = pointer

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self.free(self.pointer)


def load(raw: bytes) -> Handle:
    """Program of its binary form, checked and compiled; EngineError when the bytes are corrupt."""
    return Handle(bytes(raw))


def _loaded(program: ir.Program) -> Handle:
    """The Program in the native engine: kept with a final one, of which the latest ``_KEPT`` do so."""
    if not program.final:
        return load(program.to_bytes())
    handle: Handle | None = program.loaded
    if handle is None:
        handle = program.loaded = load(program.to_bytes())
        with _keeping:
            _kept.append(weakref.ref(program))
            oldest = _kept.popleft()() if len(_kept) > _KEPT else None
            if oldest is not None:
                oldest.loaded = None
    return handle


def put_in_table(key: str, raw: bytes) -> None:
    """Load a Program into the table of this process that the MindSpore glue reads. A known key keeps its Program."""
    _check(_library().mco_table_put, key.encode(), bytes(raw), len(raw))


def set_num_threads(count: int | None) -> None:
    """Threads a run uses at most; None restores MS_CUSTOM_OPS_NUM_THREADS or else the number of hardware threads."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise EngineError(describe("set_num_threads", "count", count, "an integer of 1 or more, or None"))
    _library().mco_set_threads(count or config().num_threads or 0)


def get_num_threads() -> int:
    """Threads a run uses at most."""
    return int(_library().mco_get_threads())


def set_isa(name: str) -> None:
    """SIMD level of the inner loops: "generic", "avx2", "avx512", "neon", or "auto" for the best one here.

    Every level gives the same bits; EngineError when this machine does not have it.
    """
    _check(_library().mco_set_isa, name.encode())


def isa() -> str:
    """SIMD level in use."""
    return _library().mco_get_isa().decode()


def run(
    program: ir.Program,
    feed: Feed,
    engine: str = "native",
    *,
    mode: str = "fast",
    threads: int = 0,
    deterministic: bool = True,
    time_limit: float | None = None,
) -> list[np.ndarray]:
    """Outputs of ``program``, in its order.

    ``feed``: arrays of the inputs in their order and then numbers for the InputScalars, or a dict of both by name. Of
    a kernel that moves data at addresses (``TensorAddrList``) a table of addresses is fed as the list of its arrays,
    which then hold what the kernel has written there.
    An output that is no input is filled with 0xFF bytes first (NaN, or the largest integer), so that one that is not
    written shows. ``threads`` 0 is the number of :func:`set_num_threads`. ``deterministic`` False lets atomic adds of
    different blocks land in any order. ``time_limit``: seconds after which the native engine stops with an EngineError
    that names the line it was at; None is MS_CUSTOM_OPS_TIME_LIMIT, ``math.inf`` no limit. Raises EngineError for a
    feed that does not fit and for a Program that fails. On the main thread, signal handlers of Python run meanwhile,
    and what they raise (KeyboardInterrupt) ends the run.
    """
    if engine not in ENGINES:
        raise EngineError(describe(program.name, "engine", repr(engine), " or ".join(map(repr, ENGINES))))
    if mode not in MODES:
        raise EngineError(describe(program.name, "mode", repr(mode), ", ".join(map(repr, MODES))))
    if time_limit is not None and (engine == "reference" or not time_limit > 0):
        accepted = "None" if engine == "reference" else "a number of seconds above 0, or None"
        raise EngineError(describe(program.name, f"time_limit of the {engine} engine", repr(time_limit), accepted))
    inputs, scalars = _bind(program, feed)
    outputs = [_new_output(program, index, inputs) for index in program.outputs]
    if engine == "reference":
        from ms_custom_ops.engine.reference import run_reference

        run_reference(program, inputs, scalars, outputs)
    else:
        options = _options(MODES[mode], threads, deterministic, time_limit)
        _run_native(program, _loaded(program), inputs, scalars, outputs, options)
    give_back(inputs)
    return outputs


def runner(program: ir.Program, feed: Feed, *, threads: int = 0) -> Callable[[], list[np.ndarray]]:
    """A function that runs ``program`` on ``feed`` with the native engine: loaded and bound once, for timing."""
    inputs, scalars = _bind(program, feed)
    handle, options = load(program.to_bytes()), _options(MODES["fast"], threads, True, None)
    outputs = [_new_output(program, index, inputs) for index in program.outputs]

    def once() -> list[np.ndarray]:
        _run_native(program, handle, inputs, scalars, outputs, options)
        give_back(inputs)
        return outputs

    return once


def count(program: ir.Program, feed: Feed, *, threads: int = 0) -> dict[tuple[str, str], int]:
    """How often each step of ``program`` is executed with this feed on the native engine, over all blocks.

    Keys are what a step does and where it stands in the kernel: ("vec_add"'s instruction "vadd", "kernel.py:12"). A
    "for" counts its rounds; "if", "assign", "load", "store" and "alloc" are the scalar statements. A step that is never
    reached counts 0. Raises EngineError as :func:`run` does.
    """
    inputs, scalars = _bind(program, feed)
    outputs = [_new_output(program, index, inputs) for index in program.outputs]
    handle, library = _loaded(program), _library()
    counts = np.zeros(library.mco_program_steps(handle.pointer), np.int64)
    options = _options(_COUNTED, threads, True, None)
    options.counts = counts.ctypes.data
    _run_native(program, handle, inputs, scalars, outputs, options)
    result: dict[tuple[str, str], int] = {}
    for step, executed in enumerate(counts.tolist()):
        key = step_line(library, handle, step)
        if key is not None:
            result[key] = result.get(key, 0) + executed
    return result


def step_line(library: ctypes.CDLL, handle: Handle, step: int) -> tuple[str, str] | None:
    """What a step of a loaded Program does and its line in the kernel; None for one that a kernel does not say."""
    name, file, line = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint32()
    if library.mco_program_step(handle.pointer, step, ctypes.byref(name), ctypes.byref(file), ctypes.byref(line)):
        return None
    assert name.value is not None and file.value is not None
    return name.value.decode(), f"{file.value.decode()}:{line.value}" if file.value else "?"


def _options(mode: int, threads: int, deterministic: bool, time_limit: float | None) -> _Options:
    options = _Options(ctypes.sizeof(_Options), mode, threads, int(deterministic))
    options.time_limit = -1 if time_limit == math.inf else time_limit or 0
    if threading.current_thread() is threading.main_thread():  # the one that Python handles signals on
        options.poll = ctypes.cast(_library().mco_python_signals, ctypes.c_void_p)
    return options


def _run_native(
    program: ir.Program,
    handle: Handle,
    inputs: list[np.ndarray],
    scalars: list[int | float],
    outputs: list[np.ndarray],
    options: _Options,
) -> None:
    arrays = [*inputs, *outputs]
    tensors = (_Tensor * max(len(arrays), 1))(*[_Tensor(a.ctypes.data, a.nbytes) for a in arrays])
    dtypes = [program.registers[i].dtype for i in program.input_scalars]
    values = (_Scalar * max(len(scalars), 1))(*[_scalar(v, t) for v, t in zip(scalars, dtypes, strict=True)])
    _check(_library().mco_run, handle.pointer, tensors, len(arrays), values, len(scalars), ctypes.byref(options))


def _scalar(value: int | float, dtype: str) -> _Scalar:
    if dtype in FLOATS:
        return _Scalar(0, float(value))
    wrapped = int(value) & ((1 << 64) - 1)
    return _Scalar(wrapped - (1 << 64) if wrapped >> 63 else wrapped, 0.0)


def _bind(program: ir.Program, feed: Feed) -> tuple[list[np.ndarray], list[int | float]]:
    """Arrays of the inputs and values of the InputScalars, checked."""
    memory = memory_of(program)
    buffers = [program.buffers[i] for i in program.inputs if i != memory]
    registers = [program.registers[i] for i in program.input_scalars]
    names = [b.name for b in buffers] + [r.name for r in registers]
    if isinstance(feed, Mapping):
        if set(feed) != set(names) or len(set(names)) != len(names):
            missing, unknown = [n for n in names if n not in feed], [n for n in feed if n not in names]
            given = f"lacking {missing}" if missing else f"holding the unknown {unknown}"
            raise EngineError(describe(program.name, "feed", f"a dict {given}", f"one value for each of {names}"))
        values = [feed[n] for n in names]
    else:
        values = list(feed)
        if len(values) != len(names):
            raise EngineError(
                describe(
                    program.name,
                    "feed",
                    f"{len(values)} values",
                    f"{len(buffers)} inputs and {len(registers)} input scalars: {names}",
                )
            )
    fed, reached = values[: len(buffers)], []
    if memory is not None:
        fed, laid_out = lay_out(program, buffers, fed)
        reached = [laid_out]
    arrays = [*(_array(program, b, v) for b, v in zip(buffers, fed, strict=True)), *reached]
    return arrays, [_number(program, r, v) for r, v in zip(registers, values[len(buffers) :], strict=True)]


def _array(program: ir.Program, buffer: ir.Buffer, value: Any) -> np.ndarray:
    where = f"input {buffer.name}"
    if not isinstance(value, np.ndarray):
        raise EngineError(describe(program.name, where, f"a {type(value).__name__}", "a NumPy array"))
    if value.dtype != DTYPES[buffer.dtype].numpy:
        raise EngineError(describe(program.name, f"dtype of {where}", value.dtype, buffer.dtype))
    shape = _shape(buffer)
    if buffer.size_bytes >= 0 and value.size * SIZE[buffer.dtype] == buffer.size_bytes and None in shape:
        pass  # of unknown shape but known size
    elif len(shape) != value.ndim or any(d is not None and d != n for d, n in zip(shape, value.shape, strict=True)):
        accepted = "(" + ", ".join("any" if d is None else str(d) for d in shape) + ")"
        text = describe(program.name, f"shape of {where}", value.shape, accepted)
        if value.nbytes != buffer.size_bytes:
            raise EngineError(text)
        warnings.warn(f"{text}; taken, since it has as many elements", stacklevel=4)
        value = value.reshape([n for n in shape if n is not None]) if value.flags.c_contiguous else value
    if not value.flags.c_contiguous:
        raise EngineError(
            describe(
                program.name,
                where,
                f"an array with strides {value.strides}",
                "a C-contiguous array (np.ascontiguousarray)",
            )
        )
    return value


def _number(program: ir.Program, register: ir.Register, value: Any) -> int | float:
    where = f"input scalar {register.name}"
    value = value.item() if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 else value
    if register.dtype in FLOATS:
        if isinstance(value, (int, float)):
            return float(value)
        raise EngineError(describe(program.name, where, repr(value), f"a number ({register.dtype})"))
    if register.dtype == "bool" and value in (0, 1):
        return int(value)
    low, high = INT_RANGE.get(register.dtype, (0, 1))
    if not isinstance(value, int) or not low <= value <= high:
        raise EngineError(describe(program.name, where, repr(value), f"an integer {low} to {high} ({register.dtype})"))
    return int(value)


def _shape(buffer: ir.Buffer) -> tuple[int | None, ...]:
    """Dims of a buffer, None where they are known only at run time."""
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in buffer.shape)


def _new_output(program: ir.Program, index: int, inputs: list[np.ndarray]) -> np.ndarray:
    buffer = program.buffers[index]
    numpy = DTYPES[buffer.dtype].numpy
    if index in program.inputs:
        return inputs[program.inputs.index(index)].copy()
    shape = _shape(buffer)
    if None in shape:
        if buffer.size_bytes < 0:
            raise EngineError(
                describe(
                    program.name,
                    f"shape of output {buffer.name}",
                    shape,
                    "an output whose size is known, or one that is also an input",
                )
            )
        known = math.prod(d for d in shape if d is not None)
        count = buffer.size_bytes // SIZE[buffer.dtype]
        whole = shape.count(None) == 1 and known and count % known == 0
        final = tuple(count // known if d is None else d for d in shape) if whole else (count,)
    else:
        final = tuple(d for d in shape if d is not None)
    output = np.empty(final, numpy)
    output.reshape(-1).view(np.uint8)[:] = _FILL
    return output


__all__ = [
    "ENGINES",
    "MODES",
    "Handle",
    "count",
    "get_num_threads",
    "isa",
    "library_path",
    "load",
    "put_in_table",
    "run",
    "runner",
    "set_isa",
    "set_num_threads",
]
