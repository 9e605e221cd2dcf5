# SPDX-License-Identifier: Apache-2.0
"""What ``ms-custom-ops tune`` found for a problem, where a plan has choices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ms_custom_ops import tuned
from ms_custom_ops.errors import TilingError, describe
from ms_custom_ops.soc.table import Soc
from ms_custom_ops.tiling.budget import BufferSpec, require


def tuned_choice(
    op: str,
    problem: Any,
    soc: Soc,
    choices: Callable[[], list[tuned.Choice]],
    buffers_of: Callable[..., tuple[BufferSpec, ...]],
) -> dict[str, int] | None:
    """The stored choice for ``problem`` (a dataclass) of ``op`` on a chip, or None. ``choices`` lists what there is to
    choose from; ``buffers_of`` takes the numbers of a choice by name. Raises TilingError for a choice with other names
    than this plan's, BudgetError for one that does not fit."""
    found = tuned.choose(op, soc.name, asdict(problem), choices)
    if found is None:
        return None
    choice, names = dict(found), list(inspect.signature(buffers_of).parameters)
    text = ", ".join(f"{name} {value}" for name, value in choice.items())
    drop = f"ms-custom-ops tune {op} --forget drops this one"
    if sorted(choice) != sorted(names):
        raise TilingError(describe(op, "stored choice", text or "empty", f"{', '.join(names)}; {drop}"))
    require(buffers_of(**choice), soc, f"{op}: the stored choice {text}", f"a choice that tune finds; {drop}")
    return choice
