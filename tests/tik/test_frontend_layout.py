# SPDX-License-Identifier: Apache-2.0
"""Traced kernels of fills, layout changes, images and partial blocks against independent NumPy formulas."""

from __future__ import annotations

import numpy as np
import pytest
from cube_kernels import RNG, half, identity, local, move, run

from ms_custom_ops import tik
from ms_custom_ops.program.dtypes import DTYPES


def test_fill_and_its_register():
    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, ub = local(t, tik.scope_cbuf, "l1", outs[0]), local(t, tik.scope_ubuf, "ub", outs[0])
        t.tensor_padding_with_matrix(l1, 2, 1.5)
        t.set_l0_set_value(-2.0, "float16")
        t.tensor_padding_with_matrix(l1[256], 1)
        t.data_move(ub, l1, 0, 1, 32, 0, 0)
        move(t, outs[0], ub)

    (got,) = run(body, [], [((512,), "float16")])
    np.testing.assert_array_equal(got, np.repeat([1.5, -2.0], 256))


@pytest.mark.parametrize("to_hwc", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "uint8", "float32"])
def test_v4dtrans(dtype, to_hwc):
    x = RNG.integers(0, 200, (5, 64)).astype(dtype) if to_hwc else RNG.integers(0, 200, (64, 5)).astype(dtype)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        a, b = local(t, tik.scope_ubuf, "a", ins[0]), local(t, tik.scope_ubuf, "b", outs[0])
        move(t, a, ins[0])
        t.v4dtrans(to_hwc, b, a, 64, 5)
        move(t, outs[0], b)

    (got,) = run(body, [x], [(x.T.shape, dtype)], "Ascend310P3")
    np.testing.assert_array_equal(got, x.T)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("kind", "dtype"), [(4, "uint8"), (9, "float16"), (0, "uint8")])
def test_load_image(kind, dtype, swap):
    height, width, c0 = 8, 10, 32 // DTYPES[dtype].size_bytes
    planes = {4: [(height, width, 3)], 9: [(height, width)], 0: [(height, width), (height // 2, width // 2, 2)]}[kind]
    images = [RNG.integers(0, 256, s).astype(np.uint8) for s in planes]
    swaps = [int(swap and kind == 4), int(swap and kind == 0), 0]

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, ub = local(t, tik.scope_cbuf, "l1", outs[0]), local(t, tik.scope_ubuf, "ub", outs[0])
        t.load_image(
            l1,
            ins[0],
            ins[-1] if kind == 0 else None,
            kind,
            0,
            {"src_horizontal_size": width, "src_vertical_size": height},
            {"dst_horizontal_size": 4, "dst_vertical_size": 6, "crop_horizontal_start": 2, "crop_vertical_start": 2},
            None,
            swaps,
            None,
            None,
            None,
            None,
            0,
            None,
            None,
            None,
            None,
            0,
        )
        t.data_move(ub, l1, 0, 1, 24, 0, 0)
        move(t, outs[0], ub)

    (got,) = run(body, images, [((6, 4, c0), dtype)])
    rows, cols = slice(2, 8), slice(2, 6)
    if kind == 4:
        want = images[0][rows, cols, ::-1] if swap else images[0][rows, cols]
    else:
        want = images[0][rows, cols, None]
    if kind == 0:
        pairs = np.repeat(np.repeat(images[1], 2, 0), 2, 1)[rows, cols]
        want = np.concatenate([want, pairs[..., ::-1] if swap else pairs], 2)
    np.testing.assert_array_equal(got[..., : want.shape[2]], want)
    assert not got[..., want.shape[2] :].any()


def test_load_smask_and_load2d_from_gm():
    x = half(2, 16, 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        mask = t.Tensor("uint16", (32,), tik.scope_smask, "mask")
        t.load_smask(mask, ins[1], 2)
        l0a = t.Tensor("float16", (2, 16, 16), tik.scope_ca, "l0a")
        t.load2dv1(l0a, ins[0], 1, 2, 0, 0, True)
        identity(t, outs[0], l0a, 2)

    (got,) = run(body, [x, np.arange(32, dtype=np.uint16)], [((2, 16, 16), "float16")])
    np.testing.assert_array_equal(got, np.stack([x[1].T, x[1].T]))


@pytest.mark.parametrize(("count", "nburst"), [(1, 1), (9, 1), (13, 2), (31, 2)])
def test_read_of_a_partial_last_block(count, nburst):
    """data_move from GM whose last block reaches beyond the tensor takes the bytes that are there."""
    x = half(count).astype(np.float32)
    whole = -(-count // 8) * 8
    burst = whole // 8 // nburst

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        ub = t.Tensor("float32", (whole,), tik.scope_ubuf, "ub")
        t.data_move(ub, ins[0], 0, nburst, burst, 0, 0)
        t.data_move(outs[0], ub, 0, 1, whole // 8, 0, 0)

    (got,) = run(body, [x], [((whole,), "float32")])
    np.testing.assert_array_equal(got[:count], x)
