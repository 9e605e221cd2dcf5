# SPDX-License-Identifier: Apache-2.0
"""What a chip of the table is for Ascend C: numbers that sources ask for, sizes of memories."""

from __future__ import annotations

from ms_custom_ops.errors import SocError, describe
from ms_custom_ops.program.ir import SCOPES
from ms_custom_ops.soc.table import Soc

_ARCH = {"910B": (2201, 220), "910_93": (2201, 220), "310P": (2002, 200)}  # __NPU_ARCH__, __CCE_AICORE__


def arch(chip: Soc) -> int:
    """``__NPU_ARCH__``; SocError for a chip without Ascend C here."""
    return _numbers(chip)[0]


def chip_flags(chip: Soc) -> list[str]:
    """Definitions that the compiler for the chip makes."""
    npu, aicore = _numbers(chip)
    return [f"-D__NPU_ARCH__={npu}", f"-D__CCE_AICORE__={aicore}", f"-DMCO_ASC_UB_BYTES={chip.scope_bytes['ub']}"]


def scope_bytes(chip: Soc) -> list[int]:
    """Sizes of the memories of one core, in the order of SCOPES."""
    return [chip.scope_bytes.get(scope, 0) for scope in SCOPES]


def _numbers(chip: Soc) -> tuple[int, int]:
    if chip.family not in _ARCH:
        raise SocError(describe("ascendc", "soc", chip.name, f"a chip of {', '.join(_ARCH)}"))
    return _ARCH[chip.family]
