# SPDX-License-Identifier: Apache-2.0
"""Lowered calls as MindSpore code, for construct and for plain Python; differentiable.

The steps of a call are computed by one constexpr from what is static (shapes, dtypes, attributes, ``is None``); loops
and branches over them unroll while the graph is compiled, which leaves one operator per step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype
from mindspore.ops import PrimitiveWithInfer

from ms_custom_ops.lower.steps import Chain, Computed, Steps, lower_call, of_zeros
from ms_custom_ops.mindspore import computed as functions
from ms_custom_ops.mindspore.cast import cast
from ms_custom_ops.mindspore.custom import DTYPES, dtype_name
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import ABSENT, Operand
from ms_custom_ops.registry.public_check import check_kinds


def operand_of(entry: Any) -> Operand:
    """Of what :func:`about` says."""
    shape, dtype = entry
    if shape is None:
        return ABSENT if dtype is None else Operand(None, None, other=dtype)
    if isinstance(dtype, np.dtype):
        return Operand(None, None, other=f"a numpy.ndarray of shape {tuple(shape)} and dtype {dtype}")
    return Operand(tuple(shape), dtype_name(dtype)) if dtype is not None else Operand(None, None, tuple(shape))


def _entry(chain: Chain | None, names: list[str]) -> Any:
    """(kind of source, source, steps) with places in ``names`` for names."""
    if chain is None:
        return None
    steps = tuple(
        (step[0], DTYPES[step[1]])
        if step[0] == "cast"
        else (step[0], names.index(step[1]), *step[2:])
        if step[0] in ("take", "keep")
        else step
        for step in chain.steps
    )
    if chain.source is None:
        shape, rest = of_zeros(chain)
        return ("zeros", (shape, DTYPES[chain.dtype]), rest)
    if isinstance(chain.source, tuple):
        return ("constant", Tensor(np.array(chain.source, np.int32)), steps)
    return ("given", names.index(chain.source), steps)


class _Eager(PrimitiveWithInfer):
    """True where Python runs the code, False where it is compiled into a graph."""

    def __init__(self):
        super().__init__("MsCustomOpsEager")

    def __infer__(self):
        return {"shape": (), "dtype": mstype.bool_, "value": False}

    def __call__(self):
        return True


eager = _Eager()


_plans: dict[tuple, tuple] = {}
_MOST_PLANS = 1024


def _known_by(entry: Any) -> Any:
    """What tells one operand from another: quick to make, as every call in PYNATIVE_MODE asks."""
    shape, dtype = entry
    if isinstance(dtype, mstype.Type):
        return shape, dtype
    return None if shape is None and dtype is None else repr(entry)


@ops.constexpr
def _plan(op, operands, attrs):
    """(empty, inputs, attributes, computed, outputs, one result) of a call, as constants of a graph."""
    key = (op, repr(attrs), *map(_known_by, operands))  # in repr, 1, 1.0 and True differ
    if key not in _plans:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = _new_plan(op, operands, attrs)
    return _plans[key]


def _new_plan(op: str, operands: Any, attrs: dict[str, Any]) -> tuple:
    spec = get_op(op)
    assert spec.public is not None
    names = [arg.name for arg in spec.public.args]
    given = {name: operand_of(entry) for name, entry in zip(names, operands, strict=True)}
    steps = lower_call(op, given, attrs)[1]
    return _constants(steps, names, [arg.name for arg in spec.tensors], [ret.name for ret in spec.returns])


def _constants(steps: Steps, names: list[str], tensors: list[str], results: list[str]) -> tuple:
    """The plan in terms of places: of arguments and computed tensors, and behind them of results."""
    if steps.empty:
        return True, (), {}, (), tuple(_entry(chain, names) for chain in steps.answers.values()), False
    known, computed = [*names], []
    for item in steps.computed:
        computed.append(_computed(item, known))
        known += item.names
    inputs = tuple(_entry(steps.inputs[name], known) for name in tensors)
    # A result may be called as an argument is (sparse_indices); outputs are made of results alone.
    place = [f"argument {name}" if name in results else name for name in known] + results
    outputs = tuple(_entry(chain, place) for chain in steps.outputs.values())
    return False, inputs, dict(steps.attributes), tuple(computed), outputs, len(results) == 1


def _computed(item: Computed, names: list[str]) -> tuple:
    """(function, places or values of its sources, parameters), or ("", its results, ()) where they are known."""
    if item.known:
        return "", tuple(Tensor(x) for x in item.values(item.arrays({}))), ()
    sources = tuple(names.index(x) if isinstance(x, str) else Tensor(np.array(x, np.int32)) for x in item.sources)
    return item.function.partition(":")[2], sources, item.parameters


def about(x):
    """(shape, dtype) of a tensor, (values, None) of a list or tuple, (None, None) of None, (None, text) of others."""
    if x is None:
        return (None, None)
    if isinstance(x, (bool, int, float)):
        return (None, "a number")
    if isinstance(x, str):
        return (None, "a str")
    if isinstance(x, (list, tuple)):
        return (tuple(x), None)
    return (x.shape, x.dtype)


@ops.constexpr
def _check_kinds(op, names, operands):
    public = get_op(op).public
    assert public is not None
    given = {name: operand_of(entry) for name, entry in zip(names, operands, strict=True)}
    check_kinds(replace(public, args=tuple(arg for arg in public.args if arg.name in given)), given)


def check_tensors(op, names, given):
    """Refuses what is no tensor among arguments that are used before the op is lowered."""
    operands: Any = ()
    for x in given:
        operands = operands + (about(x),)
    _check_kinds(op, names, operands)


def pad(x, axis, count, value):
    """``count`` times ``value`` behind ``axis``. Concat is the one of MindSpore's ways to pad that its CPU back end has
    for bfloat16 too."""
    shape = x.shape[:axis] + (count,) + x.shape[axis + 1 :]
    return ops.concat((x, ops.cast(ops.full(shape, value, dtype=mstype.float32), x.dtype)), axis)


def _cut(x, axis, count):
    if axis == x.ndim - 1:
        return x[..., :count]
    if axis == 0:
        return x[:count]
    return x[:, :count] if axis == 1 else x[:, :, :count]


def _kept(x, mask, axis):
    kept = ops.cast(x, mstype.float32)
    mask = mask.reshape((1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1))
    return ops.cast(ops.where(mask, kept, ops.zeros_like(kept)), x.dtype)


def _flags(x):
    if x.dtype != mstype.bool_:
        x = ops.not_equal(x, ops.zeros_like(x))
    return ops.cast(x, mstype.float16)


_MOVES = ("cut", "take", "reshape", "swap", "batch", "unbatch")


def _moved(x, step, tensors):
    """Steps that MindSpore's CPU back end has for float32 and not for bfloat16."""
    kind = step[0]
    if kind == "cut":
        return _cut(x, step[1], step[2])
    if kind == "take":
        return ops.gather(x, tensors[step[1]], step[2])
    if kind == "swap":
        return ops.swapaxes(x, 0, 1)
    if kind == "batch":
        return ops.expand_dims(x, 0)
    if kind == "unbatch":
        return ops.reshape(x, x.shape[1:])
    return ops.reshape(x, step[1])


