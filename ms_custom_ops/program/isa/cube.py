# SPDX-License-Identifier: Apache-2.0
"""Rows of matrix products."""

from __future__ import annotations

from ms_custom_ops.program.access import cube as access
from ms_custom_ops.program.isa.args import MAX_SIDE
from ms_custom_ops.program.isa.row import row

ROWS = (
    row(
        "mmad",
        "dst:rw[accumulate] fm:r filter:r",
        " ".join(f"{n}:count[0..{MAX_SIDE}]{{0..4095}}" for n in "mkn"),
        "accumulate[0..1]",
        "M",
        access.mmad,
        "L0C[m, n] (+)= L0A[m, k] @ L0B[k, n]; L0A is zZ, L0B nZ, L0C zN (fractal column n1, then m1, then 16x16); "
        "float: products exact in float32, summed into float32 in ascending k by fused multiply-add, starting from 0 "
        "or (accumulate) from L0C; a float16 L0C rounds at the end. int8/uint8: int32. m == 1 reads L0A as a plain "
        "row of k elements and writes row 0 of each fractal. Rows and columns beyond m, n up to the next multiple "
        "of 16 are computed from what L0A and L0B hold there; k beyond its true size is not read",
    ),
    row(
        "matmul",
        "dst:rw[!init] a:r b:r",
        "",
        f"m[0..{MAX_SIDE}] k[0..{MAX_SIDE}] n[0..{MAX_SIDE}] init[0..1]",
        "M",
        access.matmul,
        "L0C [N1, M, 16] (+)= L1 a [K1, M, K0] @ L1 b [K1, N, K0] with M and N rounded up to 16 and K0 = 32 bytes; "
        "same arithmetic as mmad; init 1 overwrites, 0 accumulates",
    ),
)
