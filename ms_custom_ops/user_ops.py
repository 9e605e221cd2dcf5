# SPDX-License-Identifier: Apache-2.0
"""``mco.load``: the ops in a folder of one's own."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from ms_custom_ops.registry import OpPackage, load_package


def load(path: str | Path) -> ModuleType:
    """Adds the package of ops in the folder ``path``: op_info/, op_impl/ and tiling/.

    Returns a module whose attributes are the functions of these ops, which ``mco.ops`` has from then on too. Without
    MindSpore the ops are known to everything else (``mco.compile_op``, ``mco.get_op``), and their functions are not.

    Raises:
        OpInfoError: no op_info file there, or an op that another package defines (the text names both files). A single
            op whose file is broken is warned of, and raises when its function is asked for.
    """
    package = load_package(path)
    for name, text in package.registry.broken.items():
        warnings.warn(f"op {name} cannot be used\n{text}", RuntimeWarning, stacklevel=2)
    module = _module(package)
    if importlib.util.find_spec("mindspore") is not None:
        from ms_custom_ops.mindspore import ops

        ops.add_functions(package)
        for name in package.function_names():
            setattr(module, name, getattr(ops, name))
    return module


@functools.cache
def _module(package: OpPackage) -> ModuleType:
    module = importlib.import_module(package.name)  # MindSpore's graph compiler looks modules up by their names
    module.__dict__.pop("__file__", None)  # and takes the path of one that has this attribute

    def find(name: str) -> Any:
        spec = package.op_of_function(name)
        from ms_custom_ops.mindspore.functions import function_of

        return function_of(spec)

    module.__getattr__ = find  # type: ignore[method-assign]
    module.__dir__ = package.function_names  # type: ignore[method-assign]
    return module
