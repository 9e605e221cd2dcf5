# SPDX-License-Identifier: Apache-2.0
"""Rows of the image-to-column unit, and the convolution that stands on it."""

from __future__ import annotations

import re

from ms_custom_ops.program.access import image as access
from ms_custom_ops.program.isa.args import WINDOW
from ms_custom_ops.program.isa.row import row

_FIRST = "first_w:count[0..65535] first_h:count[0..65535]"
_TAP = f"fetch_w:count fetch_h:count {_FIRST} {WINDOW}"
_REPEAT = "repeat:count[0..255]"

ROWS = (
    row(
        "load3dv1",
        "dst:w src:r",
        f"c1:count[0..4095] {_TAP} jump:fractals[0..127] {_REPEAT} pad_value:value",
        "repeat_mode[0..1]",
        "MTE1",
        access.load3dv1,
        "image to column: src is [C1, l1_h, l1_w] blocks of 32 bytes (C0 channels), padded by pad_*; repeat r "
        "writes one fractal of 16 blocks at dst + r*jump*512: block i is the element under the filter tap for "
        "output pixel i. Pixels run over windows at (first_w, first_h) of the padded map, then every stride_w to "
        "the last one that fits, then the next row from its start; taps outside the map, and pixels beyond the "
        "last row, give pad_value. repeat_mode 0: the tap (fetch_w, fetch_h) of channel block c1 moves on by one "
        "per repeat (width, height, c1); 1: the 16 pixels move on by 16 per repeat",
    ),
    row(
        "load3dv2",
        "dst:w src:r",
        " ".join(f"{n}:count[0..65535]" for n in ("channels", "k_ext", "m_ext", "k_start", "m_start"))
        + f" {WINDOW} pad_value:value",
        "layout[0..2]",
        "MTE1",
        access.load3dv2,
        "window [m_start, m_start + m_ext) x [k_start, k_start + k_ext) of the image-to-column matrix, whose rows"
        " are the output pixels and whose columns are (c1, filter_h, filter_w, c0). layout 0: zZ fractals of it "
        "(L0A); 1: nZ fractals of it (L0B, rows are k of the product); 2: zZ fractals of its transpose (L0A). The"
        " window is rounded up to whole fractals; what lies outside the matrix is pad_value. A size of 0 does "
        "nothing",
    ),
    row(
        "col2img",
        "dst:rw src:r",
        f"{_TAP} {_REPEAT}",
        "",
        "V",
        access.col2img,
        "inverse of load3dv1 with repeat_mode 1 for one filter tap: row i of fractal r of src (16 channels per "
        "pixel in every dtype) is added to the element of dst [l1_h, l1_w, 16] under the tap of pixel 16*r + i; "
        "taps in the padding and pixels beyond the last row add nothing; one rounding per addition, fractals in "
        "order",
    ),
    row(
        "conv2d",
        "dst:rw[!init] fm:r weight:r",
        "pad_value:value",
        f"c1[0..4095] cout[0..65520] {re.sub(r':[a-z]+', '', WINDOW)} init[0..1]",
        "M",
        access.conv2d,
        "L0C [cout/16, pixels rounded up to 16, 16] (+)= image-to-column matrix of L1 fm [C1, l1_h, l1_w, C0] @ "
        "L1 weight [C1, filter_h, filter_w, cout, C0]; same arithmetic and order of k as matmul over k = (c1, h, "
        "w, c0); rows beyond the last pixel are computed from pad_value",
    ),
)
