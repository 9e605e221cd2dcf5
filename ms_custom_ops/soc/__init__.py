# SPDX-License-Identifier: Apache-2.0
"""Chips: one table, and the chip that kernels are traced for."""

from __future__ import annotations

from ms_custom_ops.soc.current import current_soc, scoped_soc, set_soc, use_soc
from ms_custom_ops.soc.table import FAMILIES, Soc, get_soc, list_socs

__all__ = ["FAMILIES", "Soc", "current_soc", "get_soc", "list_socs", "scoped_soc", "set_soc", "use_soc"]
