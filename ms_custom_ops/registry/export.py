# SPDX-License-Identifier: Apache-2.0
"""What can be derived from an OpSpec on request: registration dicts, a bare MindSpore op_def file, a doc
table."""

from __future__ import annotations

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
    """Markdown: the op's text, its arguments, returns, constraints, chips and gradient."""
    lines = [
        f"# {spec.name}",
        "",
        spec.doc,
        "",
        "| argument | shape or type | dtype | default | meaning |",
        "|---|---|---|---|---|",
    ]
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
    if spec.public is not None:
        lines += _public_table(spec.public)
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
    return "\n".join(lines)


def _public_table(public: PublicSpec) -> list[str]:
    """What the public function takes: shapes by condition, dtypes, rules."""
    lines = ["", "Public function:", "", "| argument | shape or type | dtype | default |", "|---|---|---|---|"]
    for arg in public.args:
        form = "; ".join(
            ("" if condition is None else f"{condition.text}: ") + "(" + ", ".join(dim.text for dim in dims) + ")"
            for condition, dims in arg.shapes
        )
        form = f"broadcasts to {form}" if arg.broadcast else form
        lines.append(f"| {arg.name} | {_cell(form)} | {' '.join(arg.dtypes)} | {'`None`' if arg.optional else ''} |")
    for attr in public.attributes:
        default = f"`{attr.default!r}`" if attr.has_default else ""
        lines.append(f"| {attr.name} | {attr.kind} | | {default} |")
    return [*lines, "", *(f"* `{item.expr.text}`: {item.msg}" for item in public.constraints)]
