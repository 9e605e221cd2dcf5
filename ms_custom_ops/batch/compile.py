# SPDX-License-Identifier: Apache-2.0
"""Traces every declared case of many ops, in parallel, into a folder of Programs with a manifest."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ms_custom_ops
from ms_custom_ops import tuned
from ms_custom_ops._version import __version__
from ms_custom_ops.batch.ledger import Inputs
from ms_custom_ops.cache import ProgramCache, file_name
from ms_custom_ops.compiler import Call, describe_call, trace_call
from ms_custom_ops.errors import MsCustomOpsError, SocError, describe
from ms_custom_ops.mistakes import explain
from ms_custom_ops.program import codec
from ms_custom_ops.registry import OpSpec, Registry, get_op, packages
from ms_custom_ops.registry.call_values import match_soc
from ms_custom_ops.soc import get_soc
from ms_custom_ops.sources import sources_of
from ms_custom_ops.spread import spread

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Item:
    """One case of an op on a chip."""

    op: str
    case: str
    soc: str

    def __str__(self) -> str:
        return f"{self.op}/{self.case}/{self.soc}"


@dataclass
class Outcome:
    """``entries``: manifest entries by item; ``traced``: how many were not there before; ``failed``: item -> text."""

    entries: dict[Item, dict[str, Any]] = field(default_factory=dict)
    traced: int = 0
    failed: dict[Item, str] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """What was compiled; the same for the same sources, whoever traced it and in whatever order."""
        entries = [self.entries[item] for item in sorted(self.entries, key=str)]
        digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        return {"ms_custom_ops": __version__, "program_version": codec.VERSION, "sha256": digest, "programs": entries}


def items_of(registry: Registry, names: Sequence[str], socs: Sequence[str] = ()) -> list[Item]:
    """Every case of the ops on one chip of each family, or on ``socs``; a dtype that a chip lacks gives none.

    Raises:
        SocError: an op that none of ``socs`` has.
    """
    found = []
    for name in names:
        spec = registry.get(name)
        chips = list(dict.fromkeys(get_soc(soc).name for soc in socs or spec.target.soc))
        there = [chip for chip in chips if match_soc(chip, list(spec.target.soc)) is not None]
        if not there:
            raise SocError(describe(name, "soc", ", ".join(socs), ", ".join(spec.target.soc)))
        for chip in there:
            codes = spec.target.soc[str(match_soc(chip, list(spec.target.soc)))]
            found += [Item(name, case.name, chip) for case in spec.cases if case.dtype in codes]
    return found


def call_of(item: Item) -> Call:
    """The checked call of an item."""
    spec: OpSpec = get_op(item.op)
    case = next(case for case in spec.cases if case.name == item.case)
    return describe_call(spec, *spec.case_call(case), item.soc)


def trace_item(item: Item) -> tuple[str, bytes, str]:
    """(key, Program, "") of an item, or ("", b"", what went wrong); runs in any process."""
    try:
        call = call_of(item)
        raw, kept = trace_call(call)
        if not kept:
            return "", b"", f"{item.op}: the kernel's sources changed or are not all known; start again"
        return call.key, raw, ""
    except (Exception, SystemExit) as error:  # an author's mistake in one op must not end the others
        text = explain(error)
        if text is None and not isinstance(error, MsCustomOpsError):
            raise
        return "", b"", text or str(error)


def compile_items(
    items: Sequence[Item], cache: ProgramCache, jobs: int = 1, scheduler: str | None = None,
    folders: Sequence[str] = (), progress: Callable[[int], None] = lambda count: None,
) -> Outcome:  # fmt: skip
    """Programs of all items in the folder of ``cache``; only those that are not there are traced.

    Args:
        jobs: processes of this machine; 1 traces here.
        scheduler: address of a Dask scheduler instead, whose workers have this package.
        folders: folders of users' ops that the items need.
        progress: called with the number of items done since the last call.
    """
    outcome, missing = Outcome(), []
    for item in items:
        try:
            call = call_of(item)
        except MsCustomOpsError as error:
            outcome.failed[item] = str(error)
            continue
        raw = cache.get(item.op, call.key)
        if raw is None:
            missing.append(item)
        else:
            outcome.entries[item] = _entry(item, call, raw)
    progress(len(items) - len(missing))
    tasks = [(item,) for item in missing]
    traced = spread("compile", trace_item, tasks, workers=jobs, scheduler=scheduler, folders=folders) if tasks else ()
    for item, (key, raw, wrong) in zip(missing, traced, strict=True):
        progress(1)
        if wrong:
            outcome.failed[item] = wrong
            continue
        call = call_of(item)
        if key != call.key:
            outcome.failed[item] = "a worker has other sources of the op than this machine; accepted: the same version"
            continue
        cache.put(item.op, key, raw)
        outcome.traced += 1
        outcome.entries[item] = _entry(item, call, raw)
    return outcome


def _entry(item: Item, call: Call, raw: bytes) -> dict[str, Any]:
    return {
        "op": item.op, "case": item.case, "soc": item.soc, "file": file_name(item.op, call.key), "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "inputs": [f"{name} {dtype}{list(shape)}" for name, shape, dtype in call.inputs],
        "outputs": [f"{name} {dtype}{list(shape)}" for name, shape, dtype in call.outputs],
        "attrs": dict(call.attrs),
    }  # fmt: skip


def inputs_of(specs: Sequence[OpSpec], op_info: Path | None = None) -> Inputs:
    """Files that decide what a compilation of ``specs`` makes: the library, every package of ops, the ops' sources."""
    inputs = Inputs(trees={str(Path(ms_custom_ops.__file__).resolve().parent)})
    if op_info is not None:
        inputs.trees.add(str(op_info.resolve()))
    for room in ("op_info", "op_impl", "tiling"):
        found = importlib.util.find_spec(f"ms_custom_ops.{room}")
        places = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
        places += [package.root / room for package in packages()]
        inputs.trees.update(str(place) for place in places if place.is_dir())
    for spec in specs:
        inputs.files.update(str(path) for path, _ in sources_of(spec).files)
        if (chosen := tuned.path_of(spec.name)) is not None:
            inputs.files.add(str(chosen))
    return inputs


def write_manifest(outcome: Outcome, folder: Path) -> Path:
    """Writes the manifest beside the Programs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MANIFEST
    path.write_text(json.dumps(outcome.manifest(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path
