# SPDX-License-Identifier: Apache-2.0
"""The reference engine's walk with an observer told before and after every statement."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

import numpy as np

from ms_custom_ops.debug.points import by_place, points_of
from ms_custom_ops.engine.reference.control import Block, _block_range, _run_blocks
from ms_custom_ops.engine.reference.memory import GlobalMemory
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir


class Observer(Protocol):
    """Watches a run."""

    def before(self, block: ObservedBlock, statement: Any) -> None:
        """Called before each statement."""

    def after(self, block: ObservedBlock, statement: Any) -> None:
        """Called after each statement that did not raise."""

    def failed(self, block: ObservedBlock, statement: Any, error: EngineError) -> None:
        """Called once, for the innermost statement that raised."""


class ObservedBlock(Block):
    """A block that reports its statements, runs print points and knows its open loops and live tensors."""

    observer: Observer | None = None
    points: dict = {}

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.loops: list[ir.For] = []
        self.live: list[ir.Buffer] = []
        self.error: EngineError | None = None

    def body(self, statements: list) -> Generator[None, None, str | None]:
        """As in the engine, one statement at a time."""
        self._print(statements, None)
        for s in statements:
            if self.observer is not None:
                self.observer.before(self, s)
            jump = yield from self._one(s)
            if jump is not None:
                return jump
            self._print(statements, s)
        return None

    def _one(self, s: Any) -> Generator[None, None, str | None]:
        is_loop = isinstance(s, ir.For)
        if is_loop:
            self.loops.append(s)
        try:
            jump = yield from super().body([s])
        except EngineError as error:
            if self.observer is not None and self.error is not error:
                self.error = error
                self.observer.failed(self, s, error)
            raise
        if is_loop:
            self.loops.pop()
        if isinstance(s, ir.Alloc):
            self._came_to_life(s.buffer)
        elif isinstance(s, ir.Free):
            self.live = [b for b in self.live if b is not s.buffer]
        if self.observer is not None:
            self.observer.after(self, s)
        return jump

    def _print(self, statements: list, previous: Any) -> None:
        for point in self.points.get((id(statements), id(previous)), ()):
            point.run(self)

    def _came_to_life(self, buffer: ir.Buffer) -> None:
        """A tensor lives until its scope ends; where a jump left that scope, until another one takes its bytes."""
        end = buffer.address + buffer.size_bytes
        self.live = [
            b
            for b in self.live
            if b.scope != buffer.scope or b.address >= end or b.address + b.size_bytes <= buffer.address
        ]
        self.live.append(buffer)


def run_observed(
    program: ir.Program,
    inputs: list[np.ndarray],
    scalars: list[int | float],
    outputs: list[np.ndarray],
    observer: Observer | None = None,
) -> None:
    """:func:`run_reference` with print points and an observer; arguments and errors are the same."""
    gm = GlobalMemory(program, inputs, outputs)
    if len(scalars) != len(program.input_scalars):
        raise EngineError(
            f"{program.name}: input scalars are {len(scalars)} values; accepted: {len(program.input_scalars)}"
        )
    table = by_place(points_of(program))
    blocks: list[Block] = []
    with np.errstate(all="ignore"):
        for index in _block_range(program, scalars):
            block = ObservedBlock(program, gm, scalars, index)
            block.observer, block.points = observer, table
            blocks.append(block)
        _run_blocks(program, blocks)
