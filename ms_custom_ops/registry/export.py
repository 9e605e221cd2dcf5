# SPDX-License-Identifier: Apache-2.0
"""What can be derived from an OpSpec on request: registration dicts, a bare MindSpore op_def file, a doc
table."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import yaml

from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.registry.public import PublicSpec
from ms_custom_ops.registry.schema import MS_ARG, MS_RETURN, MS_TOP
from ms_custom_ops.registry.spec import OpSpec

_FORMAT = "DefaultFormat"


def custom_reg_op(spec: OpSpec, target: str = "Ascend") -> dict[str, Any]:
    """The dict that MindSpore's CustomRegOp builder gives for this op (``get_op_info()``)."""
    inputs = [
        {"index": i, "name": arg.name, "paramType": "optional" if arg.optional else "required"}
        for i, arg in enumerate(spec.tensors)
    ]
    outputs = [{"index": i, "name": ret.name, "paramType": "required"} for i, ret in enumerate(spec.returns)]
    attrs = []
    for arg in spec.attributes:
        attr = {"name": arg.name, "paramType": "optional" if arg.has_default else "required", "type": arg.kind}
        if arg.has_default:
            attr["defaultValue"] = str(arg.default).lower() if arg.kind == "bool" else str(arg.default)
        attrs.append(attr)
    order = [arg.name for arg in spec.tensors] + [ret.name for ret in spec.returns]
    rows = [tuple((CODE_TO_NAME[row.codes[name]], _FORMAT) for name in order) for row in spec.dtype_rows]
    return {
        "op_name": spec.class_name,
        "inputs": inputs,
        "outputs": outputs,
        "attr": attrs,
        "dtype_format": rows,
        "fusion_type": "OPAQUE",
        "target": target,
    }


def tbe_reg_op(spec: OpSpec) -> dict[str, Any]:
    """The dict that MindSpore's TBERegOp builder gives for this op; the kernel is the TIK entry."""
    info = custom_reg_op(spec)
    info.update(
        imply_type="TBE",
        async_flag=False,
        binfile_name=f"{spec.impl.kernel_name}.so",
        compute_cost=10,
        kernel_name=spec.impl.kernel_name,
        partial_flag=True,
        dynamic_shape=False,
    )
    return info


def strip_to_op_def(spec: OpSpec) -> str:
    """The op as a YAML file with MindSpore's keys only, as its own generator (gen_custom_ops) takes it."""
    op: dict[str, Any] = {key: value for key, value in spec.raw.items() if key in MS_TOP}
    op["args"] = {name: {k: v for k, v in arg.items() if k in MS_ARG} for name, arg in op["args"].items()}
    op["returns"] = {name: {k: v for k, v in ret.items() if k in MS_RETURN} for name, ret in op["returns"].items()}
    return f"#operator {spec.name}\n" + yaml.safe_dump({spec.name: op}, sort_keys=False, width=100)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def doc_table(spec: OpSpec) -> str:
    """Markdown: the function that people call, where the op has one of its own, then the primitive, chips, gradient."""
    if spec.public is None:
        return "\n".join([f"# {spec.name}", "", spec.doc, "", *_primitive_table(spec)])
    summary, _, details = spec.doc.partition("\n\n")
    lines = [f"# {spec.name}", "", summary, "", *public_table(spec, spec.public), ""]
    lines += [
        f"## The primitive {spec.class_name}",
        "",
        "What the kernel takes; the function above brings calls to it.",
    ]
    lines += ["", details, ""] if details else [""]
    return "\n".join(lines + _primitive_table(spec))


