# SPDX-License-Identifier: Apache-2.0
"""Reads a YAML file into plain values and remembers the line of every key, for ``file:line`` in findings.

The file may come from anyone: its size, its nesting, the number of its values (an alias stands for all values it
repeats) and the length of a number are limited, and only a plain file is opened.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[Any, ...]

MAX_FILE_BYTES = 1 << 16  # about 15 of the largest op
MAX_DEPTH, MAX_NUMBER = 16, 100
MAX_FINDINGS, MAX_FINDING_CHARACTERS = 500, 1000
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where PyYAML has it


class TooManyFindings(Exception):
    """Raised by :meth:`Findings.add` at the limit; the loader reports what was found until then."""


@dataclass
class Findings:
    """Everything wrong with the op_info files, reported together at the end of loading; at most MAX_FINDINGS.

    ``entries``: text of a finding -> the op it breaks.
    """

    entries: dict[str, str] = field(default_factory=dict)

    @property
    def items(self) -> list[str]:
        return list(self.entries)

    def add(self, where: str, text: str, op: str = "") -> None:
        if len(text) > MAX_FINDING_CHARACTERS:
            text = text[:MAX_FINDING_CHARACTERS] + " ..."
        if len(self.entries) >= MAX_FINDINGS:
            raise TooManyFindings
        self.entries.setdefault(f"{where}: {text}", op)

    def by_op(self) -> dict[str, list[str]]:
        """Op -> its findings."""
        result: dict[str, list[str]] = {}
        for text, op in self.entries.items():
            result.setdefault(op, []).append(text)
        return result


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


class _Refused(Exception):
    """A value that is not taken, at a line of the file."""

    def __init__(self, line: int, text: str):
        super().__init__(text)
        self.line = line


def read_source(path: Path, findings: Findings, max_bytes: int = MAX_FILE_BYTES) -> Source:
    """Reads one file; syntax errors, duplicate keys and foreign tags become findings.

    What spoils the whole file is a finding of the op that the file is named after.
    """
    source = Source(str(path), {}, {})
    text = _read_text(path, findings, max_bytes)
    if text is None:
        return source
    try:
        data = _parse(text, source, findings)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        tab = "\t" in "".join(text.splitlines()[line - 1 : line])
        write = "; write: spaces in place of the tab" if tab else ""
        findings.add(f"{path}:{line}", f"not valid YAML: {error.problem}{write}", path.stem)
    except _Refused as refused:
        findings.add(f"{path}:{refused.line}", str(refused), path.stem)
    except (yaml.YAMLError, RecursionError) as error:
        findings.add(f"{path}:1", f"not valid YAML: {error}", path.stem)
    else:
        if isinstance(data, dict):
            source.data = data
        else:
            held = "nothing" if data is None else type(data).__name__
            text = f"the file holds {held}; accepted: a mapping from op name to op"
            findings.add(f"{path}:1", text, path.stem)
    return source


def _read_text(path: Path, findings: Findings, max_bytes: int) -> str | None:
    try:
        if not path.is_file():
            findings.add(f"{path}:1", "no plain file; accepted: a YAML file", path.stem)
            return None
        size = path.stat().st_size
        if size > max_bytes:
            text = f"the file has {size} bytes; accepted: at most {max_bytes}"
            findings.add(f"{path}:1", text, path.stem)
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        findings.add(f"{path}:1", f"not readable: {error}", path.stem)
        return None


def _parse(text: str, source: Source, findings: Findings) -> Any:
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        return _Values(loader, source, findings, max(len(text), 10_000)).value(root, ()) if root is not None else None
    finally:
        loader.dispose()


class _Values:
    """The values of one file, from its nodes."""

    def __init__(self, loader: yaml.SafeLoader, source: Source, findings: Findings, most: int):
        self.loader, self.source, self.findings = loader, source, findings
        self.count, self.most = 0, most

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > self.most:
            raise _Refused(line, f"more than {self.most} values, each use of an alias counted; accepted: fewer")
        if len(path) > MAX_DEPTH:  # also the end of an alias that leads into itself
            raise _Refused(line, f"values nested deeper than {MAX_DEPTH} levels; accepted: the levels of an op")
        self.source.lines.setdefault(path, line)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, path + (i,)) for i, item in enumerate(node.value)]
        return self.scalar(node, line)

    def op(self, path: KeyPath) -> str:
        """The op that a finding at ``path`` breaks."""
        return str(path[0]) if path else Path(self.source.file).stem

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            where = f"{self.source.file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                self.findings.add(where, "a key that is a list or a mapping; accepted: a plain key", self.op(path))
                continue
            key = key_node.value
            if key in result:
                what = "op name" if not path else "key"
                first = self.source.lines[path + (key,)]
                self.findings.add(where, f"duplicate {what} '{key}' (first at line {first})", self.op(path + (key,)))
                continue
            self.source.lines[path + (key,)] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, path + (key,))
        return result

    def scalar(self, node: yaml.Node, line: int) -> Any:
        is_text = node.tag == "tag:yaml.org,2002:str"
        if not is_text and len(node.value) > MAX_NUMBER:
            raise _Refused(line, f"a value of {len(node.value)} characters that is no string; accepted: {MAX_NUMBER}")
        try:
            return self.loader.construct_object(node)
        except (ValueError, ArithmeticError, KeyError, IndexError, TypeError) as error:
            raise _Refused(line, f"'{node.value}' is no {node.tag.rpartition(':')[2]}: {error}") from None
