# SPDX-License-Identifier: Apache-2.0
"""Everything that can be checked of an op without a chip, in one report."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from ms_custom_ops.cases.generate import smoke_cases
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError, describe
from ms_custom_ops.mistakes import explain
from ms_custom_ops.opcheck import kernels
from ms_custom_ops.opcheck.gradient import check_gradient, smallest
from ms_custom_ops.opcheck.modes import check_modes
from ms_custom_ops.opcheck.report import Finding, Report
from ms_custom_ops.registry import OpSpec, check_registry, get_op, load_registry
from ms_custom_ops.soc import get_soc

__all__ = ["CHECKS", "Finding", "Report", "opcheck"]

CHECKS = ("files", "gradient", "chips", "engines", "memory", "sanitizer", "modes")


def opcheck(
    op: str, case: str | None = None, *, checks: Sequence[str] = CHECKS, socs: Sequence[str] = (), seed: int = 0,
) -> Report:  # fmt: skip
    """Checks an op in every way that needs no chip.

    * ``files``: what ``ms-custom-ops check`` finds, dtypes of chips without a dtype row among it;
    * ``gradient``: the formulas of ``bprop``, evaluated with goldens, against central differences of the golden;
    * ``chips``: the kernel against the golden, on one chip of every family of the op;
    * ``engines``: the native engine against the reference engine, bit for bit;
    * ``memory``: arguments that share memory or have other strides; inputs that are written;
    * ``sanitizer``: a run with every access looked at has no finding;
    * ``modes``: the generated function and its gradients in MindSpore, GRAPH against PYNATIVE bit for bit, and both
      against the goldens (left out, and said so, where MindSpore is not installed).

    Args:
        op: name of the op.
        case: name of a case of its op_info file; by default every case for ``chips``, and the smallest of each dtype
            for the others.
        checks: some of the above.
        socs: chips instead of one of every family.
        seed: of the data.

    Returns:
        A :class:`Report`; ``str(report)`` is what ``check --deep`` prints.

    Raises:
        OpArgumentError: no such op, case or check.
    """
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise OpArgumentError(describe("opcheck", "checks", unknown, ", ".join(CHECKS)))
    spec = get_op(op)
    if case is not None and case not in [each.name for each in spec.cases]:
        raise OpArgumentError(describe(op, "case", repr(case), ", ".join(each.name for each in spec.cases)))
    report = Report([op])
    chips = list(dict.fromkeys(get_soc(name).name for name in socs or spec.target.soc))
    plans = [(chip, [c for c in smoke_cases(spec, chip, seed) if case in (None, c.name)]) for chip in chips]
    few = _one_of_each_dtype(plans)
    if "files" in checks:
        for text in check_registry(load_registry(), [op]):
            report.add("files", op, text)
        report.did("files", op)
    if not few:
        report.skip("cases", f"{op}: no case for {', '.join(chips)}; accepted: one at least in {spec.location}")
    if "gradient" in checks:
        for planned, soc in few:
            _safely(report, "gradient", planned, soc, check_gradient)
    if "chips" in checks:
        kernels.check_chips(report, plans)
    for planned, soc in few:
        if "engines" in checks:
            _safely(report, "engines", planned, soc, kernels.check_engines)
        if "memory" in checks:
            _safely(report, "memory", planned, soc, kernels.check_inputs_kept)
            _safely(report, "memory", planned, soc, kernels.check_memory)
        if "sanitizer" in checks:
            _safely(report, "sanitizer", planned, soc, kernels.check_sanitizer)
    if "modes" in checks:
        _modes(report, spec, few)
    return report


def _one_of_each_dtype(plans: Sequence[tuple[str, list[PlannedCase]]]) -> list[tuple[PlannedCase, str]]:
    """The smallest case of every dtype, each on the last chip that has it (the newest family)."""
    found: dict[str, tuple[PlannedCase, str]] = {}
    for soc, cases in plans:
        by_dtype: dict[str, list[PlannedCase]] = {}
        for case in cases:
            by_dtype.setdefault(str(case.dtypes[case.op.dtype_group[0]]), []).append(case)
        found |= {dtype: (smallest(some), soc) for dtype, some in by_dtype.items()}
    return list(found.values())


def _safely(report: Report, name: str, case: PlannedCase, soc: str, check) -> None:
    """Runs a check; its own failure is a finding, so that the others still run."""
    try:
        check(report, case, soc)
    except Exception as error:
        text = explain(error)
        if text is None and not isinstance(error, (MsCustomOpsError, AssertionError)):
            raise
        report.add(name, case.op.name, text or str(error), case.name, soc)


def _modes(report: Report, spec: OpSpec, few: list[tuple[PlannedCase, str]]) -> None:
    if importlib.util.find_spec("mindspore") is None:
        report.skip("modes", "MindSpore is not installed")
        return
    for planned, soc in few:
        _safely(report, "modes", planned, soc, check_modes)
