# SPDX-License-Identifier: Apache-2.0
"""The generated function of an op in MindSpore: GRAPH against PYNATIVE, and its gradients against the goldens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ms_custom_ops.cases.compare import judge
from ms_custom_ops.cases.data import make_arrays, numpy_dtype
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.opcheck.gradient import Setting, fitted, formula, setting_of
from ms_custom_ops.opcheck.report import Report

CHECK = "modes"


def check_modes(report: Report, case: PlannedCase, soc: str) -> None:
    """Outputs and gradients in both modes are the same bits, and the gradients meet those of the goldens."""
    from ms_custom_ops.mindspore.both_modes import call_and_gradients

    op, arrays = case.op, make_arrays(case)
    wrt = [n for rule in (op.bprop.rules if op.bprop else ()) for n in rule.inputs if n in arrays]
    setting = setting_of(case, soc)
    returns = op.infer({n: a.shape for n, a in arrays.items()}, dict(case.dtypes), case.attrs, soc)
    douts = [fitted(d, shape).astype(numpy_dtype(dtype))
             for d, (shape, dtype) in zip(setting.douts, returns, strict=True)]  # fmt: skip
    found = {mode: call_and_gradients(op, arrays, case.attrs, soc, mode, wrt, douts) for mode in ("graph", "pynative")}
    for name in found["graph"]:
        report.did(CHECK, f"{op.name}/{case.name} {name}")
        a, b = found["graph"][name], found["pynative"][name]
        if a.tobytes() != b.tobytes() or a.dtype != b.dtype or a.shape != b.shape:
            report.add(CHECK, op.name, f"{name} differs between GRAPH and PYNATIVE mode", case.name, soc)
    if not wrt:
        return
    narrow = {n: a.astype(np.float64) for n, a in zip([r.name for r in op.returns], douts, strict=True)}
    try:
        exact = _exact(setting, list(narrow.values()))
    except OpArgumentError as error:
        report.skip(CHECK, f"{op.name}/{case.name}: the goldens of the gradient take no such call: {error}")
        return
    dtype = str(case.dtypes[op.dtype_group[0]])
    for name, wanted in exact.items():
        actual = found["graph"].get(f"gradient of {name}")
        if actual is None:
            continue
        report.did(CHECK, f"{op.name}/{case.name} gradient of {name} against the goldens")
        try:
            judge(op, (), f"gradient of {name}", actual, wanted, actual.dtype.name, dtype)
        except AssertionError as error:
            report.add(CHECK, op.name, f"in MindSpore, against the goldens: {error}", case.name, soc)


def _exact(setting: Setting, douts: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Gradients by the goldens for the rounded gradients of the outputs that MindSpore was given."""
    cut = [fitted(d, y.shape) for d, y in zip(douts, setting.outputs, strict=True)]
    found: dict[str, np.ndarray] = {}
    for _, name, grad in formula(replace(setting, douts=cut)):
        if name in setting.arrays and grad.shape == setting.arrays[name].shape:
            found[name] = grad
    return found
