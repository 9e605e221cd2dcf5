# SPDX-License-Identifier: Apache-2.0
"""Imports go down the rooms of the library and in no circle, and docs/architecture.md shows the same rooms."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / ".importlinter"
RUN = "import sys; sys.argv = ['lint-imports', sys.argv[1]]\n" + (
    "from importlinter.cli import lint_imports_command\nlint_imports_command()"
)


def _run(contracts: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", RUN, str(contracts)], cwd=ROOT, capture_output=True, text=True)


def test_imports_go_down_and_in_no_circle():
    result = _run(CONTRACTS)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("upside", ["ms_custom_ops.errors", "ms_custom_ops.program"])
def test_a_room_at_the_wrong_place_is_found(tmp_path, upside):
    lines = CONTRACTS.read_text().splitlines()
    lines.remove("    " + upside)
    lines.insert(lines.index("layers =") + 1, "    " + upside)
    wrong = tmp_path / "contracts"
    wrong.write_text("\n".join(lines))
    assert _run(wrong).returncode == 1


def test_the_drawing_names_every_room():
    contracts = configparser.ConfigParser()
    contracts.read(CONTRACTS)
    layers = contracts["importlinter:contract:layers"]["layers"].replace("|", " ").split()
    text = (ROOT / "docs" / "architecture.md").read_text()
    for layer in layers:
        name = layer.removeprefix("ms_custom_ops.").replace(".", "/")
        assert f"`{name}" in text, name
