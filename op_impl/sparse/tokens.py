# SPDX-License-Identifier: Apache-2.0
"""From a query row to the key tokens it selects: sequence bookkeeping, index rows, gather into L1.

A row walks over its index slots in tiles. A tile is "full" when every slot names a block that lies wholly among the
visible keys; then columns and tokens correspond by arithmetic. Otherwise (last tile of a causal row, list ended by a
negative id, ids beyond the visible keys) the tokens are listed one by one in UB, in the order of the slots, and the
columns behind them repeat the first token, to be masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.op_impl.sparse.token_tile import TokenTile
from ms_custom_ops.soc.table import BLOCK_BYTES
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK, SparseProblem

_WORD_BITS = 64


def number_columns(vector: VectorUnit, ramp: Tile, columns: int) -> None:
    """ramp = 0, 1, 2, ... in float32."""
    filled = min(columns, F32_LANES)
    for lane in range(filled):
        ramp.tensor[lane].set_as(float(lane))
    while filled < columns:
        step = min(filled, columns - filled)
        vector.adds(ramp.shift(filled), ramp, float(filled), step)
        filled += step


class Sequences:
    """Where a query row stands: :meth:`seek` sets ``index`` (sequence), ``kv_first`` (first key row), ``visible`` (keys
    it sees, 0 for a row outside every sequence) and ``inside`` (1 within its length). Rows must be asked for in
    ascending order within a block of the multi-core loop."""

    def __init__(self, tik_instance: Any, p: SparseProblem, buffers: Buffers, scalar: ScalarUnit, gm: dict[str, Any]):
        self._tik, self._p, self._b, self._s = tik_instance, p, buffers, scalar
        self._gm = gm
        self.index, self.kv_first, self.visible, self.inside = (
            tik_instance.Scalar("int64", name, 0) for name in ("sequence", "kv_first", "visible", "inside")
        )

    def prepare(self) -> None:
        """Fetch the lengths."""
        for name, gm in (("q_lengths", "actual_seq_lengths_query"), ("kv_lengths", "actual_seq_lengths_kv")):
            if self._gm.get(gm) is not None:
                blocks = self._gm[gm].shape[0] // I32_BLOCK
                self._tik.data_move(self._b[name][0], self._gm[gm][0], 0, 1, blocks, 0, 0)

    def _length(self, name: str, index: Any, low: Any, high: Any) -> Any:
        read = self._tik.Scalar("int32")
        read.set_as(self._b[name][index])
        return self._s.minimum(self._s.maximum(read, low), high)

    def bounds(self, name: str, index: Any, rows: int) -> tuple[Any, Any]:
        """First and one past the last packed row of sequence ``index``."""
        first = self._tik.Scalar("int64", init_value=0)
        with self._tik.if_scope(index > 0):
            first.set_as(self._length(name, index - 1, 0, rows))
        return first, self._length(name, index, first, rows)

    def seek(self, row: Any) -> None:
        """Set the registers for query row ``row``."""
        if self._p.packed:
            self._seek_packed(row)
        else:
            self._seek_batched(row)
        if self._p.paged:
            pages = self._p.pages
            table = self._gm["block_table"]
            row = self._s.minimum(self.index, table.shape[0] - 1)  # a query behind the last sequence reads no page
            self._tik.data_move(self._b["page_table"][0], table[row * pages], 0, 1, pages // I32_BLOCK, 0, 0)

    def _seek_batched(self, row: Any) -> None:
        p = self._p
        self.index.set_as(row // p.q_len)
        position = self._s.hold(row - self.index * p.q_len)
        q_length = self._length("q_lengths", self.index, 0, p.q_len) if p.has_q_lengths else p.q_len
        kv_most = p.pages * p.kv_len if p.paged else p.kv_len
        kv_length = self._length("kv_lengths", self.index, 0, kv_most) if p.has_kv_lengths else kv_most
        self.kv_first.set_as(0 if p.paged else self.index * p.kv_len)
        self._see(position, q_length, kv_length)

    def _seek_packed(self, row: Any) -> None:
        p, t = self._p, self._tik
        with t.for_range(self.index, p.batch) as j:
            end = t.Scalar("int32")
            end.set_as(self._b["q_lengths"][j])
            with t.if_scope(end > row):
                t.tik_break()
            self.index.set_as(j + 1)
        self.visible.set_as(0)
        self.inside.set_as(0)
        with t.if_scope(self.index < p.batch):
            q_first, q_end = self.bounds("q_lengths", self.index, p.q_rows)
            if p.paged:
                kv_length = self._length("kv_lengths", self.index, 0, p.pages * p.kv_len)
                self.kv_first.set_as(0)
            else:
                kv_first, kv_end = self.bounds("kv_lengths", self.index, p.kv_rows)
                self.kv_first.set_as(kv_first)
                kv_length = kv_end - kv_first
            self._see(row - q_first, q_end - q_first, kv_length)

    def _see(self, position: Any, q_length: Any, kv_length: Any) -> None:
        """``visible`` and ``inside`` for query ``position`` of a sequence."""
        seen = kv_length if self._p.sparse_mode == 0 else kv_length - q_length + position + 1
        self.visible.set_as(0)
        self.inside.set_as(0)
        with self._tik.if_scope(position < q_length):
            self.inside.set_as(1)
            self.visible.set_as(self._s.maximum(seen, 0))


@dataclass(frozen=True)
class AheadWork:
    """The parts of the work on a tile, for :meth:`TokenTiles.each_ahead`: the keys come, the scores are made of them,
    the values come, the product is made of them. ``fetch_keys`` of a tile comes before ``product`` of the one before.
    """

    fetch_keys: Callable[[], None]
    scores: Callable[[], None]
    fetch_values: Callable[[], None]
    product: Callable[[], None]


class TokenTiles(TokenTile):
    """Tiles of selected tokens of one query row: :meth:`each` walks over them. What the walk is at is the tile itself;
    ``held`` is the one before, where :meth:`each_held` walks."""

    def __init__(
        self,
        tik_instance: Any,
        p: SparseProblem,
        buffers: Buffers,
        vector: VectorUnit,
        scalar: ScalarUnit,
        sequences: Sequences,
        indices: Any,
        holds: bool = False,
    ):
        super().__init__(tik_instance, p, scalar, buffers["ids"], buffers["tokens"])
        self._b, self._v = buffers, vector
        self._sequences, self._indices = sequences, indices
        self._ended, self._known, self._fresh = (
            tik_instance.Scalar("int64", name, 0) for name in ("ended", "known", "fresh")
        )
        self._walk: tuple[Any, Any, Any] | None = None
        self.held = self
        if holds:
            self.held = TokenTile(tik_instance, p, scalar, buffers["held_ids"], buffers["held_tokens"])

    def prepare(self) -> None:
        """Constants: ``ramp`` (column numbers) and ``zeros``."""
        number_columns(self._v, self._b["ramp"], self._p.columns)
        self._v.dup(self._b["zeros"], 0.0, F32_LANES)
        if self._p.can_be_full:  # lanes behind the ids of a short tile are compared, too
            self._v.dup(self._b["ids"], 0, self._b["ids"].tensor.shape[0])

    def each(self, row: Any, body: Callable[[Any], None]) -> None:
        """``body(first slot)`` for every tile of index row ``row`` that selects a token."""
        p, t = self._p, self._tik
        slots, tiles = self._start()
        with t.for_range(0, tiles) as step:
            first = self._s.hold(step * p.tile_slots)
            self._read(row, first, slots)
            with t.if_scope(self.width > 0):
                body(first)
            with t.if_scope(self._ended != 0):
                t.tik_break()

    def _start(self) -> tuple[Any, Any]:
        """Slots that a row looks at, and their tiles."""
        p = self._p
        slots = self._s.minimum((self._sequences.visible + (p.block_size - 1)) // p.block_size, p.slots)
        self._ended.set_as(0)
        return slots, self._s.hold((slots + (p.tile_slots - 1)) // p.tile_slots)

    def begin(self, row: Any) -> None:
        """Reads the first tile of index row ``row``, for :meth:`each_held`: the work of the row that stands between
        them runs while the tokens of the tile arrive."""
        slots, tiles = self._start()
        self._walk = (row, tiles, slots)
        self._read_next(0)

    def each_held(self, body: Callable[[Any], None], fetch: Callable[[], None]) -> None:
        """As :meth:`each` for the row that :meth:`begin` has, with ``fetch`` for the tile that comes next; the caller
        fetches the first one. ``body`` calls :meth:`advance` once, and what ``fetch`` does, whole or in parts, under
        :meth:`fresh` when it is done with what was fetched before; between them the tile that ``body`` is about is
        ``held``."""
        t = self._tik
        present = t.Scalar("int64", "present", 0)
        with t.for_range(0, self._walk[1]) as step:
            with t.if_scope(self._known == 0):
                t.tik_break()
            present.set_as(self._fresh)
            self._step = step
            with t.if_scope(present != 0):
                body(self._s.hold(step * self._p.tile_slots))
            with t.else_scope():
                self._read_next(step + 1)
                with self.fresh():
                    fetch()
        self._walk = None

    def fresh(self) -> Any:
        """A scope for a walk whose next tile selects a token."""
        return self._tik.if_scope(self._fresh != 0)

    def advance(self) -> None:
        """The tile at hand becomes ``held``, and the next one is read. The scalar unit waits for the vector unit here:
        best before the work of a tile, not behind it."""
        t, held, b = self._tik, self.held, self._b
        for register, source in ((held.width, self.width), (held._shift, self._shift), (held._partial, self._partial)):
            register.set_as(source)
        if self._p.can_be_full:
            t.data_move(b["held_ids"][0], b["ids"][0], 0, 1, b["ids"].tensor.shape[0] // I32_BLOCK, 0, 0)
        with t.if_scope(self.partial):
            t.data_move(b["held_tokens"][0], b["tokens"][0], 0, 1, self._p.columns // I32_BLOCK, 0, 0)
        self._read_next(self._step + 1)

    def _read_next(self, step: Any) -> None:
        row, tiles, slots = self._walk
        self._fresh.set_as(0)
        self._read_on(row, step, tiles, slots, self._known)
        with self._tik.if_scope(tik.all(self._known != 0, self.width > 0)):
            self._fresh.set_as(1)

    def each_ahead(self, row: Any, work: AheadWork) -> None:
        """As :meth:`each`, but keys and values are fetched again as soon as they were used: the keys of the next
        tile are on their way while the weights of one are multiplied. A queue takes few instructions before the scalar
        unit waits: fetches are issued before what waits for them, and the next tile is read last, since that waits for
        the vector unit."""
        t = self._tik
        slots, tiles = self._start()
        known, fresh, pending = (t.Scalar("int64", name, 0) for name in ("known", "fresh", "pending"))
        self._read_on(row, 0, tiles, slots, known)
        with t.for_range(0, tiles + 1) as step:
            fresh.set_as(0)
            with t.if_scope(tik.all(known != 0, self.width > 0)):
                fresh.set_as(1)
                work.fetch_keys()
            with t.if_scope(pending != 0):
                work.product()
            with t.if_scope(fresh != 0):
                work.scores()
                work.fetch_values()
            with t.if_scope(known == 0):
                t.tik_break()
            pending.set_as(fresh)
            self._read_on(row, step + 1, tiles, slots, known)

    def _read_on(self, row: Any, step: Any, tiles: Any, slots: Any, known: Any) -> None:
        """Reads tile ``step``, where there is one; ``known`` says so."""
        t = self._tik
        known.set_as(0)
        with t.if_scope(tik.all(self._ended == 0, step < tiles)):
            known.set_as(1)
            self._read(row, self._s.hold(step * self._p.tile_slots), slots)

    def _read(self, row: Any, first: Any, slots: Any) -> None:
        p, t = self._p, self._tik
        aligned = p.tile_slots % I32_BLOCK == 0
        self._shift.set_as(0 if aligned else first % I32_BLOCK)
        start = self._s.hold(first - self._shift)
        blocks = self._s.minimum(
            (self._shift + (p.tile_slots + I32_BLOCK - 1)) // I32_BLOCK, (p.slots - start) // I32_BLOCK
        )
        t.data_move(self._b["ids"][0], self._indices[row * p.slots + start], 0, 1, blocks, 0, 0)
        self._partial.set_as(1)
        if p.can_be_full:
            bad = self._outside()
            with t.if_scope(tik.all(bad == 0, first + p.tile_slots <= slots)):
                self._partial.set_as(0)
                self.width.set_as(p.columns)
        with t.if_scope(self._partial != 0):
            self._list(self._s.minimum(slots - first, p.tile_slots))

    def _outside(self) -> Any:
        """A register that is 0 when every id of the tile names a block wholly among the visible keys."""
        p, b, v, t = self._p, self._b, self._v, self._tik
        count = b["ids"].tensor.shape[0]
        v.convert(b["ids_low"], b["ids"], count)
        whole = self._sequences.visible // p.block_size
        v.adds(b["ids_high"], b["ids_low"], self._s.to_float(1 - whole), count)
        v.muls(b["ids_low"], b["ids_low"], -1.0, count)
        v.max(b["ids_low"], b["ids_low"], b["ids_high"], count)
        bits = b["bits"].tensor.reinterpret_cast_to("uint64")
        repeats = count // F32_LANES
        t.vec_cmpv_gt(bits, b["ids_low"][0], b["zeros"][0], repeats, F32_LANES * 4 // BLOCK_BYTES, 0)
        found = t.Scalar("uint64", init_value=0)
        for word in range(repeats):
            lanes = min(p.tile_slots - word * _WORD_BITS, _WORD_BITS)
            if lanes <= 0:
                break  # with a shift, all slots lie in the first word
            read = t.Scalar("uint64")
            read.set_as(bits[word])
            found.set_as(found | ((read >> self._shift) & ((1 << lanes) - 1)))
        return found

    def _list(self, count: Any) -> None:
        """List the tokens of the tile; ``width`` of them."""
        p, t, tokens, ids = self._p, self._tik, self._b["tokens"], self._b["ids"]
        visible = self._sequences.visible
        self.width.set_as(0)
        with t.for_range(0, count) as slot:
            block = t.Scalar("int32")
            block.set_as(ids[self._shift + slot])
            with t.if_scope(block < 0):
                self._ended.set_as(1)
                t.tik_break()
            start = t.Scalar("int64", init_value=block)
            start.set_as(start * p.block_size)
            with t.if_scope(start < visible):
                if p.block_size == 1:
                    tokens[self.width].set_as(start)
                    self.width.set_as(self.width + 1)
                else:
                    many = self._s.minimum(visible - start, p.block_size)
                    with t.for_range(0, many) as j:
                        tokens[self.width + j].set_as(start + j)
                    self.width.set_as(self.width + many)
        with t.if_scope(self.width > 0):
            first = t.Scalar("int32")
            first.set_as(tokens[0])
            with t.for_range(self.width, p.columns) as j:
                tokens[j].set_as(first)

    def key_row(self, token: Any) -> Any:
        """Row of the key tensor that holds ``token`` of the sequence at hand."""
        p = self._p
        if not p.paged:
            return self._sequences.kv_first + token
        page = self._tik.Scalar("int32")
        page.set_as(self._b["page_table"][token // p.kv_len])
        return self._tik.Scalar("int64", init_value=page * p.kv_len + token % p.kv_len)
