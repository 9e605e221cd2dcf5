# SPDX-License-Identifier: Apache-2.0
"""What becomes of a call's tensors on the way to the primitive and back, as plain data.

A step is a tuple: its kind, then numbers, so that a graph compiler takes it for a constant:

    ("pad", axis, count, value)     ``count`` times ``value`` behind an axis
    ("cut", axis, count)            the first ``count`` of an axis
    ("cast", dtype)                 to the dtype of that name
    ("flags",)                      1 where the value is not 0, as float16
    ("reshape", shape)
    ("broadcast", shape)
    ("repeat", count)               the last value of a vector, ``count`` times more
    ("corner", rows, columns)       the first ones of both last axes
    ("swap",)                       both leading axes exchanged
    ("batch",), ("unbatch",)        an axis of 1 in front; without it
    ("take", index, axis)           places of an axis in the order of ``index``, a computed tensor
    ("keep", index, axis)           zeros where ``index``, a computed tensor, is false
    ("sum",)                        the sum of all values, shape (1,)
    ("transpose", order)            axes in that order
    ("bits",)                       the eight bits of each byte along the last axis, the lowest first, as uint8
    ("tile", count)                 an axis behind the last, every value ``count`` times
    ("first",)                      the first value of the last axis
    ("stop",)                       no gradient flows through
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Call, Operand
from ms_custom_ops.registry.public_check import check_public
from ms_custom_ops.registry.spec import Shape

Step = tuple[Any, ...]


def missing(size: int, multiple: int) -> int:
    """What ``size`` lacks of a multiple."""
    return -size % multiple


@dataclass(frozen=True)
class Chain:
    """Steps of one tensor; ``shape`` and ``dtype`` after them. A step that would change nothing is not taken.

    ``source``: name of an argument, of a computed tensor, or of a return of the primitive; or the values of an int32
    constant; None for zeros of ``shape``.
    """

    source: str | tuple[int, ...] | None
    shape: Shape
    dtype: str
    steps: tuple[Step, ...] = ()

    def _with(self, step: Step, shape: Shape | None = None, dtype: str | None = None) -> Chain:
        return Chain(self.source, self.shape if shape is None else shape, dtype or self.dtype, (*self.steps, step))

    def _resized(self, axis: int, size: int) -> Shape:
        return (*self.shape[: axis % len(self.shape)], size, *self.shape[axis % len(self.shape) + 1 :])

    def pad(self, axis: int, count: int, value: float = 0.0) -> Chain:
        axis %= len(self.shape)
        if count == 0:
            return self
        if isinstance(self.source, tuple):
            return Chain((*self.source, *(int(value),) * count), (self.shape[0] + count,), self.dtype)
        return self._with(("pad", axis, count, value), self._resized(axis, self.shape[axis] + count))

    def repeat(self, count: int) -> Chain:
        if isinstance(self.source, tuple):
            return self.pad(0, count, self.source[-1])
        return self._with(("repeat", count), (self.shape[0] + count,)) if count else self

    def cut(self, axis: int, count: int) -> Chain:
        axis %= len(self.shape)
        return self if self.shape[axis] == count else self._with(("cut", axis, count), self._resized(axis, count))

    def corner(self, rows: int, columns: int) -> Chain:
        shape = (*self.shape[:-2], rows, columns)
        return self if shape == self.shape else self._with(("corner", rows, columns), shape)

    def batch(self, wanted: bool) -> Chain:
        return self._with(("batch",), (1, *self.shape)) if wanted else self

    def unbatch(self, wanted: bool) -> Chain:
        return self._with(("unbatch",), self.shape[1:]) if wanted else self

    def swap(self) -> Chain:
        return self._with(("swap",), (self.shape[1], self.shape[0], *self.shape[2:]))

    def cast(self, dtype: str) -> Chain:
        return self if dtype == self.dtype else self._with(("cast", dtype), dtype=dtype)

    def flags(self) -> Chain:
        return self._with(("flags",), dtype="float16")

    def reshape(self, shape: Shape) -> Chain:
        return self if tuple(shape) == self.shape else self._with(("reshape", tuple(shape)), tuple(shape))

    def broadcast(self, shape: Shape) -> Chain:
        return self if tuple(shape) == self.shape else self._with(("broadcast", tuple(shape)), tuple(shape))

    def take(self, index: str, axis: int, count: int) -> Chain:
        return self._with(("take", index, axis), self._resized(axis, count))

    def keep(self, index: str, axis: int) -> Chain:
        return self._with(("keep", index, axis))

    def sum(self) -> Chain:
        return self._with(("sum",), (1,))

    def stop(self) -> Chain:
        return self._with(("stop",))

    def transpose(self, order: tuple[int, ...]) -> Chain:
        same = order == tuple(range(len(order)))
        return self if same else self._with(("transpose", order), tuple(self.shape[axis] for axis in order))

    def bits(self) -> Chain:
        return self._with(("bits",), (*self.shape[:-1], self.shape[-1] * 8))

    def tile(self, count: int) -> Chain:
        return self._with(("tile", count), (*self.shape, count))

    def first(self) -> Chain:
        return self._with(("first",), self.shape[:-1])


def of_zeros(chain: Chain) -> tuple[Shape, tuple[Step, ...]]:
    """Shape that the zeros of a chain without a source begin with, and the steps that follow: none unless another value
    is padded."""
    if not any(step[0] == "pad" and step[3] for step in chain.steps):
        return chain.shape, ()
    shape = list(chain.shape)
    for kind, axis, count, _ in chain.steps:
        assert kind == "pad", kind
        shape[axis] -= count
    return tuple(shape), chain.steps


@dataclass(frozen=True)
class Computed:
    """Tensors that a function makes of others: packed positions and the like.

    ``function``: "module:function" for arrays; in a graph the one of its name in ``mindspore.computed``, unless all
    sources are lists. ``names`` of its results. ``sources``: arguments, earlier results, or lists of integers."""

    function: str
    names: tuple[str, ...]
    sources: tuple[str | tuple[int, ...], ...]
    parameters: tuple[int, ...]

    @property
    def known(self) -> bool:
        """It reads no tensor."""
        return not any(isinstance(source, str) for source in self.sources)

    def arrays(self, tensors: Mapping[str, Any]) -> list[Any]:
        """Its sources, of tensors by name."""
        return [tensors[x] if isinstance(x, str) else np.array(x) for x in self.sources]

    def values(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Its results, of the arrays of its sources."""
        found: tuple[Any, ...] = load(self.function)(*arrays, *self.parameters)
        return found


