# SPDX-License-Identifier: Apache-2.0
"""Matrix products: one rounding per product and sum, k ascending.

Products of float16 are exact in float32; those of bfloat16 and float32 are taken in float64, where they are
exact too (:func:`ms_custom_ops.engine.reference.numbers.fused_multiply_add`), so every dtype is fused exactly.
"""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.memory import Operand, round_up
from ms_custom_ops.engine.reference.numbers import fused_multiply_add, narrow, widen
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_ELEMENTS

SIDE = 16  # rows and columns of a fractal of the result
_BYTES = frozenset({"int8", "uint8"})
ACCEPTED = {
    "float16": {"float16", "float32"},
    "bfloat16": {"float32"},
    "float32": {"float32"},
    "int8": {"int32"},
    "uint8": {"int32", "uint32"},
}


def k0_of(operand: Operand) -> int:
    """Columns of a fractal: 32 bytes."""
    return BLOCK_BYTES // operand.size


def l0a_offsets(rows: int, k: int, k0: int) -> np.ndarray:
    """Element offsets of A[m, k] in zZ: fractals row-major over (M1, K1), row-major inside."""
    m, kk = np.ogrid[:rows, :k]
    k1 = -(-k // k0)
    return (m // SIDE * k1 + kk // k0) * SIDE * k0 + m % SIDE * k0 + kk % k0


def l0b_offsets(k: int, columns: int, k0: int) -> np.ndarray:
    """Element offsets of B[k, n] in nZ: fractals row-major over (K1, N1), n slow and k fast inside."""
    kk, n = np.ogrid[:k, :columns]
    n1 = -(-columns // SIDE)
    return (kk // k0 * n1 + n // SIDE) * SIDE * k0 + n % SIDE * k0 + kk % k0


def l0c_offsets(rows: int, columns: int) -> np.ndarray:
    """Element offsets of C[m, n] in zN: fractals column-major over (N1, M1), row-major 16x16 inside."""
    m, n = np.ogrid[:rows, :columns]
    m1 = -(-rows // SIDE)
    return (n // SIDE * m1 + m // SIDE) * FRACTAL_ELEMENTS + m % SIDE * SIDE + n % SIDE


def product(a: np.ndarray, b: np.ndarray, start: np.ndarray, kind: str) -> np.ndarray:
    """``start + a @ b`` for inputs of dtype ``kind``: float32 (one rounding per k) or int64."""
    if kind in _BYTES:
        return start.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)
    total, a, b = start.astype(np.float32), a.astype(np.float32), b.astype(np.float32)
    for k in range(a.shape[1]):
        if kind == "float16":
            total += a[:, k : k + 1] * b[k : k + 1, :]
        else:
            total = fused_multiply_add(a[:, k : k + 1], b[k : k + 1, :], total)
    return total


def start_of(dst: Operand, at: np.ndarray, accumulate: bool) -> np.ndarray:
    """Where sums begin: what dst holds at positions ``at``, or 0."""
    return widen(dst.load(at), dst.dtype) if accumulate else widen(np.zeros(at.shape, dst.numpy), dst.dtype)


def _accumulate(
    call: Call, a: Operand, b: Operand, at: tuple[np.ndarray, np.ndarray, np.ndarray], accumulate: bool
) -> None:
    """dst (+)= a @ b with the element offsets ``at`` of a, b and dst."""
    dst = call["dst"]
    call.need_on_chip(dst, a, b)
    call.need_dtype(a, ACCEPTED)
    mixed = {a.dtype, b.dtype} == _BYTES
    if not mixed:
        call.need_same_dtype(a, b)
    call.need_dtype(dst, {"int32"} if mixed else ACCEPTED[a.dtype])
    a_at, b_at, c_at = (o.positions(offsets * o.size) for o, offsets in zip((a, b, dst), at, strict=True))
    total = product(a.load(a_at), b.load(b_at), start_of(dst, c_at, accumulate), a.dtype)
    dst.store(c_at, narrow(total, dst.dtype, call.saturate))


@instruction("mmad")
def mmad(call: Call) -> None:
    """L0C[m, n] (+)= L0A[m, k] @ L0B[k, n]; one row of A is a plain vector."""
    m, k, n = (call.ranged(name) for name in "mkn")
    if not m or not k or not n:
        return
    a, b = call["fm"], call["filter"]
    k0, columns = k0_of(a), round_up(n, SIDE)
    vector = m == 1
    rows = 1 if vector else round_up(m, SIDE)
    a_at = np.arange(k)[None, :] if vector else l0a_offsets(rows, k, k0)
    at = (a_at, l0b_offsets(k, columns, k0), l0c_offsets(rows, columns))
    _accumulate(call, a, b, at, bool(call.attrs["accumulate"]))


@instruction("matmul")
def matmul(call: Call) -> None:
    """L0C [N1, M, 16] (+)= a [K1, M, K0] @ b [K1, N, K0] straight from L1."""
    m, k, n = (call.attrs[name] for name in "mkn")
    if not m or not k or not n:
        return
    a, b = call["a"], call["b"]
    k0, rows, columns = k0_of(a), round_up(m, SIDE), round_up(n, SIDE)

    def l1_offsets(length: int) -> np.ndarray:
        row, kk = np.ogrid[:length, :k]
        return (kk // k0 * length + row) * k0 + kk % k0

    at = (l1_offsets(rows), l1_offsets(columns).T, l0c_offsets(rows, columns))
    _accumulate(call, a, b, at, not call.attrs["init"])
