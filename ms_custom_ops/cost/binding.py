# SPDX-License-Identifier: Apache-2.0
"""The native side of a timed run (csrc/timing.h)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from ms_custom_ops.cost.chip import CostChip
from ms_custom_ops.engine import native
from ms_custom_ops.program import ir
from ms_custom_ops.program.isa import ISA, PIPES
from ms_custom_ops.program.isa.args import BY_ROUTE

LANES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "MTE2 (cube)", "MTE3 (cube)", "S (cube)")
STALLS = (
    "not yet issued",
    "waits for a result",
    "waits for a reader",
    "waits for a writer",
    "waits for a flag",
    "barrier",
    "queue full",
    "shared bandwidth",
    "bank conflict",
    "other blocks",
    "flag of another core",
)
SCOPES = ir.SCOPES
UNIT = 256.0
"""Times are counted in parts of a cycle."""
_NUMBERS = ("gm_read", "gm_written", "l2_bytes", "macs", "cube", "vector_bytes", "unpaired")

_SLICE = np.dtype(
    [
        ("step", "<i4"),
        ("lane", "<i4"),
        ("reason", "<i4"),
        ("block", "<i4"),
        ("start", "<f8"),
        ("end", "<f8"),
        ("wait", "<f8"),
        ("bytes", "<f8"),
    ]
)
SLICE = np.dtype([*_SLICE.descr, ("sub", "<i4")])
"""A slice of a timeline; ``sub``: which of several vector cores of its block."""


class _RowCost(ctypes.Structure):
    _fields_ = [
        ("row", ctypes.c_char_p),
        ("pipe", ctypes.c_int32),
        ("startup", ctypes.c_double),
        ("cycles", ctypes.c_double * 3),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        ("chip", ctypes.POINTER(ctypes.c_double)),
        ("chip_values", ctypes.c_int32),
        ("rows", ctypes.POINTER(_RowCost)),
        ("row_count", ctypes.c_int32),
        ("route", ctypes.POINTER(ctypes.c_int32)),
        ("execute", ctypes.c_int32),
        ("traced_blocks", ctypes.c_int64),
        ("traced_slices", ctypes.c_int64),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = native._library()
    pointer, text, size, i64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
    library.mco_chip_value.restype, library.mco_chip_value.argtypes = text, [ctypes.c_int]
    library.mco_time.restype = ctypes.c_int
    library.mco_time.argtypes = [
        pointer, ctypes.POINTER(native._Tensor), ctypes.c_int, ctypes.POINTER(native._Scalar), ctypes.c_int,
        ctypes.POINTER(native._Options), ctypes.POINTER(_Request), ctypes.POINTER(pointer), text, size,
    ]  # fmt: skip
    library.mco_timing_free.restype, library.mco_timing_free.argtypes = None, [pointer]
    library.mco_timing_shape.restype, library.mco_timing_shape.argtypes = None, [pointer, pointer]
    library.mco_timing_call.restype = ctypes.c_int
    library.mco_timing_call.argtypes = [pointer, i64, pointer, pointer, pointer]
    library.mco_asc_time.restype = ctypes.c_int
    library.mco_asc_time.argtypes = [
        pointer, ctypes.POINTER(_Request), ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(pointer), text, size,
    ]  # fmt: skip
    for name in ("mco_timing_blocks", "mco_timing_steps", "mco_timing_slices"):
        function = getattr(library, name)
        function.restype, function.argtypes = i64, [pointer, pointer, i64]
    return library


@functools.cache
def chip_value_names() -> tuple[str, ...]:
    """Names of the numbers that the engine takes, in their order."""
    names: list[str] = []
    while (name := _library().mco_chip_value(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def uses_cube(program: ir.Program) -> bool:
    """Whether a Program needs a cube core."""
    on_cube = {ir.L1, ir.L0A, ir.L0B, ir.L0C}
    return any(b.scope in on_cube for b in program.buffers)


def core_count(program: ir.Program, chip: CostChip) -> int:
    """Blocks that run at once: of a Program without cube work on a split chip, one on each vector core."""
    soc = chip.soc
    return soc.vector_core_count if soc.split_core and not uses_cube(program) else soc.cube_core_count


def _chip_numbers(chip: CostChip, cores: int, split: bool) -> Any:
    computed = {
        "cores": cores,
        "split": float(split),
        "start": chip.values["launch_us"] * chip.clock_mhz,
        "gm_total": chip.gm_bytes_per_cycle,
        "l2_total": chip.l2_bytes_per_cycle,
        "l2_bytes": chip.soc.l2_bytes,
    }
    values = {**chip.values, **computed}
    names = chip_value_names()
    return (ctypes.c_double * len(names))(*[values[n] for n in names])


def _row_costs(chip: CostChip) -> Any:
    costs = []
    for row in ISA.values():
        cost = chip.rows.get(row.name, chip.rows["other"])
        pipe = PIPES[f"PIPE_{row.pipe}"] if isinstance(row.pipe, str) else -1
        costs.append(_RowCost(row.name.encode(), pipe, cost.startup, (ctypes.c_double * 3)(*cost.cycles)))
    return (_RowCost * len(costs))(*costs)


def _routes(split: bool) -> Any:
    pipes = [-1] * len(SCOPES) ** 2
    for (dst, src), pipe in BY_ROUTE[split].items():
        pipes[SCOPES.index(dst) * len(SCOPES) + SCOPES.index(src)] = PIPES[f"PIPE_{pipe}"]
    return (ctypes.c_int32 * len(pipes))(*pipes)


class Raw:
    """What the engine counted: per block, per step, and the slices of the traced blocks."""

    def __init__(self, blocks: np.ndarray, steps: np.ndarray, slices: np.ndarray, names: list[tuple[str, str, int]]):
        lanes, stalls, scopes = len(LANES), len(STALLS), len(SCOPES)
        cut = np.cumsum([1, lanes, lanes, lanes * stalls, scopes * scopes, scopes * scopes])
        end, busy, count, stall, moved, moving, rest = np.split(blocks, cut, axis=1)
        self.end = end[:, 0] / UNIT
        self.busy, self.count = busy / UNIT, count
        self.stall = stall.reshape(-1, lanes, stalls) / UNIT
        self.bytes = moved.reshape(-1, scopes, scopes)
        self.moving = moving.reshape(-1, scopes, scopes) / UNIT
        self.numbers = {n: rest[:, i] for i, n in enumerate(_NUMBERS)}
        self.steps, self.slices, self.names = steps, slices, names


def _read(function: Any, pointer: Any, dtype: Any) -> np.ndarray:
    out = np.zeros(function(pointer, None, 0), dtype)
    function(pointer, out.ctypes.data, out.size)
    return out


def _step_names(handle: native.Handle, steps: int) -> list[tuple[str, str, int]]:
    name, file, line = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint32()
    found = []
    for step in range(steps):
        missing = _library().mco_program_step(
            handle.pointer, step, ctypes.byref(name), ctypes.byref(file), ctypes.byref(line)
        )
        if missing or name.value is None or file.value is None:
            found.append(("", "", 0))
        else:
            found.append((name.value.decode(), file.value.decode(), line.value))
    return found


def request_of(chip: CostChip, cores: int, split: bool, *, execute: int, traced_blocks: int, traced_slices: int) -> Any:
    """What the engine is asked for; ``cores``: blocks that run at once, ``split``: a cube core is one of its own."""
    values, rows, routes = _chip_numbers(chip, cores, split), _row_costs(chip), _routes(split)
    return _Request(values, len(values), rows, len(rows), routes, execute, traced_blocks, traced_slices)


def read(pointer: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of blocks and steps, and slices by block and start; frees the engine's."""
    library = _library()
    try:
        steps = _read(library.mco_timing_steps, pointer, np.int64).reshape(-1, 4)
        width = 1 + 2 * len(LANES) + len(LANES) * len(STALLS) + 2 * len(SCOPES) ** 2 + len(_NUMBERS)
        blocks = _read(library.mco_timing_blocks, pointer, np.int64).reshape(-1, width)
        given = np.zeros(library.mco_timing_slices(pointer, None, 0), _SLICE)
        library.mco_timing_slices(pointer, given.ctypes.data, given.size)
    finally:
        library.mco_timing_free(pointer)
    slices = np.zeros(len(given), SLICE)
    for name in _SLICE.names or ():
        slices[name] = given[name]
    return blocks, steps, slices[np.lexsort((slices["lane"], slices["start"], slices["block"]))]


