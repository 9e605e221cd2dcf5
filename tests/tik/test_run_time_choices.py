# SPDX-License-Identifier: Apache-2.0
"""Arguments that choose what an instruction does, known only while the kernel runs: which lists, which field, which
format of an image."""

from __future__ import annotations

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError, TikError, TikSupportError
from ms_custom_ops.soc import use_soc

ENGINES = ("native", "reference")
LENGTHS = (3, 5, 2, 4)


def outputs(program, feed):
    """Outputs, equal in every bit on both engines, and without a finding in a checked run."""
    native, reference = (engine.run(program, feed, name) for name in ENGINES)
    for a, b in zip(native, reference, strict=True):
        assert a.tobytes() == b.tobytes()
    assert mco.check(program, feed).findings == []
    return native


def refused(program, feed, text):
    for name in ENGINES:
        with pytest.raises(EngineError, match=text + r" \[.*test_run_time_choices.py:\d+\]"):
            engine.run(program, feed, name)


def proposals(scores):
    boxes = np.zeros((len(scores), 8), np.float16)
    boxes[:, 4], boxes[:, 5] = scores, np.arange(len(scores))
    return boxes


def merging(lists: int = 4, suspend: bool = False, soc: str = "Ascend910A"):
    def kernel():
        t = tik.Tik()
        xs = [t.Tensor("float16", (16, 8), tik.scope_gm, f"x{i}") for i in range(lists)]
        y, n = t.Tensor("float16", (16, 8), tik.scope_gm, "y"), t.Tensor("int32", (8,), tik.scope_gm, "n")
        bits = t.InputScalar("int64", "bits")
        us = [t.Tensor("float16", (16, 8), tik.scope_ubuf, f"u{i}") for i in range(lists)]
        v, w = t.Tensor("float16", (16, 8), tik.scope_ubuf, "v"), t.Tensor("int32", (8,), tik.scope_ubuf, "w")
        for u, x in zip(us, xs, strict=True):
            t.data_move(u, x, 0, 1, 8, 0, 0)
        t.vec_dup(128, v, 0.0, 1, 8)
        t.vec_dup(8, w, 0, 1, 8)
        taken = t.ScalarArray("int32", 4, "taken")
        t.vmrgsort4(v, us, list(LENGTHS[:lists]), suspend, bits, 1, taken)
        for i in range(4):
            w[i].set_as(taken[i])
        t.data_move(y, v, 0, 1, 8, 0, 0)
        t.data_move(n, w, 0, 1, 1, 0, 0)
        t.BuildCCE("merging", [*xs, bits], [y, n])

    return mco.trace(kernel, soc=soc)


def sorted_lists(lists: int):
    rng = np.random.default_rng(5)
    found = []
    for count in LENGTHS[:lists]:
        box = np.zeros((16, 8), np.float16)
        box[:count] = proposals(np.sort(rng.integers(-9, 9, count))[::-1])
        found.append(box)
    return found


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
def test_lists_to_merge_are_chosen_while_running(suspend, soc):
    xs = sorted_lists(4)
    program = merging(4, suspend, soc)
    for lists, bits in ((1, 1), (2, 3), (3, 7), (4, 15)):
        y, n = outputs(program, [*xs, bits])
        rows = [(-float(b[4]), i, k, b) for i in range(lists) for k, b in enumerate(xs[i][: LENGTHS[i]])]
        taken, want = [0] * 4, []
        for _, i, _, b in sorted(rows, key=lambda r: r[:3]):
            want.append(b)
            taken[i] += 1
            if suspend and taken[i] == LENGTHS[i]:
                break
        assert n[:4].tolist() == taken
        np.testing.assert_array_equal(y[: len(want)], want)


@pytest.mark.parametrize(
    ("lists", "bits", "accepted"), [(4, 5, "1, 3, 7 or 15"), (4, 0, "1, 3, 7 or 15"), (2, 7, "1 or 3")]
)
def test_lists_that_are_none(lists, bits, accepted):
    refused(merging(lists), [*sorted_lists(lists), bits], f"vmrgsort: valid_bit is {bits}; accepted: {accepted}")


