# SPDX-License-Identifier: Apache-2.0
"""Gradient formulas of op_info: ``query, key: some_grad(query, key, out[0], dout[0], scale_value)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ms_custom_ops.registry.schema import ATTRIBUTE_KINDS, OpReader, out_of_range
from ms_custom_ops.registry.spec import Bprop, BpropArg, BpropRule, OpSpec
from ms_custom_ops.registry.yaml_source import nearest

NON_DIFFERENTIABLE = "non_differentiable"
OUTPUTS = "output_differentiability"


@dataclass
class _Resolver:
    """Resolves the formula lines of one op against the ops they call."""

    reader: OpReader
    spec: OpSpec
    ops: Mapping[str, OpSpec]
    declared: set[str]
    rules: list[BpropRule] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    outputs: tuple[bool, ...] = ()

    def bad(self, key: str, text: str) -> None:
        path = ("bprop", key) if key else ("bprop",)
        self.reader.bad(path, f"bprop{' of ' + key if key else ''}: {text}")

    def run(self, section: Mapping[str, Any]) -> Bprop:
        self.outputs = self._outputs(section.get(OUTPUTS))
        seen: set[str] = set()
        tensors = [arg.name for arg in self.spec.tensors]
        for key, value in section.items():
            if key == OUTPUTS:
                continue
            names = tuple(name.strip() for name in key.split(","))
            for name in names:
                if name not in tensors:
                    self.bad(key, f"'{name}' is no tensor argument; {nearest(name, tensors + [OUTPUTS])}")
                elif name in seen:
                    self.bad(key, f"'{name}' has a gradient line already")
                seen.add(name)
            if value == NON_DIFFERENTIABLE:
                self.plain += names
            elif isinstance(value, str):
                self._rule(key, names, value)
            else:
                self.bad(
                    key,
                    f"the line is {value!r}; accepted: a call such as some_grad(x, dout[0]) or {NON_DIFFERENTIABLE}",
                )
        for name in tensors:
            if name not in seen:
                self.bad("", f"tensor argument '{name}' has no line; accepted: a formula or {NON_DIFFERENTIABLE}")
        return Bprop(tuple(self.rules), tuple(self.plain), self.outputs)

    def _outputs(self, value: Any) -> tuple[bool, ...]:
        count = len(self.spec.returns)
        if value is None:
            return (True,) * count
        if not isinstance(value, list) or len(value) != count or not all(isinstance(v, bool) for v in value):
            self.bad(OUTPUTS, f"the value is {value!r}; accepted: a list of {count} booleans, one per return")
            return (True,) * count
        return tuple(value)

    def _rule(self, key: str, inputs: tuple[str, ...], text: str) -> None:
        try:
            call = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            call = None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            self.bad(key, f"'{text}' is no call; accepted: op(arguments) or {NON_DIFFERENTIABLE}")
            return
        name = call.func.id
        if name not in self.declared:
            self.bad(key, f"unknown op '{name}'; {nearest(name, sorted(self.declared))}")
            return
        target = self.ops.get(name)
        if target is None:
            self.bad(key, f"the op '{name}' is broken itself")
            return
        if len(target.returns) != len(inputs):
            self.bad(key, f"{name} returns {len(target.returns)} tensors for {len(inputs)} inputs")
        for wanted, ret in zip(inputs, target.returns, strict=False):
            given = next((arg for arg in self.spec.tensors if arg.name == wanted), None)
            if given is not None and given.optional != (ret.present_if is not None):
                self.bad(
                    key,
                    f"'{wanted}' is {'optional' if given.optional else 'required'}, its gradient "
                    f"'{ret.name}' of {name} has {'no' if given.optional else 'a'} present_if",
                )
        args = self._operands(key, call, target)
        self._completeness(key, args, target)
        self.rules.append(BpropRule(inputs, name, MappingProxyType(args), text))

    def _operands(self, key: str, call: ast.Call, target: OpSpec) -> dict[str, BpropArg]:
        names = [arg.name for arg in target.args]
        if len(call.args) > len(names):
            self.bad(key, f"{target.name} takes {len(names)} arguments, {len(call.args)} given")
        pairs = list(zip(names, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg not in names:
                self.bad(key, f"{target.name} has no argument '{keyword.arg}'; {nearest(str(keyword.arg), names)}")
            elif keyword.arg in [name for name, _ in pairs]:
                self.bad(key, f"argument '{keyword.arg}' of {target.name} is given twice")
            else:
                pairs.append((str(keyword.arg), keyword.value))
        args = {}
        for name, node in pairs:
            operand = self._operand(key, node)
            if operand is not None and self._fits(key, name, operand, target):
                args[name] = operand
        if target.raw.get("grad_of") == self.spec.name:
            for name in names:
                operand = self._own(name) if name not in dict(pairs) else None
                if operand is not None:
                    args[name] = operand
        return args

    def _own(self, name: str) -> BpropArg | None:
        """What the op calls ``name``: with ``grad_of`` it is passed to the gradient op without being written."""
        kinds = {arg.name: "input" if arg.is_tensor else "attr" for arg in self.spec.args}
        if name in kinds:
            return BpropArg(kinds[name], name)
        return next((BpropArg("out", name, i) for i, ret in enumerate(self.spec.returns) if ret.name == name), None)

    def _operand(self, key: str, node: ast.expr) -> BpropArg | None:
        names = {arg.name: arg for arg in self.spec.args}
        if isinstance(node, ast.Call):
            return self._zeros(key, node)
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        if type(value) in ATTRIBUTE_KINDS.values():
            refused = out_of_range(value)
            if refused:
                self.bad(key, f"the literal {ast.unparse(node)} is {refused}")
                return None
            return BpropArg("literal", ast.unparse(node), value=value)
        if isinstance(node, ast.Name):
            if node.id in names:
                return BpropArg("input" if names[node.id].is_tensor else "attr", node.id)
            self.bad(key, f"unknown argument '{node.id}'; {nearest(node.id, list(names) + ['out[0]', 'dout[0]'])}")
            return None
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("out", "dout")
            and isinstance(node.slice, ast.Constant)
            and type(node.slice.value) is int
        ):
            kind, index = node.value.id, node.slice.value
            if not 0 <= index < len(self.spec.returns):
                self.bad(key, f"{kind}[{index}] does not exist; accepted: 0 to {len(self.spec.returns) - 1}")
                return None
            if kind == "dout" and not self.outputs[index]:
                self.bad(key, f"dout[{index}] is used, but {OUTPUTS} says that output carries no gradient")
                return None
            return BpropArg(kind, self.spec.returns[index].name, index)
        self.bad(
            key,
            f"'{ast.unparse(node)}' is no operand; accepted: an argument name, out[i], dout[i], zeros_like(a tensor of "
            "these), an int, a float, a string, True or False",
        )
        return None

    def _zeros(self, key: str, node: ast.Call) -> BpropArg | None:
        """``zeros_like(tensor)``: zeros of the shape and dtype of an operand."""
        named = isinstance(node.func, ast.Name) and node.func.id == "zeros_like"
        if not named or len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Call):
            self.bad(key, f"'{ast.unparse(node)}' is no operand; accepted: zeros_like(x), out[i] or dout[i] for x too")
            return None
        operand = self._operand(key, node.args[0])
        if operand is not None and operand.kind in ("attr", "literal"):
            self.bad(key, f"zeros_like takes '{operand.name}'; accepted: a tensor argument, out[i] or dout[i]")
            return None
        return None if operand is None else replace(operand, zeros=True)

    def _fits(self, key: str, name: str, operand: BpropArg, target: OpSpec) -> bool:
        wanted = next(arg for arg in target.args if arg.name == name)
        given = next((arg for arg in self.spec.args if arg.name == operand.name), None)
        if wanted.is_tensor == (operand.kind in ("attr", "literal")):
            self.bad(
                key,
                f"'{operand.name}' is passed for '{name}' of {target.name}; accepted: "
                + ("a tensor" if wanted.is_tensor else "an attribute"),
            )
            return False
        if operand.kind == "input" and given is not None and given.optional and not wanted.optional:
            self.bad(key, f"optional '{operand.name}' is passed for the required '{name}' of {target.name}")
            return False
        if operand.kind == "literal" and type(operand.value) is not ATTRIBUTE_KINDS[wanted.kind]:
            kind = type(operand.value).__name__
            self.bad(key, f"{kind} {operand.name} is passed for the {wanted.kind} '{name}' of {target.name}")
            return False
        if given is not None and operand.kind == "attr" and given.kind != wanted.kind:
            self.bad(key, f"{given.kind} '{operand.name}' is passed for the {wanted.kind} '{name}' of {target.name}")
            return False
        return True

    def _completeness(self, key: str, args: Mapping[str, BpropArg], target: OpSpec) -> None:
        shared = {arg.name for arg in self.spec.args}
        for arg in target.args:
            if arg.name in args:
                continue
            if not arg.has_default:
                self.bad(key, f"'{arg.name}' of {target.name} is not passed")
            elif arg.name in shared:
                self.bad(
                    key,
                    f"'{arg.name}' of {target.name} is not passed, though {self.spec.name} has it too: "
                    "the gradient would use its default",
                )


def resolve_bprop(reader: OpReader, spec: OpSpec, ops: Mapping[str, OpSpec], declared: set[str]) -> Bprop | None:
    """The gradient of ``spec``; None for ``bprop: none``. ``declared`` holds every op name of the files."""
    value = reader.raw.get("bprop")
    if value == "none":
        return None
    if "bprop" not in reader.raw:
        reader.bad((), "the op has no 'bprop'; accepted: formula lines, or 'bprop: none' for an op without gradient")
        return None
    if not isinstance(value, dict):
        reader.bad(("bprop",), f"bprop is {value!r}; accepted: formula lines, or none")
        return None
    return _Resolver(reader, spec, ops, declared).run(value)
