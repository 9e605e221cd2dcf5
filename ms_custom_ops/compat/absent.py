# SPDX-License-Identifier: Apache-2.0
"""Names of the TBE DSL, of TVM and of pyACL: they can be imported, and say what is missing when they are used."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

from ms_custom_ops.errors import MsCustomOpsError


class CannMissingError(MsCustomOpsError, RuntimeError):
    """Kernel code used a part of CANN that has no counterpart here (TBE DSL, TVM compute, pyACL)."""


def refuse(name: str, what: str) -> CannMissingError:
    """The error of using an absent name."""
    return CannMissingError(
        f"{name}: {what} needs a CANN installation; accepted here: kernels written in TIK (from tbe import tik)"
    )


class _AbsentBase:
    """Base of a kernel's class that derives from an absent class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise refuse(type(self).__qualname__, "an object of this class")


class Absent:
    """One absent name. Attributes are absent names too; calling, indexing or testing it raises
    CannMissingError. Nothing is an instance of it, so ``isinstance`` tests of kernels stay usable."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self._name}.{attribute}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse(self._name, "a call of it")

    def __getitem__(self, key: Any) -> Any:
        raise refuse(self._name, "an element of it")

    def __iter__(self) -> Any:
        raise refuse(self._name, "iterating over it")

    def __bool__(self) -> bool:
        raise refuse(self._name, "its truth value")

    def __enter__(self) -> Any:
        raise refuse(self._name, "a with statement on it")

    def __exit__(self, *_: Any) -> None: ...

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __mro_entries__(self, bases: Sequence[Any]) -> tuple[type, ...]:
        return (_AbsentBase,)

    def __repr__(self) -> str:
        return f"<{self._name}: absent, a part of CANN>"


class AbsentModule(types.ModuleType):
    """A module all of whose names exist: those set on it, and absent ones."""

    def __init__(self, name: str):
        super().__init__(name, "Stands for a part of CANN that is not here; see docs/compat.md.")
        self.__path__: list[str] = []

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {attribute!r}")
        return Absent(f"{self.__name__}.{attribute}")


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any module below the given roots as an :class:`AbsentModule`."""

    def __init__(self, roots: Sequence[str]):
        self._prefixes = tuple(f"{root}." for root in roots)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(self._prefixes):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: an AbsentModule has its names from the start."""

    def loaded(self) -> list[str]:
        """Names of the modules this finder made that are still in sys.modules."""
        return [
            name
            for name, module in list(sys.modules.items())
            if isinstance(module, AbsentModule) and name.startswith(self._prefixes)
        ]
