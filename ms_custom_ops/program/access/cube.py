# SPDX-License-Identifier: Apache-2.0
"""Access of matrix products and of what leaves and enters L0C.

Fractals of inputs are 16 rows of 32 bytes. Of the last one along k only the bytes of its true columns are read.
"""

from __future__ import annotations

from ms_custom_ops.program.access.box import Box, box, shifted
from ms_custom_ops.program.access.bursts import round_up
from ms_custom_ops.program.access.use import Use
from ms_custom_ops.program.names import (
    ADD,
    BIAS,
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ELEMENTS,
    FRACTAL_SIDE,
    VECTOR_SCALE,
)

ROW_UNIT, COLUMN_UNIT, HALF_UNIT, FLAT_UNIT = 1, 2, 3, 4  # "block_mode" of l0c_out; 0 is a whole fractal
UNIT_ELEMENTS = (FRACTAL_ELEMENTS, 16, 64, 128, 8)


def _columns(rows: int, k: int, size: int) -> list[Box]:
    """[K1, rows, 32 bytes] without the padding of the last block."""
    full, tail = divmod(k * size, BLOCK_BYTES)
    return box(0, full * rows * BLOCK_BYTES) + box(full * rows * BLOCK_BYTES, tail, rows, BLOCK_BYTES)


def mmad(use: Use, operand: str) -> list[Box]:
    """L0A zZ (a plain row when m is 1), L0B nZ, L0C zN."""
    m, k, n = use.ints("m", "k", "n")
    if not m or not k or not n:
        return []
    size, columns = use.sizes[operand], round_up(n, FRACTAL_SIDE)
    if operand == "filter":
        return _columns(columns, k, size)
    rows = round_up(m, FRACTAL_SIDE)
    if operand == "dst":
        if m == 1:
            return box(0, FRACTAL_SIDE * size, columns // FRACTAL_SIDE, FRACTAL_ELEMENTS * size)
        return box(0, rows * columns * size)
    if m == 1:
        return box(0, k * size)
    full, tail = divmod(k * size, BLOCK_BYTES)
    step = -(-k * size // BLOCK_BYTES) * FRACTAL_BYTES
    count = rows // FRACTAL_SIDE
    return box(0, full * FRACTAL_BYTES, count, step) + box(
        full * FRACTAL_BYTES, tail, FRACTAL_SIDE, BLOCK_BYTES, count, step
    )


def matmul(use: Use, operand: str) -> list[Box]:
    """a [K1, M, K0] and b [K1, N, K0] of L1."""
    m, k, n = (use.attr(name) for name in "mkn")
    if not m or not k or not n:
        return []
    size, rows, columns = use.sizes[operand], round_up(m, FRACTAL_SIDE), round_up(n, FRACTAL_SIDE)
    if operand == "dst":
        return box(0, rows * columns * size)
    return _columns(rows if operand == "a" else columns, k, size)


def broadcast(use: Use, operand: str) -> list[Box]:
    """broadcast_l0c: rows of 16 elements into whole fractals."""
    nburst, burst, copies, gap = use.ints("nburst", "burst", "copies", f"{operand}_gap")
    if not copies:
        return []
    bytes_ = burst * (FRACTAL_SIDE if operand == "src" else copies * FRACTAL_ELEMENTS) * use.sizes[operand]
    return box(0, bytes_, nburst, bytes_ + gap)


def _units(mode: int, burst: int, size: int, nburst: int, gap: int) -> list[Box]:
    """A burst of units in L0C."""
    row, fractal = FRACTAL_SIDE * size, FRACTAL_ELEMENTS * size
    if mode == FLAT_UNIT:
        return box(0, burst * 8 * size, nburst, burst * 8 * size + gap)
    if mode == HALF_UNIT:
        pairs, odd = divmod(burst, 2)
        step = (pairs + odd) * fractal + gap
        return box(0, pairs * fractal, nburst, step) + box(pairs * fractal, odd * 8 * size, 16, row, nburst, step)
    step = burst * fractal + gap
    if mode == ROW_UNIT:
        return box(0, row, burst, fractal, nburst, step)
    if mode == COLUMN_UNIT:
        return box(0, 4 * size, burst * 16, row, nburst, step)
    return box(0, burst * fractal, nburst, step)


def _columns_used(mode: int, burst: int) -> int:
    """Columns of a fractal that a burst touches, from the first on."""
    if mode == COLUMN_UNIT:
        return 4
    return 8 if mode in (HALF_UNIT, FLAT_UNIT) and burst == 1 else FRACTAL_SIDE


def l0c_out(use: Use, operand: str) -> list[Box]:
    """Units of L0C; dst densely or in halves of blocks; scale, bias and addend where their flag is set."""
    nburst, burst = use.ints("nburst", "burst")
    mode, flags, size = use.attr("block_mode"), use.attr("flags"), use.sizes[operand]
    if not nburst or not burst:
        return []
    elements = burst * UNIT_ELEMENTS[mode]
    if operand == "src":
        return _units(mode, burst, size, nburst, use.arg("src_gap"))
    if operand == "dst":
        store, gap = use.attr("store"), use.arg("dst_gap")
        if not store:
            return box(0, elements * size, nburst, elements * size + gap)
        return box((store - 1) * 16, 16, elements // 16, BLOCK_BYTES, nburst, 2 * elements + gap)
    if not flags & {"scale": VECTOR_SCALE, "bias": BIAS, "add": ADD}[operand]:
        return []
    if operand == "add":
        return box(0, nburst * elements * size)
    return box(0, _columns_used(mode, burst) * size, nburst, FRACTAL_SIDE * size)


def _panels(rows: int, columns: int, width: int, size: int, step: int) -> list[Box]:
    """Columns of ``width`` elements with whole rows between them, one every ``step`` bytes."""
    full, tail = divmod(columns, width)
    last = box(full * step, tail * size, rows, width * size)
    return box(0, rows * width * size, full, step) + last


def l0c_matrix(use: Use, operand: str) -> list[Box]:
    """Columns of fractals of src; rows or columns of dst; one scale for each column."""
    matrices, rows, columns = use.ints("matrices", "rows", "columns")
    if not matrices or not rows or not columns:
        return []
    size = use.sizes[operand]
    if operand == "scale":
        return box(0, columns * size) if use.attr("vector") else []
    stride, step = use.ints(f"{operand}_stride", f"{operand}_next")
    width = FRACTAL_SIDE if operand == "src" else use.attr("width")
    one = _panels(rows, columns, width, size, stride) if width else box(0, columns * size, rows, stride)
    return [b for i in range(matrices) for b in shifted(one, i * step)]