def fields():
    def kernel():
        t = tik.Tik()
        x, y = t.Tensor("float16", (16, 8), tik.scope_gm, "x"), t.Tensor("float16", (16,), tik.scope_gm, "y")
        z = t.Tensor("float16", (16, 8), tik.scope_gm, "z")
        field = t.InputScalar("int32", "field")
        boxes, column = (
            t.Tensor("float16", (16, 8), tik.scope_ubuf, "b"),
            t.Tensor("float16", (16,), tik.scope_ubuf, "c"),
        )
        t.data_move(boxes, x, 0, 1, 8, 0, 0)
        t.vextract(column, boxes, 1, field)
        t.data_move(y, column, 0, 1, 1, 0, 0)
        t.vec_adds(16, column, column, 1.0, 1, 8, 8)
        t.vconcat(boxes, column, 1, field)
        t.data_move(z, boxes, 0, 1, 8, 0, 0)
        t.BuildCCE("fields", [x, field], [y, z])

    return mco.trace(kernel, soc="Ascend910A")


def test_fields_are_chosen_while_running():
    x, program = np.arange(128).astype(np.float16).reshape(16, 8), fields()
    for field in range(6):
        y, z = outputs(program, [x, field])
        want = x.copy()
        want[:, field] += 1
        np.testing.assert_array_equal(y, x[:, field])
        np.testing.assert_array_equal(z, want)
    refused(program, [x, 6], "vextract: field is 6; accepted: 0 to 5")


SIDES = {"src_horizontal_size": 8, "src_vertical_size": 6}
CROP = {
    "dst_horizontal_size": 4,
    "dst_vertical_size": 2,
    "crop_horizontal_start": 2,
    "crop_vertical_start": 2,
    "single_line_enable": 0,
}


def image(size: int = 8 * 6 * 3):
    """Everything that may be a Scalar is one."""

    def kernel():
        t = tik.Tik()
        src = t.Tensor("uint8", (size,), tik.scope_gm, "src")
        y = t.Tensor("uint8", (6, 8, 32), tik.scope_gm, "y")
        kind, switch = t.InputScalar("uint8", "kind"), t.InputScalar("uint32", "switch")
        swaps = [t.InputScalar("int32", n) for n in ("rb", "uv", "ax")]
        crop = [t.InputScalar("int32", n) for n in ("w", "h", "x", "y0")]
        side = t.Scalar("int32", "side", 8)
        info = {"src_horizontal_size": side, "src_vertical_size": side - 2}
        part = dict(zip(CROP, [*crop, 0], strict=True))
        with t.new_stmt_scope():
            l1 = t.Tensor("uint8", (6, 8, 32), tik.scope_cbuf, "l1")
            ub = t.Tensor("uint8", (6, 8, 32), tik.scope_ubuf, "ub")
            t.vec_dup(128, ub.reinterpret_cast_to("uint16"), 0xFFFF, 6, 8)
            t.data_move(l1, ub, 0, 1, 48, 0, 0)
            t.load_image(l1, src, None, kind, switch, info, part, None, swaps, {"csc_switch": 1}, None, None,
                         {"dtc": 1}, 0, {"channel_pad_mode": 0}, None, None, None, 0)  # fmt: skip
            t.data_move(ub, l1, 0, 1, 48, 0, 0)
            t.data_move(y, ub, 0, 1, 48, 0, 0)
        t.BuildCCE("image", [src, kind, switch, *swaps, *crop], [y])

    with use_soc("Ascend310P3"):
        return mco.trace(kernel, soc="Ascend310P3")


def wanted(src, kind, switch, swaps):
    """Pixels of the image or its crop, a second time."""
    if kind == 4:
        pixels = src[: 8 * 6 * 3].reshape(6, 8, 3)
        pixels = pixels[..., ::-1] if switch & 4 and swaps[0] else pixels
    else:
        pixels = src[:48].reshape(6, 8, 1)
    if kind == 0:
        pairs = src[48:72].reshape(3, 4, 2).repeat(2, 0).repeat(2, 1)
        pixels = np.concatenate([pixels, pairs[..., ::-1] if switch & 4 and swaps[1] else pairs], 2)
    return pixels[2:4, 2:6] if switch & 1 else pixels


