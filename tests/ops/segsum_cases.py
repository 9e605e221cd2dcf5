# SPDX-License-Identifier: Apache-2.0
"""Runs a segment-sum kernel at the primitive level without MindSpore: traced, then executed on an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from kernel_trace import traced

import ms_custom_ops as mco
from ms_custom_ops.engine.reference import run_reference

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int32": np.int32}
TOLERANCE = {"float32": (1e-4, 1e-5), "float16": (1e-3, 5e-4), "bfloat16": (1e-2, 5e-3)}
"""(ratio, atol) of the public unit test of bwd_segsum_dadt, by dtype."""


def run_kernel(
    op: str,
    tensors: Sequence[np.ndarray | None],
    outputs: Mapping[str, tuple[tuple[int, ...], str]],
    attrs: Mapping[str, Any],
    soc: str,
    engine: str = "native",
) -> list[np.ndarray]:
    """Outputs of the kernel; the memory they are written to starts as NaN."""
    program = traced(op, tensors, attrs, soc)
    inputs = [t for t in tensors if t is not None]
    if engine == "native":
        return mco.run(program, inputs)
    made = [np.full(shape, np.nan, NUMPY[dtype]) for shape, dtype in outputs.values()]
    run_reference(program, inputs, [], made)
    return made
