# SPDX-License-Identifier: Apache-2.0
"""What a two-phase call of an op is, built from its OpSpec: parameters, checks in aclnn's order, what to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops import compiler, engine
from ms_custom_ops.aclnn.status import DEFAULT_STATUS, StatusError
from ms_custom_ops.aclnn.tensors import Tensor, as_output, as_tensor, refuse
from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.registry.call_values import full_attrs
from ms_custom_ops.registry.spec import OpSpec

INPUT, LENGTHS, ATTRIBUTE, OUTPUT = "input", "lengths", "attribute", "output"


@dataclass(frozen=True)
class Parameter:
    """One parameter. ``optional``: None is accepted, and leaving it out means None (an attribute: ``default``).
    ``present_if``: an output that is needed exactly when this input is there."""

    name: str
    kind: str
    optional: bool = False
    default: Any = None
    present_if: str | None = None
    doc: str = ""


@dataclass(frozen=True)
class Given:
    """A call after the checks that need no shapes."""

    inputs: Mapping[str, Tensor]
    lengths: Mapping[str, Any]
    attrs: Mapping[str, Any]
    outputs: Mapping[str, Tensor]


class Job:
    """What an executor runs. ``workspace_size`` in bytes."""

    workspace_size = 0

    def run(self) -> None:
        """Reads the inputs, computes, writes the outputs; errors of the engine."""
        raise NotImplementedError


class ProgramJob(Job):
    """Runs the op's Program."""

    def __init__(self, interface: Interface, given: Given, workspace_size: int | None = None):
        self.interface, self.given = interface, given
        arrays, attrs = interface.to_primitive(given)
        shapes = {name: None if x is None else x.shape for name, x in arrays.items()}
        dtypes = {name: None if x is None else x.dtype.name for name, x in arrays.items()}
        call = compiler.describe_call(interface.spec, shapes, dtypes, attrs)
        interface.check_returns(given, call)
        self.compiled = compiler.compile_call(call)
        self.program = self.compiled.program
        used = sum(max(self.program.buffers[i].size_bytes, 0) for i in self.program.workspaces)
        self.workspace_size = used if workspace_size is None else workspace_size

    def run(self) -> None:
        arrays, _ = self.interface.to_primitive(self.given)
        feed = [np.ascontiguousarray(arrays[name]) for name in self.compiled.inputs]
        results = dict(zip(self.compiled.outputs, engine.run(self.program, feed), strict=True))
        for name, value in self.interface.from_primitive(self.given, results).items():
            self.given.outputs[name].write(value)


class Interface:
    """The interface that an OpSpec alone gives: its arguments in order, then its returns as output tensors."""

    strided_inputs = False

    def __init__(self, spec: OpSpec, name: str | None = None, parameters: tuple[Parameter, ...] | None = None):
        self.spec = spec
        self.name = name or spec.class_name
        self.parameters = parameters or _parameters(spec)
        self.status = {**DEFAULT_STATUS, **spec.status}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameter -> value. TypeError as Python has it; what can be left out gets its default."""
        names = [p.name for p in self.parameters]
        if len(args) > len(names):
            raise TypeError(f"{self.name}GetWorkspaceSize() takes {len(names)} arguments but {len(args)} were given")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                what = "got multiple values for" if name in values else "got an unexpected"
                raise TypeError(f"{self.name}GetWorkspaceSize() {what} argument '{name}'")
            values[name] = value
        missing = [p.name for p in self.parameters if p.name not in values and not p.optional]
        if missing:
            raise TypeError(f"{self.name}GetWorkspaceSize() is missing the arguments {', '.join(missing)}")
        return {p.name: values.get(p.name, p.default) for p in self.parameters}

    def check_null(self, values: Mapping[str, Any]) -> None:
        """StatusError (null_pointer) for a required tensor or output that is None."""
        for p in self.parameters:
            if values[p.name] is not None or p.kind == ATTRIBUTE:
                continue
            if p.optional and (p.present_if is None or values[p.present_if] is None):
                continue
            accepted = "a tensor" if p.present_if is None else f"a tensor, since {p.present_if} is given"
            raise StatusError("null_pointer", describe(self.name, p.name, "None", accepted))

    def read(self, values: Mapping[str, Any]) -> Given:
        """Operands and attributes. StatusError (invalid_parameter) for what is neither."""
        parts: dict[str, dict[str, Any]] = {INPUT: {}, LENGTHS: {}, ATTRIBUTE: {}, OUTPUT: {}}
        for p in self.parameters:
            value = values[p.name]
            if p.kind in (INPUT, OUTPUT) and value is not None:
                value = (
                    as_output(self.name, p.name, value)
                    if p.kind == OUTPUT
                    else as_tensor(self.name, p.name, value, strided=self.strided_inputs)
                )
                if p.present_if is not None and values[p.present_if] is None:
                    if value.size:
                        refuse(
                            self.name,
                            p.name,
                            f"of shape {value.shape} without {p.present_if}",
                            "None or an empty tensor",
                        )
                    continue
            if value is not None:
                parts[p.kind][p.name] = value
        try:
            attrs = full_attrs(self.spec, parts[ATTRIBUTE])
        except OpArgumentError as error:
            raise StatusError("invalid_parameter", str(error)) from None
        return Given(parts[INPUT], parts[LENGTHS], attrs, parts[OUTPUT])

    def prepare(self, values: Mapping[str, Any]) -> Job:
        """The first phase: null pointers, dtypes, then everything that tiling decides."""
        self.check_null(values)
        return ProgramJob(self, self.read(values))

    def to_primitive(self, given: Given) -> tuple[dict[str, np.ndarray | None], dict[str, Any]]:
        """Arrays (tensor argument -> content or None) and attributes of the primitive."""
        arrays = {
            arg.name: given.inputs[arg.name].array() if arg.name in given.inputs else None for arg in self.spec.tensors
        }
        return arrays, dict(given.attrs)

    def from_primitive(self, given: Given, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What to write into each output."""
        return dict(results)

    def check_returns(self, given: Given, call: compiler.Call) -> None:
        """Outputs must be what the op infers: OpDtypeError or OpArgumentError."""
        for name, shape, dtype in call.outputs:
            output = given.outputs[name]
            if output.dtype != dtype:
                raise OpDtypeError(describe(self.name, f"dtype of {name}", output.dtype, dtype))
            if output.shape != tuple(shape):
                raise OpArgumentError(describe(self.name, name, f"of shape {output.shape}", tuple(shape)))


def _parameters(spec: OpSpec) -> tuple[Parameter, ...]:
    inputs = [
        Parameter(
            arg.name, INPUT if arg.is_tensor else ATTRIBUTE, arg.optional or arg.has_default, arg.default, doc=arg.doc
        )
        for arg in spec.args
    ]
    outputs = [
        Parameter(ret.name, OUTPUT, ret.present_if is not None, present_if=ret.present_if, doc=ret.doc)
        for ret in spec.returns
    ]
    return (*inputs, *outputs)