def _primitive_table(spec: OpSpec) -> list[str]:
    """Arguments, returns, constraints, chips, gradient."""
    lines = ["| argument | shape or type | dtype | default | meaning |", "|---|---|---|---|---|"]
    for arg in spec.args:
        dtypes = " ".join(dict.fromkeys(row.codes[arg.name] for row in spec.dtype_rows)) if arg.is_tensor else ""
        form = arg.shape_text if arg.is_tensor else arg.kind
        default = f"`{arg.default!r}`" if arg.has_default else ""
        lines.append(f"| {arg.name} | {_cell(form)} | {dtypes} | {default} | {_cell(arg.doc)} |")
    lines += ["", "| return | shape | dtype | meaning |", "|---|---|---|---|"]
    for ret in spec.returns:
        dtypes = " ".join(dict.fromkeys(row.codes[ret.name] for row in spec.dtype_rows))
        lines.append(f"| {ret.name} | {_cell(ret.shape_text)} | {dtypes} | {_cell(ret.doc)} |")
    lines += [""] + [f"* {name} = `{expr.text}`" for name, expr in spec.symbols.items()]
    lines += [f"* `{item.expr.text}`: {item.msg}" for item in spec.constraints]
    lines += ["", "| chip | dtypes |", "|---|---|"]
    lines += [f"| {soc} | {' '.join(codes)} |" for soc, codes in spec.target.soc.items()]
    if spec.bprop is None:
        lines += ["", "No gradient."]
    else:
        lines += [""] + [
            f"Gradient of {', '.join(rule.inputs)}: `{' '.join(rule.text.split())}`" for rule in spec.bprop.rules
        ]
        if spec.bprop.non_differentiable:
            lines.append(f"\nNo gradient (zeros): {', '.join(spec.bprop.non_differentiable)}.")
    return lines


def public_table(spec: OpSpec, public: PublicSpec) -> list[str]:
    """What the public function takes and gives: signature, shapes by condition, dtypes, defaults, rules."""
    found = function_source(spec.function_name)
    defaults, lines = {}, [f"## The function mco.ops.{spec.function_name}", ""]
    if found is not None:
        defaults = _defaults(found)
        head, text = f"mco.ops.{spec.function_name}(", _signature(found)
        wrapped = textwrap.wrap(text, 84, break_long_words=False, break_on_hyphens=False)
        call = [head + text + ")"] if len(head + text) < 84 else [head, *(f"    {line}" for line in wrapped), ")"]
        lines += ["```python", *call, "```", ""]
    lines += ["| argument | shape or type | dtype | default |", "|---|---|---|---|"]
    for arg in public.args:
        form = f"broadcasts to {_forms(arg.shapes)}" if arg.broadcast else _forms(arg.shapes)
        default = f"`{defaults.get(arg.name, 'None')}`" if arg.optional else ""
        lines.append(f"| {arg.name} | {_cell(form)} | {' '.join(arg.dtypes)} | {default} |")
    for attr in public.attributes:
        default = f"`{defaults.get(attr.name, repr(attr.default))}`" if attr.has_default else ""
        lines.append(f"| {attr.name} | {attr.kind} | | {default} |")
    known = {item.name for item in (*public.args, *public.attributes)}
    lines += [f"| {name} | | | `{text}` |" for name, text in defaults.items() if name not in known]
    lines += ["", "| return | shape | dtype | given |", "|---|---|---|---|"]
    for ret in public.returns:
        given = f"with {ret.present_if}" if ret.present_if else "always"
        lines.append(f"| {ret.name} | {_cell(_forms(ret.shapes))} | {ret.dtype_from} | {given} |")
    lines += ["", *(f"* `{item.expr.text}`: {item.msg}" for item in public.constraints)]
    docstring = ast.get_docstring(found) if found is not None else None
    return [*lines, "", "```text", docstring, "```"] if docstring else lines


def _forms(shapes: Any) -> str:
    return "; ".join(
        ("" if condition is None else f"{condition.text}: ") + "(" + ", ".join(dim.text for dim in dims) + ")"
        for condition, dims in shapes
    )


def function_source(name: str) -> ast.FunctionDef | None:
    """Syntax tree of the function that ``mindspore/ops.py`` imports under a name, without importing MindSpore; None
    where it imports none."""
    folder = Path(__file__).parents[1] / "mindspore"
    for node in ast.parse((folder / "ops.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            text = (folder / f"{node.module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
            found = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == name)
            return next(found, None)
    return None


def _defaults(function: ast.FunctionDef) -> dict[str, str]:
    """Parameter -> text of its default, of those that have one."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    pairs = list(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
    return {arg.arg: ast.unparse(default) for arg, default in pairs}


def _signature(function: ast.FunctionDef) -> str:
    defaults, args = _defaults(function), function.args
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    parts = [f"{n}={defaults[n]}" if n in defaults else n for n in names]
    if args.kwonlyargs:
        parts.append("*")
        parts += [f"{a.arg}={defaults[a.arg]}" if a.arg in defaults else a.arg for a in args.kwonlyargs]
    return ", ".join(parts)
