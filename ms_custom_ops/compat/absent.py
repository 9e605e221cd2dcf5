# SPDX-License-Identifier: Apache-2.0
"""Names of the TBE DSL, of TVM, of pyACL and of packages CANN asks for: they can be imported, and say what is missing
when they are used."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Sequence
from typing import Any

from ms_custom_ops.errors import MsCustomOpsError


class CannMissingError(MsCustomOpsError, RuntimeError):
    """Kernel code used a part of CANN that has no counterpart here (TBE DSL, TVM compute, pyACL)."""


PREREQUISITES = ("cffi", "pathlib2", "requests", "sympy")
"""Packages that CANN asks to be installed beside it, and kernels' helper files import."""


def refuse(name: str, what: str) -> CannMissingError:
    """The error of using an absent name."""
    package = name.partition(".")[0]
    if package in PREREQUISITES:
        return CannMissingError(
            f"{name}: {what} needs the package {package}, which is not installed; accepted: pip install {package}"
        )
    return CannMissingError(
        f"{name}: {what} needs a CANN installation; accepted here: kernels written in TIK (from tbe import tik)"
    )


class _AbsentBase:
    """Base of a kernel's class that derives from an absent class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise refuse(type(self).__qualname__, "an object of this class")


class Absent:
    """One absent name, or the result of calling it. Attributes are absent names too.

    A call gives an absent result, so that a file that builds constants of the DSL while it is imported loads; using
    the result (calling, indexing, iterating, testing, computing with it, giving it to another call) raises
    CannMissingError with the name it came from. A call with a function or class alone is a decorator and gives it
    back. Nothing is an instance of an absent name, so ``isinstance`` tests of kernels stay usable.
    """

    __slots__ = ("_name", "_made")

    def __init__(self, name: str, made: bool = False):
        self._name = name
        self._made = made

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self._name}.{attribute}", self._made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return args[0]
        if self._made:
            raise refuse(self._name, "a call of it")
        for value in (*args, *kwargs.values()):
            _refuse_made(value, self._name)
        return Absent(f"{self._name}(...)", True)

    def __getitem__(self, key: Any) -> Any:
        raise refuse(self._name, "an element of it")

    def __iter__(self) -> Any:
        raise refuse(self._name, "iterating over it")

    def __bool__(self) -> bool:
        raise refuse(self._name, "its truth value")

    def __len__(self) -> int:
        raise refuse(self._name, "its length")

    def __enter__(self) -> Any:
        raise refuse(self._name, "a with statement on it")

    def __exit__(self, *_: Any) -> None: ...

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __mro_entries__(self, bases: Sequence[Any]) -> tuple[type, ...]:
        return (_AbsentBase,)

    def __repr__(self) -> str:
        return f"<{self._name}: absent, a part of CANN>"


class Refused(Absent):
    """An absent name whose calls do something to a device: they raise at once."""

    __slots__ = ()

    def __getattr__(self, attribute: str) -> Absent:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Refused(f"{self._name}.{attribute}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse(self._name, "a call of it")


def _refuse_made(value: Any, call: str) -> None:
    """Raise CannMissingError when an argument, or an item of a list or dict of it, is the result of an absent call."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        if isinstance(item, Absent) and item._made:
            raise refuse(item._name, f"its use in {call}")


def _arithmetic(method: str) -> Any:
    def refused(self: Absent, *others: Any) -> Any:
        raise refuse(self._name, "arithmetic on it")

    refused.__name__ = method
    return refused


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
for _operator in _OPERATORS:
    for _method in (f"__{_operator}__", f"__r{_operator}__"):
        setattr(Absent, _method, _arithmetic(_method))
for _method in ("lt", "le", "gt", "ge", "neg", "abs", "invert", "int", "float", "index"):
    setattr(Absent, f"__{_method}__", _arithmetic(f"__{_method}__"))


class AbsentModule(types.ModuleType):
    """A module all of whose names exist: those set on it, and absent ones."""

    def __init__(self, name: str, kind: type[Absent] = Absent):
        super().__init__(name, "Stands for a part of CANN that is not here; see docs/compat.md.")
        self.__path__: list[str] = []
        self._kind = kind

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {attribute!r}")
        return self._kind(f"{self.__name__}.{attribute}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._kind(self.__name__)(*args, **kwargs)


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any module below the given roots as an :class:`AbsentModule`."""

    def __init__(self, roots: Sequence[str]):
        self._roots = tuple(roots)
        self._prefixes = tuple(f"{root}." for root in roots)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._roots and not name.startswith(self._prefixes):
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
