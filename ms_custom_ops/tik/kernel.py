# SPDX-License-Identifier: Apache-2.0
"""``Tik``: the object a kernel is written against."""

from __future__ import annotations

import contextvars
from typing import Any

from ms_custom_ops.errors import TikError, TikScopeError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa.row import start_align
from ms_custom_ops.soc import current_soc
from ms_custom_ops.tik.addresses import AddressMixin
from ms_custom_ops.tik.build import BuildMixin
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import number
from ms_custom_ops.tik.compact import CompactMixin
from ms_custom_ops.tik.compare import CompareMixin
from ms_custom_ops.tik.control import ControlMixin
from ms_custom_ops.tik.conv import ConvMixin
from ms_custom_ops.tik.convert import ConvertMixin
from ms_custom_ops.tik.cube import CubeMixin
from ms_custom_ops.tik.dprofile import Dprofile
from ms_custom_ops.tik.elementwise import VectorMixin
from ms_custom_ops.tik.fixpipe import FixpipeMixin
from ms_custom_ops.tik.fused import FusedMixin
from ms_custom_ops.tik.gather import GatherMixin
from ms_custom_ops.tik.h_api import HApiMixin
from ms_custom_ops.tik.h_reduce import HReduceMixin
from ms_custom_ops.tik.h_select import HSelectMixin
from ms_custom_ops.tik.high_precision import HighPrecisionMixin
from ms_custom_ops.tik.high_precision_half import HalfPrecisionMixin
from ms_custom_ops.tik.img2col import Img2colMixin
from ms_custom_ops.tik.initial import initial_value
from ms_custom_ops.tik.l0c import L0cMixin
from ms_custom_ops.tik.move import MoveMixin
from ms_custom_ops.tik.move_shaped import ShapedMoveMixin
from ms_custom_ops.tik.printf import DebugMixin
from ms_custom_ops.tik.proposal import ProposalMixin
from ms_custom_ops.tik.reduce import ReduceMixin
from ms_custom_ops.tik.reduce_all import ReduceAllMixin
from ms_custom_ops.tik.refused import REFUSED
from ms_custom_ops.tik.registers import RegisterMixin
from ms_custom_ops.tik.scalar import (
    DEFAULT_INPUT_SCALAR,
    DEFAULT_SCALAR,
    SCALAR_DTYPES,
    InputScalar,
    Scalar,
    ScalarArray,
)
from ms_custom_ops.tik.scopes import IR_SCOPE
from ms_custom_ops.tik.shape import ShapeMixin
from ms_custom_ops.tik.sort import SortMixin
from ms_custom_ops.tik.system import SystemMixin
from ms_custom_ops.tik.tensor import Tensor, contiguous_strides, product
from ms_custom_ops.where import user_location

NOT_BUILT: frozenset[str] = frozenset()  # public methods that are missing: refused by name when called

_collector: contextvars.ContextVar[list[Tik] | None] = contextvars.ContextVar("ms_custom_ops_tik", default=None)


