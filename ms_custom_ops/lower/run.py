# SPDX-License-Identifier: Apache-2.0
"""Runs primitives and public functions on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ms_custom_ops import engine
from ms_custom_ops.compile_launch import run_launch
from ms_custom_ops.compiler import Call, CompiledOp, compile_call, describe_call
from ms_custom_ops.lower.arrays import finish, prepare
from ms_custom_ops.lower.steps import lower_call
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Operand


def run_primitive(
    call: Call, arrays: Mapping[str, np.ndarray | None], engine_name: str = "native", compiled: CompiledOp | None = None
) -> dict[str, np.ndarray]:
    """Outputs by name, in the shapes that the op infers.

    Args:
        call: the checked call (:func:`ms_custom_ops.compiler.describe_call`).
        arrays: tensor argument -> content, in the shapes and dtypes of the call; of any strides.
        engine_name: "native" or "reference".
        compiled: its Program; None compiles the call here.
    """
    compiled = compiled or compile_call(call)
    if compiled.launch is not None:
        return run_launch(call, compiled, arrays)
    program = compiled.program
    given = {name: np.ascontiguousarray(x) for name, x in arrays.items() if x is not None}
    feed = [kernel_array(given[n], program.buffers[i]) for n, i in zip(compiled.inputs, program.inputs, strict=True)]
    outputs = engine.run(program, feed, engine=engine_name)
    return {name: x.reshape(shape) for (name, shape, _), x in zip(call.outputs, outputs, strict=True)}


def run_public(
    op: str, arguments: Mapping[str, Any], attrs: Mapping[str, Any], soc: str | None = None, engine_name: str = "native"
) -> dict[str, np.ndarray]:
    """Outputs of the public function of ``op`` by name, of NumPy arrays; those that were not asked for are left out.

    Args:
        op: an op with a public form.
        arguments: tensor argument -> array, list of integers or None.
        attrs: attribute -> value; those with a default may be left out.
        soc: full chip name; None is the chip in force.
    """
    operands = {
        name: Operand(None, None, tuple(x)) if isinstance(x, (list, tuple)) else Operand(x.shape, x.dtype.name)
        for name, x in arguments.items()
        if x is not None
    }
    steps = lower_call(op, operands, attrs)[1]
    arrays = {name: x for name, x in arguments.items() if isinstance(x, np.ndarray)}
    if steps.empty:
        return finish(steps, arrays, {})
    shapes = {name: None if x is None else x.shape for name, x in steps.inputs.items()}
    dtypes = {name: None if x is None else x.dtype for name, x in steps.inputs.items()}
    call = describe_call(get_op(op), shapes, dtypes, steps.attributes, soc)
    return finish(steps, arrays, run_primitive(call, prepare(steps, arrays), engine_name))


def kernel_array(array: np.ndarray, buffer: ir.Buffer) -> np.ndarray:
    """In the shape that the kernel gave the tensor: it may see (B, S) as (B*S,), the bytes are the same."""
    shape = tuple(buffer.shape)
    whole = all(isinstance(d, int) and d >= 0 for d in shape)
    return array.reshape(shape) if whole and math.prod(shape) == array.size else array
