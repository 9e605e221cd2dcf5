# SPDX-License-Identifier: Apache-2.0
"""What a two-phase call of an op is, built from its OpSpec: parameters, checks in aclnn's order, what to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops import compiler
from ms_custom_ops.aclnn.status import DEFAULT_STATUS, StatusError
from ms_custom_ops.aclnn.tensors import Tensor, as_output, as_tensor, refuse
from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.lower.arrays import finish, prepare
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.lower.steps import Steps, lower_call
from ms_custom_ops.registry.call_values import full_attrs
from ms_custom_ops.registry.public import Operand
from ms_custom_ops.registry.spec import OpSpec

INPUT, LENGTHS, ATTRIBUTE, OUTPUT = "input", "lengths", "attribute", "output"


@dataclass(frozen=True)
class Parameter:
    """One parameter. ``optional``: None is accepted, and leaving it out means None (an attribute: ``default``).
    ``present_if``: an output that is needed exactly when this input is there. ``type`` of an attribute: int, float,
    bool, str or ints."""

    name: str
    kind: str
    optional: bool = False
    default: Any = None
    present_if: str | None = None
    doc: str = ""
    type: str = ""


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

    def __init__(self, interface: Interface, given: Given):
        self.given = given
        shapes = {name: x.shape for name, x in given.inputs.items()}
        dtypes = {name: x.dtype for name, x in given.inputs.items()}
        self.call = compiler.describe_call(interface.spec, shapes, dtypes, given.attrs)
        interface.check_outputs(given, {name: (tuple(shape), dtype) for name, shape, dtype in self.call.outputs})
        self.compiled = compiler.compile_call(self.call)
        self.workspace_size = self.compiled.workspace_bytes

    def run(self) -> None:
        arrays = {name: x.array() for name, x in self.given.inputs.items()}
        for name, value in run_primitive(self.call, arrays, compiled=self.compiled).items():
            self.given.outputs[name].write(value)


class LoweredJob(Job):
    """Runs a call of an op's public form: lowered to the primitive, and its results taken back."""

    def __init__(self, interface: Interface, given: Given, workspace_size: int | None = None):
        self.given, self.workspace_size = given, workspace_size or 0
        operands = {name: Operand(x.shape, x.dtype) for name, x in given.inputs.items()}
        operands |= {
            name: x if isinstance(x, Operand) else Operand(None, None, tuple(x)) for name, x in given.lengths.items()
        }
        call, self.steps = interface.lower(operands, given)
        interface.check_outputs(given, {name: found for name, found in call.returns().items() if found is not None})
        if self.steps.empty:
            return
        shapes = {name: None if x is None else x.shape for name, x in self.steps.inputs.items()}
        dtypes = {name: None if x is None else x.dtype for name, x in self.steps.inputs.items()}
        self.call = compiler.describe_call(interface.spec, shapes, dtypes, self.steps.attributes)
        self.compiled = compiler.compile_call(self.call)
        if workspace_size is None:
            self.workspace_size = self.compiled.workspace_bytes

    def run(self) -> None:
        arrays = {name: x.array() for name, x in self.given.inputs.items()}
        results: dict[str, np.ndarray] = {}
        if not self.steps.empty:
            results = run_primitive(self.call, prepare(self.steps, arrays), compiled=self.compiled)
        for name, value in finish(self.steps, arrays, results).items():
            self.given.outputs[name].write(value)


class Interface:
    """The interface that an OpSpec alone gives: the arguments of its public form, or of its own where it has none, in
    order, then the returns as output tensors."""

    strided_inputs = False
    lengths_are_tensors = True
    header = ""
    """Op whose C header declares the functions; empty, and they have a header of their own."""

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
            if p.optional and (p.present_if is None or not _asked(values[p.present_if])):
                continue
            accepted = "a tensor" if p.present_if is None else f"a tensor, since {p.present_if} is given"
            raise StatusError("null_pointer", describe(self.name, p.name, "None", accepted))

    def read(self, values: Mapping[str, Any]) -> Given:
        """Operands and attributes. StatusError (invalid_parameter) for what is neither."""
        parts: dict[str, dict[str, Any]] = {INPUT: {}, LENGTHS: {}, ATTRIBUTE: {}, OUTPUT: {}}
        for p in self.parameters:
            value, kind = values[p.name], p.kind
            if kind == LENGTHS and self.lengths_are_tensors and not isinstance(value, (list, tuple)):
                kind = INPUT
            if kind in (INPUT, OUTPUT) and value is not None:
                value = (
                    as_output(self.name, p.name, value)
                    if kind == OUTPUT
                    else as_tensor(self.name, p.name, value, strided=self.strided_inputs)
                )
                if p.present_if is not None and not _asked(values[p.present_if]):
                    if value.size:
                        refuse(
                            self.name,
                            p.name,
                            f"of shape {value.shape} without {p.present_if}",
                            "None or an empty tensor",
                        )
                    continue
            if value is not None:
                parts[kind][p.name] = value
        try:
            attrs = self.attributes(parts[ATTRIBUTE])
        except OpArgumentError as error:
            raise StatusError("invalid_parameter", str(error)) from None
        return Given(parts[INPUT], parts[LENGTHS], attrs, parts[OUTPUT])

    def attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes, their types checked; OpArgumentError."""
        return full_attrs(self.spec.public or self.spec, given)

    def check(self, values: Mapping[str, Any]) -> Given:
        """What is refused before a kernel is looked for: null pointers, then what is no tensor or attribute."""
        self.check_null(values)
        return self.read(values)

    def prepare(self, values: Mapping[str, Any]) -> Job:
        """The first phase: :meth:`check`, then everything that tiling decides."""
        return (LoweredJob if self.spec.public else ProgramJob)(self, self.check(values))

    def lower(self, operands: Mapping[str, Operand], given: Given) -> tuple[Any, Steps]:
        """The call, checked, and its steps."""
        return lower_call(self.spec.name, operands, given.attrs)

    def check_outputs(self, given: Given, wanted: Mapping[str, tuple[tuple[int, ...], str]]) -> None:
        """OpDtypeError or OpArgumentError for an output of another shape or dtype."""
        for name, (shape, dtype) in wanted.items():
            output = given.outputs[name]
            if output.dtype != dtype:
                raise OpDtypeError(describe(self.name, f"dtype of {name}", output.dtype, dtype))
            if output.shape != shape:
                raise OpArgumentError(describe(self.name, name, f"of shape {output.shape}", shape))


def _asked(value: Any) -> bool:
    """Whether an output is wanted, by the tensor or the bool attribute that it goes with; what is neither is refused
    elsewhere."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return value is not None and not isinstance(value, (int, float, str))


def _parameters(spec: OpSpec) -> tuple[Parameter, ...]:
    form = spec.public or spec
    docs = {arg.name: arg.doc for arg in spec.args} | {ret.name: ret.doc for ret in spec.returns}
    inputs = [
        Parameter(
            arg.name,
            ATTRIBUTE if not arg.is_tensor else LENGTHS if getattr(arg, "values", ()) else INPUT,
            arg.optional or arg.has_default,
            arg.default,
            doc=arg.doc or docs.get(arg.name, ""),
            type="" if arg.is_tensor else arg.kind,
        )
        for arg in (*form.tensors, *form.attributes)
    ]
    outputs = [
        Parameter(
            ret.name,
            OUTPUT,
            ret.present_if is not None,
            present_if=ret.present_if,
            doc=ret.doc or docs.get(ret.name, ""),
        )
        for ret in form.returns
    ]
    return (*inputs, *outputs)
