# SPDX-License-Identifier: Apache-2.0
"""Distribution of equal tasks over cores."""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.soc.table import Soc


@dataclass(frozen=True)
class CoreSplit:
    """``total`` tasks over at most ``cores`` cores, contiguous, sizes differing by at most one.

    Core ``c`` owns tasks ``[c*quotient + min(c, remainder), ...)`` of length ``quotient + (c < remainder)``, which a
    kernel computes from the block index with two scalar operations.
    """

    total: int
    cores: int

    @property
    def block_num(self) -> int:
        """Blocks of the multi-core loop."""
        return max(1, min(self.total, self.cores))

    @property
    def quotient(self) -> int:
        """Tasks every block has at least."""
        return self.total // self.block_num

    @property
    def remainder(self) -> int:
        """Blocks with one task more."""
        return self.total % self.block_num


def vector_cores(soc: Soc) -> int:
    """Blocks that run at once for a kernel without cube work."""
    return soc.vector_core_count if soc.split_core else soc.cube_core_count
