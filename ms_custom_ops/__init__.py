# SPDX-License-Identifier: Apache-2.0
"""ms_custom_ops: Ascend operator kernels written in TIK, used from MindSpore, on any machine.

Importing this package needs neither MindSpore nor CANN: ``ops`` and ``nn`` load MindSpore when they are first used.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from ms_custom_ops._version import __version__

IMPORTED_NS = time.time_ns()  # a source that is edited later need not be what this process loaded

_LAZY = {
    "ops": ("ms_custom_ops.mindspore.ops", None),
    "nn": ("ms_custom_ops.mindspore.nn", None),
    "aclnn": ("ms_custom_ops.aclnn", None),
    "ascendc": ("ms_custom_ops.ascendc", None),
    "tik": ("ms_custom_ops.tik", None),
    "trace": ("ms_custom_ops.tik.trace", "trace"),
    "run": ("ms_custom_ops.engine", "run"),
    "check": ("ms_custom_ops.debug.check", "check"),
    "budget": ("ms_custom_ops.debug.budget", "budget"),
    "set_check": ("ms_custom_ops.engine", "set_check"),
    "get_check": ("ms_custom_ops.engine", "get_check"),
    "set_num_threads": ("ms_custom_ops.engine", "set_num_threads"),
    "get_num_threads": ("ms_custom_ops.engine", "get_num_threads"),
    "set_soc": ("ms_custom_ops.soc", "set_soc"),
    "get_soc": ("ms_custom_ops.soc", "current_soc"),
    "set_impl": ("ms_custom_ops.registry.implementation", "set_impl"),
    "use_impl": ("ms_custom_ops.registry.implementation", "use_impl"),
    "load": ("ms_custom_ops.user_ops", "load"),
    "list_ops": ("ms_custom_ops.registry", "list_ops"),
    "get_op": ("ms_custom_ops.registry", "get_op"),
    "compile_op": ("ms_custom_ops.compiler", "compile_op"),
    "testing": ("ms_custom_ops.testing", None),
    "patch": ("ms_custom_ops.mindspore.patch", "patch"),
    "unpatch": ("ms_custom_ops.mindspore.patch", "unpatch"),
    "profile": ("ms_custom_ops.cost", "profile"),
    "export": ("ms_custom_ops.exporter", "export"),
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    try:
        module_name, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'ms_custom_ops' has no attribute {name!r}; it has {sorted(__all__)}") from None
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
