# SPDX-License-Identifier: Apache-2.0
"""The bytes that :mod:`ms_custom_ops.program.access` names are those the reference engine touches.

The reference engine finds its bytes from the definition of each instruction, not from ``access``. Here its operands
note what they load, store and view, and both are compared for every executed instruction of random Programs: equal, or
contained where the row says that the place is known only while running.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Builder, ref, reference
from random_programs import INSTRUCTIONS, build, random_feed
from test_core import CODES, SCOPES, Argument, Core, Place
from test_differential import DataDraw
from test_differential_cube import MAKERS, Bench

from ms_custom_ops.engine.reference import DEFINITIONS
from ms_custom_ops.engine.reference.call import Call
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program.access import Access, Box, access, boxes, hull, touched
from ms_custom_ops.program.isa import ISA

MOST_BOXES = 1 << 14
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
EMPTY = np.zeros(0, np.int64)
# Exact but for what depends on data: offsets, bits that choose elements, a merge that stops.
INEXACT = {"vgather", "vscatter", "vgatherb", "vbi", "vreduce", "vmrgsort"}
NO_DATA = {op for op, row in ISA.items() if not row.tensors} | {"block_barrier"}
EACH = sorted(set(INSTRUCTIONS) | set(MAKERS))


class Nothing(np.ndarray):
    """Positions of elements none of which is accessed: loading them reads no byte of the operand."""


def native_access(
    op: str, dtypes: list[str], args: list[Any], attrs: list[int], scopes: list[str], rooms: list[int], operand: int
) -> Access:
    """What csrc/access.cc says."""
    core = Core(**{s: sum(max(r, 0) + 32 for r, o in zip(rooms, scopes, strict=True) if o == s) for s in SCOPES})
    held, used, places = [], dict.fromkeys(SCOPES, 0), []
    for name, dtype, scope, room in zip(ISA[op].tensors, dtypes, scopes, rooms, strict=True):
        if scope == "gm":
            held.append(np.zeros(max(room, 1), np.uint8))
            number = core.tensor(name, dtype, held[-1][:room])
        else:
            number = core.buffer(name, scope, dtype, used[scope], max(room, 0))
            used[scope] += -(-max(room, 0) // 32) * 32
        places.append(Place(number, CODES[dtype], 0))
    values = [Argument(CODES["float32"], -1, 0, a) if isinstance(a, float)
              else Argument(CODES["uint64" if a >= 1 << 63 else "int64"], -1, a if a < 1 << 63 else a - (1 << 64), 0.0)
              for a in args]  # fmt: skip
    numbers = (ctypes.c_int64 * (6 * MOST_BOXES))()
    count, exact = ctypes.c_int64(), ctypes.c_int()
    core.call(
        "mco_core_access",
        op.encode(),
        *((Place * max(len(places), 1))(*places), ctypes.c_int(len(places))),
        *((Argument * max(len(values), 1))(*values), ctypes.c_int(len(values))),
        *((ctypes.c_int64 * max(len(attrs), 1))(*attrs), ctypes.c_int(len(attrs))),
        *(ctypes.c_int(operand), numbers, ctypes.c_int64(MOST_BOXES), ctypes.byref(count), ctypes.byref(exact)),
    )
    assert count.value <= MOST_BOXES
    rows = [Box(*numbers[6 * i : 6 * i + 6]) for i in range(count.value)]
    return Access(tuple(rows), bool(exact.value))


class Watch:
    """Bytes that each operand of one call read and wrote, counted from its start."""

    def __init__(self, call: Call):
        self.call = call
        self.read: dict[str, list[np.ndarray]] = {}
        self.written: dict[str, list[np.ndarray]] = {}

    def note(self, kind: dict[str, list[np.ndarray]], operand: Operand, positions: np.ndarray, size: int) -> None:
        if isinstance(positions, Nothing) or not positions.size:
            return
        at = positions.reshape(-1, 1) - operand.start + np.arange(size)
        kind.setdefault(operand.name, []).append(at.reshape(-1))

    def marks(self, operand: Operand) -> list[dict[str, list[np.ndarray]]]:
        """What a view of an operand counts as, by its mark."""
        row = ISA[self.call.op]
        index = row.tensors.index(operand.name)
        attrs = list(self.call.attrs.values())
        return [self.read] * row.reads(index, attrs) + [self.written] * row.writes(index)

    def compare(self) -> int:
        """Compare every operand with its access; the number of bytes compared."""
        call, row, compared = self.call, ISA[self.call.op], 0
        operands = [call.operands[name] for name in row.tensors]
        for i, operand in enumerate(operands):
            found = access(
                row,
                i,
                [o.dtype for o in operands],
                list(call.args.values()),
                list(call.attrs.values()),
                [o.scope for o in operands],
                [o.low + o.bytes - o.start for o in operands],
            )
            want = touched(found.boxes)
            native = native_access(
                call.op, [o.dtype for o in operands], list(call.args.values()), list(call.attrs.values()),
                [o.scope for o in operands], [o.low + o.bytes - o.start for o in operands], i,
            )  # fmt: skip
            assert native.exact == found.exact and np.array_equal(touched(native.boxes), want), (call.op, operand.name)
            if operand.is_gm:  # moves of whole blocks may end behind a GM tensor, where nothing is held
                want = want[want < operand.low + operand.bytes - operand.start]
            reads, writes = row.reads(i, list(call.attrs.values())), row.writes(i)
            for does, kind, noted in ((reads, "reads", self.read), (writes, "writes", self.written)):
                got = np.unique(np.concatenate(noted[operand.name])) if operand.name in noted else EMPTY
                self.check(f"{operand.name} {kind}", found, want if does else EMPTY, got)
                compared += got.size
        return compared

    def check(self, what: str, found: Access, want: np.ndarray, got: np.ndarray) -> None:
        extra, missing = np.setdiff1d(got, want), np.setdiff1d(want, got)
        if not found.exact:
            assert self.call.op in INEXACT
            missing = EMPTY
        assert not extra.size and not missing.size, (
            f"{self.call.op}: {what} bytes {extra[:8]} that access has not, not {missing[:8]} that it has; "
            f"args {self.call.args}, attrs {self.call.attrs}, {found}"
        )


class Recorder:
    """The watch of the call that runs, and what was compared so far."""

    def __init__(self) -> None:
        self.op = ""  # the instruction that is watched
        self.watch: Watch | None = None
        self.compared: dict[str, int] = {}

    def run(self, op: str, definition: Any, call: Call) -> None:
        if op != self.op:
            return definition(call)
        self.watch = Watch(call)
        try:
            definition(call)
            self.compared[op] = self.compared.get(op, 0) + self.watch.compare()
        finally:
            self.watch = None


@pytest.fixture(scope="module", name="recorder")
def watched_operands():
    """Every operand of every definition notes the bytes it touches."""
    recorder = Recorder()
    plain = {name: getattr(Operand, name) for name in ("positions", "load", "store", "view")}

    def positions(operand, offsets, on=None, size=0):
        found = plain["positions"](operand, offsets, on, size)
        return found.view(Nothing) if on is not None and not np.any(on) else found

    def load(operand, at, numpy=None):
        if recorder.watch:
            recorder.watch.note(recorder.watch.read, operand, at, np.dtype(numpy or operand.numpy).itemsize)
        return plain["load"](operand, at.view(np.ndarray), numpy)

    def store(operand, at, values):
        if recorder.watch:
            recorder.watch.note(recorder.watch.written, operand, at, np.asarray(values).itemsize)
        plain["store"](operand, at.view(np.ndarray), values)

    def view(operand, first, count):
        for kind in recorder.watch.marks(operand) if recorder.watch and count > 0 else ():
            recorder.watch.note(kind, operand, np.array([operand.start + first]), count)
        return plain["view"](operand, first, count)

    with pytest.MonkeyPatch.context() as patch:
        for name, function in {"positions": positions, "load": load, "store": store, "view": view}.items():
            patch.setattr(Operand, name, function)
        for op, definition in DEFINITIONS.items():
            patch.setitem(DEFINITIONS, op, lambda call, op=op, d=definition: recorder.run(op, d, call))
        yield recorder


def run_random(op: str, data: st.DataObject) -> None:
    """A random use of an instruction; one that the engine refuses is no use of it."""
    if op in MAKERS:
        bench = Bench(data)
        MAKERS[op](bench)
        program, feed = bench.b.program, bench.feed
    else:
        program = build(DataDraw(data), lambda m: m.instruction(op), exact=False)
        feed = random_feed(program, data.draw(st.integers(0, 2**20)))
    try:
        reference(program, feed)
    except EngineError:
        return


@pytest.mark.parametrize("op", EACH)
def test_reference_engine_touches_what_access_says(op, recorder):
    recorder.op = op

    @settings(max_examples=20, **QUIET)
    @given(st.data())
    def each(data):
        run_random(op, data)

    each()
    assert op in recorder.compared
    assert recorder.compared[op] > 0 or op in NO_DATA


def test_boxes_are_coarse_and_their_bytes_exact():
    row = ISA["vadd"]
    dense = [128, 0, 2, 32, 256, 32, 256, 32, 256]
    assert boxes(row, 0, ["float16"] * 3, dense, [0]) == (Box(0, 512),)
    strided = [128, 0, 2, 64, 512, 32, 256, 0, 32]
    assert boxes(row, 0, ["float16"] * 3, strided, [0]) == (Box(0, 32, 8, 64, 2, 512),)
    bits = [0b1011, 0, 1, 32, 256, 32, 256, 32, 256]
    found = boxes(row, 1, ["float16"] * 3, bits, [1])
    assert touched(found).tolist() == [0, 1, 2, 3, 6, 7]
    assert hull(found) == (0, 8) and hull(()) == (0, 0)


def test_a_gather_is_not_exact_and_stays_in_its_tensor():
    row = ISA["vgather"]
    args = [64, 0, 1, 0, 32, 256]
    found = access(row, 1, ["float32", "float32", "uint32"], args, [0], rooms=[256, 1000, 256])
    assert found == Access((Box(0, 1000),), False)
    with pytest.raises(ValueError, match="^vgather: src is touched at places known only while it runs"):
        boxes(row, 1, ["float32", "float32", "uint32"], args, [0])
    with pytest.raises(ValueError, match="^data_move_pad: access needs the scopes of its operands"):
        boxes(ISA["data_move_pad"], 0, ["float32"] * 2, [1, 32, 0, 0, 0, 0, 0], [])


def test_reference_engine_drops_what_lies_behind_a_gm_tensor(recorder):
    b = Builder()
    ub = b.local("ub", "ub", "float16", 32)
    gm = b.gm("x", "float16", 20, "input")
    recorder.op = "data_move"
    b.instr("data_move", [ref(ub), ref(gm)], nburst=1, burst=64)
    b.instr("data_move", [ref(b.gm("y", "float16", 20, "output")), ref(ub)], nburst=1, burst=64)
    reference(b.program, [np.ones(20, np.float16)])
