# SPDX-License-Identifier: Apache-2.0
"""Loads a folder of op_info files into a Registry, or raises one error with everything that is wrong in
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from ms_custom_ops.errors import OpArgumentError, OpInfoError, describe
from ms_custom_ops.registry.bprop import resolve_bprop
from ms_custom_ops.registry.inherit import inherit
from ms_custom_ops.registry.schema import OpReader, read_op
from ms_custom_ops.registry.spec import OpSpec
from ms_custom_ops.registry.yaml_source import Findings, Source, nearest, read_source


@dataclass(frozen=True, eq=False)
class Registry:
    """Every op of one op_info folder, by name, in the order of the names."""

    folder: str
    ops: Mapping[str, OpSpec]

    def get(self, name: str) -> OpSpec:
        """The op called ``name``.

        Raises:
            OpArgumentError: there is none; the message gives the nearest known name.
        """
        if name not in self.ops:
            raise OpArgumentError(describe(self.folder, "op name", repr(name), nearest(name, self.ops)))
        return self.ops[name]


def packaged_folder() -> Path:
    """The folder of ``ms_custom_ops.op_info`` as installed."""
    with resources.as_file(resources.files("ms_custom_ops.op_info")) as folder:
        return Path(folder)


def load_registry(folder: str | Path | None = None) -> Registry:
    """Loads every ``*.yaml`` of ``folder`` (default: the installed op_info package).

    Raises:
        OpInfoError: with all findings of all files, one per line, each with file:line.
    """
    return _packaged() if folder is None else _load(Path(folder))


@lru_cache(maxsize=1)
def _packaged() -> Registry:
    return _load(packaged_folder())


def _load(folder: Path) -> Registry:
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise OpInfoError(describe("op_info", "folder", str(folder), "a folder with at least one *.yaml file"))
    findings = Findings()
    sources: dict[str, Source] = {}
    specs: dict[str, OpSpec] = {}
    for path in files:
        source = read_source(path, findings)
        for name in source.data:
            if name in sources:
                findings.add(source.where(name), f"duplicate op name '{name}' (first at {sources[name].where(name)})")
                continue
            sources[name] = source
    incomplete = inherit(sources, {}, findings)
    for name, source in sources.items():
        spec = None if name in incomplete else read_op(source, name, findings)
        if spec is not None:
            specs[name] = spec
    _unique(specs, "class_name", findings)
    _unique(specs, "function_name", findings)
    resolved = {
        name: replace(spec, bprop=resolve_bprop(OpReader(sources[name], name, findings), spec, specs, set(sources)))
        for name, spec in specs.items()
    }
    _acyclic(resolved, findings)
    if findings.items:
        raise OpInfoError(f"op_info: {len(findings.items)} finding(s) in {folder}\n" + "\n".join(findings.items))
    return Registry(str(folder), MappingProxyType(dict(sorted(resolved.items()))))


def _unique(specs: Mapping[str, OpSpec], field: str, findings: Findings) -> None:
    first: dict[str, OpSpec] = {}
    for spec in specs.values():
        value = getattr(spec, field)
        if value in first:
            findings.add(spec.location, f"op {spec.name}: {field} '{value}' is also that of op {first[value].name}")
        first.setdefault(value, spec)


def gradient_order(ops: Mapping[str, OpSpec]) -> list[str]:
    """Op names so that every gradient op stands before the ops that call it; ops in a cycle are left out."""
    done: list[str] = []
    pending = dict(ops)
    while True:
        ready = sorted(
            name
            for name, spec in pending.items()
            if all(rule.op in done or rule.op not in ops for rule in (spec.bprop.rules if spec.bprop else ()))
        )
        if not ready:
            return done
        done += ready
        for name in ready:
            del pending[name]


def _acyclic(ops: Mapping[str, OpSpec], findings: Findings) -> None:
    for name in sorted(ops.keys() - set(gradient_order(ops))):
        findings.add(
            ops[name].location,
            f"op {name}: its gradient formulas lead back to itself; "
            "accepted: a chain that ends in an op with 'bprop: none'",
        )


def get_op(name: str) -> OpSpec:
    """The installed op called ``name`` (OpArgumentError with the nearest name when there is none)."""
    return load_registry().get(name)


def list_ops() -> list[str]:
    """Names of the installed ops, sorted."""
    return list(load_registry().ops)
