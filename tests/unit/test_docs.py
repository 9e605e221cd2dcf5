# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/ and the README: every Python block runs as it stands, every command parses, every link leads
somewhere, and the site builds in strict mode where its tools are installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ms_custom_ops as mco
from ms_custom_ops.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "README_CN.md",
         ROOT / "examples" / "user_ops" / "README.md"]  # fmt: skip
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.M | re.S)
NIGHTLY = ("mamba.md", "ascendc.md")  # graphs of a whole layer; a C++ compiler


def blocks(page: Path, *languages: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the fenced blocks of a page without a title; titled ones are files of the reader."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        if match.group(1) in languages and "title=" not in match.group(2):
            yield text[: match.start(3)].count("\n"), match.group(3)


def write_files(page: Path, folder: Path) -> None:
    """Titled blocks of a page as files, with what they include."""
    for name, text in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page.read_text(encoding="utf-8"), re.M | re.S):
        text = re.sub(r'^--8<-- "([^"]+)"\n', lambda m: (ROOT / m.group(1)).read_text(), text, flags=re.M)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def with_python() -> list:
    found = [page for page in PAGES if any(blocks(page, "python"))]
    slow = pytest.mark.nightly
    return [pytest.param(p, id=p.name, marks=[slow] if p.name in NIGHTLY else []) for p in found]


@pytest.mark.parametrize("page", with_python())
def test_python_blocks_run_as_they_stand(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's order, as one module: MindSpore wants source files. Line numbers are those of the page."""
    from ms_custom_ops import compat, engine

    code = list(blocks(page, "python"))
    if any("mindspore" in text or "mco.nn" in text or "mco.patch" in text for _, text in code):
        ms = pytest.importorskip("mindspore")
        mode = ms.get_context("mode")
    if any("import torch" in text for _, text in code):
        pytest.importorskip("torch")
    lines: list[str] = []
    for line, text in code:
        lines += [""] * (line - len(lines)) + text.splitlines()
    name = f"page_{re.sub(r'[^a-z0-9]', '_', page.stem.lower())}"
    file = tmp_path / f"{name}.py"
    file.write_text("\n".join(lines) + "\n")
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    try:
        spec.loader.exec_module(module)
    finally:
        compat.uninstall()
        engine.set_isa("auto")
        engine.set_num_threads(None)
        if "mode" in locals():
            ms.set_context(mode=mode)


def test_most_pages_with_code_are_run() -> None:
    assert len(with_python()) >= 14


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in blocks(page, "", "bash", "console", "text"):
        for offset, row in enumerate(text.splitlines()):
            for part in re.split(r"&&|\|", re.sub(r"(^|\s)#.*", "", row)):
                if part.strip().startswith("ms-custom-ops ") and "..." not in part:
                    yield line + offset + 1, shlex.split(part)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_verbs_and_options_that_exist(page: Path) -> None:
    context = click.Context(main, info_name="ms-custom-ops")
    for line, arguments in commands(page):
        arguments = [a for a in arguments if a not in ("[OP", "...]")]
        while arguments and arguments[0].startswith("--"):
            arguments = arguments[2:]
        verb = main.get_command(context, arguments[0])
        assert verb is not None, f"{page.name}:{line}: no verb {arguments[0]}"
        try:
            verb.make_context(arguments[0], list(arguments[1:]), parent=context, resilient_parsing=True)
        except click.UsageError as error:
            pytest.fail(f"{page.name}:{line}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(((?!https?:|#|mailto:)[^)\s]+)\)", text):
        place = target.partition("#")[0]
        assert (page.parent / place).exists(), f"{page.name}: {target}"


def test_the_api_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    whole = set(re.findall(r"^::: (\S+)$(?!\n    options)", page, re.MULTILINE))  # modules with all of their names
    pages = {spec.function_name for spec in map(mco.get_op, mco.list_ops())}
    public = {"ms_custom_ops": mco, "ms_custom_ops.aclnn": mco.aclnn, "ms_custom_ops.ascendc": mco.ascendc}
    if importlib.util.find_spec("mindspore"):
        public |= {"ms_custom_ops.mindspore.ops": mco.ops, "ms_custom_ops.mindspore.nn": mco.nn}
    missing = [
        f"{module}.{name}"
        for module, loaded in public.items()
        if module not in whole
        for name in loaded.__all__
        if not name.startswith("_") and not name.isupper() and name not in pages
        if not re.search(rf"\b{name}\b", page)
    ]
    assert not missing and "ms_custom_ops.testing" in whole, missing


def test_both_languages_of_the_readme_show_the_same_code() -> None:
    found = [[re.sub(r"#.*", "", text) for _, text in blocks(ROOT / name, "python")] for name in
             ("README.md", "README_CN.md")]  # fmt: skip
    assert found[0] == found[1] and found[0]


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    if "import mindspore" in code:
        pytest.importorskip("mindspore")
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code"), "kept without outputs"
    program = tmp_path / "notebook.py"
    program.write_text(code)
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.nightly
def test_the_site_builds_in_strict_mode(tmp_path: Path) -> None:
    for tool in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(tool)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / "site" / "ops" / "flash_attention" / "index.html").read_text()
    assert "The function mco.ops.flash_attention" in page
    assert "RmsNorm" in (tmp_path / "site" / "first_op" / "index.html").read_text()
    verbs = (tmp_path / "site" / "cli" / "index.html").read_text()
    assert "[--only golden|kernel|graph|ascendc|faults]" in verbs and "\\|" not in verbs
