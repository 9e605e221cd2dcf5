# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.rl_bank``: the store of schedules found by searching. Here it is empty: no operator has a hit."""

from __future__ import annotations

from typing import Any


def tik_dsl_bank_proc(outputs: Any, sync_tensor: Any = None, option: Any = None) -> tuple[Any, None]:
    """(outputs, None): there is no stored schedule for them."""
    return outputs, None


def query_rl_bank(*args: Any, **kwargs: Any) -> tuple[bool, None]:
    """(False, None): there is no stored schedule."""
    return False, None


def init_bank_hit_info(kernel_name: str) -> None:
    """Begin to note hits of a kernel: nothing to note."""


def update_bank_hit_info(hit: bool) -> None:
    """Note a hit: nothing to note."""


def set_tik_tensor(inputs: Any, outputs: Any) -> None:
    """Tensors of a kernel for the search: without an effect."""
