# SPDX-License-Identifier: Apache-2.0
"""A core that executes one instruction at a time (csrc/core.h), through its C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from engine_cases import assert_same_bits, need_engine
from programs import Builder, ref, vector_args

from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program.dtypes import DTYPES, FLOATS
from ms_custom_ops.program.isa import ISA

need_engine()

CODES = {name: code for code, name in enumerate(DTYPES)}
SCOPES = {name: code for code, name in enumerate(("gm", "ub", "l1", "l0a", "l0b", "l0c", "bt", "smask"))}
ERROR_BYTES = 4096


class Place(ctypes.Structure):
    _fields_ = [("buffer", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("offset", ctypes.c_int64)]


class Argument(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("reg", ctypes.c_int32), ("i", ctypes.c_int64), ("f", ctypes.c_double)]


class Core:
    """mco_core with arrays and names."""

    def __init__(self, ub: int = 65536, **bytes_of: int):
        self.library = native._library()
        self.pointer = ctypes.c_void_p()
        sizes = (ctypes.c_int64 * len(SCOPES))()
        for scope, size in {"ub": ub, **bytes_of}.items():
            sizes[SCOPES[scope]] = size
        self.call("mco_core_new", sizes, 1, ctypes.byref(self.pointer), core=False)

    def __del__(self) -> None:
        self.library.mco_core_free(self.pointer)

    def call(self, name: str, *arguments: Any, core: bool = True) -> None:
        text = ctypes.create_string_buffer(ERROR_BYTES)
        first = (self.pointer,) if core else ()
        if getattr(self.library, name)(*first, *arguments, text, ctypes.c_size_t(ERROR_BYTES)):
            raise EngineError(text.value.decode())

    def tensor(self, name: str, dtype: str, array: np.ndarray) -> int:
        number = ctypes.c_uint32()
        data = ctypes.c_void_p(array.ctypes.data)
        self.call(
            "mco_core_tensor", name.encode(), CODES[dtype], data, ctypes.c_int64(array.nbytes), ctypes.byref(number)
        )
        return number.value

    def buffer(self, name: str, scope: str, dtype: str, address: int, size: int) -> int:
        number = ctypes.c_uint32()
        place = (ctypes.c_int64(address), ctypes.c_int64(size))
        self.call("mco_core_buffer", name.encode(), SCOPES[scope], CODES[dtype], *place, ctypes.byref(number))
        return number.value

    def memory(self, buffer: int) -> np.ndarray:
        data, size = ctypes.c_void_p(), ctypes.c_int64()
        self.call("mco_core_memory", buffer, ctypes.byref(data), ctypes.byref(size))
        return np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_uint8)), (size.value,))

    def register(self, name: str, dtype: str) -> int:
        number = ctypes.c_uint32()
        self.call("mco_core_register", name.encode(), CODES[dtype], ctypes.byref(number))
        return number.value

    def set(self, register: int, value: float) -> None:
        self.call("mco_core_set", register, native._Scalar(int(value), float(value)))

    def issue(self, row: str, operands: Sequence[tuple[int, str, int]], line: int = 1, **values: Any) -> None:
        """Arguments and attributes by name: an integer, a pair (dtype, value), or ("register", its number)."""
        spec = ISA[row]
        places = (Place * max(len(operands), 1))(*[Place(b, CODES[t], at) for b, t, at in operands])
        arguments = (Argument * max(len(spec.args), 1))()
        for slot, name in zip(arguments, spec.args, strict=False):
            kind, value = (
                values.get(name, 0) if isinstance(values.get(name, 0), tuple) else ("int64", values.get(name, 0))
            )
            if kind == "register":
                slot.reg = value
            else:
                slot.dtype, slot.reg = CODES[kind], -1
                slot.i, slot.f = (0, value) if kind in FLOATS else (value, 0.0)
        attrs = (ctypes.c_int64 * max(len(spec.attrs), 1))(*[values.get(a, 0) for a in spec.attrs])
        counts = len(operands), len(spec.args), len(spec.attrs)
        self.call(
            "mco_core_issue", row.encode(), places, counts[0], arguments, counts[1], attrs, counts[2], b"k.cpp", line
        )


def moved(count: int) -> dict[str, int]:
    return dict(nburst=1, burst=count)


def test_instructions_one_by_one_compute_what_a_program_does():
    rng = np.random.default_rng(7)
    x, y = (rng.normal(size=512).astype(np.float32) for _ in "xy")
    z = np.zeros(512, np.float32)
    core = Core()
    gm = [core.tensor(n, "float32", a) for n, a in zip("xyz", (x, y, z), strict=True)]
    u = [core.buffer(n, "ub", "float32", 2048 * i, 2048) for i, n in enumerate("abc")]
    whole = vector_args("vadd", 64, 8, dict.fromkeys(("dst", "src0", "src1"), 4))
    masked = dict(vector_args("vmuls", (0, 0x5555), 8, dict.fromkeys(("dst", "src"), 4)), scalar=("float32", 1.5))
    b = Builder()
    names = [b.gm(n, "float32", 512, kind) for n, kind in (("x", "input"), ("y", "input"), ("z", "output"))]
    local = [b.local(n, "ub", "float32", 512) for n in "abc"]
    scalar = dict(masked, scalar=1.5)
    for g, at, to in ((gm[0], u[0], (local[0], names[0])), (gm[1], u[1], (local[1], names[1]))):
        core.issue("data_move", [(at, "float32", 0), (g, "float32", 0)], **moved(2048))
        b.move(*to)
    core.issue("vadd", [(n, "float32", 0) for n in (u[2], u[0], u[1])], **whole)
    b.instr("vadd", [ref(local[2]), ref(local[0]), ref(local[1])], **whole)
    core.issue("vmuls", [(u[2], "float32", 0), (u[0], "float32", 0)], mask_kind=1, **masked)
    b.instr("vmuls", [ref(local[2]), ref(local[0])], {"mask_kind": 1}, **scalar)
    core.issue("data_move", [(gm[2], "float32", 0), (u[2], "float32", 0)], **moved(2048))
    b.move(names[2], local[2])
    (want,) = native.run(b.program, [x, y])
    assert_same_bits(z, want, "float32", "core")
    assert not np.array_equal(z, x + y)


def test_what_was_never_written_is_poison():
    core = Core()
    u = core.buffer("u", "ub", "float32", 0, 256)
    assert np.isnan(core.memory(u).view(np.float32)).all()


def test_modes_and_registers_last_from_one_instruction_to_the_next():
    core = Core()
    z = np.ones(64, np.float32)
    gm, u = core.tensor("z", "float32", z), core.buffer("u", "ub", "float32", 0, 256)
    value, times = core.register("value", "float32"), core.register("times", "int32")
    core.set(value, 2.5)
    core.set(times, 1)
    dup = dict(mask0=64, repeat=("register", times), scalar=("register", value), dst_blk=32)
    core.issue("vector_dup", [(u, "float32", 0)], **dup)
    core.issue("set_atomic_add", [], mode=1)
    for _ in range(3):
        core.issue("data_move", [(gm, "float32", 0), (u, "float32", 0)], **moved(256))
    assert (z == 8.5).all()
    core.set(value, -1)
    core.issue("vector_dup", [(u, "float32", 0)], **dup)
    core.issue("data_move", [(gm, "float32", 0), (u, "float32", 0)], **moved(256))
    assert (z == 7.5).all()


DUP = dict(mask0=64, repeat=1, scalar=("float32", 1.0), dst_blk=32)


@pytest.mark.parametrize(
    "offset, values, text",
    [
        (8, {}, "vector_dup: dst needs bytes [32, 288) of u, it has 256 [k.cpp:12]"),
        (0, {"mask0": 65}, "vector_dup: mask is 65; accepted: 0 to 64 lanes [k.cpp:12]"),
        (0, {"repeat": -1}, "vector_dup: repeat is -1; accepted: 0 or more [k.cpp:12]"),
        (0, {"repeat": ("float32", 1.0)}, "vector_dup: dtype of repeat is float32; accepted: an integer [k.cpp:12]"),
        (0, {"repeat": ("register", 0)}, "scalar r is read before it was set [k.cpp:12]"),
        (0, {"repeat": ("register", 9)}, "core: register number 9; it has 1"),
    ],
)
def test_the_checks_of_a_walk(offset, values, text):
    core = Core()
    core.register("r", "int32")
    u = core.buffer("u", "ub", "float32", 0, 256)
    with pytest.raises(EngineError) as failed:
        core.issue("vector_dup", [(u, "float32", offset)], line=12, **{**DUP, **values})
    assert text in str(failed.value)


def test_operands_of_the_wrong_kind():
    core = Core()
    x, u = core.tensor("x", "float32", np.zeros(64, np.float32)), core.buffer("u", "ub", "int32", 0, 256)
    with pytest.raises(EngineError, match=r"vector_dup: scope of dst is gm; accepted: ub, .* \[k.cpp:1\]"):
        core.issue("vector_dup", [(x, "float32", 0)], **DUP)
    args = vector_args("vexp", 64, 1, {"dst": 4, "src": 4})
    with pytest.raises(EngineError, match=r"vexp: dtype of dst is int32; accepted: .* \[k.cpp:1\]"):
        core.issue("vexp", [(u, "int32", 0)] * 2, **args)


def test_what_is_no_row_or_no_buffer():
    core = Core(ub=1024)
    with pytest.raises(EngineError, match="core: buffer number 3; it has 0"):
        core.issue("vector_dup", [(3, "float32", 0)], **DUP)
    with pytest.raises(EngineError, match=r"tensors, args and attrs are 0, .*; accepted: 1, "):
        core.issue("vector_dup", [], **DUP)
    with pytest.raises(EngineError, match=r"big lies in bytes \[512, 1536\) of ub, it has 1024"):
        core.buffer("big", "ub", "float32", 512, 1024)
    with pytest.raises(EngineError, match="buffer g lies in gm; accepted: a scope on the chip"):
        core.buffer("g", "gm", "float32", 0, 32)
