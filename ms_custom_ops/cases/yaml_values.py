# SPDX-License-Identifier: Apache-2.0
"""Values of a case file at key paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ms_custom_ops.cases.design import is_upstream
from ms_custom_ops.cases.model import DesignInput
from ms_custom_ops.cases.names import DTYPES, full_dtype
from ms_custom_ops.registry.yaml_source import Findings, Source, nearest


class CaseReader:
    """Values of one file at key paths; what is wrong goes to ``findings``, reading goes on. ``upstream``: the file is
    in the form of the operators' home."""

    def __init__(self, source: Source, findings: Findings):
        self.source, self.findings = source, findings
        self.unused: list[str] = []
        top = source.data if isinstance(source.data, dict) else {}
        self.upstream, self.versioned = is_upstream(top), "version" in top
        self.design_inputs: list[DesignInput] = []

    def bad(self, path: tuple[Any, ...], text: str) -> None:
        self.findings.add(self.source.where(*path), f"cases: {text}")

    def keys(self, value: Any, known: Sequence[str], path: tuple[Any, ...], unused: Sequence[str] = ()) -> dict:
        """``value`` if it is a mapping, else {} and a finding; unknown keys are findings."""
        if not isinstance(value, dict):
            self.bad(path, f"{dotted(path)} is {value!r}; accepted: a mapping with the keys {', '.join(known)}")
            return {}
        for key in value:
            if key in unused:
                self.unused.append(dotted((*path, key)))
            elif key not in known:
                self.bad((*path, key), f"unknown key '{key}' in {dotted(path)}; {nearest(key, (*known, *unused))}")
        return value

    def items(self, value: Any, path: tuple[Any, ...], accepted: str) -> list:
        """``value`` if it is a list, else [] and a finding."""
        if isinstance(value, list):
            return value
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: a list of {accepted}")
        return []

    def values(self, value: Any, path: tuple[Any, ...], accepted: str) -> list:
        """The list under ``values``, ATK's form of a choice."""
        section = self.keys(value, ("values",), path, unused=("weights", "type", "random_types", "invalid_values"))
        if isinstance(value, dict) and "values" not in section:
            self.bad(path, f"{dotted(path)} has no values; accepted: a list of {accepted}")
        return self.items(section["values"], (*path, "values"), accepted) if "values" in section else []

    def whole(self, value: Any, path: tuple[Any, ...], low: int) -> int | None:
        """An int of at least ``low``."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= low:
            return value
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: an int of {low} or more")
        return None

    def number(self, value: Any, path: tuple[Any, ...]) -> float | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: a number (YAML wants 1.0e-3, not 1e-3)")
        return None

    def dtype(self, value: Any, path: tuple[Any, ...]) -> str | None:
        found = full_dtype(value)
        if found is not None:
            return found
        self.bad(path, f"dtype {value!r}; {nearest(str(value), DTYPES)}")
        return None


def dotted(path: tuple[Any, ...]) -> str:
    """Key path as text."""
    return ".".join(map(str, path)) or "the file"
