# SPDX-License-Identifier: Apache-2.0
"""The Program that a caller means: itself, the kernel of a Tik instance, what a function builds."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.where import user_location


def program_of(target: Any, soc: str | None, api: str) -> ir.Program:
    """``target`` as a Program; a function is traced for ``soc``. TikError where there is none."""
    if isinstance(target, ir.Program):
        return target
    programs = getattr(target, "programs", None)
    if isinstance(programs, list):
        if not programs:
            raise TikError(
                f"{api}: no kernel was built; accepted: a call after tik_instance.BuildCCE(...)", user_location()
            )
        return programs[-1]
    if callable(target):
        from ms_custom_ops.tik.trace import trace

        return trace(target, soc=soc)
    accepted = "a Program, a Tik instance or a function that builds one"
    raise TikError(describe(api, "target", type(target).__name__, accepted), user_location())