@dataclass(frozen=True)
class Steps:
    """Lowering of one call. ``inputs``: tensor of the primitive -> its chain, None where it is absent. ``outputs``:
    public return -> its chain, None where it was not asked for. ``empty``: the call needs no kernel; the outputs then
    are those of ``answers``, whose sources are arguments, or None for zeros."""

    inputs: Mapping[str, Chain | None]
    attributes: Mapping[str, Any]
    outputs: Mapping[str, Chain | None]
    computed: tuple[Computed, ...] = ()
    empty: bool = False
    answers: Mapping[str, Chain | None] = field(default_factory=dict)


class Lowering:
    """Helpers of an op's ``lower``: chains of the arguments of ``call``."""

    def __init__(self, call: Call):
        self.call = call

    def __getitem__(self, name: str) -> Any:
        return self.call[name]

    def tensor(self, name: str) -> Chain | None:
        """Chain of an argument, None where it is absent; a list of integers is an int32 constant."""
        operand = self.call.given(name)
        if operand is None:
            return None
        if operand.values is not None:
            return Chain(tuple(int(n) for n in operand.values), operand.shape or (0,), "int32")
        return Chain(name, operand.shape or (), str(operand.dtype))

    def need(self, name: str) -> Chain:
        """Chain of an argument that is there."""
        chain = self.tensor(name)
        assert chain is not None
        return chain

    def constant(self, name: str) -> Chain | None:
        """An int32 argument through which no gradient flows."""
        chain = self.tensor(name)
        if chain is None or not isinstance(chain.source, str):
            return chain
        return chain.stop().cast("int32")

    def zeros(self) -> dict[str, Chain | None]:
        """Every return as zeros."""
        returns = self.call.returns().items()
        return {name: None if found is None else Chain(None, *found) for name, found in returns}


def lower_call(op: str, operands: Mapping[str, Operand], attrs: Mapping[str, Any]) -> tuple[Call, Steps]:
    """A call of the public function of ``op``, checked and lowered.

    Args:
        op: an op with a ``public`` section.
        operands: argument -> shape and dtype; absent ones may be left out.
        attrs: attribute -> value; those with a default may be left out.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    public = get_op(op).public
    assert public is not None
    call = check_public(public, operands, attrs)
    return call, load(public.lower)(Lowering(call))


def load(name: str) -> Callable[..., Any]:
    """The function of "module:function"."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
