# SPDX-License-Identifier: Apache-2.0
"""Every message of the TIK front end about tensors and parameters of instructions.

It names the API, the parameter, what was given, what is accepted, and the line. Each case is one call that breaks
one rule; the words are those a reader needs to repair the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tik_cases import Case, Kit, check_message

from ms_custom_ops import tik
from ms_custom_ops.errors import (
    TikAlignError,
    TikCapacityError,
    TikError,
    TikOverflowError,
    TikScopeError,
    TikSupportError,
)


def _used_after_scope(k: Kit) -> None:
    with k.t.new_stmt_scope():
        inner = k.t.Tensor("float16", (128,), tik.scope_ubuf, "inner")
    k.t.vec_exp(128, k.u, inner, 1, 8, 8)


def _scalar_after_scope(k: Kit) -> None:
    with k.t.new_stmt_scope():
        gone = k.t.Scalar("int32", "gone", 1)
    k.s.set_as(gone + 1)


def _gm_in_scope(k: Kit) -> None:
    with k.t.for_range(0, 2):
        k.t.Tensor("float16", (16,), tik.scope_gm, "late")


def _nested(outer: Any, inner: Any) -> Callable[[Kit], None]:
    def call(k: Kit) -> None:
        with outer(k), inner(k):
            pass

    return call


def _other_instance(k: Kit) -> None:
    k.t.vec_exp(128, k.u, Kit().u, 1, 8, 8)


CASES = [
    # capacity, extent, alignment
    Case(
        "capacity",
        lambda k: k.t.Tensor("float16", (200000,), tik.scope_ubuf, "big"),
        (
            "Tensor big",
            "scope_ubuf",
            "400000",
            "262144",
            "Ascend910A, shape (",
            "in the place of (200000,)",
            "2048 u float16[",
            "4096 f float32[",
        ),
        TikCapacityError,
    ),
    Case(
        "capacity-threads",
        _nested(
            lambda k: k.t.for_range(0, 4, thread_num=4),
            lambda k: k.t.new_stmt_scope(k.t.Tensor("float16", (40000,), tik.scope_ubuf, "big") is None),
        ),
        ("Tensor big", "320000 (80000 x 4 for thread_num)"),
        TikCapacityError,
    ),
    Case(
        "vector-extent",
        lambda k: k.t.vec_add(128, k.u, k.v[512], k.v, 8, 8, 8, 8),
        ("vec_add: src0 (v) overflow", "needed 1536", "there 1024"),
        TikOverflowError,
    ),
    Case(
        "move-extent",
        lambda k: k.t.data_move(k.u, k.gm[1000], 0, 1, 4, 0, 0),
        ("data_move: src (gm) overflow", "needed 1064", "there 1024"),
        TikOverflowError,
    ),
    Case(
        "compare-extent",
        lambda k: k.t.vec_cmpv_lt(k.b[32], k.u, k.v, 4, 8, 8),
        ("vec_cmpv_lt: dst (b) overflow", "needed 96", "there 64"),
        TikOverflowError,
    ),
    Case(
        "mmad-extent",
        lambda k: k.t.mmad(k.c0, k.a0, k.b0, 48, 32, 16, 0),
        ("mmad: src_fm (a0) overflow", "needed 1536"),
        TikOverflowError,
    ),
    Case(
        "load2d-extent",
        lambda k: k.t.load2dv1(k.a0, k.l1, 7, 2, 1, 0),
        ("load2dv1: src (l1) overflow", "needed 2304", "there 2048"),
        TikOverflowError,
    ),
    Case(
        "matmul-single-point",
        lambda k: k.t.matmul(k.c0, k.l1[0], k.l1, 16, 16, 16),
        ("matmul: a (l1) overflow", "needed 256", "there 1", "t[i:]"),
        TikOverflowError,
    ),
    Case(
        "start-ub",
        lambda k: k.t.vec_exp(128, k.u[8], k.v, 1, 8, 8),
        ("vec_exp: start address of dst (u[8]) is 16 bytes", "32 bytes"),
        TikAlignError,
    ),
    Case(
        "start-l0c",
        lambda k: k.t.data_move(k.f, k.c0[128], 0, 1, 1, 0, 0),
        ("data_move: start address of src (c0[128]) is 512 bytes", "1024 bytes"),
        TikAlignError,
    ),
    Case(
        "start-addr",
        lambda k: k.t.Tensor("float16", (16,), tik.scope_cbuf, "m", start_addr=40),
        ("Tensor m: start_addr is 40", "32 bytes"),
    ),
    # parameters
    Case("repeat-zero", lambda k: k.t.vec_exp(128, k.u, k.v, 0, 8, 8), ("vec_exp: repeat_times is 0", "1..255")),
    Case(
        "repeat-big",
        lambda k: k.t.vadd(8, k.u, k.v, k.v, 256, 1, 1, 1, 0, 0, 0),
        ("vadd: repeat_times is 256", "1..255"),
    ),
    Case("rep-stride", lambda k: k.t.vec_exp(128, k.u, k.v, 1, 8, 256), ("src_rep_stride is 256", "0..255")),
    Case(
        "blk-stride", lambda k: k.t.vadd(8, k.u, k.v, k.v, 1, 1, 256, 1, 0, 0, 0), ("src0_blk_stride is 256", "0..255")
    ),
    Case("stride-unit", lambda k: k.t.vexp(8, k.u, k.v, 1, 1, 1, 8, 8, 4), ("vexp: stride_unit is 4", "0..3")),
    Case("nburst", lambda k: k.t.data_move(k.u, k.gm, 0, 4096, 1, 0, 0), ("data_move: nburst is 4096", "1..4095")),
    Case("burst", lambda k: k.t.data_move(k.u, k.gm, 0, 1, 0, 0, 0), ("data_move: burst is 0", "1..65535")),
    Case("gap", lambda k: k.t.data_move(k.u, k.gm, 0, 1, 1, -1, 0), ("data_move: src_stride is -1", "0..65535")),
    Case("sid", lambda k: k.t.data_move(k.u, k.gm, 16, 1, 1, 0, 0), ("data_move: sid is 16", "0..15")),
    Case("float-count", lambda k: k.t.vec_exp(128, k.u, k.v, 1.5, 8, 8), ("repeat_times is 1.5", "an integer")),
    Case(
        "tensor-count",
        lambda k: k.t.vec_exp(128, k.u, k.v, k.i[0], 8, 8),
        ("repeat_times is tensor i", "Scalar.set_as"),
    ),
    Case(
        "float-scalar-count",
        lambda k: k.t.vec_exp(128, k.u, k.v, k.h, 8, 8),
        ("repeat_times is a float16 expression", "an integer"),
    ),
    Case("mmad-k", lambda k: k.t.mmad(k.c0, k.a0, k.b0, 16, 4096, 16, 0), ("mmad: matrix_k is 4096", "0..4095")),
    Case("mmad-bias", lambda k: k.t.mmad(k.c0, k.a0, k.b0, 16, 16, 16, 2), ("mmad: is_bias is 2", "0, 1")),
    Case(
        "mmad-option",
        lambda k: k.t.mmad(k.c0, k.a0, k.b0, 16, 16, 16, 0, en_small_k=True),
        ("mmad: en_small_k is True", "the default"),
        TikSupportError,
    ),
    Case("matmul-scalar", lambda k: k.t.matmul(k.c0, k.l1, k.l1, k.s, 16, 16), ("matmul: m is a Scalar", "Python int")),
    Case(
        "matmul-bias",
        lambda k: k.t.matmul(k.c0, k.l1, k.l1, 16, 16, 16, bias=k.i),
        ("matmul: dtype of bias is int32", "float32, float16"),
    ),
    Case(
        "matmul-slice",
        lambda k: k.t.matmul(k.c0, k.l1.reshape((2, 1024))[:, 0:512], k.l1, 16, 16, 16),
        ("matmul: a is a non-contiguous slice", "contiguous"),
    ),
    Case(
        "nchw-list",
        lambda k: k.t.vnchwconv(False, False, k.blocks(k.u)[:15], k.blocks(k.v), 1, 0, 0),
        ("vnchwconv: dst_list is 15 items", "16 tensors"),
    ),
    Case(
        "nchw-stride",
        lambda k: k.t.vec_trans_scatter(False, False, k.blocks(k.u), k.blocks(k.v), 1, 0, 8),
        ("vec_trans_scatter: src_rep_stride with repeat_times 1 is 8", "0"),
    ),
    Case(
        "nchw-dtypes",
        lambda k: k.t.vnchwconv(False, False, k.blocks(k.u), k.blocks(k.f), 1, 0, 0),
        ("vnchwconv: dtype of operand 0 of src_list is float32", "float16"),
    ),
    Case(
        "flag-switch",
        lambda k: k.t.vnchwconv(2, False, k.blocks(k.u), k.blocks(k.v), 1, 0, 0),
        ("vnchwconv: dst_high_half is 2", "True or False"),
    ),
    Case("scalar-fraction", lambda k: k.t.vec_dup(8, k.i, 0.5, 1, 8), ("vec_dup: scalar is 0.5", "an integer (int32)")),
    Case("scalar-tensor", lambda k: k.t.vec_dup(8, k.u, k.v, 1, 8), ("vec_dup: scalar is tensor v", "float16 Scalar")),
    Case("scalar-none", lambda k: k.t.vec_dup(8, k.u, None, 1, 8), ("vec_dup: scalar is None", "a number")),
    Case("not-a-tensor", lambda k: k.t.vec_exp(8, k.u, 3, 1, 8, 8), ("vec_exp: src is int", "a Tensor")),
    Case(
        "atomic-mode",
        lambda k: k.t.set_atomic_add(2),
        ("set_atomic_add: mode on Ascend910A is 2", "0 (off), 1 (float32)"),
        TikSupportError,
    ),
    Case(
        "dup-none-dims",
        lambda k: k.t.Tensor("float16", (0, 4), tik.scope_ubuf, "z"),
        ("Tensor z: shape is (0, 4)", "positive dimensions"),
    ),
    Case(
        "empty-shape",
        lambda k: k.t.Tensor("float16", (), tik.scope_ubuf, "z"),
        ("Tensor z: shape is ()", "at least one dimension"),
    ),
    Case(
        "size-too-small",
        lambda k: k.t.Tensor("float16", (16,), tik.scope_ubuf, "z", max_mem_size=16),
        ("Tensor z: max_mem_size (too small) is 16", "32"),
    ),
    Case(
        "size-too-big",
        lambda k: k.t.Tensor("float16", (16,), tik.scope_ubuf, "z", max_mem_size=64),
        ("Tensor z: max_mem_size (too big) is 64", "32"),
    ),
    Case(
        "size-multiple",
        lambda k: k.t.Tensor("float32", (k.s,), tik.scope_ubuf, "z", max_mem_size=6),
        ("Tensor z: max_mem_size is 6", "multiple of 4"),
    ),
    Case(
        "init-size",
        lambda k: k.t.Tensor("float16", (2**20,), tik.scope_gm, "z", init_value=0),
        ("Tensor z: init_value", "262144 elements"),
    ),
    # masks
    Case("mask-zero", lambda k: k.t.vec_exp(0, k.u, k.v, 1, 8, 8), ("vec_exp: mask is 0", "1..128")),
    Case("mask-wide", lambda k: k.t.vec_exp(65, k.f, k.f, 1, 8, 8), ("vec_exp: mask is 65", "1..64", "64 lanes")),
    Case("mask-empty", lambda k: k.t.vec_exp([0, 0], k.u, k.v, 1, 8, 8), ("mask is [0, 0]", "a selected lane")),
    Case("mask-list", lambda k: k.t.vec_exp([1, 1, 1], k.u, k.v, 1, 8, 8), ("a list of 3", "[mask_h, mask_l]")),
    Case("mask-word", lambda k: k.t.vec_exp([2**64, 1], k.u, k.v, 1, 8, 8), ("mask_h is 18446744073709551616",)),
    Case(
        "mask-mode", lambda k: k.t.vec_adds(8, k.u, k.v, 1, 1, 8, 8, mask_mode="x"), ("mask_mode is 'x'", "'counter'")
    ),
    Case(
        "counter-chip",
        lambda k: k.t.vec_adds(8, k.u, k.v, 1, 1, 8, 8, mask_mode="counter"),
        ("mask_mode on Ascend910A is 'counter'", "'normal'"),
    ),
    # dtypes, chips, routes
    Case(
        "dtype",
        lambda k: k.t.vec_add(64, k.b.reinterpret_cast_to("int8"), k.b.reinterpret_cast_to("int8"), k.b, 1, 8, 8, 8),
        ("vec_add: dtype of src1 is uint8", "int8"),
    ),
    Case(
        "dtype-chip",
        lambda k: k.t.vec_exp(64, k.i, k.i, 1, 8, 8),
        ("vec_exp: dtype is int32 on Ascend910A", "float16, float32"),
        TikSupportError,
    ),
    Case(
        "no-instruction",
        lambda k: k.t.vdiv(64, k.u, k.v, k.v, 1, 1, 1, 1, 8, 8, 8),
        ("vdiv: Ascend310 does not have this instruction", "910A, 310P"),
        TikSupportError,
        "Ascend310",
    ),
    Case(
        "vmaxs-chip",
        lambda k: k.t.vmaxs(64, k.u, k.v, 0, 1, 1, 1, 8, 8),
        ("vmaxs: Ascend910A does not have", "310P"),
        TikSupportError,
    ),
    Case("mixed-dtypes", lambda k: k.t.vec_add(64, k.f, k.u, k.u, 1, 8, 4, 4), ("dtype of src0 is float16", "float32")),
    Case(
        "conv-pair",
        lambda k: k.t.vec_conv(64, "", k.i, k.f, 1, 8, 8),
        ("vec_conv: round_mode for float32 to int32 on Ascend910A is ''", "'round'", "'to-zero'"),
        TikSupportError,
    ),
    Case(
        "conv-chip",
        lambda k: k.t.vec_conv(64, "round", k.i, k.f, 1, 8, 8),
        ("vec_conv: dtype is float32 to int32 on Ascend310",),
        TikSupportError,
        "Ascend310",
    ),
    Case("conv-mode", lambda k: k.t.vec_conv(64, "up", k.i, k.f, 1, 8, 8), ("round_mode is 'up'", "'floor'")),
    Case("conv-deqscale", lambda k: k.t.vec_conv(64, "", k.u, k.i, 1, 4, 8), ("vec_conv: deqscale is None", "1.0")),
    Case(
        "conv-no-deqscale",
        lambda k: k.t.vec_conv(64, "", k.f, k.u, 1, 8, 4, deqscale=1.0),
        ("deqscale for float16 to float32 is 1.0", "None"),
    ),
    Case(
        "conv-half",
        lambda k: k.t.vec_conv(64, "", k.f, k.u, 1, 8, 4, ldst_high_half=True),
        ("ldst_high_half for float16 to float32 is True", "False"),
    ),
    Case(
        "deq-form",
        lambda k: k.t.vec_conv(64, "", k.b, k.u.reinterpret_cast_to("int16"), 1, 4, 8),
        ("vec_conv: deqscale for int16 to uint8 is None", "a scale word"),
        soc="Ascend310P3",
    ),
    Case(
        "mmad-dtypes",
        lambda k: k.t.mmad(
            k.c0, k.a0.reinterpret_cast_to("bfloat16"), k.b0.reinterpret_cast_to("bfloat16"), 16, 16, 16, 0
        ),
        ("mmad: dtype is bfloat16 x bfloat16 to float32 on Ascend910A",),
        TikSupportError,
    ),
    Case(
        "load2d-chip",
        lambda k: k.t.load2dv1(k.a0, k.l1, 0, 1, 1, 0),
        ("load2dv1: Ascend910B1 does not have", "310, 910A"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case(
        "load2d-turn",
        lambda k: k.t.load2dv1(k.a0.reinterpret_cast_to("int8"), k.l1.reinterpret_cast_to("int8"), 0, 1, 1, 0, True),
        ("if_transpose is int8 into l0a", "16-bit"),
    ),
    Case(
        "pad-chip",
        lambda k: k.t.data_move_pad(k.u, k.gm, 1, 3, 0, 0),
        ("data_move_pad: Ascend910A does not have", "910B"),
        TikSupportError,
    ),
    Case(
        "route-gm",
        lambda k: k.t.data_move(k.gm, k.gm[512], 0, 1, 1, 0, 0),
        ("data_move: route on Ascend910A is gm->gm", "ub->gm"),
        TikSupportError,
    ),
    Case(
        "route-ub-l1",
        lambda k: k.t.data_move(k.l1, k.u, 0, 1, 1, 0, 0),
        ("data_move: route on Ascend910B1 is ub->l1", "instead: data_move to GM"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case(
        "route-l0c-ub",
        lambda k: k.t.data_move(k.f, k.c0, 0, 1, 1, 0, 0),
        ("data_move: route on Ascend910B1 is l0c->ub", "fixpipe"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case(
        "move-scale",
        lambda k: k.t.data_move(k.u, k.gm, 0, 1, 1, 0, 0, relu=True),
        ("conversion arguments for gm->ub", "L0C"),
    ),
    Case(
        "move-keyword",
        lambda k: k.t.data_move(k.u, k.gm, 0, 1, 1, 0, 0, scale=1),
        ("data_move: keyword arguments is scale", "deqscale, relu"),
    ),
    Case(
        "l0c-dtypes",
        lambda k: k.t.data_move(k.i, k.c0, 0, 1, 1, 0, 0),
        ("dtypes between L0C and UB is float32 to int32", "float32 to float16"),
        TikSupportError,
    ),
    Case(
        "l0c-scale",
        lambda k: k.t.tensor_mov(k.u, k.c0.reinterpret_cast_to("int32"), "m", 1, 1, 0, 0),
        ("deqscale for int32 to float16", "a number"),
    ),
    Case(
        "l0c-mode-number",
        lambda k: k.t.data_move(k.u, k.c0, 0, 1, 1, 0, 0, 9),
        ("data_move: ConvReluMode is 9", "0, 1, 2"),
        TikSupportError,
    ),
    Case(
        "block-mode",
        lambda k: k.t.tensor_mov(k.u, k.c0, "x", 1, 1, 0, 0),
        ("tensor_mov: block_mode is 'x'", "'m', 'v', 'sc', 'dp'"),
        TikSupportError,
    ),
    Case(
        "pad-value-missing",
        lambda k: k.t.data_move_pad(k.u, k.gm, 1, 3, 0, 0, 1),
        ("data_move_pad: padding_value is None", "a number"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "pad-of-store",
        lambda k: k.t.data_move_pad(k.gm, k.u, 1, 3, 0, 0, 1, 0, 0),
        ("padding of ub->gm is 0, 1, 0", "0, 0, None"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "pad-elements",
        lambda k: k.t.data_move_pad(k.u, k.gm, 1, 3, 0, 0, 17, 0, 0),
        ("right_padding is 17", "0..16"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "nd2nz-strides",
        lambda k: k.t.data_move_multi_nd2nz(k.l1, k.gm, 1, 4, 32, 0, 32, 2, 1, 1),
        ("dst_c0_stride and dst_n_stride is 2, 1", "2 x 4 blocks apart"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "fixpipe-quantize",
        lambda k: k.t.fixpipe(k.gm, k.c0, 1, 2, 0, 0),
        ("fixpipe: quantize_params for float32 to float16 is None", "fp322fp16"),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "fixpipe-key",
        lambda k: k.t.fixpipe(k.gm32, k.c0, 1, 2, 0, 0, {"bias": k.f}),
        ("fixpipe: extend_params is bias", "quantize_params, relu"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case(
        "fixpipe-dtypes",
        lambda k: k.t.fixpipe(k.gm.reinterpret_cast_to("int16"), k.c0, 1, 2, 0, 0),
        ("fixpipe: dtype is float32 to int16",),
        TikSupportError,
        "Ascend910B1",
    ),
    Case("trans-dtypes", lambda k: k.t.vtranspose(k.u, k.f), ("vtranspose: dtype of src is float32", "float16")),
    Case("trans-overlap", lambda k: k.t.vtranspose(k.u[16], k.u), ("vtranspose: dst and src overlap",)),
    Case(
        "load2d-dtypes",
        lambda k: k.t.load2dv1(k.a0, k.l1.reinterpret_cast_to("int16"), 0, 1, 1, 0),
        ("load2dv1: dtype of src is int16", "float16"),
    ),
    Case(
        "load2d-mode",
        lambda k: k.t.load2dv1(k.a0, k.l1, 0, 1, 1, 0, False, "dec"),
        ("load2dv1: addr_mode is dec", "'inc'"),
        TikSupportError,
    ),
    Case("fixpipe-params", lambda k: k.t.fixpipe(k.gm32, k.c0, 1, 2, 0, 0, 3), ("extend_params is int", "a dict")),
    Case(
        "fixpipe-mode",
        lambda k: k.t.fixpipe(k.gm, k.c0, 1, 2, 0, 0, {"quantize_params": {"mode": "int322fp16"}}),
        ("quantize_params mode for float32 to float16 is int322fp16", "fp322fp16"),
    ),
    Case(
        "fixpipe-scale",
        lambda k: k.t.fixpipe(
            k.gm, k.c0.reinterpret_cast_to("int32"), 1, 2, 0, 0, {"quantize_params": {"mode": "int322fp16"}}
        ),
        ("fixpipe: mode_param is None", "float16 Scalar"),
    ),
    Case(
        "l0c-no-scale",
        lambda k: k.t.data_move(k.f, k.c0, 0, 1, 1, 0, 0, deqscale=1.0),
        ("deqscale for float32 to float32 is 1.0", "None"),
    ),
    Case(
        "l0c-mode-scale",
        lambda k: k.t.data_move(k.u, k.c0.reinterpret_cast_to("int32"), 0, 1, 1, 0, 0, 3),
        ("deqscale for int32 to float16 is NoneType", "a number"),
    ),
    Case("move-not-tensor", lambda k: k.t.data_move(k.u, 3, 0, 1, 1, 0, 0), ("data_move: src is int", "a Tensor")),
    Case(
        "tensor-mov-pad",
        lambda k: k.t.tensor_mov(k.u, k.gm, "", 1, 1, 0, 0, pad_mode=1),
        ("tensor_mov: pad_mode", "1, None, 0"),
        TikSupportError,
    ),
    Case(
        "pad-dtypes",
        lambda k: k.t.data_move_pad(k.u, k.gm32, 1, 2, 0, 0),
        ("data_move_pad: dtype of src is float32",),
        TikError,
        "Ascend910B1",
    ),
    Case(
        "nd2nz-dtypes",
        lambda k: k.t.data_move_multi_nd2nz(k.l1, k.gm32, 1, 1, 1, 0, 1, 1, 1, 1),
        ("data_move_multi_nd2nz: dtype of src is float32",),
        TikError,
        "Ascend910B1",
    ),
    Case("stride-unit-scalar", lambda k: k.t.vexp(8, k.u, k.v, 1, 1, 1, 8, 8, k.s), ("stride_unit is a Scalar",)),
    Case("axpy-mixed", lambda k: k.t.vec_axpy(8, k.u, k.f, 1.0, 1, 8, 8), ("vec_axpy: dtype of src is float32",)),
    # scopes of operands
    Case(
        "vector-scope",
        lambda k: k.t.vec_exp(128, k.u, k.gm, 1, 8, 8),
        ("vec_exp: scope of src (gm) is gm", "ub"),
        TikScopeError,
    ),
    Case(
        "mmad-scope",
        lambda k: k.t.mmad(k.c0, k.b0, k.b0, 16, 16, 16, 0),
        ("mmad: scope of src_fm (b0) is l0b", "l0a"),
        TikScopeError,
    ),
    Case(
        "tensor-after-scope",
        _used_after_scope,
        ("vec_exp: tensor inner", "after its scope ended", "created at", "test_tik_messages_operands.py"),
        TikScopeError,
    ),
    Case("scalar-after-scope", _scalar_after_scope, ("scalar gone", "after its scope ended"), TikScopeError),
    Case("other-instance", _other_instance, ("vec_exp: tensor u belongs to another Tik instance",), TikScopeError),
    Case("gm-in-scope", _gm_in_scope, ("Tensor late", "inside a scope", "outside every for_range"), TikScopeError),
    Case(
        "workspace-on-chip",
        lambda k: k.t.Tensor("float16", (16,), tik.scope_ubuf, "w", is_workspace=True),
        ("Tensor w: scope with is_workspace is local.UB", "global"),
        TikScopeError,
    ),
    Case(
        "unknown-scope",
        lambda k: k.t.Tensor("float16", (16,), "local.XX", "w"),
        ("Tensor w: scope is local.XX", "local.UB"),
        TikScopeError,
    ),
    Case(
        "unknown-dtype",
        lambda k: k.t.Tensor("float8", (16,), tik.scope_ubuf, "w"),
        ("Tensor w: dtype is float8", "float16"),
    ),
    Case(
        "gm-element",
        lambda k: k.s.set_as(k.gm32[0]),
        ("Scalar s.set_as: scope of tensor gm32 on Ascend910A is gm", "ub"),
        TikScopeError,
    ),
    Case("gm-store", lambda k: k.gm[0].set_as(1), ("tensor gm.set_as: scope", "gm"), TikScopeError),
    Case(
        "element-extent",
        lambda k: k.t.Scalar("int64", "w").set_as(k.b[60]),
        ("Scalar w.set_as: tensor b overflow", "needed 8", "there 4"),
        TikOverflowError,
    ),
    # overlap
    Case(
        "overlap-one-repeat",
        lambda k: k.t.vec_exp(128, k.u[16], k.u, 1, 8, 8),
        ("vec_exp: dst and src overlap in tensor u", "32..287", "0..255", "identical or apart"),
    ),
    Case(
        "overlap-next-repeat",
        lambda k: k.t.vec_exp(128, k.u[128], k.u, 4, 8, 8),
        ("vec_exp: dst and src overlap", "256..1279", "dst of one repeat and src of the next"),
    ),
    Case(
        "overlap-width",
        lambda k: k.t.vec_conv(64, "", k.f.reinterpret_cast_to("float16"), k.f, 1, 4, 8),
        ("vec_conv: dst and src overlap in tensor f",),
    ),
    Case("overlap-move", lambda k: k.t.data_move(k.u[16], k.u, 0, 1, 4, 0, 0), ("data_move: dst and src overlap",)),
]


@pytest.mark.parametrize("case", CASES, ids=[c.id for c in CASES])
def test_message(case: Case) -> None:
    check_message(case, __file__)


def test_ids_are_unique() -> None:
    assert len({c.id for c in CASES}) == len(CASES)
