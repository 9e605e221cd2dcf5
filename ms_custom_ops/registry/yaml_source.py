# SPDX-License-Identifier: Apache-2.0
"""Reads a YAML file into plain values and remembers the line of every key, for ``file:line`` in findings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[Any, ...]


@dataclass
class Findings:
    """Everything wrong with the op_info files, reported together at the end of loading."""

    items: list[str] = field(default_factory=list)

    def add(self, where: str, text: str) -> None:
        item = f"{where}: {text}"
        if item not in self.items:
            self.items.append(item)


@dataclass
class Source:
    """One YAML file: its values and where each of them stands."""

    file: str
    data: dict[str, Any]
    lines: dict[KeyPath, int]

    def where(self, *path: Any) -> str:
        """``file:line`` of the key at ``path``, or of the nearest enclosing key."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines.get(path, 1)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """``; nearest known: x`` or the list of what is known, for the end of an error text."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"nearest known: '{close[0]}'" if close else f"known: {', '.join(known) or '(none)'}"


def read_source(path: Path, findings: Findings) -> Source:
    """Reads one file; syntax errors, duplicate keys and foreign tags become findings."""
    source = Source(str(path), {}, {})
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        findings.add(f"{path}:1", f"not readable as YAML: {error}")
        return source
    try:
        root = loader.get_single_node()
        data = _value(loader, root, (), source, findings) if root is not None else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        findings.add(f"{path}:{line}", f"not valid YAML: {error.problem}")
        return source
    except yaml.YAMLError as error:
        findings.add(f"{path}:1", f"not valid YAML: {error}")
        return source
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        findings.add(f"{path}:1", f"the file holds {type(data).__name__}; accepted: a mapping from op name to op")
        return source
    source.data = data
    return source


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, source: Source, findings: Findings) -> Any:
    source.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                findings.add(f"{source.file}:{line}", "a key that is a list or a mapping; accepted: a plain key")
                continue
            key = key_node.value
            if key in result:
                what = "op name" if not path else "key"
                first = source.lines[path + (key,)]
                findings.add(f"{source.file}:{line}", f"duplicate {what} '{key}' (first at line {first})")
                continue
            source.lines[path + (key,)] = line
            result[key] = _value(loader, value_node, path + (key,), source, findings)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, path + (i,), source, findings) for i, item in enumerate(node.value)]
    return loader.construct_object(node)
