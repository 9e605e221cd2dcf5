# SPDX-License-Identifier: Apache-2.0
"""16x16 transposes."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES

SIDE = 16
_HALF = BLOCK_BYTES // 2


@instruction("vnchwconv")
def vnchwconv(call: Call) -> None:
    """16 blocks per repeat, read together and written transposed, dst0 to dst15 in order."""
    sources = [call[f"src{i}"] for i in range(SIDE)]
    targets = [call[f"dst{i}"] for i in range(SIDE)]
    call.need_on_chip(*targets, *sources)
    call.need_same_dtype(*targets, *sources)
    size = sources[0].size
    call.need(size in (1, 2, 4), "element size", size, "1, 2 or 4 bytes")
    length = _HALF if size == 1 else BLOCK_BYTES
    src_half = _HALF * int(bool(call.attrs["src_high"])) if size == 1 else 0
    dst_half = _HALF * int(bool(call.attrs["dst_high"])) if size == 1 else 0
    repeat, src_rep, dst_rep = (int(call.args[n]) for n in ("repeat", "src_rep", "dst_rep"))
    for operands, half, step in ((targets, dst_half, dst_rep), (sources, src_half, src_rep)):
        for operand in operands:
            if repeat:
                operand.check(half, half + (repeat - 1) * step + length)
    for r in range(repeat):
        rows = np.stack([s.view(r * src_rep + src_half, length).view(f"u{size}") for s in sources])
        # A 16x8 source of 32-bit elements becomes 8 columns of 16, each of them two blocks.
        blocks = rows.T.reshape(SIDE, -1)
        for target, block in zip(targets, blocks, strict=True):
            target.view(r * dst_rep + dst_half, length)[:] = np.ascontiguousarray(block).view(np.uint8)


@instruction("vtranspose")
def vtranspose(call: Call) -> None:
    """512 contiguous bytes as a 16x16 matrix of 16-bit elements, transposed."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_same_dtype(dst, src)
    call.need(src.size == 2, "element size", src.size, "2 bytes")
    source, target = src.view(0, FRACTAL_BYTES), dst.view(0, FRACTAL_BYTES)
    target[:] = transposed_fractal(source)


def transposed_fractal(raw: np.ndarray) -> np.ndarray:
    """The bytes of a transposed 16x16 fractal of 16-bit elements."""
    return np.ascontiguousarray(raw.copy().view(np.uint16).reshape(SIDE, SIDE).T).reshape(-1).view(np.uint8)