@pytest.mark.parametrize("switch", [0, 1, 4, 5, 512, 517])
@pytest.mark.parametrize(("kind", "swaps"), [(4, (1, 0, 0)), (4, (0, 0, 0)), (0, (0, 1, 0)), (9, (0, 0, 0))], ids=str)
def test_an_image_is_described_while_running(kind, swaps, switch):
    src = np.random.default_rng(3).integers(0, 256, 8 * 6 * 3).astype(np.uint8)
    (y,) = outputs(image(), [src, kind, switch, *swaps, 4, 2, 2, 2])
    want = wanted(src, kind, switch, swaps)
    pixels = y.reshape(48, 32)[: want.shape[0] * want.shape[1]].reshape(*want.shape[:2], 32)
    np.testing.assert_array_equal(pixels[..., : want.shape[2]], want)
    assert not pixels[..., want.shape[2] :].any()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": 3}, "format is 3; accepted: 0, 4 or 9"),
        ({"switch": 9}, "functions is 9; accepted: sums of 1, 4 and 512"),
        ({"uv": 1}, "uv_swap of format 4 is 1; accepted: 0"),
        ({"rb": 2}, "rb_swap is 2; accepted: 0 to 1"),
        ({"w": 7}, "first and width of the crop is 9; accepted: 0 to 8"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_images_that_are_refused_while_running(change, text):
    given = {"kind": 4, "switch": 5, "rb": 1, "uv": 0, "ax": 0, "w": 4, "h": 2, "x": 2, "y0": 2, **change}
    refused(image(), [np.zeros(8 * 6 * 3, np.uint8), *given.values()], f"load_image: {text}")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"function_switch": 9}, "function_switch is 9; accepted: sums of 1"),
        ({"flip_mode": 1}, "flip_mode is 1; accepted: 0"),
        ({"swap_list": [2, 0, 0]}, r"swap_list\[0\] is 2; accepted: 0..1"),
        ({"input_format": 2.5}, "input_format is 2.5; accepted: an integer"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_images_that_are_refused_while_tracing(change, text):
    with use_soc("Ascend310P3"):
        t = tik.Tik()
        src, l1 = t.Tensor("uint8", (144,), tik.scope_gm, "src"), t.Tensor("uint8", (48, 32), tik.scope_cbuf, "l1")
        names = ("pre_clip_info", "csc_info", "scf_info", "post_clip_info", "dtc_info", "channel_pad_info",
                 "area_pad_info", "stretch_info", "raw_info")  # fmt: skip
        given = {"dst": l1, "src0": src, "src1": None, "input_format": 4, "function_switch": 5, "src_info": SIDES,
                 "crop_info": CROP, "swap_list": [1, 0, 0], "flip_mode": 0, "sid": 0,
                 **dict.fromkeys(names)}  # fmt: skip
        with pytest.raises((TikError, TikSupportError), match=f"load_image: {text}"):
            t.load_image(**{**given, **change})


def extreme(dtype, api, repeats, index, later, soc, mask):
    """The first elements of dst of a reduction; ``later``: its repeats and their stride are Scalars."""
    lanes = 256 // np.dtype(dtype).itemsize

    def kernel():
        t = tik.Tik()
        x = t.Tensor(dtype, (repeats * lanes,), tik.scope_gm, "x")
        y = t.Tensor(dtype, (lanes,), tik.scope_gm, "y")
        n, rep = t.InputScalar("int32", "n"), t.InputScalar("int32", "rep")
        u = t.Tensor(dtype, (repeats * lanes,), tik.scope_ubuf, "u")
        work = t.Tensor(dtype, (4 * repeats + 4 * lanes,), tik.scope_ubuf, "work")
        out = t.Tensor(dtype, (lanes,), tik.scope_ubuf, "out")
        t.data_move(u, x, 0, repeats, 8, 0, 0)
        t.vector_dup(lanes, out, 0, 1, 1, 8)
        getattr(t, api)(mask, out, u, work, n if later else repeats, rep if later else 8, index)
        t.data_move(y, out, 0, 1, 8, 0, 0)
        t.BuildCCE("extreme", [x, n, rep], [y])

    return mco.trace(kernel, soc=soc)


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("api", ["vec_reduce_max", "vec_reduce_min"])
@pytest.mark.parametrize(
    ("soc", "dtype"), [("Ascend910A", "float16"), ("Ascend310P3", "float32"), ("Ascend910B1", "float16")]
)
def test_extremes_of_repeats_known_at_run_time(soc, dtype, api, index):
    rng, lanes = np.random.default_rng(9), 256 // np.dtype(dtype).itemsize
    for repeats in (1, 2, 63, 65, 129, 300):
        x = rng.integers(-40, 40, repeats * lanes).astype(dtype)
        for mask in (lanes, [5 if lanes == 128 else 0, 0xF0F0]):
            (want,) = engine.run(extreme(dtype, api, repeats, index, False, soc, mask), [x, 0, 0])
            program = extreme(dtype, api, repeats, index, True, soc, mask)
            for name in ENGINES if repeats < 100 else ("native",):
                (got,) = engine.run(program, [x, repeats, 8], name)
                assert got.tobytes() == want.tobytes()
    (nothing,) = engine.run(program, [x, 0, 8])
    assert not nothing.any()
    assert mco.check(program, [x, repeats, 8]).findings == []


@pytest.mark.parametrize("count", [1, 64, 65, 300])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1)], ids=str)
def test_copies_of_a_count_known_at_run_time(count, strides):
    def kernel(later):
        t = tik.Tik()
        x, y = (t.Tensor("int32", (1024,), tik.scope_gm, n) for n in "xy")
        n, blk = t.InputScalar("int32", "n"), t.InputScalar("int32", "blk")
        u, v = (t.Tensor("int32", (1024,), tik.scope_ubuf, n) for n in "uv")
        t.data_move(u, x, 0, 1, 128, 0, 0)
        for k in range(0, 1024, 64):
            t.vec_dup(64, v[k], 0, 1, 8)
        t.vcopy(n if later else count, v, u, 1, blk if later else strides[0], strides[1], 8, 8, "counter")
        t.data_move(y, v, 0, 1, 128, 0, 0)
        t.BuildCCE("copies", [x, n, blk], [y])

    x = np.arange(1, 1025, dtype=np.int32)
    feed = [x, count, strides[0]]
    (want,) = engine.run(mco.trace(kernel, False, soc="Ascend910B1"), feed)
    (got,) = outputs(mco.trace(kernel, True, soc="Ascend910B1"), feed)
    np.testing.assert_array_equal(got, want)


