# SPDX-License-Identifier: Apache-2.0
"""The loaded form of a traced Program is kept with it, for a bounded number of Programs, and goes with it."""

from __future__ import annotations

import copy
import gc
import sys
import weakref

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.engine import native
from ms_custom_ops.program import ir


def doubled(factor: float = 2.0) -> ir.Program:
    def kernel() -> None:
        t = tik.Tik()
        x, y = (t.Tensor("float32", (64,), tik.scope_gm, name) for name in ("x", "y"))
        ub = t.Tensor("float32", (64,), tik.scope_ubuf, "ub")
        t.data_move(ub, x, 0, 1, 8, 0, 0)
        t.vec_muls(64, ub, ub, factor, 1, 8, 8)
        t.data_move(y, ub, 0, 1, 8, 0, 0)
        t.BuildCCE("doubled", [x], [y])

    return mco.trace(kernel, soc="Ascend910A")


X = np.arange(64, dtype=np.float32)


def test_a_traced_program_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program, encoded = doubled(), []
    original = ir.Program.to_bytes
    monkeypatch.setattr(ir.Program, "to_bytes", lambda self: encoded.append(self) or original(self))
    for _ in range(3):
        np.testing.assert_array_equal(mco.run(program, [X])[0], 2 * X)
    native.count(program, [X])
    assert len(encoded) == 1


def test_a_copy_may_be_changed() -> None:
    program = doubled()
    mco.run(program, [X])
    other = copy.deepcopy(program)
    assert not other.final and other.loaded is None and other.to_bytes() == program.to_bytes()
    move = next(s for s in ir.walk(other.body) if isinstance(s, ir.Instr) and s.op == "vmuls")
    other.body.remove(move)
    for _ in range(2):
        np.testing.assert_array_equal(mco.run(other, [X])[0], X)
    np.testing.assert_array_equal(mco.run(program, [X])[0], 2 * X)


def test_the_loaded_form_goes_with_the_program() -> None:
    program = doubled()
    mco.run(program, [X])
    handle = weakref.ref(program.loaded)
    assert handle() is not None
    del program
    gc.collect()
    assert handle() is None


def test_a_bounded_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_KEPT", 3)
    monkeypatch.setattr(native, "_kept", type(native._kept)())
    programs = [doubled(float(n)) for n in range(5)]
    for n, program in enumerate(programs):
        np.testing.assert_array_equal(mco.run(program, [X])[0], n * X)
    assert [p.loaded is not None for p in programs] == [False, False, True, True, True]
    np.testing.assert_array_equal(mco.run(programs[0], [X])[0], 0 * X)


def test_a_loaded_program_outlives_the_names_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the interpreter ends, modules may be emptied before the Programs that they loaded go."""
    handle, raised = native.load(doubled().to_bytes()), []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    monkeypatch.setattr(native, "_library", None)
    del handle
    gc.collect()
    assert not raised
