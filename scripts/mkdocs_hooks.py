# SPDX-License-Identifier: Apache-2.0
"""Pages of the site that are made, not written: one per op from its op_info file, and what lies above docs/."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
ABOVE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_config(config):
    """Pages that the navigation does not name yet stand at its end."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    more = [{p.stem: p.name} for p in sorted((ROOT / "docs").glob("*.md")) if f": {p.name}\n" not in text]
    if more:
        config.nav.append({"More": more})
    return config


def on_files(files, config):
    """Adds the generated pages."""
    from ms_custom_ops.batch.docs import pages
    from ms_custom_ops.registry import packages

    for name, text in pages(packages()[0].registry).items():
        files.append(File.generated(config, f"ops/{name}", content=text))
    for name, source in ABOVE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def _bars(code):
    return code.group(0).replace("\\|", "|")


def on_page_markdown(markdown, page, config, files):
    """Links out of docs/ become links inside the site, or plain text where the site has no such page."""
    known = {source: name for name, source in ABOVE.items()}

    def link(match):
        text, target = match.groups()
        if page.file.src_uri in ABOVE:
            target = "../" + target
        if not target.startswith("../"):
            return match.group(0)
        rest = target.removeprefix("../").removeprefix("docs/")
        place, _, anchor = rest.partition("#")
        if place in known:
            return f"[{text}]({known[place]})"
        if files.get_file_from_path(place):
            return f"[{text}]({place}{'#' + anchor if anchor else ''})"
        return text

    # GitHub needs a bar in code in a table escaped; here it would show its backslash.
    markdown = re.sub(r"(?m)^\|.*$", lambda row: re.sub(r"`[^`]+`", _bars, row.group(0)), markdown)
    if page.file.src_uri == "instructions.md":  # x[r][i] there is no link
        markdown = re.sub(r"\]\[(\w+)\]", r"]\\[\1\\]", markdown)
    return re.sub(r"\[([^\]\n]+)\]\(((?!https?:|#|mailto:)[^)\s]+)\)", link, markdown)
