# SPDX-License-Identifier: Apache-2.0
"""Reference pages of ops in Markdown, made from their op_info files."""

from __future__ import annotations

from pathlib import Path

from ms_custom_ops.registry import Registry, resolve
from ms_custom_ops.registry.export import doc_table
from ms_custom_ops.registry.spec import OpSpec


def page(spec: OpSpec, registry: Registry) -> str:
    """One op: what it does, the function that people call, the primitive, chips, gradient, accuracy, cases."""
    lines = [doc_table(spec), "", "## Accuracy", "", "Against the float64 golden, by the dtype of the operands.", "",
             "| dtype | rtol | atol | share within | worst |", "|---|---|---|---|---|"]  # fmt: skip
    used = {code for codes in spec.target.soc.values() for code in codes}
    for code, name in (("F16", "float16"), ("BF16", "bfloat16"), ("F32", "float32")):
        tolerance = spec.tolerance(name)
        if code in used and tolerance is not None:
            lines.append(f"| {name} | {tolerance.rtol:.3g} | {tolerance.atol:.3g} | {tolerance.matched:g} | "
                         f"{tolerance.worst:g} |")  # fmt: skip
    if spec.status:
        lines += ["", "## Status codes", "", "Of the two-phase interface.", "", "| name | code |", "|---|---|"]
        lines += [f"| {name} | {code} |" for name, code in spec.status.items()]
    lines += ["", "## Cases", "", f"`ms-custom-ops test {spec.name}` runs:", "", "| case | dtype | sizes | others |",
              "|---|---|---|---|"]  # fmt: skip
    for case in spec.cases:
        sizes = " ".join(f"{name}={size}" for name, size in case.symbols.items())
        others = " ".join([*(f"{name}={value}" for name, value in case.attrs.items()), *case.present])
        lines.append(f"| {case.name} | {case.dtype} | {sizes} | {others} |")
    readme = _readme(spec)
    if readme:
        lines += ["", "## Formulas", "", readme]
    used_by = [other.name for other in registry.ops.values() if other.bprop for rule in other.bprop.rules
               if rule.op == spec.name]  # fmt: skip
    if used_by:
        lines += ["", "Gradient of " + ", ".join(f"[{name}]({name}.md)" for name in dict.fromkeys(used_by)) + "."]
    return "\n".join(lines) + "\n"


def _readme(spec: OpSpec) -> str:
    """The README beside the kernel, its headings two levels lower; none for gradient ops."""
    if spec.name.endswith("_grad"):
        return ""
    golden = resolve(spec.impl.golden)
    file = Path(golden.__code__.co_filename).parent / "README.md"
    if not file.is_file():
        return ""
    fenced, lines = False, []
    for line in file.read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        lines.append("##" + line if line.startswith("#") and not fenced else line)
    return "\n".join(lines)


def pages(registry: Registry) -> dict[str, str]:
    """File name -> text of every op's page, and ``index.md``."""
    made = {f"{name}.md": page(spec, registry) for name, spec in registry.ops.items()}
    rows = ["# Ops", "", "Made from the op_info files; `ms-custom-ops info OP` prints the same.", "",
            "| op | what it is | chips |", "|---|---|---|"]  # fmt: skip
    for name, spec in registry.ops.items():
        text = spec.doc.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| [{name}]({name}.md) | {text} | {' '.join(spec.target.soc)} |")
    made["index.md"] = "\n".join(rows) + "\n"
    return made
