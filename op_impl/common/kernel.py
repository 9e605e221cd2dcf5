# SPDX-License-Identifier: Apache-2.0
"""The shell of every kernel: GM tensors, buffers, units, and the multi-core loop over equal tasks.

A kernel says what it does with one task; the shell declares the tensors of the call, allocates the plan's buffers and
spreads the plan's tasks over the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ms_custom_ops import tik
from ms_custom_ops.errors import SignatureError, describe
from ms_custom_ops.mistakes import author_location
from ms_custom_ops.op_impl.common.cube import CubeUnit, Fractals
from ms_custom_ops.op_impl.common.rows import RowUnit
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.tik.call import KernelCall


class Kernel:
    """Base of kernels. ``plan`` has ``problem``, ``soc``, ``buffers`` and ``split``.

    ``gm`` holds the tensors in GM by name; one index addresses all of a tensor's elements, whatever its rank.
    """

    gm_names: Mapping[str, str] = {}
    """Names of tensors in ``gm``, where they are not those of the op_info file."""
    summed: tuple[str, ...] = ()
    """Outputs that start as zeros and are added to."""

    def __init__(self, call: KernelCall, plan: Any):
        lacking = [name for name in ("problem", "soc", "buffers", "split") if not hasattr(plan, name)]
        if lacking:
            raise SignatureError(describe(call.op, f"plan of the kernel {type(self).__name__}",
                                          f"a {type(plan).__name__} without {', '.join(lacking)}",
                                          "a frozen dataclass with problem, soc, buffers and split"),
                                 author_location())  # fmt: skip
        self.call = call
        self.plan = plan
        self.problem = plan.problem
        self.tik = tik.Tik()
        self.vector = VectorUnit(self.tik)
        self.scalar = ScalarUnit(self.tik)
        self.buffers = Buffers(self.tik, plan)
        self.core: Any = None
        self.gm: dict[str, Any] = _GlobalTensors(call.op)
        self._inputs = [self._declare(name) for name in call.inputs]
        self._outputs = [self._declare(name, is_atomic_add=name in self.summed) for name in call.outputs]

    def _declare(self, name: str, **how: Any) -> Any:
        own, given = self.gm_names.get(name, name), self.call[name]
        self.gm[own] = self.tik.Tensor(given.dtype, given.shape, tik.scope_gm, own, **how)
        return self.gm[own]

    def workspace(self, name: str, dtype: str, elements: int, zeroed: bool = False) -> None:
        """Declare a tensor in GM that only this kernel sees; ``zeroed``: it starts as zeros."""
        self.gm[name] = self.tik.Tensor(dtype, (elements,), tik.scope_gm, name, is_workspace=True, is_atomic_add=zeroed)

    def workspaces(self) -> None:
        """Declare the workspaces of a subclass."""

    def build(self) -> Any:
        """Emit the multi-core loop and finish the kernel."""
        self.workspaces()
        blocks = self.plan.split.block_num
        with self.tik.for_range(0, blocks, block_num=blocks) as core:
            self.core = core
            self.buffers.resident()
            self.prepare()
            self.each_task(self.task, self.plan.split.total)
            self.finish()
        self.tik.BuildCCE(kernel_name=self.call.kernel_name, inputs=self._inputs, outputs=self._outputs)
        return self.tik

    def prepare(self) -> None:
        """What every core does once, before its tasks; subclasses call this one first."""

    def task(self, index: Any) -> None:
        """Task ``index`` of the core split."""
        raise SignatureError(
            describe(
                self.call.op,
                f"class {type(self).__name__}",
                "without a task",
                "def task(self, index), what the kernel does with one task",
            ),
            author_location(),
        )

    def finish(self) -> None:
        """What every core does once, after its tasks."""

    def each_task(self, body: Callable[[Any], None], total: int) -> None:
        """``body(index)`` for the core's share of ``total`` tasks, contiguous or dealt as the plan's split says;
        ``index`` is held in a register."""
        blocks = self.plan.split.block_num
        quotient, remainder = divmod(total, blocks)
        if self.plan.split.dealt:
            self._each_dealt(body, quotient, remainder)
            return
        first = self.scalar.hold(self.core * quotient + self.scalar.minimum(self.core, remainder))
        count = self.tik.Scalar("int64", init_value=quotient)
        if remainder:
            with self.tik.if_scope(self.core < remainder):
                count.set_as(quotient + 1)
        with self.tik.for_range(0, count) as turn:
            body(self.scalar.hold(first + turn))

    def _each_dealt(self, body: Callable[[Any], None], quotient: int, remainder: int) -> None:
        blocks = self.plan.split.block_num
        back = self.scalar.hold(blocks - 1 - self.core)
        count = self.tik.Scalar("int64", init_value=quotient)
        if remainder:
            with self.tik.if_scope((back if quotient % 2 else self.core) < remainder):
                count.set_as(quotient + 1)
        with self.tik.for_range(0, count) as turn:
            place = self.scalar.hold(self.core + turn % 2 * (back - self.core))
            body(self.scalar.hold(turn * blocks + place))


class _GlobalTensors(dict[str, Any]):
    """Tensors in GM by name, with an error that says what is there."""

    def __init__(self, op: str):
        super().__init__()
        self._op = op

    def __missing__(self, name: str) -> NoReturn:
        accepted = f"one of the call or a workspace: {', '.join(self)}"
        raise SignatureError(describe(self._op, "tensor in GM", repr(name), accepted), author_location())


class CubeKernel(Kernel):
    """A kernel with products: the cube, fractals in GM, and ``rows`` of tiles where the plan has a buffer ``turn``.

    On chips whose cube and vector cores are split, what goes from one to the other passes through an exchange in GM:
    per block one float32 tile of the size of the largest L0C buffer and one tile of the operands' dtype of that of the
    largest L1 buffer.
    """

    spare_exchange = False
    """Two float32 tiles per block, so that one may wait while another passes."""

    def workspaces(self) -> None:
        super().workspaces()
        if self.plan.soc.split_core:
            blocks = self.plan.split.block_num
            self.workspace("exchange_wide", "float32", blocks * self.largest("l0c") * (1 + self.spare_exchange))
            self.workspace("exchange_half", self.problem.dtype, blocks * self.largest("l1"))

    def largest(self, scope: str) -> int:
        """Elements of the largest buffer of a scope."""
        return max(b.elements for b in self.plan.buffers if b.scope == scope)

    def prepare(self) -> None:
        super().prepare()
        soc = self.plan.soc
        self.fractals = Fractals(self.tik, soc)
        if any(b.name == "turn" for b in self.plan.buffers):
            self.rows = RowUnit(self.tik, self.vector, self.buffers["turn"])
        self.exchange = half = spare = None
        if soc.split_core:
            wide = self.largest("l0c")
            self.exchange = Tile(self.gm["exchange_wide"], self.core * (wide * (1 + self.spare_exchange)))
            spare = self.exchange.shift(wide) if self.spare_exchange else None
            half = Tile(self.gm["exchange_half"], self.core * self.largest("l1"))
        self.cube = CubeUnit(self.tik, soc, self.exchange, half, spare)


def round_mode_to(dtype: str) -> str:
    """Rounding mode name of float32 to ``dtype``: the chips have different names for nearest even."""
    return "round" if dtype == "bfloat16" else "none"
