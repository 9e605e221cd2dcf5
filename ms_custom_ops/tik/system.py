# SPDX-License-Identifier: Apache-2.0
"""Synchronisation, control registers and scalar instructions."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr, binary, bitcast, cast, const, unary
from ms_custom_ops.program.isa import ATOMIC_MODES, PIPES
from ms_custom_ops.soc.support import LONG, ROUND_SUFFIX, SHORT, codes, conversion_code, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_scalar, as_tensor, check_scope, number
from ms_custom_ops.tik.scalar import Scalar
from ms_custom_ops.tik.scopes import IR_SCOPE
from ms_custom_ops.where import user_location

FLAG_PIPES = ("PIPE_S", "PIPE_V", "PIPE_M", "PIPE_MTE1", "PIPE_MTE2", "PIPE_MTE3", "PIPE_FIX")
BARRIER_BYTES_PER_BLOCK = 32
# float32 numbers from here on have no fraction.
_NO_FRACTION = float(1 << 23)


class SystemMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    # ---- synchronisation ----
    def set_flag(self, pipe, trigger_pipe, event_id):
        """Signal ``event_id`` from ``pipe`` to ``trigger_pipe``; only in a disable_sync scope."""
        self._event("set_flag", pipe, trigger_pipe, event_id)

    def wait_flag(self, pipe, trigger_pipe, event_id):
        """Wait in ``trigger_pipe`` for ``event_id`` of ``pipe``; only in a disable_sync scope."""
        self._event("wait_flag", pipe, trigger_pipe, event_id)

    def _event(self, api: str, pipe: Any, trigger: Any, event_id: Any) -> None:
        b = self._b
        if b.dead:
            return
        self._need_disable_sync(api)
        numbers = []
        for name, value in (("pipe", pipe), ("trigger_pipe", trigger)):
            if value not in FLAG_PIPES:
                raise b.fail(TikError, api, name, value, ", ".join(FLAG_PIPES))
            numbers.append(PIPES[value])
        b.body.append(ir.Instr(api, (), (number(event_id, api, "event_id"),), tuple(numbers), b.loc()))

    def pipe_barrier(self, pipe):
        """Wait for everything of a pipe (``PIPE_ALL``: of all); without an effect where synchronisation is automatic,
        outside a disable_sync scope."""
        b = self._b
        if b.dead:
            return
        if pipe not in PIPES:
            raise b.fail(TikError, "pipe_barrier", "pipe", pipe, ", ".join(PIPES))
        b.body.append(ir.Instr("pipe_barrier", (), (), (PIPES[pipe],), b.loc()))

    def _need_disable_sync(self, api: str) -> None:
        if not any(f.disable_sync for f in self._b.frames):
            raise TikError(f"{api}: is outside a new_stmt_scope(disable_sync=True)", user_location())

    def block_barrier(self, sync_workspace):
        """Every block of the multi-core loop arrives before one goes on. ``sync_workspace``: int64 GM
        workspace with is_atomic_add, 32 bytes per block."""
        b = self._b
        if b.dead:
            return
        api = "block_barrier"
        t = as_tensor(sync_workspace, api, "sync_workspace")
        check_scope(b, t, api, "sync_workspace", (ir.GM,))
        if t.dtype != "int64":
            raise b.fail(TikError, api, "dtype of sync_workspace", t.dtype, "int64")
        if not (t.storage.is_workspace and t.storage.buffer.atomic_init):
            raise b.fail(
                TikError,
                api,
                f"sync_workspace {t.name}",
                "not a zeroed workspace",
                "a tensor made with is_workspace=True, is_atomic_add=True",
            )
        if b.block_loop is None or not b.in_scope("block"):
            raise TikError(f"{api}: is outside the for_range with block_num", user_location())
        blocks = b.block_loop.end
        if blocks.__class__ is int:
            if not 2 <= blocks <= b.soc.core_count:
                raise b.fail(TikError, api, f"block_num on {b.soc.name}", blocks, f"2..{b.soc.core_count}")
            size = t.storage.buffer.size_bytes
            if size >= 0 and size != blocks * BARRIER_BYTES_PER_BLOCK:
                raise b.fail(
                    TikError, api, "bytes of sync_workspace", size, f"{blocks * BARRIER_BYTES_PER_BLOCK} (32 per block)"
                )
        b.body.append(ir.Instr("block_barrier", (t.ref(),), (), (), b.loc()))

    # ---- control registers ----
    def set_atomic_add(self, mode):
        """Following moves to GM add: 0 off, 1 float32, 2 float16, 3 int16, 4 int32, 5 int8, 6 bfloat16, or
        the name."""
        b = self._b
        if b.dead:
            return
        api = "set_atomic_add"
        by_name = {name: n for n, name in ATOMIC_MODES.items() if name}
        wanted = by_name.get(mode, 0 if mode == "off" else None) if isinstance(mode, str) else number(mode, api, "mode")
        have = [0] + [by_name[LONG[c]] for c in codes(api, b.family)]
        if wanted not in have:
            names = ", ".join(f"{n} ({ATOMIC_MODES[n] or 'off'})" for n in sorted(have))
            raise b.fail(TikSupportError, api, f"mode on {b.soc.name}", repr(mode), names)
        b.body.append(ir.Instr(api, (), (), (wanted,), b.loc()))

    # ---- buffers ----
    def get_available_buffer_size(self, buffer_scope=None):
        """Bytes free in an on-chip buffer (scope constant); a dict over all buffers without one."""
        if buffer_scope is None:
            return {s: self._b.free_bytes(k) for s, k in IR_SCOPE.items() if k in self._b.pointers}
        if buffer_scope not in IR_SCOPE or IR_SCOPE[buffer_scope] == ir.GM:
            raise self._b.fail(
                TikError,
                "get_available_buffer_size",
                "buffer_scope",
                buffer_scope,
                ", ".join(s for s, k in IR_SCOPE.items() if k != ir.GM),
            )
        return self._b.free_bytes(IR_SCOPE[buffer_scope])

    def get_left_buffer_size(self, scope):
        """Bytes free in an on-chip buffer."""
        return self.get_available_buffer_size(scope)

    # ---- scalar instructions ----
    def scalar_max(self, dst, src0, src1):
        """dst = max(src0, src1); int64, and float32 on 310P and 910B."""
        self._scalar_binary("scalar_max", "max", dst, src0, src1)

    def scalar_min(self, dst, src0, src1):
        """dst = min(src0, src1); int64, and float32 on 310P and 910B."""
        self._scalar_binary("scalar_min", "min", dst, src0, src1)

    def _scalar_binary(self, api: str, op: str, dst: Any, src0: Any, src1: Any) -> None:
        if self._b.dead:
            return
        a, c = as_scalar(src0, api, "src0"), as_scalar(src1, api, "src1")
        self._check_scalar_dtype(api, op, dst, a, c)
        self._assign(dst, binary(op, cast(a, dst.dtype), cast(c, dst.dtype)))

    def scalar_abs(self, dst, src):
        """dst = |src|; int64, and float32 on 310P and 910B."""
        self._scalar_unary("scalar_abs", "abs", "abs", dst, src)

    def scalar_sqrt(self, dst, src):
        """dst = sqrt(src), for int64 its integer part; float32 not on 310."""
        self._scalar_unary("scalar_sqrt", "sqrt", "sqrt", dst, src)

    def scalar_countbit0(self, dst, src):
        """Number of 0 bits of a uint64."""
        self._scalar_unary("scalar_countbit0", "bcnt0", "bitcount0", dst, src)

    def scalar_countbit1(self, dst, src):
        """Number of 1 bits of a uint64."""
        self._scalar_unary("scalar_countbit1", "bcnt1", "bitcount1", dst, src)

    def scalar_countleading0(self, dst, src):
        """Number of leading 0 bits of a uint64."""
        self._scalar_unary("scalar_countleading0", "clz", "clz", dst, src)

    def _scalar_unary(self, api: str, instruction: str, op: str, dst: Any, src: Any) -> None:
        if self._b.dead:
            return
        a = as_scalar(src, api, "src")
        self._check_scalar_dtype(api, instruction, dst, a)
        self._assign(dst, unary(op, cast(a, dst.dtype)))

    def _check_scalar_dtype(self, api: str, instruction: str, dst: Any, *sources: Expr) -> None:
        b = self._b
        if not hasattr(dst, "set_as") or not isinstance(dst, Expr):
            raise b.fail(TikError, api, "dst", type(dst).__name__, "a Scalar")
        if dst.dtype not in SHORT:
            raise b.fail(TikError, api, "dtype of dst", dst.dtype, ", ".join(SHORT))
        require(b, api, instruction, SHORT[dst.dtype], dst.dtype)
        for k, e in enumerate(sources):
            if e.op != "const" and e.dtype != dst.dtype:
                raise TikError(
                    describe(
                        api, f"dtype of src{k if len(sources) > 1 else ''}", e.dtype, f"dtype of dst, {dst.dtype}"
                    ),
                    user_location(),
                )

    def _assign(self, dst: Any, value: Expr) -> None:
        dst.set_as(value)

    def scalar_conv(self, round_mode, dst, src):
        """dst = src converted: int32 and float32 with a rounding mode (saturating), float16 and float32."""
        b = self._b
        if b.dead:
            return
        api = "scalar_conv"
        a = as_scalar(src, api, "src")
        if not isinstance(dst, Scalar):
            raise b.fail(TikError, api, "dst", type(dst).__name__, "a Scalar")
        if round_mode not in ROUND_SUFFIX:
            raise b.fail(TikError, api, "round_mode", repr(round_mode), ", ".join(map(repr, ROUND_SUFFIX)))
        require(
            b,
            api,
            api,
            conversion_code(a.dtype, dst.dtype, round_mode),
            f"{a.dtype} to {dst.dtype} with round_mode {round_mode!r}",
        )
        # The operand is read more than once below.
        x = b.temporary(a.dtype)
        b.body.append(ir.Assign(x.value, a, b.loc()))
        suffix = ROUND_SUFFIX[round_mode]
        if (a.dtype, dst.dtype) == ("float32", "int32"):
            dst.set_as(_float_to_int(x, suffix))
        elif suffix == "o":
            dst.set_as(_to_odd(x))
        else:
            dst.set_as(cast(x, dst.dtype))


def _float_to_int(x: Expr, suffix: str) -> Expr:
    """float32 to int32 by truncation and a correction; values beyond 2**23 have no fraction and saturate."""
    whole = cast(x, "int32")
    if suffix == "z":
        return whole
    back = cast(whole, "float32")
    small = binary("<", unary("abs", x), const(_NO_FRACTION, "float32"))
    fraction = binary("-", x, back)

    def when(cond: Expr) -> Expr:
        return cast(binary("and", small, cond), "int32")

    if suffix == "f":
        return binary("-", whole, when(binary("<", fraction, 0.0)))
    if suffix == "c":
        return binary("+", whole, when(binary(">", fraction, 0.0)))
    odd = binary("!=", binary("&", whole, 1), 0)
    half = const(0.5, "float32")
    up, down = binary(">", fraction, half), binary("<", fraction, -0.5)
    up_tie, down_tie = binary("==", fraction, half), binary("==", fraction, -0.5)
    if suffix == "r":
        up_tie, down_tie = binary("and", up_tie, odd), binary("and", down_tie, odd)
    return binary("-", binary("+", whole, when(binary("or", up, up_tie))), when(binary("or", down, down_tie)))


def _to_odd(x: Expr) -> Expr:
    """float32 to float16: truncated, and the last bit set when something was cut off."""
    near = cast(x, "float16")
    back = cast(near, "float32")
    bits = bitcast(near, "uint16")
    too_big = cast(binary(">", unary("abs", back), unary("abs", x)), "uint16")
    inexact = cast(binary("!=", back, x), "uint16")
    return bitcast(binary("|", binary("-", bits, too_big), inexact), "float16")
