# SPDX-License-Identifier: Apache-2.0
"""Access of vector instructions: lanes that a mask turns on, at block and repeat strides.

Lane ``L`` of repeat ``r`` of an operand of ``size`` bytes lies at ``r*rep + (L // E)*blk + (L % E)*size`` with
``E = 32 // size``.
"""

from __future__ import annotations

from typing import NamedTuple

from ms_custom_ops.program.access.box import Box, box, runs
from ms_custom_ops.program.access.use import Access, Use
from ms_custom_ops.program.names import BLOCK_BYTES, BLOCKS, MASK_BITS, MASK_COUNTER, MASK_PER_REPEAT, VECTOR_BYTES


class Group(NamedTuple):
    """Repeats [first, first + repeats) whose lanes ``on`` ([first, end) each) are on."""

    first: int
    repeats: int
    on: list[tuple[int, int]]


def lanes_of(use: Use) -> int:
    """Lanes of a repeat: 256 bytes of the widest operand that has strides."""
    strided = [size for name, size in use.sizes.items() if use.has(f"{name}_blk")]
    return VECTOR_BYTES // max(strided)


def counter_groups(count: int, lanes: int) -> list[Group]:
    """``count`` elements in all, ``lanes`` in each repeat but the last."""
    full, tail = divmod(count, lanes)
    found = [Group(0, full, [(0, lanes)])] if full else []
    return found + ([Group(full, 1, [(0, tail)])] if tail else [])


def groups_of(use: Use, lanes: int) -> list[Group]:
    """The repeats of a masked instruction; those without a lane on are there with no runs."""
    if not use.has("mask0"):
        return [Group(0, use.arg("repeat"), [(0, lanes)])] if use.arg("repeat") else []
    mask0, kind = use.arg("mask0"), use.attr("mask_kind")
    if kind == MASK_COUNTER:
        return counter_groups(mask0, lanes)
    if not use.arg("repeat"):
        return []
    if kind == MASK_BITS:
        bits = (use.arg("mask1") % (1 << 64)) << 64 | mask0 % (1 << 64)
        return [Group(0, use.arg("repeat"), runs(bits >> i & 1 == 1 for i in range(lanes)))]
    return [Group(0, use.arg("repeat"), [(0, mask0)] if mask0 else [])]


