# SPDX-License-Identifier: Apache-2.0
"""Gather and scatter by byte offsets, broadcasts of elements to blocks, index ramps, copies, border blocks."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.lanes import Access, lanes_per_repeat, run_repeats, selected, vector_access
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.engine.reference.numbers import narrow, widen
from ms_custom_ops.engine.reference.vector import NUMERIC
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES, VECTOR_BYTES

BLOCKS = VECTOR_BYTES // BLOCK_BYTES
OFFSETS = frozenset({"uint32", "int32"})
MOVED = frozenset(d for d, size in SIZE.items() if size in (1, 2, 4))


def read_dense(operand: Operand, offsets: np.ndarray, on: np.ndarray | None = None) -> np.ndarray:
    """A copy of the elements at byte ``offsets`` from the operand's start."""
    return operand.load(operand.positions(offsets, on)).copy()


def _offsets(call: Call, on: np.ndarray, size: int) -> np.ndarray:
    """Byte offsets of every lane: base plus the number the lane holds; of lanes that are off anything."""
    call.need_dtype(call["offset"], OFFSETS)
    at = np.arange(on.size, dtype=np.int64).reshape(on.shape) * call["offset"].size
    offsets = read_dense(call["offset"], at, on).astype(np.int64) + int(call.args["base"])
    _need_multiples(call, offsets[on], size)
    return offsets


def _need_multiples(call: Call, offsets: np.ndarray, size: int) -> None:
    uneven = offsets[offsets % size != 0]
    if uneven.size:
        call.refuse("byte offset", uneven.flat[0], f"multiples of {size}")


@instruction("vgather")
def vgather(call: Call) -> None:
    """dst lane = the element of src at base + offset of the lane."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src, call["offset"])
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    on = selected(call, lanes_per_repeat(dst))
    source = Access(src, src.positions(_offsets(call, on, dst.size), on), on, src.numpy)
    run_repeats(vector_access(call, "dst", on), [source], lambda rows, x: x)


@instruction("vscatter")
def vscatter(call: Call) -> None:
    """The element of dst at base + offset of the lane = src lane; later lanes win."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src, call["offset"])
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    on = selected(call, lanes_per_repeat(src))
    offsets = _offsets(call, on, src.size)
    source = vector_access(call, "src", on)
    target = Access(dst, dst.positions(offsets, on), on, dst.numpy)
    for r in range(on.shape[0]):
        rows = slice(r, r + 1)
        target.store(rows, source.load(rows))


@instruction("vgatherb")
def vgatherb(call: Call) -> None:
    """8 blocks of src per repeat, each at a byte offset of its own."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src, call["offset"])
    call.need_same_dtype(dst, src)
    call.need_dtype(call["offset"], {"uint32"})
    repeat = int(call.args["repeat"])
    heads = read_dense(call["offset"], np.arange(repeat * BLOCKS).reshape(repeat, BLOCKS) * 4).astype(np.int64)
    source = _block_access(src, heads)
    run_repeats(_block_access(dst, _block_heads(call, repeat)), [source], lambda rows, x: x)


def _block_heads(call: Call, repeat: int) -> np.ndarray:
    return np.arange(repeat)[:, None] * int(call.args["dst_rep"]) + np.arange(BLOCKS) * int(call.args["dst_blk"])


def _block_access(operand: Operand, heads: np.ndarray) -> Access:
    """Access to whole blocks at byte offsets ``heads`` (repeats, blocks), as bytes."""
    at = (heads[:, :, None] + np.arange(BLOCK_BYTES)).reshape(len(heads), VECTOR_BYTES)
    return Access(operand, operand.positions(at, None, 1), None, np.uint8)


@instruction("vbcb")
def vbcb(call: Call) -> None:
    """Each of 8 consecutive elements fills a block."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    repeat = int(call.args["repeat"])
    at = np.arange(repeat * BLOCKS).reshape(repeat, BLOCKS) * src.size
    source = Access(src, src.positions(at), None, src.numpy)
    per_block = BLOCK_BYTES // src.size
    elements = (_block_heads(call, repeat)[:, :, None] + np.arange(per_block) * src.size).reshape(
        repeat, BLOCKS * per_block
    )
    target = Access(dst, dst.positions(elements), None, dst.numpy)
    run_repeats(target, [source], lambda rows, x: np.repeat(x, per_block, axis=1))


