# SPDX-License-Identifier: Apache-2.0
"""From calls of the segment-sum functions to their primitives: whole chunks of at least 16 steps, packed sequences in
chunk slots of their own.

What is filled up are tensors of shape (B, H, S); (B, H, N, C, C) ones are copied only for C below 16.
"""

from __future__ import annotations

from ms_custom_ops.lower.steps import Chain, Computed, Lowering, Steps, missing
from ms_custom_ops.op_impl.segsum.chunks import slot_count
from ms_custom_ops.tiling.segsum import MIN_CHUNK

_HERE = "ms_custom_ops.op_impl.segsum.chunks"
_BLOCK = 8  # float32 or int32 values of a 32-byte block


class Chunks:
    """Chunks of a call: ``slots`` of ``chunk`` steps, ``wide`` steps each at the primitive."""

    def __init__(self, of: Lowering):
        self.of, self.steps, self.chunk = of, of["S"], of["chunk_size"]
        bounds = of.tensor("cu_seqlens")
        self.sequences = None if bounds is None else bounds.shape[0] - 1
        self.slots = slot_count(self.steps, self.chunk, self.sequences)
        self.widen = max(MIN_CHUNK - self.chunk, 0)
        self.wide = self.chunk + self.widen
        self.empty = 0 in (of["B"], of["H"], of["S"])
        self.short = self.sequences is not None or self.steps % self.chunk != 0
        self.computed: tuple[Computed, ...] = ()
        if bounds is not None and not self.empty:
            source = "cu_seqlens" if isinstance(bounds.source, str) else tuple(bounds.source or ())
            sizes = (self.steps, self.chunk, self.slots, bounds.shape[0] - 1)
            self.computed = (
                Computed(f"{_HERE}:slot_places", ("slot_places", "slot_steps"), (source,), sizes),
                Computed(f"{_HERE}:step_places", ("step_places",), (source,), sizes),
            )

    def vector(self, name: str) -> Chain:
        """(B, H, S) as (B, H, slots * wide), zeros where a slot has no step."""
        return self.spread(self.of.need(name))

    def spread(self, x: Chain) -> Chain:
        if self.sequences is not None:
            x = x.pad(-1, 1).take("slot_places", 2, self.slots * self.chunk)
        else:
            x = x.pad(-1, self.slots * self.chunk - self.steps)
        if self.widen == 0:
            return x
        lead = x.shape[:2]
        x = x.reshape((*lead, self.slots, self.chunk)).pad(-1, self.widen)
        return x.reshape((*lead, self.slots * self.wide))

    def matrix(self, name: str) -> Chain:
        """(.., C, C) with zeros up to the primitive's chunk."""
        return self.of.need(name).pad(-1, self.widen).pad(-2, self.widen)

    def lengths(self) -> Chain | None:
        """int32 steps of each slot in whole blocks, None when every chunk is full."""
        if not self.short:
            return None
        behind = missing(self.slots, _BLOCK)
        if self.sequences is not None:
            return Chain("slot_steps", (self.slots,), "int32").pad(0, behind)
        starts = range(0, self.slots * self.chunk, self.chunk)
        steps = tuple(min(max(self.steps - start, 0), self.chunk) for start in starts)
        return Chain(steps, (self.slots,), "int32").pad(0, behind)

    def in_order(self, name: str, dtype: str = "float32") -> Chain:
        """The inverse of :meth:`spread` for a result of the primitive; zeros for steps of no sequence."""
        lead = (self.of["B"], self.of["H"])
        x = Chain(name, (*lead, self.slots * self.wide), dtype)
        if self.widen:
            x = x.reshape((*lead, self.slots, self.wide)).cut(-1, self.chunk).reshape((*lead, self.slots * self.chunk))
        if self.sequences is not None:
            return x.pad(-1, 1).take("step_places", 2, self.steps)
        return x.cut(-1, self.steps)

    def sums(self, name: str) -> Chain:
        """A (B, H, N, C, C) result of the primitive without what was filled up."""
        return Chain(name, (self.of["B"], self.of["H"], self.slots, self.wide, self.wide), "float32").corner(
            self.chunk, self.chunk
        )

    def lowered(self, inputs: dict[str, Chain | None], outputs: dict[str, Chain | None]) -> Steps:
        return Steps(inputs, {"chunk_size": self.wide}, outputs, self.computed)


