# SPDX-License-Identifier: Apache-2.0
"""The table of served modules: dotted name of CANN -> what stands there."""

from __future__ import annotations

import importlib
import types
from typing import Any

from ms_custom_ops.compat.absent import AbsentModule
from ms_custom_ops.soc import current_soc

ABSENT_ROOTS = ("te.lang", "te.tvm", "te.domain", "tbe.dsl", "tbe.tvm", "tbe.lang", "topi", "tvm")
"""Below these any module and any name exists and is refused when used."""

TOP_NAMES = ("tbe", "te", "topi")
ACL = "acl"
"""pyACL: served only where no real one is importable; kernels ask it for the chip's name."""

# name: module whose names it has, of ms_custom_ops.compat unless dotted ("" for a package of other served modules).
_SERVED: dict[str, str] = {
    "tbe": "",
    "tbe.tik": "ms_custom_ops.tik",
    "tbe.common": "",
    "tbe.common.platform": "platform",
    "tbe.common.platform.platform_info": "platform",
    "tbe.common.platform.cce_conf": "cce_conf",
    "tbe.common.platform.cce_params": "cce_params",
    "tbe.common.utils": "para_check",
    "tbe.common.utils.para_check": "para_check",
    "tbe.common.utils.shape_util": "shape_util",
    "tbe.common.utils.errormgr": "op_errors",
    "tbe.common.utils.errormgr.error_manager_util": "op_errors",
    "tbe.common.utils.errormgr.error_manager_vector": "op_errors",
    "tbe.common.utils.errormgr.error_manager_cube": "op_errors",
    "tbe.common.register": "register",
    "tbe.common.register.register_api": "register",
    "tbe.common.context": "context",
    "tbe.common.context.op_context": "context",
    "tbe.common.context.op_info": "context",
    "tbe.common.buildcfg": "buildcfg",
    "tbe.common.buildcfg.buildcfg": "buildcfg",
    "tbe.common.buildcfg.default_buildcfg": "buildcfg",
    "tbe.common.fusion_manager": "register",
    "te": "",
    "te.tik": "ms_custom_ops.tik",
    "te.platform": "platform",
    "te.platform.cce_conf": "cce_conf",
    "te.platform.cce_params": "cce_params",
    "te.platform.cce_build": "buildcfg",
    "te.platform.fusion_manager": "register",
    "te.utils": "",
    "te.utils.op_utils": "para_check",
    "te.utils.para_check": "para_check",
    "te.utils.shape_util": "shape_util",
    "te.utils.check_para": "para_check",
    "te.utils.error_manager": "op_errors",
    "te.utils.error_manager.error_manager_vector": "op_errors",
    "te.utils.error_manager.error_manager_cube": "op_errors",
    "te.utils.error_manager.error_manager_util": "op_errors",
}
# Names a served module has beside its own: op_utils held checks and shape helpers, cce_conf the keys of the chip.
_ALSO = {
    "te.platform.cce_conf": ("platform",),
    "tbe.common.platform.cce_conf": ("platform",),
    "te.utils.op_utils": ("shape_util",),
    "te.utils.check_para": ("shape_util",),
    "tbe.common.utils": ("shape_util",),
}
_TVM = ("te.tvm", "tbe.tvm", "tvm")
_UTIL = ("te.tvm.topi.cce.util", "tbe.tvm.topi.cce.util", "topi.cce.util", "te.lang.cce.util")


class _Package(types.ModuleType):
    """A served module. Names resolve in its source modules, so that lazily made ones are found too."""

    def __init__(self, name: str, sources: tuple[types.ModuleType, ...]):
        super().__init__(name, "Served by ms_custom_ops.compat; see docs/compat.md.")
        self.__path__: list[str] = []
        self._sources = sources
        for source in sources:
            for key, value in vars(source).items():
                if not key.startswith("_") and not isinstance(value, types.ModuleType):
                    setattr(self, key, value)

    def __getattr__(self, attribute: str) -> Any:
        if not attribute.startswith("__"):
            for source in vars(self).get("_sources", ()):
                value = getattr(source, attribute, None)
                if value is not None and not isinstance(value, types.ModuleType):
                    return value
        raise AttributeError(f"module {self.__name__!r} (of ms_custom_ops.compat) has no attribute {attribute!r}")


def _source(name: str) -> types.ModuleType:
    return importlib.import_module(name if "." in name else f"ms_custom_ops.compat.{name}")


def _absent_chain(modules: dict[str, types.ModuleType], name: str) -> None:
    """AbsentModules for ``name`` and what is missing above it."""
    parts = name.split(".")
    for k in range(1, len(parts) + 1):
        modules.setdefault(".".join(parts[:k]), AbsentModule(".".join(parts[:k])))


def build_modules() -> dict[str, types.ModuleType]:
    """Every served module by name, children set as attributes of their parents."""
    modules: dict[str, types.ModuleType] = {}
    for name, source in _SERVED.items():
        names = ((source,) if source else ()) + _ALSO.get(name, ())
        modules[name] = _Package(name, tuple(_source(n) for n in names))
    for name in (*ABSENT_ROOTS, "te.lang.cce", "tbe.dsl.base", "te.tvm.topi", "tbe.tvm.topi", "te.lang.dynamic"):
        _absent_chain(modules, name)
    tvm_names = importlib.import_module("ms_custom_ops.compat.tvm_names").NAMES
    for name in _TVM:
        for key, value in tvm_names.items():
            setattr(modules[name], key, value)
        tensor = AbsentModule(f"{name}.tensor")
        tensor.Tensor = tvm_names["Tensor"]  # type: ignore[attr-defined]
        modules[f"{name}.tensor"] = tensor
    for name in _UTIL:
        _absent_chain(modules, name.rpartition(".")[0])
        modules[name] = _Package(name, (_source("topi_util"),))
    acl = AbsentModule(ACL)
    acl.get_soc_name = lambda: current_soc().name  # type: ignore[attr-defined]
    modules[ACL] = acl
    # tvm itself is a name of another project: it is reached through te and tbe only.
    for name in [n for n in modules if n == "tvm" or n.startswith("tvm.")]:
        del modules[name]
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    return modules
