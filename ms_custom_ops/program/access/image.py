# SPDX-License-Identifier: Apache-2.0
"""Access of image-to-column instructions: the blocks of a feature map that lie under a filter.

Taps in the padding touch nothing, so the map is touched on no simple grid: blocks are found one by one and joined to
boxes. How often a block is read is not part of an access.
"""

from __future__ import annotations

import numpy as np

from ms_custom_ops.program.access.box import Box, box, scattered
from ms_custom_ops.program.access.bursts import round_up
from ms_custom_ops.program.access.use import Use
from ms_custom_ops.program.names import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_SIDE


class Map:
    """Output pixels and filter taps of a padded feature map (rules of the row ``load3dv1``)."""

    def __init__(self, use: Use):
        get = use.arg if use.has("l1_h") else use.attr
        self.height, self.width = get("l1_h"), get("l1_w")
        self.left, self.top = get("pad_l"), get("pad_t")
        self.filter_w, self.filter_h = get("filter_w"), get("filter_h")
        self.stride_w, self.stride_h = get("stride_w"), get("stride_h")
        self.dilation_w, self.dilation_h = get("dilation_w"), get("dilation_h")
        self.last_x = self.width + self.left + get("pad_r") - (self.filter_w - 1) * self.dilation_w - 1
        self.last_y = self.height + self.top + get("pad_b") - (self.filter_h - 1) * self.dilation_h - 1
        self.across = self.last_x // self.stride_w + 1
        self.pixels = self.across * (self.last_y // self.stride_h + 1)

    def corners(self, pixel: np.ndarray, first_x: int = 0, first_y: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Top left corners of windows, counted from the one at (first_x, first_y); a row begins at 0 again."""
        in_first_row = (self.last_x - first_x) // self.stride_w + 1
        rest = pixel - in_first_row
        later = rest >= 0
        column = np.where(later, rest % self.across * self.stride_w, first_x + pixel * self.stride_w)
        row = np.where(later, first_y + (rest // self.across + 1) * self.stride_h, first_y)
        return column, row

    def blocks(self, corner: tuple[np.ndarray, np.ndarray], tap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the blocks under taps (numbered along filter_w, then filter_h, then channel blocks) of windows,
        and which of them lie in the map."""
        fw, fh = tap % self.filter_w, tap // self.filter_w % self.filter_h
        x = corner[0] + fw * self.dilation_w - self.left
        y = corner[1] + fh * self.dilation_h - self.top
        inside = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height) & (corner[1] <= self.last_y)
        channel = tap // (self.filter_w * self.filter_h)
        return (channel * self.height + y) * self.width + x, inside


def load3dv1(use: Use, operand: str) -> list[Box]:
    """One fractal per repeat of dst; of src the blocks under its 16 pixels."""
    repeat, jump = use.ints("repeat", "jump")
    if operand == "dst":
        return box(0, FRACTAL_BYTES, repeat, jump * FRACTAL_BYTES)
    grid, (c1, fw, fh) = Map(use), use.ints("c1", "fetch_w", "fetch_h")
    r, i = np.ogrid[:repeat, :FRACTAL_SIDE]
    along_m = use.attr("repeat_mode") == 1
    tap = (c1 * grid.filter_h + fh) * grid.filter_w + fw + (0 * r if along_m else r)
    corner = grid.corners(i + FRACTAL_SIDE * r if along_m else i + 0 * r, *use.ints("first_w", "first_h"))
    number, inside = grid.blocks(corner, tap)
    return scattered(number[inside] * BLOCK_BYTES, BLOCK_BYTES)


def load3dv2(use: Use, operand: str) -> list[Box]:
    """Whole fractals of dst; of src the elements of the window of the image-to-column matrix."""
    channels, k_ext, m_ext, k_start, m_start = use.ints("channels", "k_ext", "m_ext", "k_start", "m_start")
    if not channels or not k_ext or not m_ext:
        return []
    size = use.sizes[operand]
    k0 = BLOCK_BYTES // size
    rows, columns = (FRACTAL_SIDE, k0) if use.attr("layout") == 0 else (k0, FRACTAL_SIDE)
    rows, columns = round_up(m_ext, rows), round_up(k_ext, columns)
    if operand == "dst":
        return box(0, rows * columns * size)
    grid = Map(use)
    corner = grid.corners(m_start + np.arange(rows)[:, None])
    k = np.arange(k_start, k_start + columns)
    number, inside = grid.blocks(corner, k // k0)
    inside = inside & (k // k0 // (grid.filter_w * grid.filter_h) * k0 < channels)
    return scattered((number * BLOCK_BYTES + k % k0 * size)[inside], size)


def col2img(use: Use, operand: str) -> list[Box]:
    """Rows of 16 channels; of dst the elements under one tap of each pixel."""
    row, pixels = FRACTAL_SIDE * use.sizes[operand], use.arg("repeat") * FRACTAL_SIDE
    if operand == "src":
        return box(0, pixels * row)
    grid, (fw, fh) = Map(use), use.ints("fetch_w", "fetch_h")
    corner = grid.corners(np.arange(pixels), *use.ints("first_w", "first_h"))
    number, inside = grid.blocks(corner, np.full(pixels, fh * grid.filter_w + fw))
    return scattered(number[inside] * row, row)


def conv2d(use: Use, operand: str) -> list[Box]:
    """All of dst and of the weights; of the map the blocks under any tap of any pixel."""
    c1, cout, size = use.attr("c1"), use.attr("cout"), use.sizes[operand]
    if not c1 or not cout:
        return []
    grid = Map(use)
    rows, taps = round_up(grid.pixels, FRACTAL_SIDE), c1 * grid.filter_w * grid.filter_h
    if operand == "dst":
        return box(0, rows * cout * size)
    if operand == "weight":
        return box(0, taps * cout * BLOCK_BYTES)
    number, inside = grid.blocks(grid.corners(np.arange(rows)[:, None]), np.arange(taps))
    return scattered(number[inside] * BLOCK_BYTES, BLOCK_BYTES)
