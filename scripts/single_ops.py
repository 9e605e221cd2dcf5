# SPDX-License-Identifier: Apache-2.0
"""Single-op descriptions for public_kernels.py: JSON files with a list of ``op``, ``input_desc``, ``output_desc``,
``attr``."""

from __future__ import annotations

import collections
import json
import math
from pathlib import Path
from typing import Any

from kernel_cases import DTYPE_NAMES


def single_ops(folder: Path, by_name: dict) -> Any:
    """Calls that single-op descriptions make: of every kernel the two with the fewest elements."""
    found = collections.defaultdict(dict)
    for path in sorted(folder.rglob("*.json")):
        try:
            entries = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        for entry in entries if isinstance(entries, list) else []:
            if _is_call(entry) and _plain(entry):
                unknown = any(size < 0 for d in (*entry["input_desc"], *entry["output_desc"]) for size in d["shape"])
                for kernel in by_name.get(entry["op"].lower(), []):
                    if unknown and "dynamic" not in kernel.parts:
                        continue  # the description is for the operator of that name there
                    found[kernel][json.dumps(entry, sort_keys=True)] = path
    for kernel, calls in found.items():
        for text in sorted(calls, key=lambda t: _elements(json.loads(t)))[:2]:
            entry, name = json.loads(text), calls[text].name
            item = {"kind": "call", "path": str(kernel), "kernel": str(kernel.relative_to(folder))}
            attrs = {a["name"]: a["value"] for a in entry.get("attr") or [] if "name" in a}
            if "310p3" in name.lower():  # descriptions of one chip have its name in theirs
                item["soc"] = "Ascend310P3"
            yield {**item, "function": kernel.stem, "args": _arguments(entry), "attrs": attrs, "name": name}


def _is_call(entry: Any) -> bool:
    """Whether an entry of a JSON file describes a call of an op: others are something else of the tree's."""
    sides = ("input_desc", "output_desc")
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("op"), str)
        and all(isinstance(entry.get(s), list) and all(isinstance(d, dict) for d in entry[s]) for s in sides)
    )


def _plain(entry: dict) -> bool:
    """Whether a description says one dtype and one shape for every tensor."""
    descs = [*entry["input_desc"], *entry["output_desc"]]
    return all(isinstance(d.get("type"), str) and _numbers(d.get("shape")) for d in descs)


def _numbers(shape: Any) -> bool:
    return isinstance(shape, list) and all(isinstance(size, (int, float)) for size in shape)


def _elements(entry: dict) -> int:
    return sum(math.prod(d["shape"]) for d in (*entry["input_desc"], *entry["output_desc"]))


def _arguments(entry: dict) -> list:
    """Tensor dicts of a single-op description."""
    args: list = []
    for kind in ("input", "output"):
        for desc in entry[f"{kind}_desc"]:
            form, dtype = desc.get("format", "ND"), DTYPE_NAMES.get(desc["type"], desc["type"])
            tensor = {"shape": [int(d) for d in desc["shape"]], "dtype": dtype, "format": form, "ori_format": form}
            args.append({**tensor, "param_type": kind})
    return args
