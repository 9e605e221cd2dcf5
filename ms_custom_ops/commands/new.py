# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops new NAME``: the files of an op that works, to be rewritten into one's own."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path

import click

from ms_custom_ops.registry import load_package, load_registry
from ms_custom_ops.scope import Scope

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
KINDS = ("elementwise", "reduce", "matmul", "attention")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@click.command("new")
@click.argument("name")
@click.option("--template", type=click.Choice(KINDS), default="elementwise", show_default=True,
              help="y = factor * x; y = x - mean(x); y = a @ b; softmax(q k^T) v. All with gradients.")  # fmt: skip
@click.option("--lang", type=click.Choice(["tik", "ascendc"]), default="tik", show_default=True,
              help="ascendc: an Ascend C project beside the TIK kernel.")  # fmt: skip
@click.pass_obj
def command(scope: Scope, name: str, template: str, lang: str) -> None:
    """Write YAML, golden, plan, kernel, case data and test of an op NAME, which passes as it is.

    In the repository the files go to their places there; anywhere else the current folder (or --ops FOLDER) becomes a
    folder of ops.

    \b
    Examples:
      ms-custom-ops new my_scale && ms-custom-ops test my_scale
      ms-custom-ops new my_product --template matmul
      ms-custom-ops new my_scale --lang ascendc && ms-custom-ops test my_scale --only ascendc
      ms-custom-ops new my_attention --lang ascendc --template attention
    """
    _check_name(scope, name)
    here = scope.folders[0] if scope.folders else Path.cwd()
    inside = (here / "ms_custom_ops" / "registry").is_dir()
    files = {here / path: text for path, text in rendered(name, template, lang, inside).items()}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise click.ClickException(f"{', '.join(there)}: there already; accepted: a name without files")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(here)}")
    click.echo(f"next: ms-custom-ops check {name} && ms-custom-ops test {name}"
               + (" && ms-custom-ops gen" if inside else ""))  # fmt: skip


def _check_name(scope: Scope, name: str) -> None:
    if not _NAME.match(name) or keyword.iskeyword(name):
        raise click.UsageError(
            f"NAME is {name!r}; accepted: small letters, digits and underscores, a letter first, no word of Python's"
        )
    registry = load_registry()
    for folder in scope.folders:
        if any(folder.glob("op_info/*.yaml")):  # else it becomes a folder of ops now
            load_package(folder, "--ops")
            registry = load_registry()
    for each in (name, f"{name}_grad"):
        if each in registry.ops or each in registry.broken:
            raise click.ClickException(
                f"op {each} is there already, in {registry.locations[each]}; accepted: another name"
            )


def rendered(name: str, template: str, lang: str, inside: bool) -> Mapping[str, str]:
    """Path in a folder of ops (``inside``: in this repository) -> text of every file of the op."""
    folder, extra = TEMPLATES / template, TEMPLATES / f"{template}_{lang}"
    places = {
        "op_info": f"op_info/{name}.yaml", "golden": f"op_impl/{name}/golden.py", "kernel": f"op_impl/{name}/kernel.py",
        "cases": f"op_impl/{name}/cases.py", "tiling": f"tiling/{name}.py",
        "test": f"tests/{'ops/' if inside else ''}test_{name}.py",
    }  # fmt: skip
    files = {}
    if inside:
        text = f'# SPDX-License-Identifier: Apache-2.0\n"""{name}: kernel, golden, case data."""\n'
        files[f"op_impl/{name}/__init__.py"] = text
    for source in sorted({*folder.glob("*.tmpl"), *TEMPLATES.glob("*.tmpl")}):
        text = source.read_text(encoding="utf-8")
        if lang != "tik" and source.stem == "op_info":
            text = _with_project(text)
        files[places[source.stem]] = _text(text, name, inside)
    for source in sorted(extra.rglob("*.tmpl")) if lang != "tik" else ():
        path = source.relative_to(extra).as_posix().removesuffix(".tmpl").replace("op_name", name)
        files[f"op_impl/{name}/ascendc/{path}"] = _text(source.read_text(encoding="utf-8"), name, inside)
    return dict(sorted(files.items()))


def _with_project(text: str) -> str:
    """The op_info text with the Ascend C project of both ops beside their TIK kernels."""
    for op, name in (("op_name", "OpName"), ("op_name_grad", "OpNameGrad")):
        tik = f'    tik: {{entry: "op_impl.op_name.kernel:{op}", kernel_name: {op}}}\n'
        project = f'{{project: "op_impl.op_name.ascendc", op: {name}, soc: [Ascend910B, Ascend910_93]}}'
        text = text.replace(tik, f"{tik}    ascendc: {project}\n")
    return text


def _text(text: str, name: str, inside: bool) -> str:
    if inside:
        load = ""
        text = re.sub(r'"(op_impl|tiling)\.op_name', r'"ms_custom_ops.\1.op_name', text)
        text = text.replace("from ...tiling.op_name import", "from ms_custom_ops.tiling.op_name import")
    else:
        load = "from ms_custom_ops.registry import load_package\n\nload_package(Path(__file__).resolve().parents[1])\n"
        text = text.replace("import pytest\n\nfrom ms", "from pathlib import Path\n\nimport pytest\n\nfrom ms", 1)
        text = text.replace("from ms_custom_ops.testing import opcheck\nop_load", "op_load", 1)
        load = load.replace("load_package\n\n", "load_package\nfrom ms_custom_ops.testing import opcheck\n\n", 1)
        text = text.replace("DTYPE_BYTES\nfrom ...", "DTYPE_BYTES\n\nfrom ...").replace(
            "CUBE_BLOCK\nfrom ...", "CUBE_BLOCK\n\nfrom ..."
        )
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    for old, new in (("op_load", load), ("OP_NAME", name.upper()), ("OpName", camel), ("op_name", name)):
        text = text.replace(old, new)
    return text
