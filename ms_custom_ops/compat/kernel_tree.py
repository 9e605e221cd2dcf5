# SPDX-License-Identifier: Apache-2.0
"""What a tree of kernels finds around it on an Ascend host: its vendor's package and CANN's prerequisites."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ms_custom_ops.compat.absent import PREREQUISITES, AbsentFinder, AbsentModule

_PACKAGE = "impl"
_VENDOR_SUFFIX = f"_{_PACKAGE}"


class VendorFinder(importlib.abc.MetaPathFinder):
    """``<vendor>_impl``: the name under which a package of custom operators is installed
    (``vendors/<vendor>/op_impl/ai_core/tbe/<vendor>_impl``); in its source tree the folder is called ``impl``.

    Stands last in sys.meta_path, so any package of that name comes first."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._made: set[str] = set()

    def serve(self, folder: Path) -> None:
        """Vendors' names lead to ``folder`` from now on; those that led elsewhere are forgotten."""
        if self._folder != folder:
            self.forget()
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self._folder is None or "." in name or not name.endswith(_VENDOR_SUFFIX):
            return None
        self._made.add(name)
        init = self._folder / "__init__.py"
        if init.is_file():
            return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(self._folder)])
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(self._folder)]
        return spec

    def forget(self) -> None:
        """Take what was found here out of sys.modules."""
        for name in [n for n in sys.modules if n.partition(".")[0] in self._made]:
            del sys.modules[name]
        self._made.clear()
        self._folder = None


class CannPackageFinder(importlib.abc.MetaPathFinder):
    """Modules of ``impl`` that the tree of a kernel lacks, from packages ``impl`` in folders of PYTHONPATH: on an
    Ascend host CANN's own operators lie there, whose helpers operators of others import.

    Stands behind Python's own finders, so what the tree has comes first."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        parts = name.split(".")
        if parts[0] != _PACKAGE or len(parts) == 1:
            return None
        for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
            spec = importlib.machinery.PathFinder.find_spec(name, [str(Path(entry).resolve().joinpath(*parts[:-1]))])
            if spec is not None:
                self._made.add(name)
                return spec
        return None

    def forget(self) -> None:
        """Take what was found here, and what lies in it, out of sys.modules."""
        for name in [n for n in sys.modules if any(n == m or n.startswith(f"{m}.") for m in self._made)]:
            del sys.modules[name]
        self._made.clear()


@contextmanager
def prerequisites() -> Iterator[None]:
    """While it lasts, packages CANN asks for that are not installed can be imported; their names are refused when
    they are used. Afterwards they are as missing as before, for everybody else."""
    finder = AbsentFinder(PREREQUISITES)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if isinstance(module, AbsentModule) and name.partition(".")[0] in PREREQUISITES:
                del sys.modules[name]
