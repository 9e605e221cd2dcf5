# SPDX-License-Identifier: Apache-2.0
"""Arguments that many rows share, and the pipes of moves by route."""

from __future__ import annotations

MASK = "mask0:mask mask1:mask repeat:count{0..255}"
BLOCK = 32
SHORT, LONG = 255 * BLOCK, 65535 * BLOCK  # largest distances that a byte, two bytes of blocks hold


def strides(*operands: str, rep: int = SHORT) -> str:
    """Block and repeat stride of each operand."""
    return " ".join(f"{o}_blk:bytes{{0..{LONG}}} {o}_rep:bytes{{0..{rep}}}" for o in operands)


WINDOW = (
    "pad_l:count[0..255] pad_r:count[0..255] pad_t:count[0..255] pad_b:count[0..255] l1_h:count[1..32767] "
    "l1_w:count[1..32767] stride_w:count[1..63] stride_h:count[1..63] filter_w:count[1..255] filter_h:count[1..255] "
    "dilation_w:count[1..255] dilation_h:count[1..255]"
)
"""Geometry of a convolution."""

MASK_KIND = "mask_kind[0..2]"
MAX_SIDE = 1 << 31  # m, k, n of a product: keeps the sizes of its operands in 128 bits; memory ends long before

_MOVES = {
    ("ub", "gm"): "MTE2",
    ("l1", "gm"): "MTE2",
    ("l0a", "gm"): "MTE2",
    ("l0b", "gm"): "MTE2",
    ("gm", "ub"): "MTE3",
    ("ub", "ub"): "V",
    ("l0a", "l1"): "MTE1",
    ("l0b", "l1"): "MTE1",
}
# On a fused core the vector unit moves between L0C and UB.
_FUSED = {**_MOVES, ("ub", "l1"): "MTE1", ("l1", "ub"): "MTE3", ("ub", "l0c"): "V", ("l0c", "ub"): "V"}
# On a split core L0C is emptied by a pipe of its own, and L1 has a way to GM and into the bias table.
_SPLIT = {**_MOVES, ("gm", "l1"): "MTE3", ("bt", "l1"): "MTE1", ("l0c", "bt"): "M", ("gm", "l0c"): "FIX",
          ("l1", "l0c"): "FIX"}  # fmt: skip
BY_ROUTE = (_FUSED, _SPLIT)
"""Pipe of a move by (dst scope, src scope): on fused cores, on split ones."""
