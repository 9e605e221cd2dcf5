# SPDX-License-Identifier: Apache-2.0
"""The reference engine: the living definition of every instruction of a Program, in NumPy.

Definitions register themselves in :data:`DEFINITIONS` under their ISA name when their module is imported.
"""

from __future__ import annotations

from ms_custom_ops.engine.reference import (
    compact,
    compare,
    convert,
    cube,
    fused,
    gather,
    img2col,
    l0c,
    move,
    proposal,
    reduce,
    shape,
    sort,
    sync,
    transpose,
    vector,
)
from ms_custom_ops.engine.reference.call import DEFINITIONS
from ms_custom_ops.engine.reference.control import run_reference

__all__ = ["DEFINITIONS", "DEFINITION_MODULES", "run_reference"]

DEFINITION_MODULES = (
    compact,
    compare,
    convert,
    cube,
    fused,
    gather,
    img2col,
    l0c,
    move,
    proposal,
    reduce,
    shape,
    sort,
    sync,
    transpose,
    vector,
)
