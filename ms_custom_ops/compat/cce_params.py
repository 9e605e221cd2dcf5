# SPDX-License-Identifier: Apache-2.0
"""``te.platform.cce_params``: constants of the cube and of the on-chip buffers that kernels read."""

from __future__ import annotations

from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tik.scopes import (  # noqa: F401  (served under these names)
    scope_bt,
    scope_ca,
    scope_cb,
    scope_cbuf,
    scope_cbuf_out,
    scope_cc,
    scope_gm,
    scope_smask,
    scope_ubuf,
)

scope_reg = "local.REG"
scope_vreg = "local.VREG"
scope_preg = "local.PREG"
scope_aipp = "local.AIPP"
scope_areg, scope_ureg, scope_wreg = "local.AREG", "local.UREG", "local.WREG"
scope_fb0, scope_fb1, scope_fb2, scope_fb3 = (f"local.FB{k}" for k in range(4))

# Cube tile: rows of the result, its columns, and the depth per 32-byte row of a fractal.
BLOCK_IN = CUBE_BLOCK
BLOCK_OUT = CUBE_BLOCK
BLOCK_REDUCE = BLOCK_BYTES // 2  # 16-bit operands
BLOCK_REDUCE_INT8 = BLOCK_BYTES
BLOCK_VECTOR = 1
C0_SIZE = BLOCK_BYTES // 2  # channels of a block of NC1HWC0 with 16-bit elements
ELEMENTS_VECTOR_OP_FP16 = VECTOR_REPEAT_BYTES // 2

VECTOR_INST_BLOCK_WIDTH = VECTOR_REPEAT_BYTES
VECTOR_INST_BLOCK_NUM = VECTOR_REPEAT_BYTES // BLOCK_BYTES
VECTOR_INST_MAX_REPEAT_TIMES = MAX_REPEAT
VECTOR_SINGLE_BLOCK_WIDTH_FP16 = BLOCK_BYTES // 2
UB_BLOCK_SIZE = BLOCK_BYTES
GLB_ELTS_FP16_PER_BLOCK = BLOCK_BYTES // 2

_BITS = {"int4": 4, "int8": 8, "uint8": 8, "float16": 16, "bfloat16": 16, "float32": 32}
CUBE_MKN = {dtype: {"mac": [CUBE_BLOCK, BLOCK_BYTES * 8 // bits, CUBE_BLOCK]} for dtype, bits in _BITS.items()}
"""``CUBE_MKN[dtype]["mac"]``: rows, depth, columns of one step of the cube for an operand dtype."""
