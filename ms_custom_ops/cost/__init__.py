# SPDX-License-Identifier: Apache-2.0
"""The cost model: modelled cycles of a Program on a chip, and where they go. Nothing here was measured on a chip."""

from __future__ import annotations

from ms_custom_ops.cost.chip import CostChip, cost_chip
from ms_custom_ops.cost.model import profile
from ms_custom_ops.cost.result import Profile

__all__ = ["CostChip", "Profile", "cost_chip", "profile"]
