# SPDX-License-Identifier: Apache-2.0
"""docs/robustness.md: every test it names exists, and no op that hides something is without one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from ms_custom_ops.registry import load_registry

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+?) \| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
TEXT = (ROOT / "docs" / "robustness.md").read_text()
ROWS = ROW.findall(TEXT)
# Arguments by which a call leaves out a part of its tensors.
HIDING = re.compile(r"mask|len|real_shift|sparse_mode|sparse_indices|block_table")


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("kind, file, name", ROWS, ids=[f"{file.rpartition('/')[2]}-{name}" for _, file, name in ROWS])
def test_a_named_test_exists(kind: str, file: str, name: str) -> None:
    assert (ROOT / file).is_file(), f"{kind}: {file} is gone"
    assert name in functions(ROOT / file), f"{kind}: {file} has no {name}"


def test_every_row_is_read() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and not re.match(r"\| (kind|op) \|", line)]
    assert len(lines) == len(ROWS) > 80


def test_no_kind_stands_twice() -> None:
    kinds = [kind for kind, _, _ in ROWS]
    assert len(set(kinds)) == len(kinds)


def test_every_op_that_hides_something_has_a_test_of_it() -> None:
    held = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    hiding = {
        spec.name
        for spec in load_registry(ROOT / "op_info").ops.values()
        if any(HIDING.search(arg.name) for arg in (*spec.args, *(spec.public.args if spec.public else ())))
    }
    assert len(hiding) > 8
    assert hiding <= held, f"no test of what takes no part: {sorted(hiding - held)}"
