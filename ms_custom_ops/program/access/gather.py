# SPDX-License-Identifier: Apache-2.0
"""Access of instructions that take byte offsets, and of broadcasts of elements to blocks."""

from __future__ import annotations

from ms_custom_ops.program.access.box import Box, box
from ms_custom_ops.program.access.lanes import block_groups, dense, groups_of, lanes_of, strided
from ms_custom_ops.program.access.use import Access, Use
from ms_custom_ops.program.names import BLOCK_BYTES, BLOCKS

OFFSET_BYTES = 4


def gather(use: Use, operand: str) -> list[Box] | Access:
    """vgather, vscatter: lanes and their offsets; the operand without strides is touched anywhere."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    if operand == "offset":
        return dense(groups, count, OFFSET_BYTES)
    if use.has(f"{operand}_blk"):
        return strided(use, operand, groups)
    return use.anywhere(operand) if any(g.on for g in groups) else []


def blocks(use: Use, operand: str) -> list[Box] | Access:
    """vgatherb, vbcb: 8 whole blocks of dst per repeat; 8 offsets or 8 elements."""
    repeat = use.arg("repeat")
    if operand == "dst":
        blk, rep = use.ints("dst_blk", "dst_rep")
        return box(0, BLOCK_BYTES, BLOCKS, blk, repeat, rep)
    if operand == "src" and "offset" in use.sizes:
        return use.anywhere(operand) if repeat else []
    return box(0, repeat * BLOCKS * use.sizes[operand])


def bilinear(use: Use, operand: str) -> list[Box] | Access:
    """vbi: lanes of dst; for each horizontal repeat an offset for every block with a lane on, and one weight or one
    per block."""
    count, steps = lanes_of(use), use.arg("h_repeat")
    groups = groups_of(use, count)
    if not steps or not any(g.on for g in groups):
        return []
    if operand == "dst":
        return strided(use, operand, groups)
    if operand == "src0":
        return use.anywhere(operand)
    size = use.sizes[operand]
    if operand == "src1" and not use.attr("repeat_mode"):
        return box(0, sum(g.repeats for g in groups if g.on) * steps * size)
    found: list[Box] = []
    for g in block_groups(groups, count):
        for first, end in g.on:
            at = (g.first * steps * BLOCKS + first) * size
            found += box(at, (end - first) * size, g.repeats * steps, BLOCKS * size)
    return found