def lane_run(first: int, end: int, size: int, blk: int, repeats: int, rep: int, at: int) -> list[Box]:
    """Lanes [first, end) of ``repeats`` repeats that begin at byte ``at``."""
    if blk == BLOCK_BYTES:
        return box(at + first * size, (end - first) * size, repeats, rep)
    per_block = BLOCK_BYTES // size
    found: list[Box] = []
    head, tail = -(-first // per_block), end // per_block  # whole blocks [head, tail)
    if head > tail:  # inside one block
        return box(at + tail * blk + first % per_block * size, (end - first) * size, repeats, rep)
    if first % per_block:
        found += box(at + (head - 1) * blk + first % per_block * size, (-first % per_block) * size, repeats, rep)
    found += box(at + head * blk, BLOCK_BYTES, tail - head, blk, repeats, rep)
    return found + box(at + tail * blk, end % per_block * size, repeats, rep)


def strided(use: Use, operand: str, groups: list[Group]) -> list[Box]:
    """The lanes of an operand that has ``<operand>_blk`` and ``<operand>_rep``."""
    size, (blk, rep) = use.sizes[operand], use.ints(f"{operand}_blk", f"{operand}_rep")
    return [
        b for g in groups for first, end in g.on for b in lane_run(first, end, size, blk, g.repeats, rep, g.first * rep)
    ]


def block_groups(groups: list[Group], lanes: int) -> list[Group]:
    """Blocks (of 8) with a lane on, in place of lanes."""
    return result_groups(groups, lanes, lanes // BLOCKS)


def result_groups(groups: list[Group], lanes: int, width: int) -> list[Group]:
    """Groups of ``width`` adjacent lanes with a lane on, in place of lanes."""
    found = []
    for g in groups:
        flags = [False] * (lanes // width)
        for first, end in g.on:
            for i in range(first // width, -(-end // width)):
                flags[i] = True
        found.append(Group(g.first, g.repeats, runs(flags)))
    return found


def dense(groups: list[Group], per_repeat: int, size: int) -> list[Box]:
    """Elements that lie one after the other, ``per_repeat`` to a repeat: those that are on."""
    step = per_repeat * size
    return [
        b
        for g in groups
        for first, end in g.on
        for b in box(g.first * step + first * size, (end - first) * size, g.repeats, step)
    ]


def lanes(use: Use, operand: str) -> list[Box]:
    """Lanes that are on, of every operand."""
    return strided(use, operand, groups_of(use, lanes_of(use)))


def compare(use: Use, operand: str) -> list[Box]:
    """Lanes of the sources that are on; bits of all lanes, densely, in dst."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    if operand != "dst":
        return strided(use, operand, groups)
    return box(0, sum(g.repeats for g in groups) * count // 8) if any(g.on for g in groups) else []


def select(use: Use, operand: str) -> list[Box]:
    """Lanes that are on; of ``sel`` the bits of all lanes, once (mode 0) or for each repeat."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    if operand != "sel":
        return strided(use, operand, groups)
    repeats = sum(g.repeats for g in groups)
    return box(0, count // 8 * (repeats if use.attr("mode") else min(repeats, 1)))


def half_blocks(use: Use, operand: str) -> list[Box]:
    """vconv_deq: lanes of src; a half of each block of dst, 16 results; 16 scale words where they are used."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    half = BLOCK_BYTES // 2
    if operand == "src":
        return strided(use, operand, groups)
    if operand == "scale":
        return box(0, 16 * 8) if use.attr("vector") and any(g.on for g in groups) else []
    blk, rep = use.ints("dst_blk", "dst_rep")
    found: list[Box] = []
    for g in groups:
        for first, end in g.on:
            for b in range(first // half, -(-end // half)):
                low, high = max(first, b * half), min(end, (b + 1) * half)
                at = g.first * rep + b * blk + low % half + use.attr("high") * half
                found += box(at, high - low, g.repeats, rep)
    return found


def border(use: Use, operand: str) -> list[Box]:
    """vpadding: blocks of src with a lane that is on are read whole."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    if operand == "dst":
        return strided(use, operand, groups)
    width = count // BLOCKS
    whole = [Group(g.first, g.repeats, [(a * width, b * width) for a, b in g.on]) for g in block_groups(groups, count)]
    return strided(use, operand, whole)


_RESULTS = {"vcadd": 0, "vcmax": 0, "vcmin": 0, "vcpadd": 2}  # lanes of a result; 0: all


def reductions(use: Use, operand: str) -> list[Box]:
    """Lanes of src that are on; per repeat one sum, a pair of value and index, or a result for each group of lanes
    with one that is on."""
    count = lanes_of(use)
    groups = groups_of(use, count)
    if operand == "src":
        return strided(use, operand, groups)
    size, rep, name = use.sizes[operand], use.arg("dst_rep"), use.row.name
    width = _RESULTS.get(name, count // BLOCKS)
    if name == "vcadd":
        return [b for g in groups for b in box(g.first * rep, size, g.repeats, rep)]
    if not width:
        return [b for g in groups if g.on for b in box(g.first * rep, 2 * size, g.repeats, rep)]
    return [
        b
        for g in result_groups(groups, count, width)
        for first, end in g.on
        for b in box(g.first * rep + first * size, (end - first) * size, g.repeats, rep)
    ]


def _kept(elements: int, pattern: int) -> int:
    """How many of the first ``elements`` elements a fixed pattern keeps."""
    if pattern == 7:
        return elements
    step, first = (2, pattern - 1) if pattern < 3 else (4, pattern - 3)
    return max(0, -(-(elements - first) // step))


def compaction(use: Use, operand: str) -> list[Box] | Access:
    """vreduce: every element of src0, the bits of pattern 0 in src1, the kept elements densely at dst."""
    count = VECTOR_BYTES // use.sizes["src0"]
    kind, pattern = use.attr("mask_kind"), use.attr("pattern")
    mask0, repeat = use.ints("mask0", "repeat")
    if kind == MASK_COUNTER:
        groups = counter_groups(mask0, count)
    else:
        each = mask0 if kind == MASK_PER_REPEAT else count
        groups = [Group(0, repeat, [(0, each)])] if repeat and each else []
    if operand == "count":
        return box(0, 4)
    if operand == "src0":
        return strided(use, operand, groups)
    if operand == "src1":
        rep = use.arg("src1_rep")
        bits = groups if pattern == 0 else []
        return [b for g in bits for b in box(g.first * rep, -(-g.on[0][1] // 8), g.repeats, rep)]
    each_kept = [(g.repeats, g.on[0][1] if pattern == 0 else _kept(g.on[0][1], pattern)) for g in groups]
    found = box(0, sum(n * k for n, k in each_kept) * use.sizes["dst"])
    return Access(tuple(found), pattern != 0)
