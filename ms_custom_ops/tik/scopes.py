# SPDX-License-Identifier: Apache-2.0
"""Scope constants of TIK, the buffers they stand for and the alignment of a start address in each."""

from __future__ import annotations

from ms_custom_ops.program import ir
from ms_custom_ops.soc import Soc

scope_gm = "global"
scope_ubuf = "local.UB"
scope_cbuf = "local.L1"
scope_ca = "local.L0A"
scope_cb = "local.L0B"
scope_cc = "local.L0C"
scope_cbuf_out = scope_cc
scope_bt = "local.BT"
scope_smask = "local.SMASK"
# Names that kernels read; no tensor lives there on the chips of this package.
scope_reg = "local.REG"
scope_fb0, scope_fb1, scope_fb2, scope_fb3 = (f"local.FB{k}" for k in range(4))

IR_SCOPE: dict[str, str] = {
    scope_gm: ir.GM,
    scope_ubuf: ir.UB,
    scope_cbuf: ir.L1,
    scope_ca: ir.L0A,
    scope_cb: ir.L0B,
    scope_cc: ir.L0C,
    scope_bt: ir.BT,
    scope_smask: ir.SMASK,
}
TIK_SCOPE: dict[str, str] = {value: key for key, value in IR_SCOPE.items()}
CONSTANT_NAME: dict[str, str] = {
    ir.GM: "scope_gm",
    ir.UB: "scope_ubuf",
    ir.L1: "scope_cbuf",
    ir.L0A: "scope_ca",
    ir.L0B: "scope_cb",
    ir.L0C: "scope_cc",
    ir.BT: "scope_bt",
    ir.SMASK: "scope_smask",
}

# Holds the compare-mask register; not a buffer kernels allocate large tensors in.
SMASK_BYTES = 256
# In front of it, for the compare mask (16 bytes) and the special registers of special.py (from byte 32 on).
REGISTER_BYTES = 64

# Placement of a new tensor. A start address inside it may be aligned less, see START_ALIGN.
ALLOC_ALIGN: dict[str, int] = {ir.UB: 32, ir.L1: 32, ir.L0A: 512, ir.L0B: 512, ir.L0C: 1024, ir.BT: 64, ir.SMASK: 32}


def scope_bytes(soc: Soc) -> dict[str, int]:
    """Size of each on-chip buffer of a chip."""
    return {**soc.scope_bytes, ir.SMASK: SMASK_BYTES}
