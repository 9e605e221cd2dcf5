# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.register`` and ``fusion_manager``: decorators by which operators make themselves known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_operators: dict[str, Callable[..., Any]] = {}
_computes: dict[tuple[str, str], Callable[..., Any]] = {}
_generalizations: dict[str, Callable[..., Any]] = {}


def register_operator(op_type: str, pattern: str | None = None, **options: Any) -> Callable[[F], F]:
    """Decorator: the function is the operator ``op_type``; :func:`get_operator` finds it."""

    def decorate(function: F) -> F:
        _operators[op_type] = function
        return function

    return decorate


def register_op_compute(
    op_type: str, op_mode: str = "dynamic", support_fusion: bool = True, **options: Any
) -> Callable[[F], F]:
    """Decorator: the function is the DSL compute of ``op_type`` in ``op_mode`` ("dynamic", "static")."""

    def decorate(function: F) -> F:
        _computes[op_type, op_mode] = function
        return function

    return decorate


def register_param_generalization(op_type: str) -> Callable[[F], F]:
    """Decorator: the function generalizes the parameters of ``op_type``."""

    def decorate(function: F) -> F:
        _generalizations[op_type] = function
        return function

    return decorate


def get_operator(op_type: str) -> Callable[..., Any] | None:
    """Function registered for an operator, or None."""
    return _operators.get(op_type)


def get_op_compute(op_type: str, op_mode: str = "dynamic") -> Callable[..., Any] | None:
    """Compute registered for an operator, or None."""
    return _computes.get((op_type, op_mode))


def get_param_generalization(op_type: str) -> Callable[..., Any] | None:
    """Generalization registered for an operator, or None."""
    return _generalizations.get(op_type)


class FusionManager:
    """The object ``fusion_manager``: remembers computes by name, as :func:`register_op_compute` does."""

    def __init__(self) -> None:
        self._patterns: dict[str, str] = {}

    def register(self, op_type: str) -> Callable[[F], F]:
        """Decorator: the function is the compute of ``op_type``."""
        return register_op_compute(op_type, "static")

    def get_op_compute(self, op_type: str) -> Callable[..., Any] | None:
        """Compute registered for an operator, or None."""
        return get_op_compute(op_type, "static")

    def set_op_build_type(self, op_type: str, build_type: str) -> None:
        """Remember a build type."""
        self._patterns[op_type] = build_type

    def get_op_build_type(self, op_type: str) -> str:
        """Build type of an operator, "" without one."""
        return self._patterns.get(op_type, "")

    def set_tik_tensor(self, inputs: Any, outputs: Any) -> None:
        """Tensors of a kernel for the fusion with DSL operators: without an effect here."""

    def set_current_op_pattern(self, pattern: str) -> None:
        """Pattern of the operator for the fusion with DSL operators: without an effect here."""

    def get_build_cfg(self) -> str:
        """ "enable": operators are built one by one."""
        return "enable"

    def clear(self) -> None:
        """Forget the build types."""
        self._patterns.clear()


fusion_manager = FusionManager()
set_tik_tensor = fusion_manager.set_tik_tensor
set_current_op_pattern = fusion_manager.set_current_op_pattern
