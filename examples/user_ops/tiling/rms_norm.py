# SPDX-License-Identifier: Apache-2.0
"""Tiling of rms_norm: a task is one row, whole in the unified buffer (UB), and the rows are shared among the cores."""

from dataclasses import dataclass

from ms_custom_ops.soc.table import Soc
from ms_custom_ops.tiling.budget import BufferSpec, align, require
from ms_custom_ops.tiling.split import CoreSplit, vector_cores

LANES = 64  # float32 elements that one repeat of a vector instruction handles
BLOCK = 8  # float32 elements of a 32-byte block, the unit of data_move


@dataclass(frozen=True)
class Problem:
    """``rows`` of ``width`` elements of ``dtype``."""

    rows: int
    width: int
    dtype: str


@dataclass(frozen=True)
class Plan:
    """What the kernel allocates, and how many rows each core has."""

    problem: Problem
    soc: Soc
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit


def plan(problem: Problem, soc: Soc, rows: tuple[str, ...]) -> Plan:
    """``rows`` names the float32 rows that a kernel keeps; BudgetError when they do not fit the chip."""
    width = align(problem.width, LANES)
    buffers = [BufferSpec(name, "ub", "float32", width) for name in rows]
    buffers += [BufferSpec("total", "ub", "float32", LANES), BufferSpec("ones", "ub", "float32", BLOCK)]
    if problem.dtype != "float32":
        buffers.append(BufferSpec("narrow", "ub", problem.dtype, width))
    require(tuple(buffers), soc, f"rms_norm of {problem.width} columns", "accepted: shorter rows")
    return Plan(problem, soc, tuple(buffers), CoreSplit(problem.rows, vector_cores(soc)))
