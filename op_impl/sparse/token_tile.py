# SPDX-License-Identifier: Apache-2.0
"""The tokens of one tile, as columns of the cube's matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.tiling.sparse_flash_attention_problem import SparseProblem


def piece(total: int, part: tuple[int, int]) -> tuple[int, int]:
    """First and end of the i-th of n pieces (``part``) of ``total``."""
    index, count = part
    return total * index // count, total * (index + 1) // count


class TokenTile:
    """Which tokens a tile has: ``width`` of its columns, as ids that start at ``shift`` or, where the tile is partial,
    in a list."""

    def __init__(self, tik_instance: Any, p: SparseProblem, scalar: ScalarUnit, ids: Tile, tokens: Tile):
        self._tik, self._p, self._s = tik_instance, p, scalar
        self._ids, self._tokens = ids.tensor, tokens.tensor
        self.width, self._shift, self._partial = (
            tik_instance.Scalar("int64", name, 0) for name in ("width", "shift", "partial")
        )

    @property
    def partial(self) -> Any:
        """Condition: the tile has columns to mask."""
        return self._partial != 0

    def tokens(self, start: int, count: int, body: Callable[[Any, Any], None], padding: bool) -> None:
        """``body(column, token)`` for columns ``[start, start + count)``; those to be masked only with ``padding``."""
        t = self._tik
        if self._p.can_be_full:
            with t.if_scope(self._partial == 0):
                self._arithmetic(start, count, body)
            with t.else_scope():
                self._listed(start, count, body, padding)
        else:
            self._listed(start, count, body, padding)

    def _arithmetic(self, start: int, count: int, body: Callable[[Any, Any], None]) -> None:
        t, size = self._tik, self._p.block_size
        with t.for_range(start, start + count) as column:
            block = t.Scalar("int32")
            if size == 1:
                block.set_as(self._ids[self._shift + column])
                body(column, block)
            else:
                block.set_as(self._ids[self._shift + column // size])
                body(column, block * size + column % size)

    def _listed(self, start: int, count: int, body: Callable[[Any, Any], None], padding: bool) -> None:
        t = self._tik
        end = start + count if padding else self._s.minimum(self.width, start + count)
        with t.for_range(start, end) as column:
            token = t.Scalar("int32")
            token.set_as(self._tokens[column])
            body(column, token)

    def blocks(
        self, body: Callable[[Any, Any], None], listed: Callable[[Any, Any], None], part: tuple[int, int] = (0, 1)
    ) -> None:
        """A full tile as ``body(first column, first token)`` per slot, any other as ``listed(column, token)``;
        ``part`` (i, n): the i-th of n pieces of that."""
        t, p = self._tik, self._p

        def columns() -> None:
            start, end = piece(p.columns, part)
            self._listed(start, end - start, listed, True)

        if not p.can_be_full:
            columns()
            return
        with t.if_scope(self._partial == 0):
            with t.for_range(*piece(p.tile_slots, part)) as slot:
                block = t.Scalar("int32")
                block.set_as(self._ids[self._shift + slot])
                body(slot * p.block_size, block * p.block_size)
        with t.else_scope():
            columns()
