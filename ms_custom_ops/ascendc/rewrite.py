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
_QUALIFIER = r"(?:__\w+__(?:\s*\([^()]*\))?|static|inline|__attribute__\s*\(\(.*?\)\))\s+"
_CORES = re.compile(r"__(vector|cube)__|__mix__\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_MIXES = {("1", "0"): "MIX_AIC_1_0", ("0", "1"): "MIX_AIV_1_0", ("1", "1"): "MIX_AIC_1_1", ("1", "2"): "MIX_AIC_1_2"}
_INLINE_GLOBAL = re.compile(
    r"(?:\b(?:inline|__inline__|__force_inline__)\b[^;{}()]*__global__|__global__[^;{}()]*\b(?:inline|__inline__|__force_inline__)\b)"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", re.M)
_LAUNCH = re.compile(r"<<<")
_UNENDED = re.compile(
    r"^(?![ \t]*#)[^\n;{}]*?\b(?!(?:else|do|return)\s*$)(?:[A-Za-z_]\w*|\])[ \t]*(?=\n\s*ASSERT\s*\()", re.M
)
_FRAMEWORK = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?:torch|torch_npu|ATen|c10|pybind11)/[^\n]*', re.M)
_HOST = re.compile(r"\b(?:at|torch|c10|c10_npu|pybind11)::|\bTORCH_LIBRARY|\bPYBIND11_MODULE")
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


def declared_cores(bare: str, name: str) -> str | None:
    """What a ``__global__`` function says it runs on: ``KERNEL_TYPE_...`` by ``__vector__``, ``__cube__`` or
    ``__mix__(cube cores, vector cores)``, or None. ValueError for a mix that is none."""
    head = re.compile(rf"((?:{_QUALIFIER})*)__global__\s+((?:{_QUALIFIER})*)void\s+{re.escape(name)}\s*\(")
    for found in head.finditer(bare):
        for kind, cube, vector in _CORES.findall(" ".join(found.groups())):
            if kind:
                return {"vector": "KERNEL_TYPE_AIV_ONLY", "cube": "KERNEL_TYPE_AIC_ONLY"}[kind]
            if (cube, vector) not in _MIXES:
                raise ValueError(f"__mix__({cube}, {vector})")
            return f"KERNEL_TYPE_{_MIXES[cube, vector]}"
    return None


def templates(bare: str) -> set[str]:
    """Names of the ``__global__`` functions that are templates, of a text without comments."""
    heads = ((found[1], re.split(r"[;}]", bare[: found.start()])[-1]) for found in _GLOBAL.finditer(bare))
    return {name for name, head in heads if re.search(r"\btemplate\s*<", head)}


def function_macros(bare: str) -> list[str]:
    """Names of the macros with arguments that a text without comments defines."""
    return _MACRO.findall(bare)


def has_inline_entry(text: str) -> bool:
    """Whether a ``__global__`` function is declared inline, which C++ takes once."""
    return _INLINE_GLOBAL.search(without_comments(text)) is not None


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
    """Where the name before a launch begins: ``space::kernel<half, 2>``, or a macro with arguments."""
    i = len(bare[:at].rstrip())
    for opening, closing in ("()", "<>"):
        if not i or bare[i - 1] != closing:
            continue
        depth = 0
        while i:
            i -= 1
            depth += (bare[i] == closing) - (bare[i] == opening)
            if depth == 0:
                break
    name = re.search(r"[A-Za-z_][\w:]*(?:\s*##\s*\w+)*\s*$", bare[:i])  # a macro may paste it
    return name.start() if name else None


def ended_statements(text: str) -> str:
    """A line that ends in a value before a line with ASSERT gets its semicolon: for a chip ASSERT is nothing, and such
    sources rely on the statement's going on to the next semicolon."""
    pieces, position = [], 0
    for found in _UNENDED.finditer(_without_strings(without_comments(text))):
        end = len(found.group().rstrip()) + found.start()
        pieces += [text[position:end], ";"]
        position = end
    return "".join([*pieces, text[position:]])


def kernel_part(text: str) -> str:
    """A source without what its host side says to a framework: includes of it and declarations that name it are blank.

    A source that includes none is returned as it is.
    """
    bare = _without_strings(without_comments(text))
    if not _FRAMEWORK.search(without_comments(text)):
        return text
    kept = list(text)

    def blank(start: int, end: int) -> None:
        kept[start:end] = re.sub(r"[^\n]", " ", text[start:end])

    for include in _FRAMEWORK.finditer(text):
        blank(*include.span())
    for start, end in _declarations(bare):
        if _HOST.search(bare, start, end):
            blank(start, end)
    return "".join(kept)


def _declarations(bare: str) -> list[tuple[int, int]]:
    """Top-level declarations: to a semicolon, to the brace that closes, or a line of the preprocessor."""
    found, start, depth, i = [], 0, 0, 0
    while i < len(bare):
        letter = bare[i]
        if letter == "#" and depth == 0 and not bare[start:i].strip():
            line = re.compile(r"(?:\\\n|[^\n])*").match(bare, i)
            assert line is not None
            i = start = line.end()
            continue
        depth += (letter in "{(") - (letter in "})")
        if depth == 0 and (letter == ";" or (letter == "}" and bare[i + 1 :].lstrip()[:1] != ";")):
            found.append((start, i + 1))
            start = i + 1
        i += 1
    return [*found, (start, len(bare))]


if __name__ == "__main__":  # by the CMake package: python rewrite.py SOURCE COPY
    import sys
    from pathlib import Path

    given = Path(sys.argv[1])
    Path(sys.argv[2]).write_text(
        f'#include "mco/launch.h"\n#line 1 "{given}"\n{plain_launches(given.read_text(errors="replace"))}'
    )
