# SPDX-License-Identifier: Apache-2.0
"""Tiling of bwd_dtrap_ddt: (B, H, S) as one flat row, cut into equal pieces; the last one is moved back to
end with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.errors import BudgetError, TilingError
from ms_custom_ops.soc.table import BLOCK_BYTES, VECTOR_REPEAT_BYTES, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES, BufferSpec, align, fits, table
from ms_custom_ops.tiling.split import CoreSplit, vector_cores

_BLOCK = BLOCK_BYTES // DTYPE_BYTES["float32"]
_LANES = VECTOR_REPEAT_BYTES // DTYPE_BYTES["float32"]
_ROWS = ("trap", "dt", "dfactor", "dgamma_diag", "before", "sigmoid", "rest")


@dataclass(frozen=True)
class DtrapProblem:
    """``rows`` = B * H rows of ``steps``; ``bounds`` is the size of cu_seqlens, 0 without it."""

    rows: int
    steps: int
    bounds: int = 0

    @property
    def elements(self) -> int:
        """Elements of one operand."""
        return self.rows * self.steps


@dataclass(frozen=True)
class DtrapPlan:
    """Pieces of ``piece`` elements, a multiple of 8."""

    problem: DtrapProblem
    soc: Soc
    piece: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit

    @property
    def last_start(self) -> int:
        """Where the last piece starts."""
        return self.problem.elements - self.piece


def dtrap_buffers(p: DtrapProblem, piece: int) -> tuple[BufferSpec, ...]:
    """One row of ``piece`` elements per value, ones, and the sequence bounds."""
    out = [BufferSpec(n, "ub", "float32", piece) for n in _ROWS] + [BufferSpec("ones", "ub", "float32", _LANES)]
    return (*out, *([BufferSpec("bounds", "ub", "int32", align(p.bounds, _BLOCK))] if p.bounds else []))


def plan_dtrap(p: DtrapProblem, soc: Soc) -> DtrapPlan:
    """Pieces as large as UB allows and as the number of cores makes sensible. Raises TilingError,
    BudgetError.
    """
    if p.elements < _BLOCK:
        raise TilingError(f"bwd_dtrap_ddt: B*H*S is {p.elements}; accepted: at least {_BLOCK}")
    longest = p.elements // _BLOCK * _BLOCK
    piece = min(longest, align(-(-p.elements // vector_cores(soc)), _LANES))
    free = soc.ub_bytes - sum(b.size_bytes for b in dtrap_buffers(p, 0))
    piece = min(piece, free // (len(_ROWS) * DTYPE_BYTES["float32"]) // _BLOCK * _BLOCK)
    buffers = dtrap_buffers(p, piece)
    if piece < _BLOCK or not fits(buffers, soc):
        raise BudgetError(
            f"bwd_dtrap_ddt: cu_seqlens of {p.bounds} entries do not fit {soc.name}:\n{table(buffers, soc)}"
        )
    return DtrapPlan(p, soc, piece, buffers, CoreSplit(-(-p.elements // piece), vector_cores(soc)))
