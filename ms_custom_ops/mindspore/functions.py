# SPDX-License-Identifier: Apache-2.0
"""Generated functions of every package of ops, imported when they are first asked for."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.registry import OpPackage, OpSpec, package_of
from ms_custom_ops.registry.generate import current_files

_lock = threading.RLock()


class _SourceLoader(SourceFileLoader):
    """Loads the source itself: compiled files are told apart by whole seconds, and this one may just be written."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def module_of(package: OpPackage) -> ModuleType:
    """The generated functions of a package; for a user's package the files are written first where they are missing or
    older than the op_info files.

    Raises:
        OpInfoError: the file is needed and cannot be written.
    """
    if package.is_own:
        return mco_generated_ops
    name = f"{package.name}.{package.generated}"
    with _lock:
        if name not in sys.modules:
            for path in current_files(package):  # the functions come last and import the primitives
                _load(f"{package.name}.{path.stem}", path)
        return sys.modules[name]


def _load(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # MindSpore's graph compiler asks for it by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def function_of(spec: OpSpec) -> Callable[..., Any]:
    """The generated function of an op."""
    return getattr(module_of(package_of(spec)), spec.function_name)
