# SPDX-License-Identifier: Apache-2.0
"""The import names of TIK kernels: after ``install()``, ``from tbe import tik`` and its kin work.

Kernels written for an Ascend import ``tbe`` or ``te`` of CANN. Here these names lead to the TIK language of
this package, its chip table and checks that check; the TBE DSL and TVM are named and refused when used.
Tests of operators import ``atk`` and ``mindspeed_ops``; these lead to the case runner and our functions.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

from ms_custom_ops.compat.absent import AbsentFinder, CannMissingError
from ms_custom_ops.compat.kernel_tree import CannPackageFinder, VendorFinder
from ms_custom_ops.compat.loader import KernelLoadError, load_kernel
from ms_custom_ops.compat.upstream import TestsFinder
from ms_custom_ops.errors import MsCustomOpsError


class CompatError(MsCustomOpsError, RuntimeError):
    """install() would hide a real CANN."""


class _State:
    """What install() changed, to be undone by uninstall()."""

    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}
        self.hidden: dict[str, types.ModuleType] = {}
        self.finder: AbsentFinder | None = None
        self.tests: TestsFinder | None = None
        self.vendors = VendorFinder()
        self.cann = CannPackageFinder()


_state = _State()


def installed() -> bool:
    """Whether the names are served."""
    return _state.finder is not None


def install(force: bool = False) -> None:
    """Serve ``tbe``, ``te`` and ``topi`` from sys.modules, and ``acl``, ``atk`` and ``mindspeed_ops`` where no real one
    is importable; a second call does nothing.

    Raises CompatError when a real one of them is importable, unless ``force``, which hides it until
    :func:`uninstall`.
    """
    from ms_custom_ops.compat.modules import ABSENT_ROOTS, OPTIONAL_NAMES, TOP_NAMES, build_modules

    if installed():
        return
    found = {name: place for name in TOP_NAMES if (place := _origin(name)) is not None}
    if found and not force:
        text = ", ".join(f"{name} at {place}" for name, place in found.items())
        raise CompatError(
            f"compat.install: importable already: {text}; accepted: no CANN on the path, or install(force=True), "
            "which hides it until uninstall()"
        )
    for name in list(sys.modules):
        if name.partition(".")[0] in TOP_NAMES:
            _state.hidden[name] = sys.modules.pop(name)
    _state.modules = build_modules()
    real = [name for name in OPTIONAL_NAMES if _origin(name) is not None]
    for name in [n for n in _state.modules if n.partition(".")[0] in real]:
        del _state.modules[name]
    sys.modules.update(_state.modules)
    _state.finder = AbsentFinder(ABSENT_ROOTS)
    _state.tests = TestsFinder()
    sys.meta_path.insert(0, _state.finder)
    sys.meta_path += [_state.tests, _state.vendors, _state.cann]


def serve_vendor(folder: Path) -> None:
    """``<vendor>_impl`` leads to ``folder``, where no package of that name is importable."""
    _state.vendors.serve(folder)


def uninstall() -> None:
    """Undo :func:`install`. Kernels that are loaded keep what they imported; the chip in force stays."""
    global _state
    from ms_custom_ops.compat import platform

    if _state.finder is None or _state.tests is None:
        return
    platform.reset()
    sys.meta_path.remove(_state.finder)
    for last in (_state.tests, _state.vendors, _state.cann):
        sys.meta_path.remove(last)
        last.forget()
    for name in [*_state.modules, *_state.finder.loaded()]:
        sys.modules.pop(name, None)
    sys.modules.update(_state.hidden)
    _state = _State()


def _origin(name: str) -> str | None:
    """Where a real module of this name is, None without one.

    A folder without ``__init__.py`` is none: any folder of kernels or cases on sys.path can have the name."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return str(getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", [])), "sys.modules"))
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    return str(spec.origin or name) if spec.loader is not None and spec.has_location else None


__all__ = ["CannMissingError", "CompatError", "KernelLoadError", "install", "installed", "load_kernel", "uninstall"]
