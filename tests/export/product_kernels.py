# SPDX-License-Identifier: Apache-2.0
"""TIK kernels of products that load their tiles themselves, and with bytes between blocks, for tests of exports."""

from __future__ import annotations

from ms_custom_ops import tik

DEEP = 4112  # of a product: more fractals than L0A and L0B hold at a time
IMAGE = (2, 9, 7, 16)  # C1, H, W, C0
FILTER = (2, 3, 2, 32, 16)  # C1, h, w, Cout, C0
PIXELS = 16  # of the result, 4 x 4


def products() -> None:
    """a @ b twice, and a convolution with stride 2, through L0C to UB."""
    t = tik.Tik()
    deep = -(-DEEP // 16)
    a = t.Tensor("float16", (deep, 32, 16), tik.scope_gm, "a")
    b = t.Tensor("float16", (deep, 16, 16), tik.scope_gm, "b")
    image = t.Tensor("float16", IMAGE, tik.scope_gm, "image")
    weight = t.Tensor("float16", FILTER, tik.scope_gm, "weight")
    y = t.Tensor("float32", (1, 32, 16), tik.scope_gm, "y")
    z = t.Tensor("float32", (2, PIXELS, 16), tik.scope_gm, "z")
    a1 = t.Tensor("float16", (deep, 32, 16), tik.scope_cbuf, "a1")
    b1 = t.Tensor("float16", (deep, 16, 16), tik.scope_cbuf, "b1")
    sums = t.Tensor("float32", (1, 32, 16), tik.scope_cc, "sums")
    ub = t.Tensor("float32", (2, PIXELS, 16), tik.scope_ubuf, "ub")
    t.data_move(a1, a, 0, 1, deep * 32, 0, 0)
    t.data_move(b1, b, 0, 1, deep * 16, 0, 0)
    t.matmul(sums, a1, b1, 17, DEEP, 9)
    t.matmul(sums, a1, b1, 17, 24, 9, init_l1out=False)
    t.tensor_mov(ub, sums, "m", 1, 2, 0, 0)
    t.data_move(y, ub, 0, 1, 64, 0, 0)
    image1 = t.Tensor("float16", IMAGE, tik.scope_cbuf, "image1")
    weight1 = t.Tensor("float16", FILTER, tik.scope_cbuf, "weight1")
    pixels = t.Tensor("float32", (2, PIXELS, 16), tik.scope_cc, "pixels")
    t.data_move(image1, image, 0, 1, 126, 0, 0)
    t.data_move(weight1, weight, 0, 1, 384, 0, 0)
    t.conv2d(pixels, image1, weight1, IMAGE, FILTER, [2, 2], [0, 1, 1, 0], [1, 1], 0)
    t.tensor_mov(ub, pixels, "m", 1, 2, 0, 0)
    t.data_move(z, ub, 0, 1, 64, 0, 0)
    t.BuildCCE("products", [a, b, image, weight], [y, z])


def product_of_integers() -> None:
    """exp of a @ b / 256 of int8 by two blocks, with an image-to-column load: the cube and the vector unit."""
    t = tik.Tik()
    a = t.Tensor("int8", (4, 2, 32, 32), tik.scope_gm, "a")
    b = t.Tensor("int8", (2, 16, 32), tik.scope_gm, "b")
    image = t.Tensor("float16", (1, 6, 6, 16), tik.scope_gm, "image")
    weight = t.Tensor("float16", (9, 16, 16), tik.scope_gm, "weight")
    y = t.Tensor("float32", (4, 32, 16), tik.scope_gm, "y")
    z = t.Tensor("float32", (1, 16, 16), tik.scope_gm, "z")
    sums = t.Tensor("int32", (4, 32, 16), tik.scope_gm, "sums", is_workspace=True)
    with t.for_range(0, 2, block_num=2) as block, t.for_range(0, 2) as i:
        part = block * 2 + i
        a1 = t.Tensor("int8", (2, 32, 32), tik.scope_cbuf, "a1")
        b1 = t.Tensor("int8", (2, 16, 32), tik.scope_cbuf, "b1")
        c = t.Tensor("int32", (1, 32, 16), tik.scope_cc, "c")
        whole = t.Tensor("int32", (512,), tik.scope_ubuf, "whole")
        ub = t.Tensor("float32", (512,), tik.scope_ubuf, "ub")
        t.data_move(a1, a[part * 2048], 0, 1, 64, 0, 0)
        t.data_move(b1, b, 0, 1, 32, 0, 0)
        t.matmul(c, a1, b1, 32, 64, 16)
        t.fixpipe(sums[part * 512], c, 1, 64, 0, 0)
        t.data_move(whole, sums[part * 512], 0, 1, 64, 0, 0)
        t.vec_conv(64, "", ub, whole, 8, 8, 8)
        t.vec_muls(64, ub, ub, 2.0**-8, 8, 8, 8)
        t.vec_exp(64, ub, ub, 8, 8, 8)
        t.data_move(y[part * 512], ub, 0, 1, 64, 0, 0)
        with t.if_scope(part == 3):
            image1 = t.Tensor("float16", (1, 6, 6, 16), tik.scope_cbuf, "image1")
            weight1 = t.Tensor("float16", (9, 16, 16), tik.scope_cbuf, "weight1")
            columns = t.Tensor("float16", (1, 9, 16, 16), tik.scope_ca, "columns")
            rows = t.Tensor("float16", (9, 16, 16), tik.scope_cb, "rows")
            pixels = t.Tensor("float32", (1, 16, 16), tik.scope_cc, "pixels")
            t.data_move(image1, image, 0, 1, 36, 0, 0)
            t.data_move(weight1, weight, 0, 1, 144, 0, 0)
            t.load3dv2(columns, image1, (0, 0, 0, 0), 6, 6, 16, 144, 16, 0, 0, 1, 1, 3, 3, 1, 1, pad_value=0)
            t.load2dv2(rows, weight1, 0, 9, 0, 1, 0, False)
            t.mmad(pixels, columns, rows, 16, 144, 16, 0)
            t.fixpipe(z, pixels, 1, 32, 0, 0)
    t.BuildCCE("product_of_integers", [a, b, image, weight], [y, z])


def between_blocks() -> None:
    """Bits of a selection at steps of 16 bytes, numbers across elements, products of halves as int8."""
    t = tik.Tik()
    x = t.Tensor("float16", (2, 512), tik.scope_gm, "x")
    n = t.Tensor("uint32", (8,), tik.scope_gm, "n")
    y = t.Tensor("float16", (512,), tik.scope_gm, "y")
    m = t.Tensor("uint32", (8,), tik.scope_gm, "m")
    narrow = t.Tensor("int8", (128,), tik.scope_gm, "narrow")
    u, v = (t.Tensor("float16", (512,), tik.scope_ubuf, name) for name in "uv")
    bits = t.Tensor("uint8", (64,), tik.scope_ubuf, "bits")
    numbers = t.Tensor("uint32", (8,), tik.scope_ubuf, "numbers")
    small = t.Tensor("int8", (128,), tik.scope_ubuf, "small")
    wide, half, at = t.Scalar("uint64", "wide"), t.Scalar("uint16", "half"), t.Scalar("int32", "at")
    t.data_move(u, x, 0, 1, 32, 0, 0)
    t.data_move(v, x[512], 0, 1, 32, 0, 0)
    t.vmulconv(128, small, u, v, 1, 1, 1, 1, 4, 8, 8)
    t.vec_cmpv_gt(bits, u, v, 4, 8, 8)
    with t.for_range(0, 4) as i:
        t.vec_sel(128, 0, u[i * 128], bits[i * 16], u[i * 128], v[i * 128], 1, 8, 8, 8)
    t.data_move(y, u, 0, 1, 32, 0, 0)
    t.data_move(narrow, small, 0, 1, 4, 0, 0)
    t.data_move(numbers, n, 0, 1, 1, 0, 0)
    at.set_as(numbers[0])
    at.set_as(at % 3 + 1)
    wide.set_as(numbers[at])
    half.set_as(numbers[at])
    numbers[5].set_as(wide >> 32)
    numbers[6].set_as(half)
    t.data_move(m, numbers, 0, 1, 1, 0, 0)
    t.BuildCCE("between_blocks", [x, n], [y, m, narrow])


def summed() -> None:
    """y = the sum of the rows of x, by as many blocks: y begins as zeros."""
    t = tik.Tik()
    x = t.Tensor("float32", (4, 64), tik.scope_gm, "x")
    y = t.Tensor("float32", (64,), tik.scope_gm, "y", is_atomic_add=True)
    with t.for_range(0, 4, block_num=4) as block:
        row = t.Tensor("float32", (64,), tik.scope_ubuf, "row")
        t.data_move(row, x[block * 64], 0, 1, 8, 0, 0)
        t.set_atomic_add(1)
        t.data_move(y, row, 0, 1, 8, 0, 0)
        t.set_atomic_add(0)
    t.BuildCCE("summed", [x], [y])


def half_written() -> None:
    """The first lanes of y are x; the others leave UB as nobody wrote them."""
    t = tik.Tik()
    x = t.Tensor("float32", (8,), tik.scope_gm, "x")
    y = t.Tensor("float32", (16,), tik.scope_gm, "y")
    row = t.Tensor("float32", (16,), tik.scope_ubuf, "row")
    t.data_move(row, x, 0, 1, 1, 0, 0)
    t.data_move(y, row, 0, 1, 2, 0, 0)
    t.BuildCCE("half_written", [x], [y])


def spread() -> None:
    """Asks vbcb for blocks at one place."""
    t = tik.Tik()
    x = t.Tensor("float32", (8,), tik.scope_gm, "x")
    y = t.Tensor("float32", (64,), tik.scope_gm, "y")
    u, v = t.Tensor("float32", (8,), tik.scope_ubuf, "u"), t.Tensor("float32", (64,), tik.scope_ubuf, "v")
    t.data_move(u, x, 0, 1, 1, 0, 0)
    t.vec_dup(64, v, 0.0, 1, 8)
    t.vbcb(v, u, 1, 0, 8)
    t.data_move(y, v, 0, 1, 8, 0, 0)
    t.BuildCCE("spread", [x], [y])


def scaled_sums() -> None:
    """int32 sums that leave L0C as float16."""
    t = tik.Tik()
    a = t.Tensor("int8", (1, 16, 32), tik.scope_gm, "a")
    y = t.Tensor("float16", (1, 16, 16), tik.scope_gm, "y")
    a1 = t.Tensor("int8", (1, 16, 32), tik.scope_cbuf, "a1")
    b1 = t.Tensor("int8", (1, 16, 32), tik.scope_cbuf, "b1")
    c = t.Tensor("int32", (1, 16, 16), tik.scope_cc, "c")
    ub = t.Tensor("float16", (256,), tik.scope_ubuf, "ub")
    t.data_move(a1, a, 0, 1, 16, 0, 0)
    t.data_move(b1, a, 0, 1, 16, 0, 0)
    t.matmul(c, a1, b1, 16, 32, 16)
    t.tensor_mov(ub, c, "m", 1, 1, 0, 0, deqscale=0.5)
    t.data_move(y, ub, 0, 1, 16, 0, 0)
    t.BuildCCE("scaled_sums", [a], [y])


def raised() -> None:
    """x += 1 in place, and y = x as it was."""
    t = tik.Tik()
    x = t.Tensor("float16", (128,), tik.scope_gm, "x")
    y = t.Tensor("float16", (128,), tik.scope_gm, "xOut")
    u = t.Tensor("float16", (128,), tik.scope_ubuf, "linux")
    t.data_move(u, x, 0, 1, 8, 0, 0)
    t.data_move(y, u, 0, 1, 8, 0, 0)
    t.vec_adds(128, u, u, 1.0, 1, 8, 8)
    t.data_move(x, u, 0, 1, 8, 0, 0)
    t.BuildCCE("raised", [x], [x, y])


def called_half() -> None:
    """An input whose name is a type."""
    t = tik.Tik()
    x, y = (t.Tensor("float16", (128,), tik.scope_gm, name) for name in ("half", "y"))
    u = t.Tensor("float16", (128,), tik.scope_ubuf, "u")
    t.data_move(u, x, 0, 1, 8, 0, 0)
    t.data_move(y, u, 0, 1, 8, 0, 0)
    t.BuildCCE("called_half", [x], [y])


def product_with_flags() -> None:
    """a @ a with flags of the kernel's own, which know of no loads of tiles."""
    t = tik.Tik(disable_debug=True)
    a = t.Tensor("float16", (256,), tik.scope_gm, "a")
    y = t.Tensor("float32", (256,), tik.scope_gm, "y")
    a1 = t.Tensor("float16", (256,), tik.scope_cbuf, "a1")
    c = t.Tensor("float32", (256,), tik.scope_cc, "c")
    ub = t.Tensor("float32", (256,), tik.scope_ubuf, "ub")
    with t.new_stmt_scope(disable_sync=True):
        t.data_move(a1, a, 0, 1, 16, 0, 0)
        t.set_flag("PIPE_MTE2", "PIPE_M", 1)
        t.wait_flag("PIPE_MTE2", "PIPE_M", 1)
        t.matmul(c, a1, a1, 16, 16, 16)
        t.set_flag("PIPE_M", "PIPE_V", 0)
        t.wait_flag("PIPE_M", "PIPE_V", 0)
        t.tensor_mov(ub, c, "m", 1, 1, 0, 0)
        t.set_flag("PIPE_V", "PIPE_MTE3", 0)
        t.wait_flag("PIPE_V", "PIPE_MTE3", 0)
        t.data_move(y, ub, 0, 1, 32, 0, 0)
    t.BuildCCE("product_with_flags", [a], [y])
