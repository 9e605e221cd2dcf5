# SPDX-License-Identifier: Apache-2.0
"""Test cases of ops from files: read them, make their data from a seed, run kernel against golden.

``ms-custom-ops test`` is the command over this package; docs/cases.md describes the file. MindSpore is imported
only when cases are run through it.
"""

from __future__ import annotations

from ms_custom_ops.cases.generate import file_cases, smoke_cases
from ms_custom_ops.cases.model import CaseFile, CaseFileError, PlannedCase, Result
from ms_custom_ops.cases.reader import read_cases
from ms_custom_ops.cases.run import run_case

__all__ = ["CaseFile", "CaseFileError", "PlannedCase", "Result", "file_cases", "read_cases", "run_case", "smoke_cases"]