class Tik(
    BuildMixin,
    ControlMixin,
    GatherMixin,
    CompactMixin,
    FusedMixin,
    SortMixin,
    ProposalMixin,
    RegisterMixin,
    AddressMixin,
    HalfPrecisionMixin,
    HApiMixin,
    HReduceMixin,
    HSelectMixin,
    VectorMixin,
    ConvertMixin,
    CompareMixin,
    ReduceMixin,
    ReduceAllMixin,
    MoveMixin,
    HighPrecisionMixin,
    ShapedMoveMixin,
    CubeMixin,
    ConvMixin,
    FixpipeMixin,
    Img2colMixin,
    L0cMixin,
    ShapeMixin,
    SystemMixin,
    DebugMixin,
):
    """Records one kernel for the current chip.

    ``profiling``, ``disable_debug``, ``err_msg_level`` and ``block_size`` are those of TIK: sizes come from
    the current chip, and every failed check raises TikError, which is a SystemExit (level 0) and a
    RuntimeError (level 1) in one. ``saturate`` overrides the chip's treatment of float16 overflow.
    """

    def __init__(
        self,
        profiling: Any = None,
        disable_debug: bool = True,
        err_msg_level: int = 0,
        block_size: int = 32,
        saturate: bool | None = None,
    ):
        if err_msg_level not in (0, 1):
            raise TikError(describe("Tik", "err_msg_level", err_msg_level, "0, 1"), user_location())
        if block_size != 32:
            raise TikError(describe("Tik", "block_size", block_size, "32"), user_location())
        self._b = Builder(current_soc(), saturate)
        self.d_profiling = Dprofile()
        self._disable_debug = disable_debug
        self.programs: list[ir.Program] = []
        self.kernel_names: list[str] = []
        collected = _collector.get()
        if collected is not None:
            collected.append(self)

    def __getattr__(self, name: str) -> Any:
        if name in NOT_BUILT or name in REFUSED:
            reason = REFUSED.get(name, "this TIK method is not built")

            def refuse(*args: Any, **kwargs: Any) -> None:
                if not self._b.dead:
                    raise TikSupportError(f"{name}: {reason}", user_location())

            return refuse
        raise AttributeError(f"Tik has no method {name!r}", name=name, obj=self)

    # ---- tensors and scalars ----
    def Tensor(
        self,
        dtype,
        shape,
        scope,
        name,
        enable_buffer_reuse=False,
        no_reuse_list=None,
        reuse_list=None,
        is_workspace=False,
        is_atomic_add=False,
        max_mem_size=None,
        init_value=None,
        is_global_tensor=False,
        start_addr=None,
    ):
        """A tensor. GM tensors become kernel arguments or workspaces; local ones live until their scope ends.

        A local tensor with a shape known only at run time has ``max_mem_size`` bytes; without it, it may take what is
        free of its buffer, which is checked while the kernel runs. A GM tensor with ``init_value`` (a number, or a
        list, tuple or array of the values of all elements) that BuildCCE does not list is a workspace that starts with
        it; an output that is made with ``is_atomic_add`` as well starts with it, too."""
        b = self._b
        api = f"Tensor {name}"
        if dtype not in DTYPES:
            raise b.fail(TikError, api, "dtype", dtype, ", ".join(DTYPES))
        if scope not in IR_SCOPE:
            raise b.fail(TikScopeError, api, "scope", scope, ", ".join(IR_SCOPE))
        dims = self._shape(api, shape)
        kind = IR_SCOPE[scope]
        size, total = self._bytes(api, dtype, dims, kind, max_mem_size)
        static = tuple(d if d.__class__ is int else -1 for d in dims)
        if kind == ir.GM:
            storage = self._global(api, name, dtype, static, size, is_workspace, is_atomic_add, init_value)
        else:
            for what, given in (
                ("is_workspace", is_workspace),
                ("is_atomic_add", is_atomic_add),
                ("init_value", init_value is not None),
            ):
                if given:
                    raise b.fail(TikScopeError, api, f"scope with {what}", scope, "global (GM)")
            start = self._start(api, kind, dtype, start_addr)
            if size < 0:
                storage = b.allocate_rest(name, kind, dtype, static, b.loc())
                size = storage.buffer.size_bytes
            else:
                storage = b.allocate(name, kind, dtype, static, size, b.loc(), start)
        if total is None and size >= 0:
            total = size // SIZE[dtype]
        return Tensor(storage, dtype, dims, contiguous_strides(dims), 0, total)

    def _shape(self, api: str, shape: Any) -> tuple:
        b = self._b
        items = shape if isinstance(shape, (list, tuple)) else (shape,)
        if not items:
            raise b.fail(TikError, api, "shape", shape, "at least one dimension")
        dims = tuple(number(d, api, "shape") for d in items)
        for d in dims:
            if d.__class__ is int and d < 1 and not b.dead:
                raise b.fail(TikError, api, "shape", shape, "positive dimensions")
        return dims

    def _bytes(self, api: str, dtype: str, dims: tuple, kind: str, max_mem_size: Any) -> tuple[int, int | None]:
        """(bytes or -1, elements or None)."""
        b = self._b
        elements = product(dims)
        known = elements.__class__ is int
        size = elements * SIZE[dtype] if known else -1
        if kind == ir.GM:
            return size, elements if known else None
        if known:
            if max_mem_size is not None and max_mem_size != size:
                word = "too small" if max_mem_size < size else "too big"
                raise b.fail(TikError, api, f"max_mem_size ({word})", max_mem_size, f"{size} for a static shape")
            return size, elements
        if max_mem_size is None:
            return -1, None
        reserved = number(max_mem_size, api, "max_mem_size")
        if reserved.__class__ is not int or reserved < 1 or reserved % SIZE[dtype]:
            raise b.fail(TikError, api, "max_mem_size", max_mem_size, f"a positive multiple of {SIZE[dtype]}")
        return reserved, None

    def _global(
        self,
        api: str,
        name: str,
        dtype: str,
        static: tuple,
        size: int,
        is_workspace: bool,
        is_atomic_add: bool,
        init_value: Any,
    ) -> Any:
        b = self._b
        if len(b.frames) > 1:
            raise TikScopeError(
                f"{api}: a GM tensor is created inside a scope; accepted: GM tensors outside every "
                "for_range, if_scope and new_stmt_scope",
                user_location(),
            )
        value = initial_value(b, api, init_value, dtype, static)
        storage = b.global_buffer(name, dtype, static, size, b.loc())
        storage.is_workspace = bool(is_workspace)
        storage.buffer.atomic_init = bool(is_atomic_add)
        storage.buffer.init_value = value
        if is_workspace:
            storage.buffer.kind = "workspace"
        return storage

    def _start(self, api: str, kind: str, dtype: str, start_addr: Any) -> int | None:
        if start_addr is None:
            return None
        address = number(start_addr, api, "start_addr")
        align = start_align(kind, SIZE[dtype])
        if address.__class__ is not int or address < 0 or address % align:
            raise self._b.fail(TikError, api, "start_addr", start_addr, f"multiples of {align} bytes")
        return address

    def Scalar(self, dtype="int64", name=DEFAULT_SCALAR, init_value=None):
        """A mutable register, undefined until it is set."""
        self._scalar_dtype("Scalar", dtype)
        scalar = Scalar(self._b, dtype, name)
        if init_value is not None:
            scalar.set_as(init_value)
        return scalar

    def ScalarArray(self, dtype="int64", length=1, name=DEFAULT_SCALAR, init_value=None):
        """``length`` registers."""
        self._scalar_dtype("ScalarArray", dtype)
        count = number(length, "ScalarArray", "length")
        if count.__class__ is not int or count < 1:
            raise self._b.fail(TikError, "ScalarArray", "length", length, "a Python int >= 1")
        array = ScalarArray(self._b, dtype, count, name)
        if init_value is not None:
            array.set_as(init_value)
        return array

    def InputScalar(self, dtype="int64", name=DEFAULT_INPUT_SCALAR):
        """A read-only kernel parameter; those without a name of their own are numbered from the second one on."""
        self._scalar_dtype("InputScalar", dtype)
        if name == DEFAULT_INPUT_SCALAR:
            before = sum(r.kind == "input" and r.name.startswith(name) for r in self._b.program.registers)
            name = f"{name}_{before}" if before else name
        return InputScalar(self._b, dtype, name, "input")

    def _scalar_dtype(self, api: str, dtype: Any) -> None:
        if dtype not in SCALAR_DTYPES:
            raise self._b.fail(TikError, api, "dtype", dtype, ", ".join(SCALAR_DTYPES))


def is_tik_var(value: Any) -> bool:
    """Whether a value is a TIK scalar, expression or tensor."""
    return isinstance(value, (Expr, Tensor))


__all__ = ["NOT_BUILT", "Tik", "is_tik_var"]
