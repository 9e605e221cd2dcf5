# SPDX-License-Identifier: Apache-2.0
"""The table of served modules: dotted name of CANN -> what stands there."""

from __future__ import annotations

import importlib
import types
from typing import Any

from ms_custom_ops.compat import upstream
from ms_custom_ops.compat.absent import Absent, AbsentModule, Refused
from ms_custom_ops.soc import current_soc
from ms_custom_ops.soc.current import unmodelled_soc

ABSENT_ROOTS = (
    "te.lang", "te.tvm", "te.domain", "te.utils.cce", "te.utils.scatter", "te.platform.insn_cmd",
    "te.platform.cce_util", "te.platform.cce_policy", "te.platform.cce_intrin_md", "te.platform.fusion_util",
    "tbe.dsl", "tbe.tvm", "tbe.lang", "tbe.tikcpp", "tbe.auto_schedule", "tbe.common.tiling",
    "tbe.common.utils.op_tiling", "tbe.common.utils.op_util", "tbe.common.utils.conv_util", "tbe.common.utils.const",
    "tbe.common.platform.insn_cmd", "tbe.common.platform.cce_policy", "topi", "tvm",
)  # fmt: skip
"""These and below these any module and any name exists and is refused when used."""

TOP_NAMES = ("tbe", "te", "topi")
ACL = "acl"
"""pyACL: kernels ask it for the chip's name."""
OPTIONAL_NAMES = (ACL, *upstream.ROOTS)
"""Served only where no real one is importable."""

# Where the classes of TIK lie: kernels test values against them.
_TIK_CLASSES = {
    "api": "",
    "api.tik_scalar": "ms_custom_ops.tik.scalar",
    "api.tik_scalar_array": "ms_custom_ops.tik.scalar",
    "api.tik_tensor": "ms_custom_ops.tik.tensor",
    "api.tik_tensor_addr_list": "ms_custom_ops.tik.addresses",
    "api.tik_build": "ms_custom_ops.tik.kernel",
    "api.tik_dprofile": "ms_custom_ops.tik.dprofile",
    "common": "",
    "common.tik_get_soc_name": "tik_soc",
    "tik_lib": "",
    "tik_lib.tik_expr": "ms_custom_ops.program.expr",
    "tik_lib.tik_soc_manager": "tik_soc",
}


def _tik_modules(name: str) -> dict[str, str]:
    return {f"{name}.{place}": source for place, source in _TIK_CLASSES.items()}


# name: module whose names it has, of ms_custom_ops.compat unless dotted ("" for a package of other served modules).
_SERVED: dict[str, str] = {
    "tbe": "",
    "tbe.tik": "ms_custom_ops.tik",
    **_tik_modules("tbe.tik"),
    "tbe.common": "",
    "tbe.common.platform": "platform",
    "tbe.common.platform.platform_info": "platform",
    "tbe.common.platform.platform_info_": "platform",
    "tbe.common.platform.cce_conf": "cce_conf",
    "tbe.common.platform.cce_params": "cce_params",
    "tbe.common.utils": "para_check",
    "tbe.common.utils.para_check": "para_check",
    "tbe.common.utils.shape_util": "shape_util",
    "tbe.common.utils.log": "op_log",
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
    "tbe.common.rl_bank": "",
    "tbe.common.rl_bank.rl_bank": "rl_bank",
    "tbe.common.rl_bank.bank_manager": "rl_bank",
    "te": "",
    "te.tik": "ms_custom_ops.tik",
    **_tik_modules("te.tik"),
    "te.platform": "platform",
    "te.platform.cce_conf": "cce_conf",
    "te.platform.cce_params": "cce_params",
    "te.platform.cce_intrin": "platform",
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
    "te.platform": ("cce_conf", "buildcfg", "register"),
    "te.platform.cce_conf": ("platform",),
    "te.platform.cce_params": ("platform",),
    "tbe.common.platform": ("cce_conf",),
    "tbe.common.platform.cce_conf": ("platform",),
    "tbe.common.platform.platform_info_": ("topi_util",),
    "te.utils.op_utils": ("shape_util",),
    "te.utils.check_para": ("shape_util",),
    "te.utils.para_check": ("shape_util",),
    "tbe.common.utils": ("shape_util",),
}
# Names of served modules that only the DSL has a use for: they exist and are refused when used.
_DSL_PLATFORM = (
    "CCE_AXIS", "GEMM_MODE", "CONV_MODE", "scope_aicpu", "scope_cbuf_fusion", "dma_copy", "dma_copy_global",
    "get_align_factor", "insn_cmd", "cce_intrin_md", "cce_util", "reset_mask_insn", "build_config_update",
)  # fmt: skip
_DSL_COMMANDS = (
    "DMA_COPY", "DMA_PADDING", "DATA_MOV", "PHONY_INSN", "IM2COL", "SET_FMATRIX", "MAD", "ADD", "SUB", "MUL", "DIV",
    "MAX", "MIN", "DUP", "SELECT", "CAST", "REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN",
)  # fmt: skip
_DSL_SHAPE = ("cast", "variable_shape", "_cube_variable_shape", "axis_transform_5d", "decode")
_DSL_REGISTER = ("register_pass_for_fusion", "register_tune_space", "register_tune_param_check_supported",
                 "set_fusion_buildcfg", "set_op_res")  # fmt: skip
_ABSENT_NAMES: dict[str, tuple[str, ...]] = {
    "te.platform": _DSL_PLATFORM + _DSL_COMMANDS,
    "te.platform.cce_params": _DSL_PLATFORM,
    "te.platform.cce_build": ("build_config_update", "dynamic_build_config"),
    "te.platform.fusion_manager": _DSL_REGISTER,
    "tbe.common.platform": _DSL_PLATFORM,
    "tbe.common.platform.platform_info": _DSL_PLATFORM,
    "tbe.common.utils": _DSL_SHAPE,
    "tbe.common.utils.shape_util": _DSL_SHAPE,
    "tbe.common.utils.para_check": ("check_and_init_5hdc_reduce_support",),
    "tbe.common.register": _DSL_REGISTER,
    "tbe.common.register.register_api": _DSL_REGISTER,
    "te.utils.shape_util": _DSL_SHAPE,
    "te.utils.para_check": (*_DSL_SHAPE, "check_and_init_5hdc_reduce_support"),
    "te.utils.op_utils": (*_DSL_SHAPE, "check_and_init_5hdc_reduce_support"),
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
        raise AttributeError(f"module {self.__name__!r} (of ms_custom_ops.compat) has no attribute {attribute!r}",
                             name=attribute, obj=self)  # fmt: skip


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
        for absent in _ABSENT_NAMES.get(name, ()):
            if not hasattr(modules[name], absent):
                setattr(modules[name], absent, Absent(f"{name}.{absent}"))
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
    acl = AbsentModule(ACL, Refused)
    acl.get_soc_name = lambda: unmodelled_soc() or current_soc().name  # type: ignore[attr-defined]
    modules[ACL] = acl
    modules.update(upstream.upstream_modules())
    # tvm itself is a name of another project: it is reached through te and tbe only.
    for name in [n for n in modules if n == "tvm" or n.startswith("tvm.")]:
        del modules[name]
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    return modules
