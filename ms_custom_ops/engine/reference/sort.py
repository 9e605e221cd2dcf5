# SPDX-License-Identifier: Apache-2.0
"""Sorting: groups of proposals or of scores with indices, and merges of sorted lists.

Descending; NaN behind every number; equal scores keep their order, which a stable sort on :func:`order` gives.
"""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.engine.reference.numbers import widen

SCORES = frozenset({"float16", "float32"})
GROUP, PROPOSAL, SCORE = 16, 8, 4
RECORD_BYTES = 8
SORT32 = 32
LISTS = 4
_VALID_BITS = (1, 3, 7, 15)  # of 1 to 4 lists


def order(scores: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Keys in ascending order of which scores descend, and which of them are NaN (behind all others)."""
    wide = widen(scores, dtype).astype(np.float64)
    return np.where(np.isnan(wide), np.inf, -wide), np.isnan(wide)


def sorted_places(scores: np.ndarray, dtype: str) -> np.ndarray:
    """Places of the scores in descending order, stable."""
    key, missing = order(scores, dtype)
    return np.lexsort((np.arange(len(scores)), key, missing))


def rows_of(operand: Operand, first: int, count: int, record: int) -> np.ndarray:
    """A copy of ``count`` records of ``record`` bytes from byte ``first`` on, as rows of bytes."""
    return operand.view(first, count * record).copy().reshape(count, record)


def _scores(rows: np.ndarray, operand: Operand, at: int) -> np.ndarray:
    return np.ascontiguousarray(rows[:, at : at + operand.size]).view(operand.numpy)[:, 0]


@instruction("vrpsort16")
def vrpsort16(call: Call) -> None:
    """Each 16 proposals in descending order of their scores."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, src)
    record, repeat = PROPOSAL * src.size, int(call.args["repeat"])
    for operand in (src, dst):
        operand.check(0, repeat * GROUP * record)
    for r in range(repeat):
        rows = rows_of(src, r * GROUP * record, GROUP, record)
        places = sorted_places(_scores(rows, src, SCORE * src.size), src.dtype)
        dst.view(r * GROUP * record, GROUP * record)[:] = rows[places].reshape(-1)


@instruction("vsort32")
def vsort32(call: Call) -> None:
    """Each 32 scores with their indices as sorted 8-byte records."""
    dst, src, index = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, src, index)
    call.need_dtype(src, SCORES)
    call.need_same_dtype(src, dst)
    call.need_dtype(index, {"uint32"})
    repeat = int(call.args["repeat"])
    for operand, size in ((src, src.size), (index, index.size), (dst, RECORD_BYTES)):
        operand.check(0, repeat * SORT32 * size)
    for r in range(repeat):
        scores = rows_of(src, r * SORT32 * src.size, SORT32, src.size)
        rows = np.zeros((SORT32, RECORD_BYTES), np.uint8)
        rows[:, : src.size] = scores
        rows[:, 4:] = rows_of(index, r * SORT32 * 4, SORT32, 4)
        places = sorted_places(scores.reshape(-1).view(src.numpy), src.dtype)
        dst.view(r * SORT32 * RECORD_BYTES, SORT32 * RECORD_BYTES)[:] = rows[places].reshape(-1)


def _merge(lists: list[np.ndarray], keys: list[list[tuple]], suspend: bool) -> tuple[list[np.ndarray], list[int]]:
    """Records in merged order and how many came from each list."""
    taken = [0] * len(lists)
    out: list[np.ndarray] = []
    while True:
        open_lists = [i for i, rows in enumerate(lists) if taken[i] < len(rows)]
        if not open_lists or suspend and len(open_lists) < len(lists):
            return out, taken
        best = min(open_lists, key=lambda i: (keys[i][taken[i]][1], keys[i][taken[i]][0], i))
        out.append(lists[best][taken[best]])
        taken[best] += 1


@instruction("vmrgsort")
def vmrgsort(call: Call) -> None:
    """Merge of sorted lists, each repeat that many records further on."""
    dst, sr = call["dst"], call["sr"]
    valid = int(call.args["valid_bit"])
    accepted = _VALID_BITS[: call.attrs["lists"]]
    words = [", ".join(map(str, accepted[:-1])), str(accepted[-1])]
    call.need(valid in accepted, "valid_bit", valid, " or ".join(w for w in words if w))
    count = valid.bit_length()
    sources = [call[f"src{i}"] for i in range(LISTS)]
    call.need_on_chip(dst, sr, *sources)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, *sources)
    call.need_dtype(sr, {"uint16"})
    suspend, pairs = bool(call.attrs["suspend"]), bool(call.attrs["record"])
    record, at = (RECORD_BYTES, 0) if pairs else (PROPOSAL * dst.size, SCORE * dst.size)
    sources = sources[:count]
    lengths = [int(call.args[f"len{i}"]) for i in range(count)]
    repeat, step = int(call.args["repeat"]), sum(lengths) * record
    if not repeat:
        return
    for source, length in zip(sources, lengths, strict=True):
        source.check(0, (repeat - 1) * step + length * record if length else 0)
    dst.check(0, repeat * step)
    state = sr.view(0, LISTS * 2).view(np.uint16)
    for r in range(repeat):
        lists = [
            rows_of(s, r * step, n, record) if n else np.zeros((0, record), np.uint8)
            for s, n in zip(sources, lengths, strict=True)
        ]
        keys = [list(zip(*order(_scores(rows, dst, at), dst.dtype), strict=True)) for rows in lists]
        out, taken = _merge(lists, keys, suspend)
        if out:
            dst.view(r * step, len(out) * record)[:] = np.concatenate(out)
        state[:] = [n & 0xFFFF for n in (*taken, *[0] * (LISTS - count))]
