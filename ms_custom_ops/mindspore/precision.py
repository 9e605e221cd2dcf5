# SPDX-License-Identifier: Apache-2.0
"""Cells that choose the dtype of every operation themselves, whatever mixed precision asks of the network."""

from __future__ import annotations

from typing import Any

from mindspore import nn

_FLAGS = ("fp16", "bf16", "fp32")


class OwnPrecision(nn.Cell):
    """A cell whose ``to_float`` (by the mixed-precision levels O2 and O3 as well) reaches its subcells only.

    The flag of a cell means something else in each mode: in PYNATIVE_MODE every operation of ``construct`` casts its
    operands, behind an ``ops.cast`` too; in GRAPH_MODE only arguments and parameters are cast. So that both compute the
    same, the cell itself has no flag, and casts where its documentation says so.
    """

    def add_flags(self, **flags: Any) -> Any:
        if not any(name in flags for name in _FLAGS):
            return super().add_flags(**flags)
        super().add_flags(**{**flags, "fp16": False, "bf16": False, "fp32": True})
        # NOTSET, unlike no type at all, ends the type of a cell around this one.
        super().add_flags(fp32=False)
        self.mixed_precision_type: Any = type(self.mixed_precision_type).NOTSET
        self.set_mixed_precision_type(self.mixed_precision_type)
        return self
