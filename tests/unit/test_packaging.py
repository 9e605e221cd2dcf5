# SPDX-License-Identifier: Apache-2.0
"""What `pip install` delivers is what git holds: no op is lost on the way, no folder imported twice."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ms_custom_ops

ROOT = Path(__file__).resolve().parents[2]
OP_FOLDERS = ("op_impl", "op_info", "tiling")

# The real engine was compiled when this package was installed; here only the list of files matters.
EMPTY_ENGINE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_engine", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__engine() { return PyModule_Create(&definition); }
"""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs this Python with the given arguments."""
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)


def git_files() -> list[str]:
    """Files that git holds or would add, relative to the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip(f"the tests do not run from a git checkout: {listed.stderr.strip()}")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory) -> set[str]:
    """Names inside a wheel built from a copy of the checkout (a build leaves files in the tree it builds)."""
    source = tmp_path_factory.mktemp("source")
    for name in git_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    shutil.rmtree(source / "csrc")
    (source / "csrc").mkdir()
    (source / "csrc" / "engine.cc").write_text(EMPTY_ENGINE)
    folder = tmp_path_factory.mktemp("wheel")
    done = run("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source))
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


DATA = (
    ".yaml",
    ".cmake",
    ".in",
    ".md",
    ".tmpl",
    ".typed",
    ".pyi",
    ".h",
    ".inc",
    ".cc",
    ".cpp",
    ".hpp",
    ".ipynb",
    ".svg",
    ".json",
    ".pc",
    ".txt",
)
SHARED = "ms_custom_ops-{version}.data/data/share/ms_custom_ops/"


def expected_in_wheel(name: str) -> str | None:
    """Where a file of the checkout has to be inside the wheel, None if it is no part of the package."""
    path = Path(name)
    top, *rest = path.parts
    if not rest or (path.suffix not in (".py", *DATA) and path.name != "py.typed"):
        return None
    if top in OP_FOLDERS:
        return f"ms_custom_ops/{name}"
    if top in ("docs", "examples"):
        return SHARED.format(version=ms_custom_ops.__version__) + name
    return name if top == "ms_custom_ops" else None


def test_wheel_holds_every_package_file_of_git(wheel_files):
    expected = {path for name in git_files() if (path := expected_in_wheel(name))}
    assert expected, "git lists no package file"
    assert sorted(expected - wheel_files) == []


def test_wheel_holds_nothing_else(wheel_files):
    expected = {path for name in git_files() if (path := expected_in_wheel(name))}
    extra = {name for name in wheel_files - expected if ".dist-info/" not in name}
    assert len(extra) == 1 and extra.pop().startswith("ms_custom_ops/_engine."), extra


def test_type_checkers_see_every_name_of_the_package():
    stub = (ROOT / "ms_custom_ops" / "__init__.pyi").read_text()
    named = {a or b for a, b in re.findall(r" as (\w+)|^(\w+) = ", stub, re.M)}
    assert {"ops", "nn", "tik", "load", "patch", "testing", "get_soc", "compile_op"} <= named
    assert named <= set(ms_custom_ops.__all__)


@pytest.mark.parametrize("folder", OP_FOLDERS)
def test_importing_an_op_folder_from_the_checkout_is_refused(folder):
    """From the root of the checkout it would make a second module beside ms_custom_ops.<folder>."""
    done = run("-c", f"import {folder}", cwd=ROOT)
    assert done.returncode != 0
    assert "ImportError" in done.stderr
    assert f"ms_custom_ops.{folder}" in done.stderr


def test_version_has_one_source():
    from importlib.metadata import version

    assert version("ms_custom_ops") == ms_custom_ops.__version__


def test_metadata_is_in_setup_cfg_alone():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    assert "project" not in tomllib.loads((ROOT / "pyproject.toml").read_text())
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["metadata"]["name"] == "ms_custom_ops"
    assert config["options"]["python_requires"] == ">=3.10,<3.13"


def test_importing_the_package_needs_no_mindspore():
    code = "import sys; sys.modules['mindspore'] = None; import ms_custom_ops; print(ms_custom_ops.__version__)"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ms_custom_ops.__version__


def test_command_line_entry_point_is_installed():
    program = Path(sys.executable).with_name("ms-custom-ops")
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


@pytest.mark.parametrize("program", ["benchmarks/run.py", "examples/train_gpt.py"])
def test_program_starts(program):
    """Its imports resolve and its options parse."""
    pytest.importorskip("mindspore")
    done = run(str(ROOT / program), "--help")
    assert done.returncode == 0, done.stderr
    assert "Options" in done.stdout