PRECISE = {
    "vec_rec_high_preci": ("float16", "float32"),
    "vec_rsqrt_high_preci": ("float16", "float32"),
    "vec_ln_high_preci": ("float16",),
    "vec_expm1_high_preci": ("float16",),
}


def precise(api, dtype, mask, repeats, strides, later, soc):
    """``later``: mask, repeats and strides are Scalars."""
    lanes = 256 // np.dtype(dtype).itemsize
    scratch = "float32" if api.startswith(("vec_rec_", "vec_rsqrt_")) else dtype

    def kernel():
        t = tik.Tik()
        x, y = (t.Tensor(dtype, (4 * lanes,), tik.scope_gm, n) for n in "xy")
        words = [t.InputScalar("uint64" if k < 2 else "int32", n) for k, n in enumerate(("m1", "m0", "r", "d", "s"))]
        u, v = (t.Tensor(dtype, (4 * lanes,), tik.scope_ubuf, n) for n in "uv")
        work = t.Tensor(scratch, (60 * lanes,), tik.scope_ubuf, "work")
        t.data_move(u, x, 0, 1, 32, 0, 0)
        t.vec_dup(lanes, v, 7, 4, 8)
        count = t.Scalar("int32", "count", words[1])
        selected = (words[:2] if isinstance(mask, list) else count) if later else mask
        given = words[2:] if later else [repeats, *strides]
        getattr(t, api)(selected, v, u, work[0:], *given)
        t.data_move(y, v, 0, 1, 32, 0, 0)
        t.BuildCCE("precise", [x, *words], [y])

    return mco.trace(kernel, soc=soc)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("strides", [(8, 8), (16, 8), (8, 0), (4, 4)], ids=str)
@pytest.mark.parametrize(("api", "dtype"), [(a, d) for a, dtypes in PRECISE.items() for d in dtypes])
def test_precise_functions_of_what_is_known_at_run_time(api, dtype, strides, soc):
    rng, lanes = np.random.default_rng(21), 256 // np.dtype(dtype).itemsize
    x = np.exp(rng.uniform(-2, 2, 4 * lanes)).astype(dtype)
    masks = [lanes, lanes // 2, 3, [0xF0F0 if lanes > 64 else 0, 0xFF], [0, 1 << 40]]
    if strides == (4, 4):
        masks = [lanes // 2, 3]
    for mask in masks:
        repeats = 2
        (want,) = engine.run(precise(api, dtype, mask, repeats, strides, False, soc), [x, 0, 0, 0, 0, 0])
        words = mask if isinstance(mask, list) else [0, mask]
        program = precise(api, dtype, mask, repeats, strides, True, soc)
        for name in ENGINES if mask == 3 else ("native",):
            (got,) = engine.run(program, [x, *words, repeats, *strides], name)
            assert got.tobytes() == want.tobytes(), (mask, strides)
