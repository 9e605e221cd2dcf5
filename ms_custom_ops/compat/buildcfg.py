# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.buildcfg``: options of the compiler. They are kept and given back; none has an effect here."""

from __future__ import annotations

from typing import Any

_DEFAULTS: dict[str, Any] = {
    "enable_L1_fusion": False,
    "l1_fusion_option": False,
    "enable_L2_fusion": False,
    "enable_small_channel": False,
    "double_buffer_non_reuse": True,
    "dynamic_tik": False,
    "dynamic_shape": False,
    "kernel_meta_parent_dir": ".",
    "op_debug_level": 0,
    "op_debug_config": "",
    "status_check": False,
    "tbe_debug_level": 0,
    "tik_dump_cce": False,
}
dynamic_build_config_dict: dict[str, Any] = {**_DEFAULTS, "dynamic_shape": True}
"""Options of kernels whose shapes are known only at run time."""
_stack: list[dict[str, Any]] = []


class build_config:
    """Options for the body of a ``with`` statement, e.g. ``with build_config(double_buffer_non_reuse=True):``."""

    def __init__(self, **options: Any):
        self.options = options

    def __enter__(self) -> build_config:
        _stack.append(self.options)
        return self

    def __exit__(self, *_: Any) -> None:
        _stack.pop()


def get_default_build_config(key: str | None = None) -> Any:
    """Default of one option, or all defaults; RuntimeError for an unknown option."""
    if key is None:
        return dict(_DEFAULTS)
    if key not in _DEFAULTS:
        raise RuntimeError(f"get_default_build_config: key is {key!r}; accepted: {', '.join(_DEFAULTS)}")
    return _DEFAULTS[key]


def get_current_build_config(key: str | None = None) -> Any:
    """Value of one option in force, or all of them; RuntimeError for an option that nobody set."""
    merged = dict(_DEFAULTS)
    for options in _stack:
        merged.update(options)
    if key is None:
        return merged
    if key not in merged:
        raise RuntimeError(f"get_current_build_config: key is {key!r}; accepted: {', '.join(merged)}")
    return merged[key]


def set_current_build_config(key: str, value: Any) -> None:
    """Set an option in force."""
    (_stack[-1] if _stack else _DEFAULTS)[key] = value


_l1_info: dict[str, Any] = {"op_L1_space": -1, "L1_fusion_enabled": False, "L2_fusion_enabled": False}


def get_L1_info(key: str) -> Any:
    """Value under ``key`` of the L1 fusion settings, None when unset."""
    return _l1_info.get(key)


def set_L1_info(key: str, value: Any) -> None:
    """Set a value of the L1 fusion settings."""
    _l1_info[key] = value
