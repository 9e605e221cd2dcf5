# SPDX-License-Identifier: Apache-2.0
"""The native engine in its checked mode."""

from __future__ import annotations

import ctypes

import numpy as np

from ms_custom_ops.engine import native
from ms_custom_ops.engine.addressed import give_back
from ms_custom_ops.engine.findings import Finding, Report
from ms_custom_ops.program import ir

_CHECKED = 2


class _Finding(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("kind", "text", "file", "other_file", "buffer")),
        ("line", ctypes.c_uint32),
        ("other_line", ctypes.c_uint32),
        *((name, ctypes.c_int64) for name in ("core", "start", "end", "count")),
        ("core_name", ctypes.c_char_p),
    ]


def run_checked(
    program: ir.Program, feed: native.Feed, *, values: bool = False, threads: int = 0, time_limit: float | None = None
) -> Report:
    """Runs ``program`` in the checked mode.

    Arguments as of :func:`ms_custom_ops.engine.run`; ``values``: also results that are NaN though no operand is, and
    float16 results that saturate. Raises EngineError as :func:`run` does for what no finding is made of: a feed that
    does not fit, a Program that the engine does not load, the time limit.
    """
    inputs, scalars = native._bind(program, feed)
    outputs = [native._new_output(program, index, inputs) for index in program.outputs]
    report = check_arrays(program, inputs, scalars, outputs, values=values, threads=threads, time_limit=time_limit)
    give_back(inputs)
    return report


def check_arrays(
    program: ir.Program,
    inputs: list[np.ndarray],
    scalars: list[int | float],
    outputs: list[np.ndarray],
    *,
    values: bool = False,
    threads: int = 0,
    time_limit: float | None = None,
) -> Report:
    """:func:`run_checked` on arrays that fit the Program; results go to ``outputs``."""
    options = native._options(_CHECKED, threads, True, time_limit)
    found = ctypes.c_void_p()
    options.findings = ctypes.cast(ctypes.byref(found), ctypes.c_void_p)
    options.values = int(values)
    report = Report(program.name, outputs=outputs)
    handle = native._loaded(program)
    try:
        native._run_native(program, handle, inputs, scalars, outputs, options)
    finally:
        take_findings(found, report)
    return report


def take_findings(found: ctypes.c_void_p, report: Report, language: str = "tik") -> None:
    """Moves what the engine found to the report."""
    library = native._library()
    report.findings = [_one(library, found, i, language) for i in range(library.mco_findings_count(found))]
    report.dropped = library.mco_findings_dropped(found)
    library.mco_findings_free(found)


def _one(library: ctypes.CDLL, found: ctypes.c_void_p, index: int, language: str) -> Finding:
    raw = _Finding()
    library.mco_findings_get(found, index, ctypes.byref(raw))
    return Finding(
        raw.kind.decode(),
        raw.text.decode(errors="replace"),
        raw.file.decode() or None,
        raw.line or None,
        raw.other_file.decode() or None if raw.other_line else None,
        raw.other_line or None,
        raw.buffer.decode() if raw.buffer is not None else None,
        max(raw.core, 0),
        raw.count,
        raw.start,
        raw.end,
        raw.core_name.decode() if raw.core_name is not None else None,
        language,
    )


def set_check(on: bool) -> bool:
    """Whether ops, and every run that names no mode, run checked from now on: what is found is then the error of the
    run, an EngineError. MS_CUSTOM_OPS_CHECK=1 says so from the start. The result is what was so before."""
    before = get_check()
    native._library().mco_set_check(int(bool(on)))
    return before


def get_check() -> bool:
    """What :func:`set_check` said last."""
    return bool(native._library().mco_get_check())
