# SPDX-License-Identifier: Apache-2.0
"""Served modules of operator tests: ``atk`` (ATK, the test tool) and ``mindspeed_ops`` (the home of the operators)."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

from ms_custom_ops.compat import atk, mindspeed

ROOTS = ("atk", "mindspeed_ops")
"""Served only where no real one is importable."""

_TRITON = "mindspeed_ops.api.triton"
_ATK: dict[str, tuple[str, ...]] = {
    "atk": (),
    "atk.common": (),
    "atk.common.log": ("Logger",),
    "atk.case_generator": (),
    "atk.case_generator.generator": (),
    "atk.case_generator.generator.base_generator": ("CaseGenerator",),
    "atk.case_generator.generator.generate_types": ("GENERATOR_REGISTRY",),
    "atk.configs": (),
    "atk.configs.case_config": ("CaseConfig", "InputCaseConfig"),
    "atk.configs.dataset_config": ("InputDataset",),
    "atk.configs.results_config": ("TaskResult",),
    "atk.tasks": (),
    "atk.tasks.api_execute": ("register",),
    "atk.tasks.api_execute.base_api": ("BaseApi",),
    "atk.tasks.api_execute.triton_base_api": ("TritonBaseApi",),
    "atk.tasks.api_execute.aclnn_base_api": ("AclnnBaseApi",),
    "atk.tasks.dataset": (),
    "atk.tasks.dataset.base_dataset": ("OpsDataset",),
}
_MINDSPEED: dict[str, tuple[str, ...]] = {
    "mindspeed_ops": (),
    "mindspeed_ops.api": (),
    _TRITON: (),
    f"{_TRITON}.utils": ("get_available_device",),
    "mindspeed_ops.utils": ("is_arch35",),
}


class ServedModule(types.ModuleType):
    """A module with the names that are served; the text of any other says which these are."""

    def __init__(self, name: str, names: dict[str, Any]):
        super().__init__(name, "Served by ms_custom_ops.compat; see docs/compat.md.")
        self.__path__: list[str] = []
        vars(self).update(names)

    def __getattr__(self, attribute: str) -> Any:
        served = ", ".join(n for n in vars(self) if not n.startswith("_"))
        raise AttributeError(
            f"module {self.__name__!r} (of ms_custom_ops.compat) has no attribute {attribute!r}; accepted: {served}"
        )


def upstream_modules() -> dict[str, types.ModuleType]:
    """Every module of :data:`ROOTS` by name; children are not yet attributes of their parents."""
    modules: dict[str, types.ModuleType] = {}
    for table, source in ((_ATK, atk), (_MINDSPEED, mindspeed)):
        for name, names in table.items():
            modules[name] = ServedModule(name, {n: getattr(source, n) for n in names})
    modules.update(mindspeed.function_modules(_TRITON))
    return modules


def assert_close(
    prefix: str, ref: Any, tri: Any, ratio: float, warning: bool = False, err_atol: float = 1e-6,
    atol: float | None = None,
) -> None:  # fmt: skip
    """Passes if max|ref - tri| <= ``err_atol`` (or ``atol``), else requires rms(ref - tri) / rms(ref) < ``ratio``;
    ``warning`` has no effect, a failure always counts."""
    from ms_custom_ops.comparators import assert_ratio

    actual, golden = (x.detach().cpu().double().numpy() for x in (tri, ref))
    assert_ratio(prefix, actual, golden, ratio, err_atol if atol is None else atol)


class TestsFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """``tests.utils`` of the operators' home, with ``assert_close``, for test files that lie alone: it stands last in
    sys.meta_path, so any real ``tests`` or ``tests.utils`` comes first."""

    _NAMES: dict[str, dict[str, Any]] = {"tests": {}, "tests.utils": {"assert_close": assert_close}}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name in self._NAMES else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return ServedModule(spec.name, self._NAMES[spec.name])

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: the names are there."""

    def forget(self) -> None:
        """Take what was made here out of sys.modules."""
        for name in self._NAMES:
            if isinstance(sys.modules.get(name), ServedModule):
                del sys.modules[name]
