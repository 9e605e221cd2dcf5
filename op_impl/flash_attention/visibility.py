# SPDX-License-Identifier: Apache-2.0
"""Which keys a query row sees: block ranges to visit, and penalties inside a tile at the edge.

Position ``i`` of a query row and ``j`` of a key; ``shift = kv_length - q_length`` aligns the lower right corners.
``upper``: j <= i + shift + upper; ``lower``: j >= i + shift - lower; plus lengths and a window of 128x128 blocks. Or
every row has bounds of its own in GM: the first and one past the last key it sees, both non-decreasing along the rows.
A masked score gets ``PENALTY`` times a positive integer added; the running maximum never falls below ``FLOOR``, so the
exponential of a masked score is exactly 0, also in a row where every key is masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.rows import RowUnit
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit, lanes_of
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.flash_attention import SPARSE_BLOCK, AttentionPlan

PENALTY = -1e30
FLOOR = -1e20
_LANES = lanes_of("float32")


class Visibility:
    """Built once per block of the multi-core loop; :meth:`prepare` fills the constants it works with."""

    def __init__(
        self,
        tik_instance: Any,
        plan: AttentionPlan,
        buffers: Buffers,
        vector: VectorUnit,
        rows: RowUnit,
        gm: Mapping[str, Any],
    ):
        self._tik = tik_instance
        self._plan = plan
        self._problem = plan.problem
        self._buffers = buffers
        self._vector = vector
        self._scalar = ScalarUnit(tik_instance)
        self._row_unit = rows
        self._gm_lengths = {"q": gm.get("actual_seq_qlen"), "kv": gm.get("actual_seq_kvlen")}
        self._gm_bounds = gm.get("row_bounds")

    def prepare(self) -> None:
        """Constants: zeros, ones, penalty and, where an edge is masked with them, ``columns`` (0..15 in every row of a
        repeat) and ``diagonal`` (column minus row of a slice ``[M, 16]``); lengths are fetched from GM."""
        b, v, p = self._buffers, self._vector, self._problem
        for name, value in (("zeros", 0.0), ("ones", 1.0), ("penalty", PENALTY)):
            v.dup(b[name], value, _LANES)
        if self._has_last_key or p.has_row_bounds or p.has_q_lengths:
            for lane in range(_LANES):
                b["columns"].tensor[lane].set_as(float(lane % CUBE_BLOCK))
        if p.upper_tokens is not None or p.lower_tokens is not None or p.has_q_lengths:
            self._fill_diagonal()
        for side, gm in self._gm_lengths.items():
            if gm is not None:
                blocks = gm.shape[0] * 4 // BLOCK_BYTES
                self._tik.data_move(b[f"{side}_lengths"][0], gm[0], 0, 1, blocks, 0, 0)

    def _fill_diagonal(self) -> None:
        diagonal = self._buffers["diagonal"]
        for lane in range(_LANES):
            diagonal.tensor[lane].set_as(float(lane % CUBE_BLOCK - lane // CUBE_BLOCK))
        filled, total = _LANES, self._plan.q_block * CUBE_BLOCK
        while filled < total:
            step = min(filled, total - filled)
            self._vector.adds(diagonal.shift(filled), diagonal, -float(filled // CUBE_BLOCK), step)
            filled += step

    @property
    def _has_last_key(self) -> bool:
        """Keys may end inside a column of 16."""
        return self._problem.has_kv_lengths or self._problem.kv_len % CUBE_BLOCK != 0

    def lengths(self, batch: Any) -> tuple[Any, Any]:
        """Query and key length of a batch entry: Python ints, or registers when they come from GM."""
        p = self._problem
        out = []
        for side, default in (("q", p.q_len), ("kv", p.kv_len)):
            if self._gm_lengths[side] is None:
                out.append(default)
                continue
            read = self._tik.Scalar("int32")
            read.set_as(self._buffers[f"{side}_lengths"][batch])
            out.append(self._scalar.minimum(self._scalar.maximum(read, 0), default))
        return out[0], out[1]

    def kv_range(self, q0: Any, height: int, q_length: Any, kv_length: Any) -> tuple[Any, Any]:
        """First and one past the last key block that rows ``[q0, q0 + height)`` see."""
        p, s = self._problem, self._scalar
        if p.has_row_bounds:
            low, high = self._first_and_last(q0, height)
            return self._blocks(low[0], high[1], self._plan.kv_block, q0, None)
        shift = kv_length - q_length
        low, high = 0, kv_length
        if p.upper_tokens is not None:
            high = s.minimum(high, q0 + (shift + (height + p.upper_tokens)))
        if p.lower_tokens is not None:
            low = s.maximum(low, q0 + (shift - p.lower_tokens))
        if p.block_sparse:
            first = q0 // SPARSE_BLOCK
            low = s.maximum(low, (first - p.prev_block_num) * SPARSE_BLOCK)
            high = s.minimum(high, (first + (p.next_block_num + 1)) * SPARSE_BLOCK)
        return self._blocks(low, high, self._plan.kv_block, q0, q_length if p.has_q_lengths else None)

    def q_range(self, k0: Any, width: int, q_length: Any, kv_length: Any) -> tuple[Any, Any]:
        """First and one past the last query block that sees a key of ``[k0, k0 + width)``."""
        p, s = self._problem, self._scalar
        shift = kv_length - q_length
        low, high = 0, q_length
        if p.upper_tokens is not None:
            low = s.maximum(low, k0 - shift - p.upper_tokens)
        if p.lower_tokens is not None:
            high = s.minimum(high, k0 - shift + (width + p.lower_tokens))
        if p.block_sparse:
            first = k0 // SPARSE_BLOCK
            low = s.maximum(low, (first - p.next_block_num) * SPARSE_BLOCK)
            high = s.minimum(high, (first + (p.prev_block_num + 1)) * SPARSE_BLOCK)
        return self._blocks(low, high, self._plan.q_block, k0, kv_length if p.has_kv_lengths else None)

    def _load_bounds(self, q0: Any, height: int) -> tuple[Tile, Tile]:
        """int32 vectors of the rows from ``q0``: first and one past the last key. Uses ``row_b`` and ``row_c``."""
        rows, vectors = align(height), []
        for side, name in enumerate(("row_b", "row_c")):
            at, target = side * self._problem.q_rows_padded + q0, self._buffers[name]
            words = Tile(target.tensor.reinterpret_cast_to("int32"))
            self._tik.data_move(words[0], self._gm_bounds[at], 0, 1, rows * 4 // BLOCK_BYTES, 0, 0)
            vectors.append(words)
        return vectors[0], vectors[1]

    def _first_and_last(self, q0: Any, height: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Registers: (low of the first row, of the last), (high of the first row, of the last)."""
        found = []
        for words in self._load_bounds(q0, height):
            ends = [self._tik.Scalar("int32") for _ in range(2)]
            for end, row in zip(ends, (0, height - 1), strict=True):
                end.set_as(words[row])
            found.append((ends[0], ends[1]))
        return found[0], found[1]

    def meets(self, q0: Any, height: int, k0: Any, width: int) -> Any:
        """Scope of what is done only if some row from ``q0`` sees a key from ``k0``, as far as bounds of rows tell."""
        if not self._problem.has_row_bounds:
            return nullcontext()
        low, high = self._first_and_last(q0, height)
        return self._tik.if_scope(tik.all(low[0] < k0 + width, high[1] > k0))

    def _blocks(self, low: Any, high: Any, block: int, start: Any, length: Any) -> tuple[Any, Any]:
        s = self._scalar
        high = s.maximum(high, 0)
        first, last = s.hold(low // block), s.hold((high + (block - 1)) // block)
        if length is not None:  # rows beyond their own length see nothing
            kept = self._tik.Scalar("int64", init_value=last)
            with self._tik.if_scope(start >= length):
                kept.set_as(0)
            last = kept
        return first, last

    def mask(self, scores: Tile, q0: Any, height: int, k0: Any, width: int, q_length: Any, kv_length: Any) -> None:
        """Add penalties to the tile ``[N1, M, 16]`` of rows from ``q0`` and keys from ``k0`` where the edge of what
        is visible runs through it."""
        p, s = self._problem, self._scalar
        rows, columns = align(height), align(width)
        if p.has_row_bounds:
            low, high = self._first_and_last(q0, height)
            with self._tik.if_scope(tik.any(low[1] > k0, high[0] < k0 + width)):
                self._bounds(scores, q0, height, k0, columns)
        offset = q0 - k0 + (kv_length - q_length)
        if p.upper_tokens is not None:
            bound = s.hold(offset + p.upper_tokens)
            with self._tik.if_scope(bound < width - 1):
                self._diagonal(scores, rows, columns, s.to_float(0 - bound), 1.0)
        if p.lower_tokens is not None:
            bound = s.hold(offset - p.lower_tokens)
            with self._tik.if_scope(bound > 1 - height):
                self._diagonal(scores, rows, columns, s.to_float(bound), -1.0)
        if self._has_last_key:
            left = s.hold(kv_length - k0)
            with self._tik.if_scope(left < columns):
                self._columns(scores, rows, columns, s.to_float(1 - left))
        if p.has_q_lengths:
            below = s.hold(q_length - q0)
            with self._tik.if_scope(below < height):
                self._rows(scores, rows, columns, s.to_float(1 - below))

    def _diagonal(self, scores: Tile, rows: int, columns: int, base: Any, sign: float) -> None:
        """Penalty times max(sign * (column - row) + base, 0)."""
        v, b = self._vector, self._buffers
        count, step = rows * CUBE_BLOCK, b["wide_a"]
        if sign > 0:
            v.adds(step, b["diagonal"], base, count)
        else:
            v.muls(step, b["diagonal"], sign, count)
            v.adds(step, step, base, count)
        self._steps(scores, rows, columns, sign)

    def _steps(self, scores: Tile, rows: int, columns: int, sign: float) -> None:
        """Penalty times max(``wide_a``, 0), which grows by ``sign`` from column to column."""
        v, b = self._vector, self._buffers
        count, step, clipped = rows * CUBE_BLOCK, b["wide_a"], b["turn"]
        for n1 in range(columns // CUBE_BLOCK):
            if n1:
                v.adds(step, step, sign * CUBE_BLOCK, count)
            v.max(clipped, step, b["zeros"], count, row=True)
            v.mul_add(scores.shift(n1 * count), clipped, b["penalty"], count, row=True)

    def _bounds(self, scores: Tile, q0: Any, height: int, k0: Any, columns: int) -> None:
        """Penalties outside the bounds of every row."""
        v, b, s = self._vector, self._buffers, self._scalar
        rows = align(height)
        count, step = rows * CUBE_BLOCK, b["wide_a"]
        for words, name, sign in zip(self._load_bounds(q0, height), ("row_b", "row_c"), (-1.0, 1.0), strict=True):
            v.convert(b[name], words, rows)
            self._row_unit.spread(step, b[name], rows)
            v.sub(step, step, b["columns"], count, row=True)
            v.adds(step, step, s.to_float(0 - k0 if sign < 0 else -1 - k0), count)
            if sign > 0:
                v.muls(step, step, -1.0, count)
            self._steps(scores, rows, columns, sign)

    def _columns(self, scores: Tile, rows: int, columns: int, base: Any) -> None:
        """Penalty times max(column + base, 0), the same for every row."""
        v, b = self._vector, self._buffers
        count, line, step = rows * CUBE_BLOCK, b["line"], b["wide_a"]
        v.adds(step, b["columns"], base, _LANES)
        for n1 in range(columns // CUBE_BLOCK):
            if n1:
                v.adds(step, step, float(CUBE_BLOCK), _LANES)
            v.max(line, step, b["zeros"], _LANES)
            v.muls(line, line, PENALTY, _LANES)
            v.add(scores.shift(n1 * count), scores.shift(n1 * count), line, count, row=True)

    def _rows(self, scores: Tile, rows: int, columns: int, base: Any) -> None:
        """Penalty times max(row + base, 0), the same for every column; row = column - diagonal."""
        v, b = self._vector, self._buffers
        count, step = rows * CUBE_BLOCK, b["wide_a"]
        v.muls(step, b["diagonal"], -1.0, count)
        v.add(step, step, b["columns"], count, row=True)
        v.adds(step, step, base, count)
        v.max(step, step, b["zeros"], count, row=True)
        for n1 in range(columns // CUBE_BLOCK):
            v.mul_add(scores.shift(n1 * count), step, b["penalty"], count, row=True)
