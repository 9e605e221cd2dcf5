# SPDX-License-Identifier: Apache-2.0
"""Access of moves: bursts with gaps, rows of matrices, fractals, planes of an image."""

from __future__ import annotations

from ms_custom_ops.program.access.box import Box, box, shifted
from ms_custom_ops.program.access.use import Use
from ms_custom_ops.program.names import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ELEMENTS,
    FRACTAL_SIDE,
    IMAGE_CROP,
    RGB888,
    YUV420SP,
)


def round_up(value: int, unit: int) -> int:
    """``value`` up to the next multiple of ``unit``."""
    return -(-value // unit) * unit


def bursts(use: Use, operand: str) -> list[Box]:
    """data_move: ``nburst`` runs of ``burst`` bytes."""
    nburst, burst, gap = use.ints("nburst", "burst", f"{operand}_gap")
    return box(0, burst, nburst, burst + gap)


def padded_bursts(use: Use, operand: str) -> list[Box]:
    """data_move_pad: on the UB side of a move from GM padding and whole blocks; to GM only the bytes of a burst, of
    which each begins at a block of UB."""
    nburst, burst, gap = use.ints("nburst", "burst", f"{operand}_gap")
    to_gm = use.scope("dst") == "gm"
    if operand == "src":
        return box(0, burst, nburst, (round_up(burst, BLOCK_BYTES) if to_gm else burst) + gap)
    if to_gm:
        return box(0, burst, nburst, burst + gap)
    left, right = use.ints("left_pad", "right_pad")
    whole = round_up(burst + (left + right) * use.sizes["dst"], BLOCK_BYTES)
    return box(0, whole, nburst, whole + gap)


def l0c_bursts(use: Use, operand: str) -> list[Box]:
    """data_move_l0c: fractals, or 16 elements that lie in a fractal each on the L0C side."""
    nburst, burst, gap = use.ints("nburst", "burst", f"{operand}_gap")
    size, row = use.sizes[operand], use.attr("block_mode") == 1
    unit = FRACTAL_SIDE if row else FRACTAL_ELEMENTS
    spread = FRACTAL_ELEMENTS if row and use.scope(operand) == "l0c" else unit
    return box(0, unit * size, burst, spread * size, nburst, burst * spread * size + gap)


def fixpipe(use: Use, operand: str) -> list[Box]:
    """fixpipe: bursts of source bytes, written densely in the size of dst."""
    count, length, gap = use.ints("cburst_num", "burst_len", f"{operand}_gap")
    bytes_ = length // use.sizes["src"] * use.sizes[operand]
    return box(0, bytes_, count, bytes_ + gap)


def matrices(use: Use, operand: str) -> list[Box]:
    """nd2nz: rows of D elements; columns of 32-byte blocks, the last one whole."""
    count, rows, columns = use.ints("nd_num", "nd_n", "nd_d")
    size = use.sizes["dst"]
    if operand == "src":
        row, matrix = use.ints("src_n_stride", "src_nd_stride")
        return box(0, columns * size, rows, row * size, count, matrix * size)
    column, row, matrix = use.ints("dst_c0_stride", "dst_n_stride", "dst_nd_stride")
    blocks = -(-columns * size // BLOCK_BYTES)
    if row == 1:
        return box(0, rows * BLOCK_BYTES, blocks, column * BLOCK_BYTES, count, matrix * size)
    one = box(0, BLOCK_BYTES, rows, row * BLOCK_BYTES, count, matrix * size)
    return [b for c in range(blocks) for b in shifted(one, c * column * BLOCK_BYTES)]


def fractals(use: Use, operand: str) -> list[Box]:
    """load2d: whole fractals."""
    index, repeat, stride, gap = use.ints("index", "repeat", "src_stride", "dst_gap")
    if operand == "dst":
        return box(0, FRACTAL_BYTES, repeat, (1 + gap) * FRACTAL_BYTES)
    return box(index * FRACTAL_BYTES, FRACTAL_BYTES, repeat, stride * FRACTAL_BYTES)


def squares(use: Use, operand: str) -> list[Box]:
    """load2d_square: blocks of one or two fractals."""
    index, repeat, stride, gap, fractal_gap = use.ints("index", "repeat", "src_stride", "dst_gap", "fractal_gap")
    parts = 1 if use.sizes["dst"] == 2 else 2
    if operand == "src":
        block = parts * FRACTAL_BYTES
        return box(index * block, block, repeat, stride * block)
    return box(0, FRACTAL_BYTES, parts, (1 + fractal_gap) * FRACTAL_BYTES, repeat, (1 + gap) * FRACTAL_BYTES)


def fill(use: Use, operand: str) -> list[Box]:
    """fill: ``repeat`` units of 512 bytes."""
    return box(0, use.arg("repeat") * FRACTAL_BYTES)


def filled_blocks(use: Use, operand: str) -> list[Box]:
    """fill_blocks: runs of 32-byte blocks."""
    repeat, blocks, gap = use.ints("repeat", "blocks", "gap")
    return box(0, blocks * BLOCK_BYTES, repeat, (blocks + gap) * BLOCK_BYTES)


def transpose(use: Use, operand: str) -> list[Box]:
    """vtranspose: 512 bytes; v4dtrans: the whole matrix."""
    if not use.has("m_len"):
        return box(0, FRACTAL_BYTES)
    return box(0, use.arg("m_len") * use.arg("channels") * use.sizes[operand])


def rows_of_16(use: Use, operand: str) -> list[Box]:
    """vnchwconv: a block of each operand per repeat, of 8-bit elements its low or high half."""
    side = operand[:3]
    bytes_ = BLOCK_BYTES // 2 if use.sizes[operand] == 1 else BLOCK_BYTES
    half = bytes_ if use.sizes[operand] == 1 and use.attr(f"{side}_high") else 0
    return box(half, bytes_, use.arg("repeat"), use.arg(f"{side}_rep"))


def crop(use: Use, operand: str) -> list[Box]:
    """load_image: rows of the crop, or of the image, in each plane; a block of dst per pixel."""
    across, left, top, width, height = use.ints("src_w", "first_w", "first_h", "width", "height")
    if not use.arg("functions") & IMAGE_CROP:
        left, top, width, height = 0, 0, across, use.arg("src_h")
    if not width or not height:
        return []
    if operand == "dst":
        return box(0, width * height * BLOCK_BYTES)
    kind = use.arg("format")
    if operand == "src":
        pixel = 3 if kind == RGB888 else 1
        return box((top * across + left) * pixel, width * pixel, height, across * pixel)
    if kind != YUV420SP:
        return []
    row, first, last = round_up(across, 2), left // 2 * 2, (left + width - 1) // 2 * 2 + 2
    return box(top // 2 * row + first, last - first, (top + height - 1) // 2 - top // 2 + 1, row)


def nothing(use: Use, operand: str) -> list[Box]:
    """Instructions that touch no bytes."""
    return []