def run(
    program: ir.Program,
    chip: CostChip,
    inputs: list[np.ndarray],
    scalars: list[int | float],
    outputs: list[np.ndarray],
    *,
    execute: int,
    traced_blocks: int,
    traced_slices: int,
    threads: int,
) -> Raw:
    """Times a Program on the native engine; EngineError as of a run."""
    library, handle = _library(), native.load(program.to_bytes())
    cores, split = core_count(program, chip), program.split_cores
    request = request_of(chip, cores, split, execute=execute, traced_blocks=traced_blocks, traced_slices=traced_slices)
    arrays = [*inputs, *outputs]
    tensors = (native._Tensor * max(len(arrays), 1))(*[native._Tensor(a.ctypes.data, a.nbytes) for a in arrays])
    dtypes = [program.registers[i].dtype for i in program.input_scalars]
    given = [native._scalar(v, t) for v, t in zip(scalars, dtypes, strict=True)]
    numbers = (native._Scalar * max(len(given), 1))(*given)
    options = native._options(0, threads, True, None)
    pointer = ctypes.c_void_p()
    native._check(
        library.mco_time, handle.pointer, tensors, len(arrays), numbers, len(given), ctypes.byref(options),
        ctypes.byref(request), ctypes.byref(pointer),
    )  # fmt: skip
    blocks, steps, slices = read(pointer)
    return Raw(blocks, steps, slices, _step_names(handle, len(steps)))
