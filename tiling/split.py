# SPDX-License-Identifier: Apache-2.0
"""Distribution of tasks over cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ms_custom_ops.soc.table import Soc


@dataclass(frozen=True)
class CoreSplit:
    """``total`` tasks over at most ``cores`` cores, contiguous, sizes differing by at most one.

    Core ``c`` owns tasks ``[c*quotient + min(c, remainder), ...)`` of length ``quotient + (c < remainder)``, which a
    kernel computes from the block index with two scalar operations.

    ``dealt``: in turns instead, the first from the first core to the last, the next one back, and so on. Tasks that get
    lighter from the first to the last then give every core about as much work.
    """

    total: int
    cores: int
    dealt: bool = False

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

    def tasks(self, core: int) -> list[int]:
        """The tasks of a core, in its order."""
        if not self.dealt:
            first = core * self.quotient + min(core, self.remainder)
            return list(range(first, first + self.quotient + (core < self.remainder)))
        turns = range(self.quotient + (self.remainder > 0))
        places = [self.block_num - 1 - core if turn % 2 else core for turn in turns]
        dealt = [turn * self.block_num + place for turn, place in zip(turns, places, strict=True)]
        return [task for task in dealt if task < self.total]

    def heaviest(self, weight: Callable[[int], int]) -> int:
        """What the core with the most work has, with ``weight(task)`` of each."""
        return max(sum(map(weight, self.tasks(core))) for core in range(self.block_num))


def vector_cores(soc: Soc) -> int:
    """Blocks that run at once for a kernel without cube work."""
    return soc.vector_core_count if soc.split_core else soc.cube_core_count
