# SPDX-License-Identifier: Apache-2.0
"""What the planted faults share: a kernel in a few lines, its feed, and the lines at which a finding is wanted.

A fault is a function ``(k: Kit)`` that builds a kernel; ``k.bad`` says whether the fault is in it. A comment ``# AT``
marks the line of the finding, ``# WITH`` the second line; the marked statements stand on one line each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_custom_ops import tik
from ms_custom_ops.program.dtypes import DTYPES, SIZE

RNG = np.random.default_rng(5)


class Kit:
    """One kernel: a Tik instance, tensors by short calls, whole moves."""

    def __init__(self, bad: bool):
        self.bad = bad
        self.t = tik.Tik()
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.scalars: list[Any] = []
        self.feed: list[Any] = []
        self.numbers: list[Any] = []

    def gm(self, count: int, dtype: str = "float16", data: Any = None, name: str = "") -> Any:
        """An input of random numbers, or of ``data``."""
        tensor = self.t.Tensor(dtype, (count,), tik.scope_gm, name or f"x{len(self.inputs)}")
        if data is None:
            data = RNG.integers(1, 9, count) if "int" in dtype else RNG.uniform(0.5, 2.0, count)
        self.inputs.append(tensor)
        self.feed.append(np.asarray(data).astype(DTYPES[dtype].numpy))
        return tensor

    def out(self, count: int, dtype: str = "float16", **more: Any) -> Any:
        """An output."""
        tensor = self.t.Tensor(dtype, (count,), tik.scope_gm, f"y{len(self.outputs)}", **more)
        self.outputs.append(tensor)
        return tensor

    def workspace(self, count: int, dtype: str = "float16", **more: Any) -> Any:
        """A tensor in GM that is neither."""
        return self.t.Tensor(dtype, (count,), tik.scope_gm, "work", is_workspace=True, **more)

    def ub(self, count: int, dtype: str = "float16", name: str = "u", scope: str = tik.scope_ubuf) -> Any:
        """A tensor on the chip."""
        return self.t.Tensor(dtype, (count,), scope, name)

    def number(self, value: int, dtype: str = "int32") -> Any:
        """A Scalar whose value is known only while running."""
        given = self.t.InputScalar(dtype, f"n{len(self.scalars)}")
        self.scalars.append(given)
        self.numbers.append(value)
        scalar = self.t.Scalar(dtype, f"s{len(self.scalars)}")
        scalar.set_as(given)
        return scalar

    def load(self, x: Any, count: int = 0, name: str = "u") -> Any:
        """A tensor in UB filled from GM."""
        whole = int(np.prod(x.shape))
        u = self.ub(whole, x.dtype, name)
        self.move(u, x, count or whole)
        return u

    def move(self, dst: Any, src: Any, count: int) -> None:
        """``count`` elements, in whole blocks."""
        self.t.data_move(dst, src, 0, 1, -(-count * SIZE[src.dtype] // 32), 0, 0)

    def build(self) -> Any:
        """The Tik instance, built."""
        self.t.BuildCCE("planted", [*self.inputs, *self.scalars], self.outputs)
        return self.t


@dataclass
class Fault:
    """A planted fault. ``also``: kinds that the same fault shows besides; ``twin``: the corrected kernel, else the same
    function, whose ``k.bad`` is then false; ``traced``: tracing finds it."""

    kind: str
    function: Callable[[Kit], Any]
    soc: str = "Ascend910A"
    traced: bool = False
    values: bool = False
    also: tuple[str, ...] = ()
    count: int | None = None
    tensor: str | None = None
    twin: Callable[[Kit], Any] | None = None
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.function.__name__}"

    def __post_init__(self) -> None:
        text, first = inspect.getsourcelines(self.function)
        for number, line in enumerate(text, first):
            for mark in ("AT", "WITH"):
                if f"# {mark}" in line:
                    self.lines[mark] = number


FAULTS: list[Fault] = []


def fault(kind: str, **more: Any) -> Callable[[Callable[[Kit], Any]], Callable[[Kit], Any]]:
    """Enters a function into the table."""

    def enter(function: Callable[[Kit], Any]) -> Callable[[Kit], Any]:
        FAULTS.append(Fault(kind, function, **more))
        return function

    return enter
