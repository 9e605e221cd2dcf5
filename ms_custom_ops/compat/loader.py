# SPDX-License-Identifier: Apache-2.0
"""Loading a kernel's module from its file, the way its own package expects it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

from ms_custom_ops.compat.kernel_tree import prerequisites
from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.where import HOST_TREES

KERNEL_PACKAGE = "impl"


class KernelLoadError(MsCustomOpsError, ImportError):
    """A kernel file cannot be loaded."""


def package_of(path: Path) -> tuple[Path, str]:
    """(folder for sys.path, dotted name) of a module file: the name starts at the outermost folder called
    ``impl`` above it, else at the outermost folder of an unbroken chain of packages, else it is the file's."""
    path = path.resolve()
    folders = list(path.parents)
    tops = [folder for folder in folders if folder.name == KERNEL_PACKAGE]
    if tops:
        root = tops[-1].parent
    else:
        root = path.parent
        while (root / "__init__.py").is_file():
            root = root.parent
    relative = path.relative_to(root).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" and len(relative.parts) > 1 else relative.parts
    return root, ".".join(parts)


def _claim_package(top: str, root: Path) -> None:
    """Make ``top`` the package of ``root``: forget one of the same name that came from elsewhere."""
    known = sys.modules.get(top)
    places = [*getattr(known, "__path__", []), getattr(known, "__file__", None) or ""]
    if known is not None and any(p and Path(p).resolve() == root / top for p in places):
        return
    if known is not None and top != KERNEL_PACKAGE:
        raise KernelLoadError(
            f"load_kernel: a module {top} is loaded from {places[0]}; accepted: a kernel whose top name "
            f"is free, or a package called {KERNEL_PACKAGE}"
        )
    for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
        del sys.modules[name]
    if not (root / top / "__init__.py").is_file():
        # A folder without __init__.py loses against a package of its name anywhere on the path.
        package = ModuleType(top)
        package.__path__ = [str(root / top)]
        sys.modules[top] = package


def _import_packages(name: str, root: Path) -> None:
    """Import the packages above a module. One whose ``__init__`` fails, as one that imports every operator does when
    one of them cannot be imported, stands empty: what lies in it can be imported all the same."""
    packages = name.split(".")[:-1]
    for k in range(1, len(packages) + 1):
        package = ".".join(packages[:k])
        try:
            importlib.import_module(package)
        except Exception as error:
            warnings.warn(
                f"load_kernel: the __init__ of package {package} failed ({type(error).__name__}: {error}); "
                f"{name} is loaded without it",
                stacklevel=3,
            )
            empty = ModuleType(package)
            empty.__path__ = [str(root.joinpath(*packages[:k]))]
            sys.modules[package] = empty


def load_kernel(path: str | os.PathLike[str]) -> ModuleType:
    """The module of a kernel file, with :func:`ms_custom_ops.compat.install` in force while it is imported.

    Packages called ``impl`` from several places may be loaded one after another: the one of ``path`` takes the name,
    and is found as ``<vendor>_impl`` too, as it is installed. A package whose ``__init__`` fails is left empty, with a
    warning. Packages that CANN asks for (sympy, ...) can be missing until they are used. Raises KernelLoadError for a
    file that is not there or not Python; errors of the module itself pass through.
    """
    from ms_custom_ops.compat import install, serve_vendor

    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise KernelLoadError(f"load_kernel: path is {str(path)!r}; accepted: an existing .py file")
    if b"\0" in file.read_bytes():
        raise KernelLoadError(f"load_kernel: {path} is not text; accepted: a source of Python in UTF-8")
    install()
    root, name = package_of(file)
    entry = str(root)
    top, lone = name.partition(".")[0], "." not in name
    tree = root / KERNEL_PACKAGE if top == KERNEL_PACKAGE and not lone else file.resolve().parent
    if f"{tree}{os.sep}" not in HOST_TREES:
        HOST_TREES.append(f"{tree}{os.sep}")
    added = entry not in sys.path
    if added:
        sys.path.insert(0, entry)
    try:
        importlib.invalidate_caches()
        with prerequisites():
            if lone:
                return _load_lone(file.resolve(), name)
            _claim_package(top, root)
            if top == KERNEL_PACKAGE:
                serve_vendor(tree)
            _import_packages(name, root)
            return importlib.import_module(name)
    finally:
        # Kernels import siblings when they run, so a package's folder stays; a lone file needs it no longer.
        if added and lone:
            sys.path.remove(entry)


def _load_lone(file: Path, name: str) -> ModuleType:
    """A file that belongs to no package: a fresh module, which takes no name another module has."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    free = name not in sys.modules
    if free:
        sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        if free:
            del sys.modules[name]
    return module
