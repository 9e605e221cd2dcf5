# SPDX-License-Identifier: Apache-2.0
"""The names that Python files beside an ATK case file import: generators of cases and references.

Here they hold what such files read and write; ``ms-custom-ops test --cases`` makes and calls them. Torch is never
imported from here.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ms_custom_ops.errors import OpArgumentError, describe

Class = TypeVar("Class", bound=type)


class _Register:
    """Classes by the name that a decorator gives them; of several with one name, those of a folder can be asked for."""

    def __init__(self, what: str):
        self._what = what
        self._found: dict[str, list[type]] = {}

    def register(self, name: str) -> Callable[[Class], Class]:
        """Decorator of a class that a case file calls ``name``."""
        if not isinstance(name, str) or not name:
            raise OpArgumentError(describe(self._what, "name", repr(name), "a string, as @register('name')"))

        def decorate(kind: Class) -> Class:
            if not inspect.isclass(kind):
                raise OpArgumentError(describe(self._what, f"what '{name}' decorates", repr(kind), "a class"))
            self._found.setdefault(name, []).append(kind)
            return kind

        return decorate

    def get(self, name: str, folder: str | None = None) -> type | None:
        """The class registered last under ``name`` by a file in ``folder`` (None: by any), None without one."""
        for kind in reversed(self._found.get(name, [])):
            if folder is None or os.path.dirname(os.path.abspath(_file_of(kind))) == os.path.abspath(folder):
                return kind
        return None

    def names(self, folder: str) -> list[str]:
        """What files in ``folder`` registered."""
        return [name for name in self._found if self.get(name, folder) is not None]


def _file_of(kind: type) -> str:
    try:
        return inspect.getfile(kind)
    except (TypeError, OSError):  # made in a prompt
        return ""


GENERATOR_REGISTRY = _Register("GENERATOR_REGISTRY.register")
API_REGISTRY = _Register("atk.tasks.api_execute.register")
register = API_REGISTRY.register


class InputCaseConfig:
    """One input of a case: ``name`` (None or "" for a positional one), ``type``, ``dtype`` (ATK's name), ``shape`` (a
    list; None of an attribute), ``range_values`` ([low, high] or a value). Generators may set any attribute."""

    def __init__(
        self, name: str | None = None, type: str | None = None, dtype: str = "", shape: Sequence[int] | None = None,
        range_values: Any = None, required: bool = True, **others: Any,
    ):  # fmt: skip
        self.name, self.type, self.required, self.dtype = name, type, required, dtype
        self.shape = None if shape is None else list(shape)
        self.range_values = range_values
        self.format: str | None = None
        self.backward = False
        self.align_32B: bool | None = None
        self.outlier_values: list[float] | None = None
        vars(self).update(others)

    def is_range_null(self) -> bool:
        """Whether the range asks for an empty tensor."""
        given = self.range_values
        return "null" in given if isinstance(given, list) else given == "null"

    def numel(self) -> int:
        """Number of elements; 1 of an attribute."""
        return 0 if self.is_range_null() else int(np.prod(self.shape or [1], dtype=np.int64))

    def __repr__(self) -> str:
        return f"InputCaseConfig({self.name!r}, {self.type}, {self.dtype}, {self.shape}, {self.range_values!r})"


class CaseConfig:
    """One case: the top keys of its file and ``inputs``. Generators may set any attribute."""

    def __init__(self, inputs: Sequence[Any] | None = None, id: int = 0, name: str | None = None, **others: Any):
        self.id, self.name, self.inputs = id, name, list(inputs or [])
        self.api, self.version = "pytorch", None
        self.api_type, self.aclnn_api_type, self.triton_api_type = "function", "aclnn_function", "triton_function"
        self.aclnn_name: str | None = None
        self.triton_name: str | None = None
        self.outputs: Any = None
        self.backward = False
        self.standard: Any = None
        self.expected_error_msg: str | None = None
        self.save_name: str | None = None
        self.is_boundary = False
        vars(self).update(others)

    @staticmethod
    def flatten_list(nested: Sequence[Any]) -> list[Any]:
        """The items of lists within lists, in order."""
        found: list[Any] = []
        for item in nested:
            found.extend(CaseConfig.flatten_list(item) if isinstance(item, list) else [item])
        return found

    def get_input_data_config(self, index: int | None = None, name: str | None = None) -> Any:
        """The input called ``name``, or the positional one number ``index``; None without one."""
        firsts = [item[0] if isinstance(item, (list, tuple)) else item for item in self.inputs]
        if name is not None:
            return next((item for item in firsts if item.name == name), None)
        unnamed = [item for item in firsts if not item.name]
        return unnamed[index] if index is not None and 0 <= index < len(unnamed) else None


class CaseGenerator:
    """Base of generators. ``config``: the case file, its keys as attributes."""

    def __init__(self, config: Any = None):
        self.config = config

    def after_input_config(self, index: int, input_case: InputCaseConfig) -> InputCaseConfig:
        """Called for each input that was drawn; returns what is used."""
        return input_case

    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        """Called for each case whose inputs were drawn; returns what is used."""
        return case_config


@dataclass
class InputDataset:
    """Arguments of one call: inputs without a name in ``args``, the others in ``kwargs``; tensors are torch tensors."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class TaskResult:
    """What an API object is made with. ``device`` is "cpu": references run beside our kernels, not on an NPU."""

    case_config: CaseConfig = field(default_factory=CaseConfig)
    device: str = "cpu"
    device_id: int = 0
    task_type: str = "accuracy"


class BaseApi:
    """Base of references: made with a TaskResult, prepared and called with an InputDataset."""

    def __init__(self, task_result: TaskResult | None = None):
        self.task_result = task_result or TaskResult()
        self.device, self.device_id = self.task_result.device, self.task_result.device_id
        self.api_name = self.task_result.case_config.name
        self.output: Any = None

    def init_by_input_data(self, input_data: InputDataset) -> Any:
        """What is prepared before the call; nothing here."""

    def __call__(self, input_data: InputDataset, with_output: bool = False) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__call__(input_data, with_output) is what a reference writes")

    def export_funcs(self) -> dict[str, Callable[..., Any]]:
        """Functions for other tasks; none here."""
        return {}


class TritonBaseApi(BaseApi):
    """Base of classes that call a kernel under test, which here is ours: they are registered, never called."""


class AclnnBaseApi(BaseApi):
    """As :class:`TritonBaseApi`."""


class OpsDataset:
    """``seed_everything`` of ATK's data sets."""

    @staticmethod
    def seed_everything(seed: int = 0) -> None:
        """Seeds Python, NumPy and, where it is loaded, torch."""
        import sys

        random.seed(seed)
        np.random.seed(seed % 2**32)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)


class Logger:
    """``Logger().get_logger()`` is Python's logger "atk"."""

    def get_logger(self) -> logging.Logger:
        return logging.getLogger("atk")
