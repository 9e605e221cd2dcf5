# SPDX-License-Identifier: Apache-2.0
"""The gradient formulas of an op_info file, evaluated with goldens, against central differences of the forward golden.

Both sides are float64 and neither runs a kernel, so what disagrees is the formula or a golden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import case_data, golden_outputs
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.opcheck.report import Report
from ms_custom_ops.registry import OpSpec, get_op
from ms_custom_ops.registry.spec import BpropRule

CHECK = "gradient"
STEP = 1e-5
LIMIT = 1e-4
"""Largest relative difference of the two slopes; a wrong operand is off by the size of the gradient itself."""


@dataclass(frozen=True)
class Setting:
    """A case with its float64 arrays, the golden's outputs, and a random gradient of each."""

    case: PlannedCase
    soc: str
    arrays: Mapping[str, np.ndarray]
    outputs: list[np.ndarray]
    douts: list[np.ndarray]


def setting_of(case: PlannedCase, soc: str) -> Setting:
    """Arrays as the case has them, widened; douts are zero for outputs that carry no gradient."""
    op = case.op
    arrays = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in make_arrays(case).items()}
    outputs = golden_outputs(op, arrays, case.attrs, case.symbols)
    rng = np.random.default_rng((*case.seed, 77))
    carries = op.bprop.output_differentiability if op.bprop else (False,) * len(outputs)
    douts = [rng.standard_normal(y.shape) * float(c) for y, c in zip(outputs, carries, strict=True)]
    return Setting(case, soc, arrays, outputs, douts)


def formula(setting: Setting) -> Iterator[tuple[BpropRule, str, np.ndarray]]:
    """(rule, input, gradient) as the formulas give them when every op in them is its golden.

    Goldens may give statistics without their padding: the gradient op gets them in the primitive's shapes.
    """
    case, op = setting.case, setting.case.op
    returns = op.infer(case.shapes, case.dtypes, case.attrs, setting.soc)
    for rule in op.bprop.rules if op.bprop else ():
        target = get_op(rule.op)
        given: dict[str, np.ndarray] = {}
        dtypes: dict[str, str | None] = {}
        attrs: dict[str, Any] = {}
        for name, operand in rule.args.items():
            if operand.kind == "literal":
                attrs[name] = operand.value
            elif operand.kind == "attr":
                attrs[name] = case.attrs.get(operand.name, _default(op, operand.name))
            elif operand.kind == "input":
                if operand.name in setting.arrays:
                    given[name], dtypes[name] = setting.arrays[operand.name], case.dtypes[operand.name]
            else:
                shape, dtypes[name] = returns[operand.index]
                values = setting.outputs if operand.kind == "out" else setting.douts
                given[name] = fitted(values[operand.index], shape)
            if operand.zeros and name in given:
                given[name] = np.zeros_like(given[name])
        symbols = target.check_call({n: a.shape for n, a in given.items()}, dtypes, attrs, setting.soc)
        for name, grad in zip(rule.inputs, golden_outputs(target, given, attrs, symbols), strict=False):
            yield rule, name, grad


def fitted(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The corner of ``shape``: zeros behind an array that is smaller, cut where it is larger."""
    if array.shape == tuple(shape) or array.ndim != len(shape):
        return array
    out = np.zeros(shape, array.dtype)
    part = tuple(slice(min(a, b)) for a, b in zip(array.shape, shape, strict=True))
    out[part] = array[part]
    return out


def _default(op: OpSpec, name: str) -> Any:
    return next(arg.default for arg in op.attributes if arg.name == name)


def check_gradient(report: Report, case: PlannedCase, soc: str) -> None:
    """Slope along a random direction of every differentiable input: formula against central differences."""
    op = case.op
    if op.bprop is None:
        report.skip(CHECK, f"{op.name} has no gradient")
        return
    setting = setting_of(case, soc)
    rng = np.random.default_rng((*case.seed, 78))
    try:
        gradients = list(formula(setting))
    except OpArgumentError as error:  # `check` has found that the gradient op takes the shapes and dtypes
        report.skip(CHECK, f"{op.name}/{case.name}: the goldens of the gradient take no such call: {error}")
        return
    for rule, name, grad in gradients:
        x = setting.arrays.get(name)
        if x is None:
            continue
        if grad.shape != x.shape and case_data(get_op(rule.op)).visible is not None:
            report.skip(CHECK, f"{op.name}/{case.name}: the golden of {rule.op} gives {name} without its padding")
            continue
        if grad.shape != x.shape:
            report.add(CHECK, op.name, f"the gradient of {name} by the goldens has shape {grad.shape}, {name} has "
                       f"{x.shape} [{op.location}]", case.name, soc)  # fmt: skip
            continue
        direction = rng.standard_normal(x.shape)
        slope = float((grad * direction).sum())
        try:
            wanted, noise = _central(setting, name, direction)
        except OpArgumentError as error:
            report.skip(CHECK, f"{op.name}/{case.name}: the golden takes no {name} beside this one: {error}")
            continue
        size = max(abs(slope), abs(wanted), float(np.sqrt((grad**2).sum())) * 1e-2, 1e-12)
        report.did(CHECK, f"{op.name}/{case.name} {name}")
        if not abs(slope - wanted) <= LIMIT * size + noise:
            report.add(CHECK, op.name, f"d{name} is {slope:.6g} by `{' '.join(rule.text.split())}` with goldens, "
                       f"{wanted:.6g} by central differences of the golden of {op.name}: an operand of the formula is "
                       f"wrong, or a golden is [{op.location}]", case.name, soc)  # fmt: skip


def _central(setting: Setting, name: str, direction: np.ndarray) -> tuple[float, float]:
    """Slope of sum(dout * out) along ``direction``, and how far it is known: two step sizes disagree by rounding."""
    op, case = setting.case.op, setting.case
    slopes = []
    for step in (STEP, 2 * STEP):
        values = []
        for sign in (1, -1):
            moved = {**setting.arrays, name: setting.arrays[name] + sign * step * direction}
            found = golden_outputs(op, moved, case.attrs, case.symbols)
            values.append(sum(float(np.nansum(d * y)) for d, y in zip(setting.douts, found, strict=True) if d.any()))
        slopes.append((values[0] - values[1]) / (2 * step))
    return slopes[0], 4 * abs(slopes[0] - slopes[1])


def smallest(cases: list[PlannedCase]) -> PlannedCase:
    """The case with the fewest elements."""
    return min(cases, key=lambda c: sum(int(np.prod(s)) for s in c.shapes.values() if s is not None))
