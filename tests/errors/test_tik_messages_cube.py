# SPDX-License-Identifier: Apache-2.0
"""Messages of the cube family: image to column, convolutions, conversions out of L0C, fills, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tik_cases import Case, Kit, check_message

from ms_custom_ops import tik
from ms_custom_ops.errors import TikError, TikOverflowError, TikScopeError, TikSupportError

INFO = {"src_horizontal_size": 8, "src_vertical_size": 8}


def _load3d(k: Kit, **changes: Any) -> None:
    args = {
        "dst": k.a0,
        "src": k.l1,
        "pad": [1, 1, 1, 1],
        "l1_h": 4,
        "l1_w": 4,
        "c1_index": 0,
        "fetch_filter_w": 0,
        "fetch_filter_h": 0,
        "left_top_w": -1,
        "left_top_h": -1,
        "stride_w": 1,
        "stride_h": 1,
        "filter_w": 3,
        "filter_h": 3,
        "dilation_filter_w": 1,
        "dilation_filter_h": 1,
        "jump_offset": 1,
        "repeat_mode": 1,
        "repeat_time": 1,
    }
    k.t.load3dv1(**{**args, **changes})


def _load3dv2(k: Kit, **changes: Any) -> None:
    args = {
        "dst": k.a0,
        "src": k.l1,
        "pad_list": [1, 1, 1, 1],
        "l1_h": 4,
        "l1_w": 4,
        "channel_size": 16,
        "k_extension": 16,
        "m_extension": 16,
        "k_start_pt": 0,
        "m_start_pt": 0,
        "stride_w": 1,
        "stride_h": 1,
        "filter_w": 3,
        "filter_h": 3,
        "dilation_filter_w": 1,
        "dilation_filter_h": 1,
    }
    k.t.load3dv2(**{**args, **changes})


def _bytes_load(k: Kit, name: str, **changes: Any) -> None:
    scope = {"a0": tik.scope_ca, "b0": tik.scope_cb}[name]
    _load3dv2(
        k,
        dst=k.t.Tensor("int8", (512,), scope, "bytes"),
        src=k.t.Tensor("int8", (512,), tik.scope_cbuf, "s"),
        channel_size=32,
        **changes,
    )


def _col2img(k: Kit, dst: Any = None, repeat: int = 1) -> None:
    k.t.col2img(k.u if dst is None else dst, k.v, [0] * 4, 8, 8, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, repeat)


def _conv(k: Kit, **changes: Any) -> None:
    args = {
        "dst": k.c0,
        "feature_map": k.l1,
        "weight": k.l1,
        "fm_shape": [1, 4, 4, 16],
        "kernel_shape": [1, 1, 1, 16, 16],
        "stride": [1, 1],
        "pad": [0] * 4,
        "dilation": [1, 1],
    }
    k.t.conv2d(**{**args, **changes})


def _int_l0c(k: Kit) -> Any:
    return k.c0.reinterpret_cast_to("int32")


def _image(k: Kit, **changes: Any) -> None:
    names = (
        "dst",
        "src0",
        "src1",
        "input_format",
        "function_switch",
        "src_info",
        "crop_info",
        "pre_clip_info",
        "swap_list",
        "csc_info",
        "scf_info",
        "post_clip_info",
        "dtc_info",
        "flip_mode",
        "channel_pad_info",
        "area_pad_info",
        "stretch_info",
        "raw_info",
        "sid",
    )
    args = dict.fromkeys(names)
    gm = k.t.Tensor("uint8", (192,), tik.scope_gm, "image")
    args.update(dst=k.l1, src0=gm, input_format=4, function_switch=0, src_info=INFO, sid=0)
    k.t.load_image(**{**args, **changes})


def _smask(k: Kit, size: int = 1, scope: str = tik.scope_smask) -> None:
    mask = k.t.Tensor("uint16", (128,), scope, "mask")
    k.t.load_smask(mask, k.t.Tensor("uint16", (128,), tik.scope_ubuf, "source"), size)


def _mov(k: Kit, *args: Any, **more: Any) -> None:
    k.t.tensor_mov(*args, 1, 1, 0, 0, **more)


CASES = [
    # load3dv1
    Case(
        "load3dv1-chip",
        _load3d,
        ("load3dv1: Ascend910B1 does not have", "310, 910A, 310P"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case(
        "load3dv1-scope",
        lambda k: _load3d(k, dst=k.l1),
        ("load3dv1: scope of dst (l1) is l1", "l0a, l0b, ub"),
        TikScopeError,
    ),
    Case("load3dv1-pad", lambda k: _load3d(k, pad=[1, 1]), ("load3dv1: pad is [1, 1]", "left, right, top, bottom")),
    Case("load3dv1-pad-range", lambda k: _load3d(k, pad=[256, 0, 0, 0]), ("load3dv1: pad[0] is 256", "0..255")),
    Case("load3dv1-stride", lambda k: _load3d(k, stride_w=64), ("load3dv1: stride_w is 64", "1..63")),
    Case("load3dv1-filter", lambda k: _load3d(k, filter_w=9), ("span of the filter is 9 x 3", "at most 6 x 6")),
    Case("load3dv1-fetch", lambda k: _load3d(k, fetch_filter_h=3), ("load3dv1: fetch_filter_h is 3", "0..2")),
    Case("load3dv1-left", lambda k: _load3d(k, left_top_w=-2), ("load3dv1: left_top_w is -2", "-1..2")),
    Case("load3dv1-jump", lambda k: _load3d(k, jump_offset=128), ("load3dv1: jump_offset is 128", "1..127")),
    Case("load3dv1-mode", lambda k: _load3d(k, repeat_mode=2), ("load3dv1: repeat_mode is 2", "0, 1")),
    Case("load3dv1-csize", lambda k: _load3d(k, _csize=1), ("load3dv1: _csize is 1", "accepted: 0"), TikSupportError),
    Case(
        "load3dv1-extent",
        lambda k: _load3d(k, repeat_time=5),
        ("load3dv1: dst (a0) overflow", "needed 1280"),
        TikOverflowError,
    ),
    Case(
        "load3dv1-c1",
        lambda k: _load3d(k, c1_index=8),
        ("load3dv1: src (l1) overflow", "needed 2064"),
        TikOverflowError,
    ),
    # load3dv2
    Case("load3dv2-chip", _load3dv2, ("load3dv2: Ascend910A does not have", "310P, 910B"), TikSupportError),
    Case(
        "load3dv2-channels",
        lambda k: _load3dv2(k, channel_size=20),
        ("load3dv2: channel_size is 20", "multiples of 16"),
        TikSupportError,
        "Ascend310P3",
    ),
    Case(
        "load3dv2-start",
        lambda k: _load3dv2(k, k_start_pt=8),
        ("load3dv2: k_start_pt is 8", "multiples of 16"),
        TikSupportError,
        "Ascend310P3",
    ),
    Case(
        "load3dv2-small-k",
        lambda k: _load3dv2(k, en_small_k=True),
        ("en_small_k is True", "False"),
        TikSupportError,
        "Ascend310P3",
    ),
    Case(
        "load3dv2-bytes-l0b",
        lambda k: _bytes_load(k, "b0"),
        ("load3dv2: dtype of a load into l0b is int8", "16 and 32-bit"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "load3dv2-bytes-turn",
        lambda k: _bytes_load(k, "a0", en_transpose=True),
        ("load3dv2: dtype of a transposed load is int8", "16 and 32-bit"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "load3dv2-extent",
        lambda k: _load3dv2(k, k_extension=65),
        ("load3dv2: dst (a0) overflow", "needed 1280"),
        TikOverflowError,
        "Ascend310P3",
    ),
    # col2img
    Case("col2img-chip", _col2img, ("col2img: Ascend310 does not have", "910A, 310P"), TikSupportError, "Ascend310"),
    Case(
        "col2img-src", lambda k: _col2img(k, repeat=5), ("col2img: src (v) overflow", "needed 1280"), TikOverflowError
    ),
    Case("col2img-dst", lambda k: _col2img(k, k.u[16]), ("col2img: dst (u) overflow", "needed 1040"), TikOverflowError),
    # conv2d
    Case("conv2d-rank", lambda k: _conv(k, fm_shape=[1, 4, 4]), ("conv2d: fm_shape is [1, 4, 4]", "4 dimensions")),
    Case("conv2d-scalar", lambda k: _conv(k, fm_shape=[1, k.s, 4, 16]), ("conv2d: fm_shape is a Scalar", "Python int")),
    Case("conv2d-c0", lambda k: _conv(k, fm_shape=[1, 4, 4, 8]), ("conv2d: C0 of fm_shape is 8", "16")),
    Case("conv2d-c1", lambda k: _conv(k, kernel_shape=[2, 1, 1, 16, 16]), ("conv2d: C1 of kernel_shape is 2", "1")),
    Case("conv2d-cout", lambda k: _conv(k, kernel_shape=[1, 1, 1, 20, 16]), ("Cout of kernel_shape is 20", "of 16")),
    Case("conv2d-stride", lambda k: _conv(k, stride=[1]), ("conv2d: stride is [1]", "[h, w]")),
    Case(
        "conv2d-point",
        lambda k: _conv(k, weight=k.l1[0]),
        ("conv2d: weight (l1) overflow", "needed 256", "t[i:]"),
        TikOverflowError,
    ),
    Case(
        "conv2d-bias-init",
        lambda k: _conv(k, bias=k.f, init_l1out=False),
        ("conv2d: bias with init_l1out=False", "None"),
    ),
    Case(
        "conv2d-bias-extent",
        lambda k: _conv(k, bias=k.f[1016]),
        ("conv2d: bias (f) overflow", "needed 1032"),
        TikOverflowError,
    ),
    Case(
        "conv2d-slice",
        lambda k: _conv(k, feature_map=k.l1.reshape((32, 64))[0:32, 0:16]),
        ("conv2d: feature_map is a non-contiguous slice",),
    ),
    # products
    Case(
        "mmad-bias-chip",
        lambda k: k.t.mmad(k.c0, k.a0, k.b0, 16, 16, 16, 0, bias_tensor=k.f),
        ("mmad: bias_tensor on Ascend910A is a tensor", "910B"),
        TikSupportError,
    ),
    Case(
        "mmad-sparse",
        lambda k: k.t.mmad(k.c0, k.a0, k.b0, 16, 16, 16, 0, en_ssparse=True),
        ("mmad: en_ssparse is True", "the default"),
        TikSupportError,
    ),
    # out of L0C
    Case(
        "quantize-chip",
        lambda k: _mov(k, k.u.reinterpret_cast_to("int16"), _int_l0c(k), "m", deqscale=1),
        ("tensor_mov: ConvReluMode for int32 to int16 on Ascend910A is 13", "0 to 7"),
        TikSupportError,
    ),
    Case(
        "quantize-scale",
        lambda k: _mov(k, k.u.reinterpret_cast_to("int16"), _int_l0c(k), "m"),
        ("deqscale for int32 to int16 is None", "a 64-bit word"),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "quantize-dtype",
        lambda k: _mov(k, k.u, _int_l0c(k), "m", deqscale=k.f),
        ("dtype of tensor deqscale is float32", "float16, uint64"),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "quantize-extent",
        lambda k: k.t.tensor_mov(k.u, _int_l0c(k), "v", 2, 1, 0, 0, deqscale=k.v[1008:]),
        ("tensor_mov: deqscale (v) overflow", "needed 1040"),
        TikOverflowError,
    ),
    Case(
        "half-vector",
        lambda k: _mov(k, k.u, k.c0.reinterpret_cast_to("float16"), "m", deqscale=k.v),
        ("deqscale for float16 to float16 is a tensor", "a number"),
    ),
    Case(
        "relu-widening",
        lambda k: _mov(k, k.f, k.c0.reinterpret_cast_to("float16"), "m", relu=True),
        ("relu for float16 to float32 is True",),
    ),
    Case("into-l0c", lambda k: _mov(k, k.c0, k.f, "sc"), ("tensor_mov: move from UB to L0C", "('m')"), TikSupportError),
    Case("store-mode", lambda k: _mov(k, k.f, k.c0, "m", sid_store_mode=3), ("sid_store_mode is 3", "0, 1, 2")),
    Case(
        "move-store-mode",
        lambda k: k.t.data_move(k.f, k.c0, 0, 1, 1, 0, 0, sid_store_mode=3),
        ("data_move: sid_store_mode is 3", "0, 1, 2"),
    ),
    Case(
        "conv-relu-chip",
        lambda k: k.t.data_move(k.f, k.c0, 0, 1, 1, 0, 0, 14),
        ("data_move: ConvReluMode is 14", "13 on Ascend310P3"),
        TikSupportError,
        "Ascend310P3",
    ),
    Case(
        "pad-mode",
        lambda k: k.t.data_move(k.l1, k.gm, 0, 1, 1, 0, 0, 2),
        ("data_move: PadMode is 2", "accepted: 0"),
        TikSupportError,
    ),
    Case(
        "write-beyond",
        lambda k: k.t.data_move(k.gm[1016], k.u, 0, 1, 4, 0, 0),
        ("dst (gm) overflow",),
        TikOverflowError,
    ),
    Case(
        "read-beyond", lambda k: k.t.data_move(k.u, k.gm[1016], 0, 1, 2, 0, 0), ("src (gm) overflow",), TikOverflowError
    ),
    # fixpipe
    Case(
        "fixpipe-relu-bias",
        lambda k: k.t.fixpipe(k.gm32, k.c0, 1, 2, 0, 0, {"bias": k.f, "relu": True}),
        ("fixpipe: relu is True with bias", "relu without them"),
    ),
    Case(
        "fixpipe-relu-scale",
        lambda k: k.t.fixpipe(
            k.gm, _int_l0c(k), 1, 2, 0, 0, {"quantize_params": {"mode": "int322fp16", "mode_param": 1.0}, "relu": True}
        ),
        ("fixpipe: relu is True with int322fp16",),
    ),
    Case(
        "fixpipe-bias-dtype",
        lambda k: k.t.fixpipe(k.gm32, k.c0, 1, 2, 0, 0, {"bias": k.u}),
        ("fixpipe: dtype of bias is float16", "float32"),
    ),
    Case(
        "fixpipe-add-scope",
        lambda k: k.t.fixpipe(k.gm32, k.c0, 1, 2, 0, 0, {"element-wise-add": k.gm32}),
        ("fixpipe: scope of add (gm32) is gm", "ub, l1"),
        TikScopeError,
    ),
    Case(
        "fixpipe-vector",
        lambda k: k.t.fixpipe(k.gm, k.c0, 1, 2, 0, 0, {"quantize_params": {"mode": "fp322fp16", "mode_param": k.u}}),
        ("mode_param for float32 to float16 is a float16 tensor", "int32 to float16"),
    ),
    Case(
        "fixpipe-bf16",
        lambda k: k.t.fixpipe(k.gm.reinterpret_cast_to("bfloat16"), k.c0, 1, 2, 0, 0),
        ("fixpipe: dtype is float32 to bfloat16 on Ascend910A",),
        TikSupportError,
    ),
    # broadcasts, fills, shapes
    Case(
        "broadcast-strides",
        lambda k: k.t.broadcast_ub_to_l0c(k.c0, k.f, 1, 1, 0),
        ("broadcast_ub_to_l0c: strides is (0,)", "src_stride, dst_stride"),
    ),
    Case("broadcast-dtype", lambda k: k.t.broadcast_ub_to_l0c(k.c0, k.u, 1, 1), ("dtype of src is float16", "float32")),
    Case(
        "broadcast-extent",
        lambda k: k.t.broadcast_ub_to_l0c(k.c0, k.f, 1, 5),
        ("broadcast_ub_to_l0c: dst (c0) overflow", "needed 1280"),
        TikOverflowError,
    ),
    Case("broadcast-mode", lambda k: k.t.mmad_broadcast(k.c0, k.f, 2, 1, 1, 0, 0), ("repeat_mode is 2", "0, 1")),
    Case(
        "fill-value",
        lambda k: k.t.tensor_padding_with_matrix(k.l1, 1),
        ("tensor_padding_with_matrix: value is None", "set_l0_set_value(value, 'float16')"),
    ),
    Case(
        "fill-scope",
        lambda k: k.t.tensor_padding_with_matrix(k.u, 1, 0.0),
        ("tensor_padding_with_matrix: scope of dst (u) is ub", "l0a, l0b, l1"),
        TikScopeError,
    ),
    Case(
        "fill-extent",
        lambda k: k.t.tensor_padding_with_matrix(k.l1, 9, 0.0),
        ("dst (l1) overflow", "needed 2304"),
        TikOverflowError,
    ),
    Case(
        "fill-dtype",
        lambda k: k.t.set_l0_set_value(1, "int8"),
        ("set_l0_set_value: dtype is int8", "float16"),
        TikSupportError,
    ),
    Case(
        "v4dtrans-chip",
        lambda k: k.t.v4dtrans(True, k.u, k.v, 16, 4),
        ("v4dtrans: Ascend910A does not have", "310P"),
        TikSupportError,
    ),
    Case(
        "v4dtrans-length",
        lambda k: k.t.v4dtrans(True, k.u, k.v, 17, 4),
        ("v4dtrans: m_len is 17", "multiples of 16"),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "v4dtrans-in-place",
        lambda k: k.t.v4dtrans(True, k.u, k.u, 64, 4),
        ("v4dtrans: bytes transposed in place is 512", "at most 256"),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "v4dtrans-overlap",
        lambda k: k.t.v4dtrans(True, k.u, k.u[16], 64, 4),
        ("v4dtrans: dst and src overlap",),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "smask-scope",
        lambda k: _smask(k, scope=tik.scope_ubuf),
        ("load_smask: scope of dst (mask) is ub", "smask"),
        TikScopeError,
    ),
    Case("smask-size", lambda k: _smask(k, 9), ("load_smask: load_size is 9", "1..8")),
    Case(
        "image-format",
        lambda k: _image(k, input_format=1),
        ("load_image: input_format is 1", "4 (RGB888_U8)"),
        TikSupportError,
    ),
    Case(
        "image-function",
        lambda k: _image(k, csc_info={"csc_switch": 1}),
        ("load_image: csc_info", "crop and swap"),
        TikSupportError,
    ),
    Case(
        "image-crop",
        lambda k: _image(k, crop_info={"crop_horizontal_start": 4, "dst_horizontal_size": 5}),
        ("load_image: end of the horizontal crop is 9", "at most 8"),
    ),
    Case("image-info", lambda k: _image(k, src_info=(8, 8)), ("load_image: src_info is (8, 8)", "a dict")),
    Case(
        "image-swap",
        lambda k: _image(k, swap_list=[0, 1, 0]),
        ("swap_list[1] for RGB888_U8 is 1", "0"),
        TikSupportError,
    ),
    Case(
        "image-odd",
        lambda k: _image(
            k, input_format=0, src1=k.t.Tensor("uint8", (99,), tik.scope_gm, "uv"), crop_info={"crop_vertical_start": 1}
        ),
        ("crop_vertical_start of YUV420SP_U8 is 1", "even"),
    ),
    Case(
        "image-line",
        lambda k: _image(k, crop_info={"single_line_enable": 1}),
        ("single_line_enable is 1", "0"),
        TikSupportError,
    ),
    Case(
        "image-extent",
        lambda k: _image(
            k, src_info={"src_horizontal_size": 9, "src_vertical_size": 8}, crop_info={"dst_horizontal_size": 2}
        ),
        ("load_image: src0 (image) overflow", "needed 195"),
        TikOverflowError,
    ),
    # refused by name
    *[
        Case(name, lambda k, n=name: getattr(k.t, n)(k.u, k.v), (f"{name}: ", words), TikSupportError)
        for name, words in (
            ("data_move_quant", "v210 and 610"),
            ("load2dv3", "610L"),
            ("depthwise_conv", "conv2d"),
            ("winograd_conv", "Winograd"),
            ("winograd_feature_map_transform", "load3dv1"),
            ("winograd_weight_transform", "load2dv1"),
            ("winograd_conv_check_params", "Winograd"),
        )
    ],
    Case(
        "product-version",
        lambda k: tik.set_product_version("maxi"),
        ("set_product_version: version is 'maxi'", "mini, cloud, aic", "Ascend310P3"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[c.id for c in CASES])
def test_message(case: Case) -> None:
    check_message(case, __file__)
