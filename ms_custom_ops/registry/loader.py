# SPDX-License-Identifier: Apache-2.0
"""Loads a folder of op_info files into a Registry.

This project's files are right or refused as a whole, with one error that lists everything wrong in them. In a user's
folder an op that is wrong, and those whose gradient needs it, are broken; the others work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from ms_custom_ops.errors import OpArgumentError, OpInfoError, describe
from ms_custom_ops.registry.bprop import resolve_bprop
from ms_custom_ops.registry.inherit import inherit
from ms_custom_ops.registry.read_op import read_op
from ms_custom_ops.registry.schema import OpReader
from ms_custom_ops.registry.spec import Impl, OpSpec
from ms_custom_ops.registry.yaml_source import Findings, Source, TooManyFindings, nearest, read_source

OWN_PACKAGE = "ms_custom_ops"
MAX_FILES = 1000


@dataclass(frozen=True, eq=False)
class Registry:
    """Ops by name, in the order of the names.

    ``broken``: op -> findings, of users' ops that cannot be used. ``locations``: op -> ``file:line``, of all ops.
    ``partial``: broken op -> what could be read of it, for findings of other kinds.
    """

    folder: str
    ops: Mapping[str, OpSpec]
    broken: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    partial: Mapping[str, OpSpec] = field(default_factory=dict)

    def get(self, name: str) -> OpSpec:
        """The op called ``name``.

        Raises:
            OpArgumentError: there is none; the message gives the nearest known name.
            OpInfoError: its op_info file is broken; the message gives the findings.
        """
        if name in self.broken:
            raise OpInfoError(f"op {name} cannot be used\n{self.broken[name]}")
        if name not in self.ops:
            raise OpArgumentError(
                describe(self.folder, "op name", repr(name), nearest(name, [*self.ops, *self.broken]))
            )
        return self.ops[name]


@dataclass(frozen=True)
class UserFolder:
    """How the ops of a user's folder are read.

    ``root`` is the folder above op_info; modules that stand in it are imported below ``package``; ``base`` are the ops
    of this project, which gradients may call.
    """

    root: Path
    package: str
    base: Mapping[str, OpSpec]

    def place(self, spec: OpSpec) -> OpSpec:
        """``spec`` with the module names of its ``impl`` completed."""
        impl = spec.impl
        ascendc = impl.ascendc and replace(impl.ascendc, project=self._full(impl.ascendc.project))
        impl = Impl(self._full(impl.entry), impl.kernel_name, self._full(impl.golden), self._full(impl.tiling), ascendc)
        composition = self._full(spec.composition) if spec.composition else ""
        return replace(spec, impl=impl, package=self.package, composition=composition)

    def _full(self, dotted: str) -> str:
        """A name whose first part is a folder or file of the root is meant there, any other one is absolute."""
        first = self.root / dotted.partition(":")[0].partition(".")[0]
        here = first.is_dir() or first.with_name(first.name + ".py").is_file()
        return f"{self.package}.{dotted}" if here else dotted


def packaged_folder() -> Path:
    """The folder of ``ms_custom_ops.op_info`` as installed."""
    with resources.as_file(resources.files("ms_custom_ops.op_info")) as folder:
        return Path(folder)


def load_folder(folder: Path, user: UserFolder | None = None) -> Registry:
    """The ops of every ``*.yaml`` in ``folder``.

    Raises:
        OpInfoError: no such file; without ``user``, anything wrong in any file, one finding per line with file:line.
    """
    files = sorted(folder.glob("*.yaml"))
    if not 0 < len(files) <= MAX_FILES:
        accepted = "a folder with at least one *.yaml file" if not files else f"at most {MAX_FILES} *.yaml files"
        given = str(folder) if not files else f"{folder} with {len(files)} files"
        raise OpInfoError(describe("op_info", "folder", given, accepted))
    reading = _Folder(user)
    more = ""
    try:
        reading.read(files)
    except TooManyFindings:
        more = "\nand more"
    if more or (user is None and reading.findings.items):
        items = reading.findings.items
        raise OpInfoError(f"op_info: {len(items)} finding(s) in {folder}\n" + "\n".join(items) + more)
    return reading.registry(folder)


class _Folder:
    """The ops of one folder while they are read."""

    def __init__(self, user: UserFolder | None):
        self.user = user
        self.findings = Findings()
        self.sources: dict[str, Source] = {}
        self.specs: dict[str, OpSpec] = {}
        self.partial: dict[str, OpSpec] = {}

    def read(self, files: list[Path]) -> None:
        for path in files:
            self._read_file(path)
        written = {name: spec.raw for name, spec in self.user.base.items()} if self.user else {}
        incomplete = inherit(self.sources, written, self.findings)
        for name, source in self.sources.items():
            if name in incomplete:
                continue
            spec, good = read_op(source, name, self.findings)
            (self.specs if good else self.partial)[name] = self.user.place(spec) if self.user else spec
        base = self.user.base if self.user else {}
        ops, declared = {**base, **self.specs}, {*base, *self.sources}
        for name, spec in self.partial.items():  # for what else is wrong; the op is broken already
            resolve_bprop(OpReader(self.sources[name], name, self.findings), spec, {**self.partial, **ops}, declared)
        for name, spec in self.specs.items():
            reader = OpReader(self.sources[name], name, self.findings)
            self.specs[name] = replace(spec, bprop=resolve_bprop(reader, spec, ops, declared))
        self._unique_names(base)
        self._acyclic()
        self._broken_gradients()

    def _read_file(self, path: Path) -> None:
        source = read_source(path, self.findings)
        for name in source.data:
            if name in self.sources:
                first = self.sources[name].where(name)
                self.findings.add(source.where(name), f"duplicate op name '{name}' (first at {first})", name)
                continue
            self.sources[name] = source

    def _unique_names(self, base: Mapping[str, OpSpec]) -> None:
        """Classes and functions share one generated module, and arguments must not hide a class in it."""
        called = {rule.op for spec in self.specs.values() if spec.bprop for rule in spec.bprop.rules}
        first = {base[op].class_name: ("class_name", op) for op in called & base.keys()}
        for name, spec in self.specs.items():
            for kind in ("class_name", "function_name"):
                value = getattr(spec, kind)
                if value in first:
                    other_kind, other = first[value]
                    text = f"op {name}: {kind} '{value}' is also " + (
                        f"that of op {other}" if other_kind == kind else f"the {other_kind} of op {other}"
                    )
                    self.findings.add(spec.location, text, name)
                first.setdefault(value, (kind, name))
        classes = {value: op for value, (kind, op) in first.items() if kind == "class_name"}
        for name, spec in self.specs.items():
            for arg in spec.args:
                if arg.name in classes:
                    text = f"op {name}: argument '{arg.name}' has the class_name of op {classes[arg.name]}"
                    self.findings.add(spec.location, text, name)

    def _acyclic(self) -> None:
        for name in sorted(self.specs.keys() - set(gradient_order(self.specs))):
            self.findings.add(
                self.specs[name].location,
                f"op {name}: its gradient formulas lead back to itself; "
                "accepted: a chain that ends in an op with 'bprop: none'",
                name,
            )

    def _broken_gradients(self) -> None:
        """An op whose gradient calls a broken op is broken too."""
        pending = True
        while pending:
            pending = False
            broken = self.findings.by_op()
            for name, spec in self.specs.items():
                called = {rule.op for rule in spec.bprop.rules} if spec.bprop and name not in broken else set()
                for target in sorted(called & broken.keys() & self.sources.keys()):
                    text = f"op {name}: its gradient calls '{target}', which is broken"
                    self.findings.add(spec.location, text, name)
                    pending = True

    def registry(self, folder: Path) -> Registry:
        broken = self.findings.by_op()
        ops = {name: spec for name, spec in sorted(self.specs.items()) if name not in broken}
        locations = {name: source.where(name) for name, source in self.sources.items()}
        locations |= {name: found[0].split(": ")[0] for name, found in broken.items() if name not in locations}
        texts = {name: "\n".join(found) for name, found in broken.items()}
        partial = {**self.partial, **{name: spec for name, spec in self.specs.items() if name in broken}}
        return Registry(
            str(folder), MappingProxyType(ops), MappingProxyType(texts), MappingProxyType(locations), partial
        )


def gradient_order(ops: Mapping[str, OpSpec]) -> list[str]:
    """Op names so that every gradient op stands before the ops that call it; ops in a cycle are left out."""
    done: dict[str, None] = {}
    pending = dict(ops)
    while True:
        ready = sorted(
            name
            for name, spec in pending.items()
            if all(rule.op in done or rule.op not in ops for rule in (spec.bprop.rules if spec.bprop else ()))
        )
        if not ready:
            return list(done)
        done |= dict.fromkeys(ready)
        for name in ready:
            del pending[name]