@instruction("vci")
def vci(call: Call) -> None:
    """dst lane = scalar + number of the element."""
    dst = call["dst"]
    call.need_on_chip(dst)
    call.need_dtype(dst, NUMERIC)
    on = selected(call, lanes_per_repeat(dst))
    scalar = widen(call.value("scalar", dst), dst.dtype)
    index = np.arange(on.size).reshape(on.shape)

    def body(rows: slice) -> np.ndarray:
        if np.issubdtype(scalar.dtype, np.floating):
            return narrow(scalar + index[rows].astype(np.float32), dst.dtype, call.saturate)
        return (int(scalar) + index[rows]).astype(dst.numpy)

    run_repeats(vector_access(call, "dst", on), [], body)


@instruction("vcopy")
def vcopy(call: Call) -> None:
    """dst lane = src lane, bit for bit."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    on = selected(call, lanes_per_repeat(dst))
    source = vector_access(call, "src", on)
    run_repeats(vector_access(call, "dst", on), [source], lambda rows, x: x)


def border(x: np.ndarray, mode: int, right: bool) -> np.ndarray:
    """The block beside each block of ``x`` (last axis): nearest, mirrored with or without the edge."""
    if mode == 0:
        return np.broadcast_to(x[..., -1:] if right else x[..., :1], x.shape)
    mirrored = x[..., ::-1]
    if mode == 1:
        return mirrored
    missing = np.zeros_like(x[..., :1])
    parts = [mirrored[..., 1:], missing] if right else [missing, mirrored[..., :-1]]
    return np.concatenate(parts, axis=-1)


@instruction("vpadding")
def vpadding(call: Call) -> None:
    """Each block of dst is the border of the block of src."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    mode, right = call.attrs["pad_mode"], bool(call.attrs["pad_side"])
    on = selected(call, lanes_per_repeat(dst))
    whole = np.repeat(on.reshape(len(on), BLOCKS, on.shape[1] // BLOCKS).any(axis=2), on.shape[1] // BLOCKS, axis=1)
    source = vector_access(call, "src", whole)

    def body(rows: slice, x: np.ndarray) -> np.ndarray:
        return border(x.reshape(len(x), BLOCKS, x.shape[1] // BLOCKS), mode, right).reshape(x.shape)

    run_repeats(vector_access(call, "dst", on), [source], body)


@instruction("vbi")
def vbi(call: Call) -> None:
    """Weighted sums of gathered blocks, see the isa module."""
    dst, src0, src1 = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, src0, src1, call["offset"])
    call.need_dtype(dst, {"float16", "float32"})
    call.need_same_dtype(dst, src0, src1)
    call.need_dtype(call["offset"], {"uint32"})
    per_block = call.attrs["repeat_mode"] == 1
    on = selected(call, lanes_per_repeat(dst))
    vertical, steps = on.shape[0], int(call.args["h_repeat"])
    if not steps or not on.any():
        return
    used = np.repeat(on.reshape(vertical, 1, BLOCKS, -1).any(axis=3), steps, axis=1)
    heads = _gathered(call["offset"], (vertical, steps, BLOCKS), used).astype(np.int64)
    shape = (vertical, steps, BLOCKS if per_block else 1)
    weights = widen(_gathered(src1, shape, used if per_block else used.any(axis=2, keepdims=True)), dst.dtype)
    element = np.arange(on.shape[1] // BLOCKS)
    at = (heads[..., None] + element * src0.size).reshape(vertical, steps, -1)
    lanes_on = np.repeat(on[:, None, :], steps, axis=1)
    positions = src0.positions(at, lanes_on)
    target = vector_access(call, "dst", on)
    for v in range(vertical):
        total = np.zeros(on.shape[1], dst.numpy)
        for h in range(steps):
            x = widen(src0.load(positions[v, h]), dst.dtype)
            weight = np.broadcast_to(weights[v, h], (BLOCKS,)).repeat(len(element))
            product = narrow(x * weight, dst.dtype, call.saturate)
            if h:
                product = narrow(widen(total, dst.dtype) + widen(product, dst.dtype), dst.dtype, call.saturate)
            total = product
        target.store(slice(v, v + 1), total[None])


def _gathered(operand: Operand, shape: tuple, used: np.ndarray) -> np.ndarray:
    """Consecutive elements of an operand as an array; only ``used`` ones are read."""
    return read_dense(operand, np.arange(int(np.prod(shape))).reshape(shape) * operand.size, used)
