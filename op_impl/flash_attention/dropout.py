# SPDX-License-Identifier: Apache-2.0
"""Dropout from a counter: the keep pattern is a function of (seed, batch, head, row, column) and is never stored.

The definition stands in README.md of this folder (the golden implements it on its own). It uses what every chip's
vector unit has: wrapping int32 multiply and add, and conversions between int32 and float32.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit, lanes_of
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tiling.flash_attention import AttentionProblem

_LANES = lanes_of("int32")
_WORD = 1 << 32
_ROW, _COLUMN = 0xC2B2AE35, 0x27D4EB2F
_STEEP = 1e20
"""Slope that turns a positive float32 difference into at least 1 before it is clipped."""


def _signed(word: int) -> int:
    """The int32 with the bits of ``word``."""
    word %= _WORD
    return word - _WORD if word >= _WORD // 2 else word


class Dropout:
    """Keep factors (0 or 1) of a slice ``[M, 16]`` of a score tile."""

    def __init__(
        self,
        tik_instance: Any,
        problem: AttentionProblem,
        buffers: Buffers,
        vector: VectorUnit,
        max_rows: int,
        seed_words: Any,
    ):
        self._tik = tik_instance
        self._problem = problem
        self._buffers = buffers
        self._vector = vector
        self._max_rows = max_rows
        self._seed_words = seed_words
        self._start: Any = None
        self._corner: Any = None

    def prepare(self) -> None:
        """Fill ``counter_base``: row * _ROW + column * _COLUMN of a slice, modulo 2**32."""
        b, v = self._buffers, self._vector
        base = b["counter_base"]
        for lane in range(_LANES):
            base.tensor[lane].set_as(_signed(lane // CUBE_BLOCK * _ROW + lane % CUBE_BLOCK * _COLUMN))
        if self._seed_words is not None:
            self._tik.data_move(b["seed_words"][0], self._seed_words[0], 0, 1, 1, 0, 0)
            self._set_corner()
        filled, total = _LANES, self._max_rows * CUBE_BLOCK
        while filled < total:
            step = min(filled, total - filled)
            v.dup(b["hash_at"], _signed(filled // CUBE_BLOCK * _ROW), _LANES)
            v.add(base.shift(filled), base, b["hash_at"], step, row=True)
            filled += step

    def _set_corner(self) -> None:
        """Counter of the first row and column: a call on a part of a longer sequence drops what the whole one drops."""
        self._corner = self._tik.Scalar("int64", init_value=0)
        for index, factor in ((2, _ROW), (3, _COLUMN)):
            word = self._tik.Scalar("int32")
            word.set_as(self._buffers["seed_words"][index])
            place = self._tik.Scalar("int64", init_value=word)
            place.set_as(place * factor)
            self._corner.set_as(self._corner + place)

    def _seed(self) -> Any:
        """The 64-bit seed: a Python int, or a register where it comes from GM."""
        if self._seed_words is None:
            return self._problem.seed % (1 << 64)
        words = [self._tik.Scalar("int32") for _ in range(2)]
        for i, word in enumerate(words):
            word.set_as(self._buffers["seed_words"][i])
        low, high = (self._tik.Scalar("uint64", init_value=word) for word in words)
        low.set_as(low & (_WORD - 1))
        high.set_as(high * _WORD)
        high.set_as(high + low)
        return high

    def head(self, index: Any) -> None:
        """Set the keys of head ``index = batch * N1 + n``: the two words of splitmix64 of seed and index."""
        z = self._tik.Scalar("uint64", init_value=index + 1)
        z.set_as(z * 0x9E3779B97F4A7C15)
        z.set_as(z + self._seed())
        z.set_as(z ^ (z >> 30))
        z.set_as(z * 0xBF58476D1CE4E5B9)
        z.set_as(z ^ (z >> 27))
        z.set_as(z * 0x94D049BB133111EB)
        z.set_as(z ^ (z >> 31))
        self._start = self._tik.Scalar("int32", init_value=z & (_WORD - 1))
        if self._corner is not None:
            start = self._tik.Scalar("int64", init_value=self._start)
            self._start.set_as(start + self._corner)
        key = self._tik.Scalar("int32", init_value=(z >> 32) | 1)
        self._vector.dup(self._buffers["hash_key"], key, _LANES)

    def keep(self, rows: int, q0: Any, column: Any) -> Tile:
        """1 or 0 for rows ``[q0, q0 + rows)`` and columns ``[column, column + 16)``."""
        b, v = self._buffers, self._vector
        count = rows * CUBE_BLOCK
        x, other, out = b["counter"], b["counter_shift"], b["keep"]
        first = self._tik.Scalar("int64", init_value=column)
        first.set_as(first * _COLUMN)
        row = self._tik.Scalar("int64", init_value=q0)
        first.set_as(first + row * _ROW + self._start)
        v.dup(b["hash_at"], self._tik.Scalar("int32", init_value=first), _LANES)
        v.add(x, b["counter_base"], b["hash_at"], count, row=True)
        v.add(other, x, b["hash_key"], count, row=True)
        v.mul(x, x, other, count)
        v.convert(out, x, count)
        v.muls(out, out, 1.0 / (1 << 16), count)
        v.convert(other, out, count, "floor")
        v.add(x, x, other, count)
        v.add(other, x, b["hash_key"], count, row=True)
        v.mul(x, x, other, count)
        v.convert(out, x, count)
        v.muls(out, out, -1.0, count)
        v.adds(out, out, self._problem.keep_prob * _WORD - _WORD / 2, count)
        v.muls(out, out, _STEEP, count)
        v.max(out, out, b["zeros"], count, row=True)
        v.min(out, out, b["ones"], count, row=True)
        return out
