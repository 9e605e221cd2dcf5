# SPDX-License-Identifier: Apache-2.0
"""From calls of ssd_chunk_scan and mamba3_chunk_scan to their primitives: whole chunks, sizes in multiples of 16, ranks
as rows, packed sequences in chunk slots of their own."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.lower.steps import Chain, Computed, Lowering, Steps, missing
from ms_custom_ops.op_impl.segsum.chunks import chunk_slots, slot_count

_HERE = "ms_custom_ops.op_impl.ssd_chunk_scan.public"
_ROWS, _CHUNK_MAX = 16, 256  # steps of a chunk, P and N come in multiples of 16 to the primitive


class Scan:
    """A scan of ``steps`` in chunks of ``chunk`` steps, ``rows`` steps with what fills the chunks up."""

    def __init__(self, of: Lowering, chunk: int):
        self.of, self.steps, self.chunk = of, of["S"], chunk
        self.size, self.state = of["P"], of["N"]
        bounds = of.tensor("cu_seqlens")
        self.packed = bounds is not None
        self.sequences = 0 if bounds is None else bounds.shape[0] - 1
        self.rows = slot_count(self.steps, chunk, self.sequences or None) * chunk
        self.computed: tuple[Computed, ...] = ()
        self.open = False
        if bounds is not None:
            self.open = isinstance(bounds.source, str)  # a tensor may end before S
            source = "cu_seqlens" if self.open else tuple(bounds.source or ())
            names = ("source", "target", "first", "inside")
            sizes = (self.steps, chunk, self.rows, self.sequences)
            self.computed = (Computed(f"{_HERE}:packed_places", names, (source,), sizes),)

    @property
    def empty(self) -> bool:
        return 0 in (self.of["B"], self.of["S"], self.of["H"])

    def first(self) -> Chain | None:
        """First chunk of each sequence in whole blocks; None for a dense batch."""
        count = self.sequences + 1
        return Chain("first", (count + missing(count, 8),), "int32") if self.packed else None

    def in_chunks(self, x: Chain, axis: int) -> Chain:
        """Steps along ``axis`` in whole chunks, zeros where a chunk has no step."""
        if not self.packed:
            return x.pad(axis, self.rows - self.steps)
        return x.pad(axis, 1).take("source", axis, self.rows)

    def in_order(self, x: Chain) -> Chain:
        """Steps along axis 1 back in their order; zeros for those of no sequence, whose chunks the kernel need not have
        written."""
        if not self.packed:
            return x.cut(1, self.steps)
        x = x.take("target", 1, self.steps)
        return x.keep("inside", 1) if self.open else x

    def wide(self, x: Chain, size: int) -> Chain:
        """The last axis in whole blocks."""
        return x.pad(-1, missing(size, _ROWS))

    def states(self) -> Chain:
        """Initial states, zeros where there are none."""
        states = self.of.tensor("initial_states")
        shape = (self.sequences or self.of["B"], self.of["H"], self.size, self.state)
        if states is None:
            return Chain(None, self._wide_states(shape), "float32")
        return self.wide(states, self.state).pad(2, missing(self.size, _ROWS))

    def _wide_states(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:2], shape[2] + missing(shape[2], _ROWS), shape[3] + missing(shape[3], _ROWS))

    def final_states(self) -> Chain:
        shape = (self.sequences or self.of["B"], self.of["H"], self.size, self.state)
        return Chain("final_states", self._wide_states(shape), "float32").corner(self.size, self.state)

    def nothing(self, output: str) -> Steps:
        """No step: the initial states are the final ones."""
        answers = self.of.zeros()
        states = self.of.tensor("initial_states")
        if states is not None:
            answers["final_states"] = states
        return Steps({}, {}, {}, empty=True, answers=answers)


def _up(size: int, multiple: int) -> int:
    return size + missing(size, multiple)


def ssd_chunk_scan(of: Lowering) -> Steps:
    steps = of["S"]
    scan = Scan(of, min(_up(of["chunk_size"], _ROWS), max(_up(steps, _ROWS), _ROWS)))
    if scan.empty:
        return scan.nothing("y")
    inputs: dict[str, Chain | None] = {
        "x": scan.in_chunks(scan.wide(of.need("x"), scan.size), 1),
        "da": scan.in_chunks(of.need("da"), 2),
        "b": scan.in_chunks(scan.wide(of.need("B"), scan.state), 1),
        "c": scan.in_chunks(scan.wide(of.need("C"), scan.state), 1),
        "initial_states": scan.states(),
        "first_chunks": scan.first(),
    }
    x = of.need("x")
    y = Chain("y", (x.shape[0], scan.rows, x.shape[2], _up(scan.size, _ROWS)), x.dtype)
    outputs = {"y": scan.in_order(y).cut(-1, scan.size), "final_states": scan.final_states()}
    return Steps(inputs, {"chunk_size": scan.chunk}, outputs, scan.computed)


def mamba3_chunk_scan(of: Lowering) -> Steps:
    """Rows of a step: the first carries the decay, so that all of them have one running sum."""
    ranks, heads = of["R"], of["H"]
    rank = 1 << (ranks - 1).bit_length()
    unit = _ROWS // rank  # steps in 16 rows
    most = _up(max(of["S"], 1), unit)
    scan = Scan(of, min(_up(of["chunk_size"], unit), most, _CHUNK_MAX // rank))
    if scan.empty:
        return scan.nothing("o")
    v = of.need("v")
    batch, rows = v.shape[0], scan.rows

    def by_row(name: str, size: int) -> Chain:
        """(B, S, R, heads, width) -> (B, S * R, heads, width)."""
        x = scan.wide(scan.in_chunks(of.need(name), 1), size).pad(2, rank - ranks)
        return x.reshape((batch, rows * rank, *x.shape[3:]))

    def weight(name: str) -> Chain:
        """(B, H, S) -> (B, H, S * R), each value repeated."""
        x = Chain(name, (batch, heads, rows), "float32").reshape((batch, heads, rows, 1))
        return x.broadcast((batch, heads, rows, rank)).reshape((batch, heads, rows * rank))

    decay = scan.in_chunks(of.need("da"), 2).reshape((batch, heads, rows, 1)).pad(-1, rank - 1)
    inputs: dict[str, Chain | None] = {
        "v": by_row("v", scan.size),
        "da": decay.reshape((batch, heads, rows * rank)),
        "factor": weight("factor"),
        "gamma": weight("gamma"),
        "k": by_row("k", scan.state),
        "q": by_row("q", scan.state),
        "initial_states": scan.states(),
        "first_chunks": scan.first(),
    }
    sources = ("trap", "dt", *(("source",) if scan.packed else ()))
    weights = Computed(f"{_HERE}:trapezoid", ("factor", "gamma"), sources, (scan.steps, rows))
    o = Chain("o", (batch, rows * rank, heads, _up(scan.size, _ROWS)), v.dtype)
    o = scan.in_order(o.reshape((batch, rows, rank, heads, o.shape[-1])).cut(2, ranks)).cut(-1, scan.size)
    outputs = {"o": o, "final_states": scan.final_states()}
    return Steps(inputs, {"chunk_size": scan.chunk * rank, "rank": rank}, outputs, (*scan.computed, weights))


def packed_places(cu_seqlens: np.ndarray, steps: int, chunk: int, rows: int, sequences: int) -> tuple[np.ndarray, ...]:
    """int32 (rows,): step in every place of the slots, ``steps`` where there is none; int32 (steps,): place of every
    step; int32: first slot of each sequence, padded to whole blocks; bool (steps,): some sequence has the step.

    At least one place without a step follows each sequence: of a last chunk that is full, the next slot stays unused,
    since ``b // chunk - a // chunk`` is the number of chunks then."""
    bounds = [int(v) for v in cu_seqlens]
    source = np.full(rows, steps, np.int32)
    target = np.zeros(steps, np.int32)
    for slot, first, length in chunk_slots(steps, chunk, bounds):
        source[slot * chunk : slot * chunk + length] = np.arange(first, first + length)
        target[first : first + length] = np.arange(slot * chunk, slot * chunk + length)
    first_chunks = np.array([v // chunk + i for i, v in enumerate(bounds)], np.int32)
    return source, target, np.pad(first_chunks, (0, missing(len(bounds), 8))), np.arange(steps) < bounds[-1]


def trapezoid(trap: np.ndarray, dt: np.ndarray, *rest: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (B, H, rows) with which a step reaches later ones, and itself; ``rest``: steps of the places of packed
    sequences, if any, steps and rows.

    Shifted in chunks: each packed sequence ends before a place of no step, where (1 - sigmoid(trap)) dt is 0."""
    *places, steps, rows = rest
    with np.errstate(over="ignore"):
        gamma = (dt / (1 + np.exp(-trap))).astype(np.float32)
    before = dt - gamma
    wide = [np.pad(x, ((0, 0), (0, 0), (0, 1 if places else int(rows) - int(steps)))) for x in (before, gamma)]
    if places:
        wide = [x[..., places[0]] for x in wide]
    before, gamma = wide
    factor = gamma + np.pad(before[..., 1:], ((0, 0), (0, 0), (0, 1)))
    return np.where(places[0] < steps, factor, np.float32(0)) if places else factor, gamma