def _empty(answers: dict[str, Chain | None]) -> Steps:
    return Steps({}, {}, {}, empty=True, answers=answers)


def bwd_segsum_dadt(of: Lowering) -> Steps:
    """A 16-bit ``ddt_out`` that is moved around goes through float32."""
    chunks, start = Chunks(of), of.need("ddt_out")
    if chunks.empty:
        return _empty({"ddt": start})
    moved = chunks.short or chunks.widen > 0
    dtype = "float32" if moved else start.dtype
    inputs = {name: chunks.matrix(name) for name in ("dSSdA", "SSdA")}
    vector = chunks.spread(start.cast(dtype))
    outputs: dict[str, Chain | None] = {"ddt": chunks.in_order("ddt", dtype).cast(start.dtype)}
    return chunks.lowered({**inputs, "ddt_out": vector, "lengths": chunks.lengths()}, outputs)


def dacs_segsum(of: Lowering) -> Steps:
    chunks = Chunks(of)
    if chunks.empty:
        return _empty({**of.zeros(), "da_cs": of.need("da"), "da_cs_rev": of.need("da")})
    outputs = {name: chunks.in_order(name) for name in ("da_cs", "da_cs_rev")}
    return chunks.lowered({"da": chunks.vector("da")}, {**outputs, "segsum": chunks.sums("segsum")})


def segsum_decay(of: Lowering) -> Steps:
    chunks = Chunks(of)
    if chunks.empty:
        return _empty(of.zeros())
    return chunks.lowered({"da": chunks.vector("da")}, {"decay": chunks.sums("decay")})


_SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")


def bwd_dadt_cumsum(of: Lowering) -> Steps:
    chunks = Chunks(of)
    if chunks.empty:
        return _empty({"dadt": of.need("ddA_cs")})
    return chunks.lowered({name: chunks.vector(name) for name in _SUMS}, {"dadt": chunks.in_order("dadt")})


def bwd_dadt_fused(of: Lowering) -> Steps:
    chunks = Chunks(of)
    if chunks.empty:
        return _empty({"dadt": of.need("ddA_cs")})
    inputs: dict[str, Chain | None] = {name: chunks.matrix(name) for name in ("dSSdA", "SSdA")}
    inputs |= {name: chunks.vector(name) for name in _SUMS}
    return chunks.lowered({**inputs, "lengths": chunks.lengths()}, {"dadt": chunks.in_order("dadt")})


def bwd_dtrap_ddt(of: Lowering) -> Steps:
    """float32 inside; what has less than a block of values is filled up. Steps of no sequence count as zeros."""
    b, h, s = of["B"], of["H"], of["S"]
    if 0 in (b, h, s):
        return _empty({"ddt": of.need("dt"), "dtrap": of.need("trap")})
    fill = _BLOCK - s if b * h * s < _BLOCK else 0
    bounds = of.constant("cu_seqlens")
    open_end = bounds is not None and isinstance(bounds.source, str)  # a tensor may end before S

    def row(name: str) -> Chain:
        x = of.need(name).cast("float32")
        return (x.keep("inside", 2) if open_end else x).pad(-1, fill)

    inputs: dict[str, Chain | None] = {name: row(name) for name in ("trap", "dt", "dfactor", "dgamma_diag")}
    inputs["cu_seqlens"] = None if bounds is None else bounds.pad(0, missing(bounds.shape[0], _BLOCK))
    outputs = {name: Chain(name, (b, h, s + fill), "float32").cut(-1, s) for name in ("ddt", "dtrap")}
    results = {name: chain.cast(of.need(name[1:]).dtype) for name, chain in outputs.items()}
    computed = (Computed(f"{_HERE}:packed_steps", ("inside",), ("cu_seqlens",), (s,)),) if open_end else ()
    return Steps(inputs, {}, {**results}, computed)
