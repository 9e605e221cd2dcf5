# SPDX-License-Identifier: Apache-2.0
"""What the C++ compiler says, with the user's line first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_PLACE = re.compile(
    r"^(?:In file included from |\s+from )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?"
    r"(?:[:,]$|: (?P<text>.*)$)",
    re.M,
)
_FAULT = re.compile(r"(?:fatal )?error: (?P<what>.*)", re.S)
_TEMPLATE = "In instantiation of"
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<name>[^']+)'")
_MOST_LINES = 60


def readable(text: str, own: Sequence[Path], ours: Path) -> str:
    """The first error as "file:line: what" of the user's sources, then the compiler's own text.

    ``own``: sources and folders of the user. An error inside of our headers is one of the line that led there.
    """
    found = list(_PLACE.finditer(text))
    places = [(m.group("file"), m.group("line"), m.group("text") or "") for m in found]
    users = [p for p in places if _is_own(Path(p[0]), own, ours)]
    lines = text.splitlines()
    rest = "\n".join(lines[:_MOST_LINES]) + ("\n..." if len(lines) > _MOST_LINES else "")
    for index, (file, line, what) in enumerate(places):
        fault = _FAULT.match(what)
        if not fault:
            continue
        message = fault.group("what").removeprefix("static assertion failed: ").removeprefix("static_assert failed: ")
        message = message.removeprefix("#error ")
        message = re.sub(r"^static assertion failed(?: due to requirement '.*?')?: ", "", message).strip('"')
        if _is_own(Path(file), own, ours):
            return f"{file}:{line}: {message}\n{rest}"
        # g++ lists the lines that led there before the error, clang behind it; of templates both the innermost first.
        inner = text.rfind(_TEMPLATE, 0, found[index].start())
        before = [place for place, match in zip(places[:index], found, strict=False) if match.start() > inner]
        led = [p for p in (before if inner >= 0 else before[::-1]) + places[index:] if p in users]
        if led:
            return f"{led[0][0]}:{led[0][1]}: {message}\n{rest}"
        return f"{file}:{line}: {message}\n{rest}"
    missing = _UNDEFINED.search(text)
    if missing:
        where = f"{users[0][0]}:{users[0][1]}: " if users else f"{own[0]}: "
        return f"{where}{missing.group('name')} is declared and nowhere defined\n{rest}"
    return f"{own[0]}: {text.strip() or 'the compiler failed without a word'}"


def _is_own(file: Path, own: Sequence[Path], ours: Path) -> bool:
    if ours in file.parents:
        return False
    return any(file == path or path in file.parents for path in own)
