# SPDX-License-Identifier: Apache-2.0
"""What is read off, or changed in, the text of Ascend C sources before a C++ compiler sees them. Lines stay lines."""

from __future__ import annotations

import re

_SKIP = re.compile(
    r"""//(?:[^\n\\]|\\.)*            # a comment to the end of the line
      | /\*.*?\*/                    # a comment
      | R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"
      | "(?:[^"\\\n]|\\.)*"
      | '(?:[^'\\\n]|\\.)*'""",
    re.S | re.X,
)
_GLOBAL = re.compile(
    r"__global__\s+(?:(?:__\w+__(?:\s*\([^()]*\))?|static|inline|__attribute__\s*\(\(.*?\)\))\s+)*void\s+(\w+)\s*\("
)
_LAUNCH = re.compile(r"<<<")
_BY_CORE = re.compile(r"\b__DAV_C220_(?:CUBE|VEC)__\b")


def without_comments(text: str) -> str:
    """Comments become blanks, and strings stay; line numbers stay what they are."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return re.sub(r"[^\n]", " ", found) if found.startswith("/") else found

    return _SKIP.sub(blank, text)


def global_functions(bare: str) -> list[str]:
    """Names of the ``__global__`` functions of a text without comments."""
    return list(dict.fromkeys(_GLOBAL.findall(bare)))


def splits_by_core(text: str) -> bool:
    """Whether a source asks the preprocessor which kind of core it is compiled for, and so is compiled for both."""
    return _BY_CORE.search(without_comments(text)) is not None


def has_launch(text: str) -> bool:
    """Whether a source holds a launch ``kernel<<<...>>>(...)``."""
    return _LAUNCH.search(_without_strings(without_comments(text))) is not None


def _without_strings(bare: str) -> str:
    return _SKIP.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), bare)


def plain_launches(text: str) -> str:
    """Every ``kernel<<<a, b, c>>>(...)`` as ``MCO_ASC_LAUNCH((kernel), a, b, c)(...)``, as C++ can read it."""
    bare = _without_strings(without_comments(text))
    pieces, position = [], 0
    for opening in _LAUNCH.finditer(bare):
        end = bare.find(">>>", opening.end())
        start = _start_of_callee(bare, opening.start())
        if end < 0 or start is None:
            continue
        callee, numbers = text[start : opening.start()].rstrip(), text[opening.end() : end]
        pieces += [text[position:start], f"MCO_ASC_LAUNCH(({callee}), {numbers})"]
        position = end + 3
    return "".join([*pieces, text[position:]])


def _start_of_callee(bare: str, at: int) -> int | None:
    """Where the name before a launch begins: ``space::kernel<half, 2>``."""
    i = len(bare[:at].rstrip())
    if i and bare[i - 1] == ">":
        depth = 0
        while i:
            i -= 1
            depth += (bare[i] == ">") - (bare[i] == "<")
            if depth == 0:
                break
    name = re.search(r"[A-Za-z_][\w:]*\s*$", bare[:i])
    return name.start() if name else None
