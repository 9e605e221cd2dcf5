# SPDX-License-Identifier: Apache-2.0
"""The engine's sources are one program: two types of one name in one namespace are undefined behaviour that no compiler
reports (their inline members are merged)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "csrc"
NAMESPACE = re.compile(r"^namespace ?([\w:]*) ?\{|^\}  // namespace")
TYPE = re.compile(r"^(?:struct|class|union|enum class) (\w+)[^;]*$")


def shared_types(text: str) -> list[str]:
    """Names of the types that other sources of the program could define as well."""
    found, inside = [], []
    for line in text.splitlines():
        if match := NAMESPACE.match(line):
            if match.group(0).startswith("}"):
                inside.pop()
            else:
                inside.append(match.group(1))
        elif (match := TYPE.match(line)) and "" not in inside:
            found.append("::".join([*inside, match.group(1)]))
    return found


def test_no_two_types_have_one_name():
    files = [path for path in sorted(SOURCES.iterdir()) if path.suffix in (".h", ".cc")]
    counts = Counter(name for path in files for name in set(shared_types(path.read_text())))
    assert len(counts) > 50 and [name for name, count in counts.items() if count > 1] == []


def test_the_search_sees_them():
    text = (
        "namespace mco {\nstruct A {\n};\nnamespace {\nstruct B {\n};\n}  // namespace\nclass C;\n}  // namespace mco\n"
    )
    assert shared_types(text) == ["mco::A"]