def _step(x, step, tensors):
    kind = step[0]
    if kind == "pad":
        return pad(x, step[1], step[2], step[3])
    if kind in _MOVES:
        if x.dtype == mstype.bfloat16:  # float32 holds every bfloat16 exactly
            return ops.cast(_moved(ops.cast(x, mstype.float32), step, tensors), mstype.bfloat16)
        return _moved(x, step, tensors)
    if kind == "corner":
        return x[..., : step[1], : step[2]]
    if kind == "cast":
        return cast(x, step[1])
    if kind == "flags":
        return _flags(x)
    if kind == "broadcast":
        return ops.broadcast_to(x, step[1])
    if kind == "repeat":
        return ops.concat((x, ops.tile(x[-1:], (step[1],))), 0)
    if kind == "keep":
        return _kept(x, tensors[step[1]], step[2])
    if kind == "sum":
        return ops.reshape(x.sum(), (1,))
    return ops.stop_gradient(x)


def made(entry, tensors):
    """The tensor of an entry; an empty one of a return that was not asked for."""
    kind, source, steps = entry
    if kind == "zeros":
        x = ops.zeros(source[0], source[1])
    elif kind == "constant":
        x = source
    else:
        x = tensors[source]
    for step in steps:
        x = _step(x, step, tensors)
    return x


def _outputs(entries, tensors):
    found: Any = ()
    for entry in entries:
        found = found + (ops.zeros((0,), mstype.float32) if entry is None else made(entry, tensors),)
    return found


def lowered(op, primitive, given, attrs):
    """Outputs of the public function of ``op``, a tuple.

    ``primitive``: the generated function. ``given``: its tensor arguments in the order of the op's public form:
    tensors, None or lists. ``attrs``: a dict of its attributes.
    """
    operands: Any = ()
    for x in given:
        operands = operands + (about(x),)
    empty, inputs, attributes, computed, outputs, single = _plan(op, operands, attrs)
    if empty:
        return _outputs(outputs, given)
    tensors = given
    for function, source, parameters in computed:
        tensors = tensors + (functions.compute(function, tensors, source, parameters) if function else source)
    prepared: Any = ()
    for entry in inputs:
        prepared = prepared + (None if entry is None else made(entry, tensors),)
    results = primitive(*prepared, **attributes)
    return _outputs(outputs, tensors + (results,) if single else tensors + results)
