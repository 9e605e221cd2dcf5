# SPDX-License-Identifier: Apache-2.0
"""Access of sorting and proposal instructions: records one after the other, and fields of them."""

from __future__ import annotations

from ms_custom_ops.program.access.box import Box, box
from ms_custom_ops.program.access.use import Access, Use
from ms_custom_ops.program.names import BLOCK_BYTES, BLOCKS, VECTOR_BYTES

GROUP, PROPOSAL = 16, 8  # proposals of a repeat, elements of a proposal
CORNERS = 4  # x1 y1 x2 y2, the first elements of a proposal
SORT32, RECORD_BYTES = 32, 8
KEPT = 4  # elements of a block that vmrgch keeps


def whole(use: Use, operand: str, per_repeat: int) -> list[Box]:
    """``per_repeat`` elements for each repeat, densely."""
    return box(0, use.arg("repeat") * per_repeat * use.sizes[operand])


def once(use: Use, operand: str, count: int) -> list[Box]:
    """``count`` elements that serve every repeat."""
    return box(0, count * use.sizes[operand]) if use.arg("repeat") else []


def corners(use: Use, operand: str, proposals: int) -> list[Box]:
    """Coordinates of proposals."""
    size = use.sizes[operand]
    return box(0, CORNERS * size, proposals, PROPOSAL * size)


def field(use: Use, operand: str) -> list[Box]:
    """vconcat, vextract: one field of each proposal on one side, elements on the other."""
    if operand != ("dst" if use.row.name == "vconcat" else "src"):
        return whole(use, operand, GROUP)
    size = use.sizes[operand]
    return box(use.arg("field") * size, size, use.arg("repeat") * GROUP, PROPOSAL * size)


def sort16(use: Use, operand: str) -> list[Box]:
    """vrpsort16: whole proposals."""
    return whole(use, operand, GROUP * PROPOSAL)


def sort32(use: Use, operand: str) -> list[Box]:
    """vsort32: scores, indices, records of 8 bytes."""
    if operand == "dst":
        return box(0, use.arg("repeat") * SORT32 * RECORD_BYTES)
    return whole(use, operand, SORT32)


def merge(use: Use, operand: str) -> list[Box] | Access:
    """vmrgsort: the lists in use; as many records of dst, fewer where one that runs out stops the merge."""
    repeat, lists = use.arg("repeat"), use.arg("valid_bit").bit_length()
    lengths = use.ints("len0", "len1", "len2", "len3")[:lists]
    record = RECORD_BYTES if use.attr("record") else PROPOSAL * use.sizes["dst"]
    step = sum(lengths) * record
    if operand == "sr":
        return box(0, 4 * 2) if repeat else []
    if operand == "dst":
        return Access(tuple(box(0, repeat * step)), not use.attr("suspend"))
    number = int(operand.removeprefix("src"))
    return box(0, lengths[number] * record, repeat, step) if number < lists else []


def areas(use: Use, operand: str) -> list[Box]:
    """vrpac: coordinates, one area each."""
    if operand == "dst":
        return whole(use, operand, GROUP)
    return corners(use, operand, use.arg("repeat") * GROUP)


def square(use: Use, operand: str) -> list[Box]:
    """vaadd, viou: 16 of src0 per repeat with the same 16 of src1."""
    if operand == "dst":
        return whole(use, operand, GROUP * GROUP)
    boxes_ = use.row.name == "viou"
    if operand == "src0":
        return corners(use, operand, use.arg("repeat") * GROUP) if boxes_ else whole(use, operand, GROUP)
    if not use.arg("repeat"):
        return []
    return corners(use, operand, GROUP) if boxes_ else once(use, operand, GROUP)


def heads(use: Use, operand: str) -> list[Box]:
    """vmrgch: the first 4 elements of each of 8 blocks per repeat."""
    if operand == "dst":
        return whole(use, operand, BLOCKS * KEPT)
    return box(0, KEPT * use.sizes[operand], BLOCKS, BLOCK_BYTES, use.arg("repeat"), VECTOR_BYTES)


def suppression(use: Use, operand: str) -> list[Box]:
    """rpn_cor, rpn_cor_diag: 16 rows of uint16 per repeat, one word of state."""
    if operand == "ir":
        return once(use, operand, 1) if use.has("repeat") else box(0, use.sizes[operand])
    row = GROUP * use.sizes[operand]
    if not use.has("repeat"):
        return box(0, row)
    return box(0, row, use.arg("repeat"), use.arg(f"{operand}_rep"))
