# SPDX-License-Identifier: Apache-2.0
"""Packages of ops: the one of this project, and folders of users that are added to it, never in place of it.

A package is a folder with ``op_info/``, ``op_impl/`` and ``tiling/``. It is found by ``load_package``, by the entry
points of the group ``ms_custom_ops.ops`` or by ``MS_CUSTOM_OPS_PATH``. Its modules are imported below a name of its own
(``mco_user_<folder>``), so that two packages with an ``op_impl`` each do not meet, and nothing is put on ``sys.path``.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType

from ms_custom_ops.config import config
from ms_custom_ops.errors import OpInfoError, describe
from ms_custom_ops.registry import loader
from ms_custom_ops.registry.loader import Registry
from ms_custom_ops.registry.spec import OpSpec

ENTRY_POINTS = "ms_custom_ops.ops"
_PREFIX = "mco_user_"
_ACCEPTED = "a folder with op_info/*.yaml, op_impl/ and tiling/"


@dataclass(frozen=True, eq=False)
class OpPackage:
    """One package of ops. ``name`` is what its modules are imported below, ``origin`` how it was found."""

    root: Path
    name: str
    origin: str
    registry: Registry

    @property
    def is_own(self) -> bool:
        """Whether it is the package of this project."""
        return self.name == loader.OWN_PACKAGE

    @property
    def generated(self) -> str:
        """Base name, without ``.py``, of its generated file; no two packages share it, nor MindSpore with one."""
        return "mco_generated_ops" if self.is_own else "mco_generated_" + self.name.removeprefix(_PREFIX)

    def function_names(self) -> list[str]:
        """Names of the functions of its ops."""
        return sorted(spec.function_name for spec in self.registry.ops.values())

    def op_of_function(self, name: str) -> OpSpec:
        """The op whose function is called ``name``.

        Raises:
            AttributeError: there is none. OpInfoError: the op of this name is broken.
        """
        for spec in self.registry.ops.values():
            if spec.function_name == name:
                return spec
        if name in self.registry.broken:
            raise OpInfoError(f"op {name} cannot be used\n{self.registry.broken[name]}")
        raise AttributeError(f"{self.root} has no op function {name!r}; it has {self.function_names()}")


_lock = threading.RLock()
_packages: dict[Path, OpPackage] = {}  # by resolved root; the package of this project comes first
_combined: Registry | None = None


class _Finder:
    """Finds the modules of user packages: files and folders below the root, with or without ``__init__.py``."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        top, *parts = fullname.split(".")
        root = _roots.get(top)
        if root is None:
            return None
        place = root.joinpath(*parts)
        if parts and place.with_name(place.name + ".py").is_file():
            return importlib.util.spec_from_file_location(fullname, place.with_name(place.name + ".py"))
        if not place.is_dir():
            return None
        if parts and (place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        spec = ModuleSpec(fullname, None, is_package=True)  # the root's own __init__.py is the user's, not run for us
        spec.submodule_search_locations = [str(place)]
        return spec


_roots: dict[str, Path] = {}
sys.meta_path.insert(0, _Finder)


def _import_name(root: Path) -> str:
    stem = _PREFIX + (re.sub(r"\W", "_", root.name, flags=re.ASCII).strip("_").lower() or "ops")
    name = stem
    if name in _roots:
        name = f"{stem}_{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"
    return name


def load_package(path: str | Path, origin: str = "mco.load") -> OpPackage:
    """Adds the package of ops in the folder ``path``; a folder that was added before is given back as it is.

    Raises:
        OpInfoError: no such folder, no op_info file in it, or an op or function name that another package has: the
            text names both files. Nothing is added then. A single op that is broken raises when it is used.
    """
    with _lock:
        _discover()
        package = _add(Path(path), origin)
        _combine()
        return package


def packages() -> tuple[OpPackage, ...]:
    """Every package, that of this project first."""
    with _lock:
        _discover()
        return tuple(_packages.values())


def package_of(spec: OpSpec) -> OpPackage:
    """The package that an op belongs to."""
    return next(package for package in packages() if package.name == spec.package)


def load_registry(folder: str | Path | None = None) -> Registry:
    """The ops of every package, or those of one folder of ``*.yaml`` alone.

    Raises:
        OpInfoError: with all findings of all files of this project (or of ``folder``), one per line, each with
            file:line; two packages that define one op; a folder of MS_CUSTOM_OPS_PATH that holds no ops.
    """
    if folder is not None:
        return loader.load_folder(Path(folder))
    with _lock:
        return _combined if _combined is not None and _discovered else _combine()


def get_op(name: str) -> OpSpec:
    """The op called ``name``.

    Raises:
        OpArgumentError: there is none; the text gives the nearest name. OpInfoError: its op_info file is broken.
    """
    return load_registry().get(name)


def list_ops() -> list[str]:
    """Names of the ops that can be used, sorted."""
    return list(load_registry().ops)


_discovered = False


def _discover() -> None:
    """Adds this project's ops, then those of the environment and of installed packages, once."""
    global _discovered
    if _discovered:
        return
    own = loader.packaged_folder()
    _packages.setdefault(
        own.parent, OpPackage(own.parent, loader.OWN_PACKAGE, "ms_custom_ops", loader.load_folder(own))
    )
    for folder in config().ops_path:
        _add(folder, "MS_CUSTOM_OPS_PATH")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        _add(_entry_folder(entry), f"entry point {entry.name} of {ENTRY_POINTS}")
    _discovered = True


def _entry_folder(entry: importlib.metadata.EntryPoint) -> Path:
    """Folder of the package that an entry point names; the package is not run."""
    try:
        spec = importlib.util.find_spec(entry.value)
    except (ImportError, ValueError) as error:
        raise OpInfoError(
            describe(f"entry point {entry.name} of {ENTRY_POINTS}", "package", f"{entry.value} ({error})", _ACCEPTED)
        ) from None
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise OpInfoError(describe(f"entry point {entry.name} of {ENTRY_POINTS}", "package", entry.value, _ACCEPTED))
    return Path(next(iter(locations)))


def _add(path: Path, origin: str) -> OpPackage:
    root = path.expanduser().resolve()
    if root in _packages:
        return _packages[root]
    if not (root / "op_info").is_dir():
        raise OpInfoError(describe(origin, "folder", str(path), _ACCEPTED))
    own = next(iter(_packages.values()))
    name = _import_name(root)
    _roots[name] = root
    try:
        registry = loader.load_folder(root / "op_info", loader.UserFolder(root, name, own.registry.ops))
        for other in _packages.values():
            _refuse_twice(other, registry)
    except OpInfoError:
        del _roots[name]
        raise
    package = _packages[root] = OpPackage(root, name, origin, registry)
    global _combined
    _combined = None
    return package


def _refuse_twice(other: OpPackage, new: Registry) -> None:
    """OpInfoError when an op or a function of ``new`` has the name of one of ``other``."""
    functions = {spec.function_name: spec for spec in other.registry.ops.values()}
    for name, where in new.locations.items():
        if name in other.registry.locations:
            raise OpInfoError(
                describe("op_info", f"op '{name}' in {where}", f"also defined in {other.registry.locations[name]}",
                         "one package per op name")
            )  # fmt: skip
    for spec in new.ops.values():
        twin = functions.get(spec.function_name)
        if twin is not None:
            raise OpInfoError(
                describe("op_info", f"function '{spec.function_name}' in {spec.location}",
                         f"also that of op {twin.name} in {twin.location}", "one package per function name")
            )  # fmt: skip


def _combine() -> Registry:
    global _combined
    _discover()
    registries = [package.registry for package in _packages.values()]
    partial = {name: spec for registry in registries for name, spec in registry.partial.items()}
    if len(registries) == 1:
        _combined = registries[0]
    else:
        ops: dict[str, OpSpec] = {}
        broken: dict[str, str] = {}
        locations: dict[str, str] = {}
        for registry in registries:
            ops.update(registry.ops)
            broken.update(registry.broken)
            locations.update(registry.locations)
        folder = ", ".join(registry.folder for registry in registries)
        _combined = Registry(folder, _frozen(ops), _frozen(broken), _frozen(locations), partial)
    return _combined


def _frozen(values: dict) -> Mapping:
    return MappingProxyType(dict(sorted(values.items())))
