# SPDX-License-Identifier: Apache-2.0
"""Instructions that Ascend C has no call of, or none whose bits are proven, and what a TIK kernel does instead."""

from __future__ import annotations

_BOXES = "the same by vmax, vmin, vsub and vmul of the coordinates, each in a tensor of its own (vextract)"

INSTEAD = {
    "load2d_square": "load2dv2 of one fractal after the other, of 2 bytes",
    "load_image": "data_move of the rows of the crop",
    "col2img": "vec_add of the shifted rows",
    "broadcast_l0c": "vec_add of the bias in UB, behind the product",
    "l0c_out": "data_move of L0C without its conversion, and vec_conv in UB",
    "l0c_matrix": "fixpipe of fractals, and data_move of their rows",
    "fill": "data_move of zeros out of GM",
    "fill_blocks": "data_move of zeros out of GM",
    "vadddeqrelu": "vec_add, vec_conv with deqscale and vec_relu",
    "vconv_deq": "vec_conv to float16, and from there",
    "vsels0": "vsel with the scalar in a tensor (vec_dup)",
    "vselss": "vsel with the scalars in tensors (vec_dup)",
    "vpadding": "vec_dup of the border and data_move beside it",
    "vbi": "vgather, vec_mul and vec_add of the neighbours",
    "vaadd": "vec_add with one operand that does not advance",
    "vrpac": _BOXES,
    "viou": _BOXES,
    "vmrgch": "vec_add and vec_max of halves",
    "rpn_cor": "vec_or of the rows",
    "rpn_cor_diag": "set_as of elements, in turn",
    "v4dtrans": "vec_trans_scatter of 16 rows",
    "set_mode": "vec_min and vec_max where results may not fit: a kernel on the chip keeps its mode",
}
"""What to do in place of each of them."""
