# SPDX-License-Identifier: Apache-2.0
"""Checks that run the kernel without MindSpore: every chip, both engines, shared and strided memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ms_custom_ops.cases.data import make_arrays, stored, view
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.cases.run import run_case
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.lower.run import kernel_array, run_primitive
from ms_custom_ops.opcheck.report import Report

Arrays = Mapping[str, np.ndarray]


def check_chips(report: Report, plans: Sequence[tuple[str, Sequence[PlannedCase]]]) -> None:
    """The kernel meets the golden on every chip."""
    for soc, cases in plans:
        for case in cases:
            result = run_case(case, soc)
            report.did("chips", f"{case.op.name}/{case.name}/{soc}")
            if result.verdict != "pass":
                report.add("chips", case.op.name, result.message, case.name, soc)


def check_engines(report: Report, case: PlannedCase, soc: str) -> None:
    """Both engines give the same bits."""
    arrays = make_arrays(case)
    native, reference = (_run(case, arrays, soc, engine) for engine in ("native", "reference"))
    report.did("engines", f"{case.op.name}/{case.name}/{soc}")
    for name in native:
        if native[name].tobytes() != reference[name].tobytes():
            report.add(
                "engines",
                case.op.name,
                f"{name}: the native and the reference engine differ in "
                f"{_unequal(native[name], reference[name])} of {native[name].size} elements",
                case.name,
                soc,
            )


def check_memory(report: Report, case: PlannedCase, soc: str) -> None:
    """Two arguments in one memory, and arguments of other strides, give what copies give; inputs stay as they are."""
    arrays = make_arrays(case)
    wanted = _run(case, arrays, soc)
    op = case.op.name
    for first, second in _twins(case, arrays):
        same = {**arrays, second: arrays[first]}
        apart = {**arrays, second: arrays[first].copy()}
        found, expected = _run(case, same, soc), _run(case, apart, soc)
        report.did("memory", f"{op}/{case.name} {first} is {second}")
        for name in expected:
            if found[name].tobytes() != expected[name].tobytes():
                report.add("memory", op, f"{name} changes when {first} and {second} are one array", case.name, soc)
    for layout in ("swapped", "stepped"):
        strided = {n: view(stored(a, layout), layout) if a.ndim > 1 else a for n, a in arrays.items()}
        before = {n: a.tobytes() for n, a in strided.items()}
        found = _run(case, strided, soc)
        report.did("memory", f"{op}/{case.name} {layout}")
        for name in wanted:
            if found[name].tobytes() != wanted[name].tobytes():
                report.add("memory", op, f"{name} changes when the arguments are {layout}", case.name, soc)
        for name, content in before.items():
            if strided[name].tobytes() != content:
                report.add("memory", op, f"the kernel writes into its input {name}", case.name, soc)


def check_inputs_kept(report: Report, case: PlannedCase, soc: str) -> None:
    """A kernel does not write its inputs: the engine works in the caller's memory."""
    arrays = make_arrays(case)
    before = {n: a.tobytes() for n, a in arrays.items()}
    _run(case, arrays, soc)
    report.did("memory", f"{case.op.name}/{case.name} inputs")
    for name, content in before.items():
        if arrays[name].tobytes() != content:
            report.add("memory", case.op.name, f"the kernel writes into its input {name}", case.name, soc)


def check_sanitizer(report: Report, case: PlannedCase, soc: str) -> None:
    """The checked mode of the engine, which looks at every access of every lane, finds nothing."""
    from ms_custom_ops.debug.check import check

    arrays = make_arrays(case)
    call = describe_call(case.op, {n: a.shape for n, a in arrays.items()}, dict(case.dtypes), case.attrs, soc)
    compiled = compile_call(call)
    program = compiled.program
    feed = [kernel_array(arrays[n], program.buffers[i]) for n, i in zip(compiled.inputs, program.inputs, strict=True)]
    report.did("sanitizer", f"{case.op.name}/{case.name}/{soc}")
    for found in check(program, feed).findings:
        times = f", {found.count} times" if found.count > 1 else ""
        place = f" [{found.file}:{found.line}]" if found.file else ""
        report.add("sanitizer", case.op.name, f"{found.kind}: {found.text}{times}{place}", case.name, soc)


def _twins(case: PlannedCase, arrays: Arrays) -> list[tuple[str, str]]:
    """Pairs of floating arguments of one shape and dtype."""
    names = [n for n in case.present if arrays[n].dtype.kind not in "iub"]
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]
            if arrays[a].shape == arrays[b].shape and arrays[a].dtype == arrays[b].dtype]  # fmt: skip


def _run(case: PlannedCase, arrays: Arrays, soc: str, engine: str = "native") -> dict[str, np.ndarray]:
    call = describe_call(case.op, {n: a.shape for n, a in arrays.items()}, dict(case.dtypes), case.attrs, soc)
    return run_primitive(call, arrays, engine, compile_call(call))


def _unequal(a: np.ndarray, b: np.ndarray) -> int:
    width = a.dtype.itemsize
    return int((a.view(f"u{width}") != b.view(f"u{width}")).sum()) if a.shape == b.shape else a.size
