# SPDX-License-Identifier: Apache-2.0
"""Running Programs: the native engine (:mod:`.native`) and the definition of every instruction (:mod:`.reference`)."""

from ms_custom_ops.engine.checked import get_check, run_checked, set_check
from ms_custom_ops.engine.findings import Finding, Report
from ms_custom_ops.engine.measured import StepMeasure, measure
from ms_custom_ops.engine.native import (
    ENGINES,
    MODES,
    Handle,
    count,
    get_num_threads,
    isa,
    library_path,
    load,
    put_in_table,
    run,
    runner,
    set_isa,
    set_num_threads,
)

__all__ = [
    "ENGINES",
    "MODES",
    "Finding",
    "Handle",
    "Report",
    "StepMeasure",
    "count",
    "get_check",
    "get_num_threads",
    "isa",
    "library_path",
    "load",
    "measure",
    "put_in_table",
    "run",
    "run_checked",
    "set_check",
    "runner",
    "set_isa",
    "set_num_threads",
]
