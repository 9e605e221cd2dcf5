# SPDX-License-Identifier: Apache-2.0
"""Numbers that instructions of a Program are written in: mask kinds, rounding modes, pipes, sizes of the hardware."""

from __future__ import annotations

MASK_COUNT, MASK_BITS, MASK_COUNTER = 0, 1, 2
MASK_PER_REPEAT = 3  # mask_kind of vreduce alone: mask0 elements in each of `repeat` repeats
MODE_FLOAT, MODE_INT = 0, 1  # "which" of set_mode
ROUND_MODES = {
    "": 0,
    "none": 0,
    "round": 1,
    "floor": 2,
    "ceil": 3,
    "ceiling": 3,
    "away-zero": 4,
    "to-zero": 5,
    "odd": 6,
}
COMPARES = {"lt": 0, "gt": 1, "ge": 2, "eq": 3, "ne": 4, "le": 5}
PIPES = {
    "PIPE_S": 0,
    "PIPE_V": 1,
    "PIPE_M": 2,
    "PIPE_MTE1": 3,
    "PIPE_MTE2": 4,
    "PIPE_MTE3": 5,
    "PIPE_FIX": 6,
    "PIPE_ALL": 7,
}
ATOMIC_MODES = {0: None, 1: "float32", 2: "float16", 3: "int16", 4: "int32", 5: "int8", 6: "bfloat16"}
VECTOR_SCALE, BIAS, ADD, SHORT_SCALE = 1, 2, 4, 8  # "flags" of l0c_out
YUV420SP, RGB888, YUV400 = 0, 4, 9  # "format" of load_image
IMAGE_CROP, IMAGE_SWAP, IMAGE_PAD = 1, 4, 512  # its "functions"

VECTOR_BYTES = 256
BLOCK_BYTES = 32
BLOCKS = VECTOR_BYTES // BLOCK_BYTES  # of a repeat
FRACTAL_SIDE = 16
FRACTAL_ELEMENTS = 256
FRACTAL_BYTES = 512
