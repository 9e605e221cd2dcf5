# SPDX-License-Identifier: Apache-2.0
"""What set_current_compile_soc_info was told beyond the chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AIC = "AiCore"
VEC = "VectorCore"
CORE_TYPES = (AIC, VEC)


@dataclass(frozen=True)
class Choice:
    """Core type, limit of cores (None: the chip's own) and whether L1 fusion was asked for."""

    core_type: str = AIC
    aicore_num: int | None = None
    l1_fusion: Any = None


_choice = Choice()


def choose(choice: Choice) -> None:
    """Make ``choice`` what counts from now on."""
    global _choice
    _choice = choice


def chosen() -> Choice:
    """What counts now."""
    return _choice


def core_type() -> str:
    """Core type of set_current_compile_soc_info, "AiCore" by default."""
    return _choice.core_type
