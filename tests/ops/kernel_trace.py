# SPDX-License-Identifier: Apache-2.0
"""The Program of one call of an op, past every cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ms_custom_ops import compiler
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op


def traced(op: str, tensors: Sequence[np.ndarray | None], attrs: Mapping[str, Any], soc: str) -> ir.Program:
    """``tensors``: one per tensor argument, in order, None where absent; those left out at the end are absent."""
    shapes, dtypes = ([None if x is None else of(x) for x in tensors] for of in (np.shape, lambda x: str(x.dtype)))
    return compiler._trace(compiler.describe_call(get_op(op), shapes, dtypes, attrs, soc))
