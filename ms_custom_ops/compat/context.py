# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.context``: what is known about the operator that is being compiled."""

from __future__ import annotations

from typing import Any


class OpInfo:
    """Name, type and tensors of one operator of a compilation."""

    def __init__(self, op_name: str = "", op_type: str = ""):
        self.op_name, self.op_type = op_name, op_type
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.attrs: list[Any] = []
        self.kernel_name = ""
        self.pattern = ""
        self.extra_params: dict[str, Any] = {}


class OpContext:
    """A compilation; a ``with`` statement makes it the current one. ``op_mode``: "pre-static", "static",
    "dynamic"."""

    def __init__(self, op_mode: str = "static"):
        self._mode = op_mode
        self._infos: list[OpInfo] = []
        self._compile_info: dict[str, Any] = {}
        self._addition: dict[str, Any] = {}
        self._build_results: dict[str, Any] = {}
        self._build_type = ""

    def __enter__(self) -> OpContext:
        _stack.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _stack.remove(self)

    def get_op_mode(self) -> str:
        """Mode of the compilation."""
        return self._mode

    def set_op_mode(self, op_mode: str) -> None:
        """Change the mode."""
        self._mode = op_mode

    def add_op_info(self, op_info: OpInfo) -> None:
        """Add an operator."""
        self._infos.append(op_info)

    def get_op_info(self) -> list[OpInfo]:
        """The operators."""
        return list(self._infos)

    def add_compile_info(self, key: str, value: Any) -> None:
        """Store a value for the host's tiling function."""
        self._compile_info[key] = value

    def get_compile_info(self) -> dict[str, Any]:
        """What add_compile_info stored."""
        return self._compile_info

    def set_compile_info(self, compile_info: dict[str, Any]) -> None:
        """Replace what is stored."""
        self._compile_info = dict(compile_info)

    def add_addition(self, key: str, value: Any) -> None:
        """Store a value for other parts of the compilation."""
        self._addition[key] = value

    def get_addition(self, key: str) -> Any:
        """A value of add_addition, or None."""
        return self._addition.get(key)

    def add_build_res(self, key: str, value: Any) -> None:
        """Store a result of the compilation."""
        self._build_results[key] = value

    def get_build_res(self, key: str) -> Any:
        """A result of the compilation, or None."""
        return self._build_results.get(key)

    def set_build_type(self, build_type: str) -> None:
        """Remember how the operator is built."""
        self._build_type = build_type

    def get_build_type(self) -> str:
        """How the operator is built, "" by default."""
        return self._build_type


_default = OpContext()
_stack: list[OpContext] = []


def get_context() -> OpContext:
    """The compilation in force: of the innermost ``with OpContext()``, else one per process."""
    return _stack[-1] if _stack else _default


def clear() -> None:
    """Forget what kernels stored outside any ``with OpContext()``."""
    global _default
    _default = OpContext()
