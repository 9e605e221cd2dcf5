# SPDX-License-Identifier: Apache-2.0
"""``ms_custom_ops.check``: run a kernel with every access looked at."""

from __future__ import annotations

import re
from typing import Any

from ms_custom_ops.debug.dead_assignment import dead_assignments
from ms_custom_ops.debug.target import program_of
from ms_custom_ops.engine.checked import run_checked
from ms_custom_ops.engine.findings import Finding, Report
from ms_custom_ops.engine.native import Feed
from ms_custom_ops.errors import (
    TikAlignError,
    TikCapacityError,
    TikError,
    TikOverflowError,
    TikScopeError,
    TikSupportError,
    describe,
)
from ms_custom_ops.program import ir

_PLACE = re.compile(r" \[(?P<file>[^\[\]]+):(?P<line>\d+)\]$", re.MULTILINE)


def check(
    target: Any,
    feed: Feed = (),
    *,
    soc: str | None = None,
    values: bool = False,
    threads: int = 0,
    time_limit: float | None = None,
    **launch: Any,
) -> Report:
    """What a kernel does that it may not, or that holds by luck only, with this feed; see docs/sanitizer.md.

    Args:
        target: a Program; a Tik instance after BuildCCE; or a function without arguments that builds one, whose error
            while it is traced is then a finding too. Also a kernel of ``mco.ascendc.build`` or an op of
            ``mco.ascendc.load_project``: the feed holds the positional arguments of its call.
        feed: arrays of the inputs and numbers for the InputScalars, as of :func:`ms_custom_ops.run`.
        soc: chip that a function is traced for; default: the current one.
        values: also results that are NaN though no operand is, and float16 results that saturate.
        threads, time_limit: as of :func:`ms_custom_ops.run`.
        launch: of an Ascend C kernel, the keywords of its ``check``: outputs, tiling, tiling_key, workspace, reverse.

    Returns:
        The report; ``str()`` of it reads like a compiler's messages. Its ``outputs`` are what the kernel computed.

    Raises:
        TikError: no kernel was built. EngineError: the feed does not fit, or the run failed in a way no finding names.
    """
    if hasattr(target, "check"):  # it runs itself
        return target.check(*feed, values=values, time_limit=time_limit, **launch)
    if launch:
        raise TikError(describe("check", "argument", next(iter(launch)), "soc, values, threads, time_limit for TIK"))
    try:
        program = program_of(target, soc, "check")
    except TikError as error:
        if isinstance(target, ir.Program) or not callable(target):
            raise
        found = _refused(error)
        if found is None:
            raise
        return Report(getattr(target, "__name__", "kernel"), [found])
    report = run_checked(program, feed, values=values, threads=threads, time_limit=time_limit)
    report.findings += dead_assignments(program)
    report.findings.sort(key=lambda f: (f.file or "", f.line or 0))
    return report


def _refused(error: TikError) -> Finding | None:
    """The finding that an error of tracing is; None where it is a mistake in the use of the language."""
    text = str(error)
    place = _PLACE.search(text)
    kinds = {
        TikCapacityError: "capacity",
        TikOverflowError: "out_of_bounds",
        TikAlignError: "misaligned",
        TikScopeError: "use_after_scope",
        TikError: "param_range",
    }
    if isinstance(error, TikSupportError) or place is None:
        return None
    kind = next(k for cls, k in kinds.items() if isinstance(error, cls))
    if kind == "param_range" and " overlap" in text:
        kind = "overlap"
    if kind == "use_after_scope" and "scope of" in text:
        return None
    return Finding(kind, text[: place.start()], place["file"], int(place["line"]))
