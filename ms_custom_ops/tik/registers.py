# SPDX-License-Identifier: Apache-2.0
"""Control registers: conversion modes, the overflow flag, hints without effect on results, further loops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import as_expr, cast, const
from ms_custom_ops.program.isa import MODE_FLOAT, MODE_INT
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_scope, flag, number, ranged
from ms_custom_ops.tik.control import DEFAULT_LOOP
from ms_custom_ops.tik.names import stored_names
from ms_custom_ops.tik.special import mode_register, set_mode_register
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

_MODES = {
    "fp2int_mode": ("fp2int_mode", "uint64", 0),
    "small_channel": ("small_channel", "uint64", 0),
    "system_cache": ("system_cache", "uint64", 0),
    "overflow": ("overflow", "uint64", 0),
    "atomic_add": ("atomic_add", "uint64", 0),
}
# Chips of the public tables that have the overflow status.
_OVERFLOW_FAMILIES = ("910A", "910B")
_NO_FP2INT = ("310",)
_FP2FP_FAMILIES = ("910B",)


def record_atomic_modes(body: list, register: int) -> None:
    """After each set_atomic_add of a finished kernel, its mode in a register: for kernels that read it."""
    stack = [body]
    while stack:
        statements = stack.pop()
        for k in range(len(statements) - 1, -1, -1):
            s = statements[k]
            if isinstance(s, ir.Instr) and s.op == "set_atomic_add":
                statements.insert(k + 1, ir.Assign(register, const(s.attrs[0], "uint64"), s.loc))
            else:
                stack += ir.bodies(s)


class RegisterMixin:
    """``Tik`` methods of this module."""

    _b: Builder
    _tiling_gm: Tensor

    # ---- conversion modes ----
    def set_fp2int_mode(self, mode):
        """Conversions to integers from here on saturate (0, as at the start) or keep the low bits (1)."""
        b, api = self._b, "set_fp2int_mode"
        if b.dead:
            return
        if b.family in _NO_FP2INT:
            raise TikSupportError(
                f"{api}: {b.soc.name} does not have this instruction; chips that have it: 910A, 310P, 310PV, 910B",
                user_location(),
            )
        self._mode(api, mode, MODE_INT)
        set_mode_register(b, *_MODES["fp2int_mode"], const(int(mode), "uint64"))

    def set_fp2fp_mode(self, mode):
        """float16 and bfloat16 results from here on saturate (0) or keep infinities and NaN (1)."""
        b, api = self._b, "set_fp2fp_mode"
        if b.dead:
            return
        if b.family not in _FP2FP_FAMILIES:
            raise TikSupportError(
                f"{api}: {b.soc.name} does not have this instruction; chips that have it: 910B", user_location()
            )
        self._mode(api, mode, MODE_FLOAT)

    def _mode(self, api: str, mode: Any, which: int) -> None:
        value = ranged(mode, api, "mode", 0, 1)
        if value.__class__ is not int:
            raise self._b.fail(TikError, api, "mode", "a Scalar", "0, 1")
        self._b.body.append(ir.Instr("set_mode", (), (), (which, value), self._b.loc()))

    # ---- hints: no effect on results ----
    def set_small_channel(self, enable):
        """Small-channel mode of the cube; recorded, no effect on results."""
        if not self._b.dead:
            self._record("set_small_channel", "small_channel", int(flag(enable, "set_small_channel", "enable")))

    def set_system_cache(self, mode):
        """Cache mode of moves; recorded, no effect on results."""
        if not self._b.dead:
            self._record("set_system_cache", "system_cache", ranged(mode, "set_system_cache", "mode", 0, 3))

    def _record(self, api: str, name: str, value: Any) -> None:
        b = self._b
        if value.__class__ is not int:
            raise b.fail(TikError, api, "mode", "a Scalar", "a Python int")
        set_mode_register(b, *_MODES[name], const(value, "uint64"))

    def set_cond_task_id(self, cond_task_id):
        """The task that the host's scheduler starts next; no effect on results."""
        if not self._b.dead:
            number(cond_task_id, "set_cond_task_id", "cond_task_id")

    def instr_preload(self, icache_base_addr, instr_num):
        """Load instructions into the instruction cache; no effect on results."""
        if not self._b.dead:
            number(icache_base_addr, "instr_preload", "icache_base_addr")
            ranged(instr_num, "instr_preload", "instr_num", 0, 2**16 - 1)

    # ---- reading them ----
    def mov_atomic_add_to_scalar(self, scalar):
        """A Scalar = the mode of the latest set_atomic_add."""
        self._read("mov_atomic_add_to_scalar", scalar, "atomic_add")

    def mov_small_channel_to_scalar(self, scalar):
        """A Scalar = the value of the latest set_small_channel."""
        self._read("mov_small_channel_to_scalar", scalar, "small_channel")

    def mov_system_cache_to_scalar(self, scalar):
        """A Scalar = the mode of the latest set_system_cache."""
        self._read("mov_system_cache_to_scalar", scalar, "system_cache")

    def mov_fp2int_mode_to_scalar(self, scalar):
        """A Scalar = the mode of the latest set_fp2int_mode."""
        self._read("mov_fp2int_mode_to_scalar", scalar, "fp2int_mode")

    def mov_overflow_warning_to_scalar(self, scalar):
        """A Scalar = the overflow status, see get_overflow_status."""
        self._read("mov_overflow_warning_to_scalar", scalar, "overflow")

    def _read(self, api: str, scalar: Any, name: str) -> None:
        b = self._b
        if b.dead:
            return
        if not hasattr(scalar, "set_as") or isinstance(scalar, Tensor):
            raise b.fail(TikError, api, "scalar", type(scalar).__name__, "a Scalar")
        scalar.set_as(mode_register(b, *_MODES[name]))

    # ---- overflow status ----
    def set_overflow_status(self, value):
        """Write the overflow status; 0 clears it."""
        b, api = self._b, "set_overflow_status"
        if b.dead:
            return
        self._need_overflow(api)
        status = as_expr(ranged(value, api, "value", 0, 2**64 - 1))
        set_mode_register(b, *_MODES["overflow"], cast(status, "uint64"))

    def get_overflow_status(self, status):
        """A uint64 Scalar = the overflow status: what set_overflow_status wrote last, 0 at the start of a block.
        Computing does not set it here, because the public documents do not say which results do."""
        if not self._b.dead:
            self._need_overflow("get_overflow_status")
        self._read("get_overflow_status", status, "overflow")

    def _need_overflow(self, api: str) -> None:
        b = self._b
        if b.family not in _OVERFLOW_FAMILIES:
            raise TikSupportError(
                f"{api}: {b.soc.name} does not have this instruction; chips that have it: "
                f"{', '.join(_OVERFLOW_FAMILIES)}",
                user_location(),
            )

    # ---- loops and arguments ----
    def multi_for_range(self, begint, endt, name=DEFAULT_LOOP, dtype="int32", for_type="serial"):
        """Nested loops over lists of bounds: ``with multi_for_range((0, 0), (n, m)) as (i, j)``."""
        b, api = self._b, "multi_for_range"
        begins, ends = (list(v) if isinstance(v, (list, tuple)) else [v] for v in (begint, endt))
        if not begins or len(begins) != len(ends):
            raise b.fail(TikError, api, "number of bounds", f"{len(begins)} and {len(ends)}", "as many ends as begins")

        @contextlib.contextmanager
        def nest() -> Iterator[tuple]:
            targets = stored_names()
            given = targets if name == DEFAULT_LOOP and len(targets) == len(begins) else ()
            with contextlib.ExitStack() as stack:
                loops = [
                    self.for_range(  # type: ignore[attr-defined]
                        lo, hi, name=given[k] if given else f"{name}{k}", dtype=dtype, for_type=for_type
                    )
                    for k, (lo, hi) in enumerate(zip(begins, ends, strict=True))
                ]
                yield tuple(stack.enter_context(loop) for loop in loops)

        return nest()

    def for_range_(self, range_tuple):
        """for_range of a tuple of its arguments."""
        return self.for_range(*range_tuple)  # type: ignore[attr-defined]

    def set_tiling_params(self, inputs, tiling_gm):
        """Name the GM tensor that holds the tiling data of ``inputs``; the order of kernel arguments is not
        changed by it."""
        b, api = self._b, "set_tiling_params"
        if b.dead:
            return
        for k, item in enumerate(inputs if isinstance(inputs, (list, tuple)) else [inputs]):
            check_scope(b, as_tensor(item, api, f"inputs[{k}]"), api, f"inputs[{k}]", (ir.GM,))
        tensor = as_tensor(tiling_gm, api, "tiling_gm")
        check_scope(b, tensor, api, "tiling_gm", (ir.GM,))
        self._tiling_gm = tensor
