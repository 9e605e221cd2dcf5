# SPDX-License-Identifier: Apache-2.0
"""Every message of the gather, sort, proposal, register and h_ methods: API, parameter, given, accepted, line."""

from __future__ import annotations

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


def ub(k: Kit, dtype: str, count: int = 1024) -> Any:
    return k.t.Tensor(dtype, (count,), tik.scope_ubuf, f"{dtype}_{count}")


def _off(k: Kit) -> None:
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.h_abs(k.u, k.u)


def _full(k: Kit) -> None:
    k.t.Tensor("int8", (240000,), tik.scope_ubuf, "big")
    k.t.h_abs(k.u, k.u)


P, B = "Ascend310P3", "Ascend910B1"
CASES = [
    # gather and scatter
    Case(
        "vgather-chip",
        lambda k: k.t.vgather(1, k.u, k.v, ub(k, "uint32"), 1, 8),
        ("vgather: Ascend910A does not have", "310P"),
        TikSupportError,
    ),
    Case(
        "vgather-dtype",
        lambda k: k.t.vgather(1, k.u, k.f, ub(k, "uint32"), 1, 8),
        ("vgather: dtype of src is float32", "float16"),
        soc=P,
    ),
    Case(
        "vgather-offsets",
        lambda k: k.t.vgather(1, k.u, k.v, k.f, 1, 8),
        ("vgather: dtype of src_offset is float32", "uint32, int32"),
        soc=P,
    ),
    Case(
        "vgather-offset-extent",
        lambda k: k.t.vgather(128, k.u, k.v, ub(k, "uint32", 128), 2, 8),
        ("vgather: src_offset", "overflow", "needed 256", "there 128"),
        TikOverflowError,
        P,
    ),
    Case("vgather-base", lambda k: k.t.vgather(1, k.u, k.v, ub(k, "uint32"), 1, 8, -4), ("base_addr is -4",), soc=P),
    Case(
        "vscatter-chip",
        lambda k: k.t.vscatter(1, k.u, k.v, ub(k, "uint32"), 1, 8),
        ("vscatter: Ascend910B1 does not have", "310P"),
        TikSupportError,
        B,
    ),
    Case(
        "vgatherb-dtype",
        lambda k: k.t.vgatherb(k.u, k.f, ub(k, "uint32"), 1, 1, 8),
        ("vgatherb: dtype of src is float32",),
        soc=B,
    ),
    Case(
        "vgatherb-offsets",
        lambda k: k.t.vgatherb(k.u, k.v, k.i, 1, 1, 8),
        ("vgatherb: dtype of src_offsets is int32", "uint32"),
        soc=B,
    ),
    Case("vbcb-dtype", lambda k: k.t.vbcb(k.u, k.f, 1, 1, 8), ("vbcb: dtype of src is float32",), soc=B),
    Case(
        "vbcb-extent",
        lambda k: k.t.vbcb(k.u, k.v, 9, 1, 8),
        ("vbcb: dst (u) overflow", "needed 1152"),
        TikOverflowError,
        B,
    ),
    Case("vpadding-mode", lambda k: k.t.vpadding(16, 3, 0, k.u, k.v, 1, 1, 1, 8, 8), ("pad_mode is 3", "0..2"), soc=P),
    Case(
        "vpadding-mode-scalar",
        lambda k: k.t.vpadding(16, k.s, 0, k.u, k.v, 1, 1, 1, 8, 8),
        ("pad_mode is a Scalar", "0, 1, 2"),
        soc=P,
    ),
    Case(
        "vpadding-side",
        lambda k: k.t.vpadding(16, 0, 2, k.u, k.v, 1, 1, 1, 8, 8),
        ("pad_side is 2", "True or False"),
        soc=P,
    ),
    Case(
        "vbi-dtype",
        lambda k: k.t.vbi(128, k.u, k.v, k.f, ub(k, "uint32"), 1, 1, 1, False, 128),
        ("vbi: dtype of src1 is float32",),
        soc=P,
    ),
    Case(
        "vbi-offsets",
        lambda k: k.t.vbi(128, k.u, k.v, k.v, k.f, 1, 1, 1, False, 128),
        ("vbi: dtype of src0_offset is float32", "uint32, int32"),
        soc=P,
    ),
    Case(
        "vbi-extent",
        lambda k: k.t.vbi(128, k.u, k.v, k.v, ub(k, "uint32"), 1, 9, 1, False, 128),
        ("vbi: dst (u) overflow", "needed 1152"),
        TikOverflowError,
        P,
    ),
    # compaction
    Case("vreduce-dtype", lambda k: k.t.vreduce(1, k.u, k.f, 1, 1, 1, 8, 0), ("vreduce: dtype of src0 is",), soc=P),
    Case("vreduce-pattern", lambda k: k.t.vreduce(1, k.u, k.v, 7, 1, 1, 8, 0), ("src1_pattern is 7", "1..6"), soc=P),
    Case(
        "vreduce-pattern-dtype",
        lambda k: k.t.vreduce(1, k.u, k.v, k.i, 1, 1, 8, 0),
        ("dtype of src1_pattern for float16 is int32", "uint16"),
        soc=P,
    ),
    Case(
        "vreduce-pattern-scalar",
        lambda k: k.t.vreduce(1, k.u, k.v, k.s, 1, 1, 8, 0),
        ("src1_pattern is a Scalar", "a tensor of bits"),
        soc=P,
    ),
    Case(
        "vreduce-mode",
        lambda k: k.t.vreduce(1, k.u, k.v, 1, 1, 1, 8, 0, mask_mode="some"),
        ("mask_mode is 'some'", "'normal' or 'counter'"),
        soc=P,
    ),
    Case(
        "vreduce-kept",
        lambda k: k.t.vreduce(1, k.u, k.v, 1, 1, 1, 8, 0, rsvd_scalar=3),
        ("rsvd_scalar is int", "a uint32 Scalar"),
        soc=P,
    ),
    Case(
        "vreduce-extent",
        lambda k: k.t.vreduce(1, k.u, k.v, 1, 9, 1, 8, 0),
        ("vreduce: src0 (v) overflow",),
        TikOverflowError,
        P,
    ),
    Case(
        "vreducev2-chip",
        lambda k: k.t.vreducev2(1, k.u, k.v, 1, 1, 1, 8, 0),
        ("vreducev2: Ascend310P3 does not have", "910B"),
        TikSupportError,
        P,
    ),
    # fused conversions
    Case(
        "vmulconv-dtypes",
        lambda k: k.t.vmulconv(128, k.u, k.u, k.v, 1, 1, 1, 1, 8, 8, 8),
        ("vmulconv: dtype is float16, float16, float16", "u8f16f16"),
        TikSupportError,
    ),
    Case(
        "vadddeqrelu-dtypes",
        lambda k: k.t.vadddeqrelu(64, k.u, 1.0, k.f, k.f, 1, 1, 1, 1, 4, 8, 8),
        ("vadddeqrelu: dtype is", "f16s32s32"),
        TikSupportError,
    ),
    Case(
        "vcbd-dtypes",
        lambda k: k.t.vcbd(64, k.u, k.i, 1, 1, 1, 4, 8),
        ("vcbd: dtype is int32 to float16", "s322s16"),
        TikSupportError,
        P,
    ),
    Case(
        "deq-missing",
        lambda k: k.t.vec_conv(128, "", ub(k, "int8"), ub(k, "int16"), 1, 8, 8),
        ("vec_conv: deqscale for int16 to int8 is None", "a scale word"),
        soc=P,
    ),
    Case(
        "deq-sign",
        lambda k: k.t.vec_conv(128, "", ub(k, "int8"), ub(k, "int16"), 1, 8, 8, 5),
        ("bit 46 of deqscale for int8 is 0", "1 for int8, 0 for uint8"),
        soc=P,
    ),
    Case(
        "deq-tensor",
        lambda k: k.t.vec_conv(128, "", ub(k, "int8"), ub(k, "int16"), 1, 8, 8, k.u),
        ("dtype of deqscale is float16", "uint64"),
        soc=P,
    ),
    # sorting
    Case("vrpsort16-dtype", lambda k: k.t.vrpsort16(k.u, k.f, 1), ("vrpsort16: dtype of src is float32",)),
    Case(
        "vrpsort16-extent",
        lambda k: k.t.vrpsort16(k.u, k.v, 9),
        ("vrpsort16: src (v) overflow", "needed 1152"),
        TikOverflowError,
    ),
    Case("vsort32-index", lambda k: k.t.vsort32(k.u, k.v, k.i, 1), ("vsort32: dtype of src1 is int32",), soc=B),
    Case(
        "vsort32-chip",
        lambda k: k.t.vsort32(k.u, k.v, ub(k, "uint32"), 1),
        ("vsort32: Ascend910A does not have", "910B"),
        TikSupportError,
    ),
    Case("merge-bits", lambda k: k.t.vmrgsort4(k.u, [k.v] * 4, 4, False, 5), ("valid_bit is 5", "1, 3, 7, 15")),
    Case("merge-one", lambda k: k.t.vmrgsort4(k.u, [k.v] * 4, 4, False, 1), ("valid_bit on Ascend910A is 1",)),
    Case("merge-lists", lambda k: k.t.vmrgsort4(k.u, [k.v], 4, False, 3), ("src_list is 1 tensors", "a list of 2")),
    Case(
        "merge-lengths",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 2, [4], False, 3),
        ("element_lengths is 1 numbers", "2 of them"),
    ),
    Case(
        "merge-length",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 2, [4, 4096], False, 3),
        ("element_lengths[1] is 4096", "0..4095"),
    ),
    Case("merge-dtype", lambda k: k.t.vmrgsort4(k.u, [k.v, k.f], 4, False, 3), ("dtype of src_list[1] is float32",)),
    Case(
        "merge-repeat",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 2, 4, False, 3, 2),
        ("repeat_times > 1 with is 2 lists", "4 lists, no suspension"),
    ),
    Case(
        "merge-unequal",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 4, [4, 4, 4, 5], False, 15, 2),
        ("element_lengths with repeat_times > 1", "equal lengths"),
    ),
    Case(
        "merge-apart",
        lambda k: k.t.vmrgsort4(k.u, [k.v[i * 64] for i in range(4)], 4, False, 15, 2),
        ("src_list with repeat_times > 1 is offsets", "follow each other"),
    ),
    Case(
        "merge-extent",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 2, [100, 100], False, 3),
        ("dst (u) overflow",),
        TikOverflowError,
    ),
    Case(
        "merge-scalars",
        lambda k: k.t.vmrgsort4(k.u, [k.v] * 2, [4, 4], False, 3, 1, [k.s]),
        ("vms4_sr_scalar_array is 1 scalars", "4 Scalars"),
    ),
    Case(
        "vmrgsort-lists",
        lambda k: k.t.vmrgsort(k.u, [k.v], [4], False),
        ("vmrgsort: src_list is 1 tensors", "2..4"),
        soc=B,
    ),
    Case("merge-state", lambda k: k.t.mov_vmrgsort4_sr_to_scalar([k.s] * 4, 3), ("vms4_sr is int", "get_vm4_value")),
    # proposals
    Case("vconcat-field", lambda k: k.t.vconcat(k.u, k.v, 1, 6), ("vconcat: mode_number is 6", "0..5")),
    Case(
        "vextract-field",
        lambda k: k.t.vextract(k.u, k.v, 1, 4),
        ("vextract: mode_number is 4", "0..3"),
        soc="Ascend310",
    ),
    Case("viou-dtype", lambda k: k.t.viou(k.u, k.v, k.f, 1), ("viou: dtype of src1 is float32",)),
    Case(
        "viou-extent", lambda k: k.t.viou(k.u, k.v, k.v, 5), ("viou: dst (u) overflow", "needed 1280"), TikOverflowError
    ),
    Case(
        "rpn-offset-chip",
        lambda k: k.t.set_rpn_offset(0.0),
        ("set_rpn_offset: Ascend310 does not have", "910A"),
        TikSupportError,
        "Ascend310",
    ),
    Case("rpn-offset-dtype", lambda k: k.t.set_rpn_offset(0.0, "int8"), ("offset_dtype is int8", "float16, float32")),
    Case("rpn-offset", lambda k: k.t.set_rpn_offset(k.h), ("offset is Scalar", "a Python number")),
    Case("rpn-chip", lambda k: k.t.set_rpn_cor_ir(0), ("set_rpn_cor_ir: Ascend910B1 does not",), TikSupportError, B),
    Case("rpn-words", lambda k: k.t.rpn_cor(k.u, k.v, 1, 1, 1), ("rpn_cor: dtype of src0 is float16", "uint16")),
    Case(
        "rpn-state",
        lambda k: k.t.rpn_cor_diag(ub(k, "uint16"), ub(k, "uint16", 64), 3),
        ("src_register is int", "rpn_cor"),
    ),
    Case("rpn-state-read", lambda k: k.t.mov_rpn_cor_ir_to_scalar(k.s, 3), ("rpn_cor_ir is int",)),
    # registers
    Case(
        "fp2int-chip",
        lambda k: k.t.set_fp2int_mode(1),
        ("set_fp2int_mode: Ascend310 does not have",),
        TikSupportError,
        "Ascend310",
    ),
    Case(
        "fp2fp-chip",
        lambda k: k.t.set_fp2fp_mode(1),
        ("set_fp2fp_mode: Ascend910A does not have", "910B"),
        TikSupportError,
    ),
    Case("fp2int-value", lambda k: k.t.set_fp2int_mode(2), ("set_fp2int_mode: mode is 2", "0..1")),
    Case("fp2int-scalar", lambda k: k.t.set_fp2int_mode(k.s), ("mode is a Scalar", "0, 1")),
    Case("cache-scalar", lambda k: k.t.set_system_cache(k.s), ("set_system_cache: mode is a Scalar",)),
    Case("read-target", lambda k: k.t.mov_fp2int_mode_to_scalar(k.u), ("scalar is Tensor", "a Scalar")),
    Case(
        "overflow-chip",
        lambda k: k.t.set_overflow_status(0),
        ("set_overflow_status: Ascend310P3 does not have",),
        TikSupportError,
        P,
    ),
    Case("multi-bounds", lambda k: k.t.multi_for_range((0, 0), (1,)), ("number of bounds is 2 and 1",)),
    Case(
        "address",
        lambda k: k.u.set_address_value(0),
        ("tensor u.set_address_value: value is int", "an element of a TensorAddrList"),
    ),
    Case("call-module", lambda k: k.t.call_module(None), ("call_module", "instead: write"), TikSupportError),
    Case(
        "block-barrier-all",
        lambda k: k.t.block_barrier_all(),
        ("block_barrier_all", "instead: block_barrier"),
        TikSupportError,
    ),
    Case("subblock", lambda k: k.t.subblock_group_barrier(), ("subblock_group_barrier", "no chip"), TikSupportError),
    Case(
        "cmpmask-scalar",
        lambda k: k.t.set_scalar_to_cmpmask(k.s),
        ("set_scalar_to_cmpmask", "instead"),
        TikSupportError,
    ),
    # high precision
    Case(
        "ln-dtype",
        lambda k: k.t.vec_ln_high_preci(64, k.f, k.f, k.f, 1, 8, 8),
        ("vec_ln_high_preci: dtype is float32", "float16"),
        TikSupportError,
    ),
    Case(
        "ln-work-dtype",
        lambda k: k.t.vec_ln_high_preci(64, k.u, k.v, k.f, 1, 8, 8),
        ("dtype of work_tensor is float32", "dtype of dst, float16"),
    ),
    Case(
        "ln-work",
        lambda k: k.t.vec_ln_high_preci(128, k.u, k.v, ub(k, "float16", 1279), 1, 8, 8),
        ("work_tensor", "needed 1280", "given 1279"),
        TikOverflowError,
    ),
    Case(
        "expm1-stride",
        lambda k: k.t.vec_expm1_high_preci(64, k.u, k.v, ub(k, "float16", 9999), 2, 8, 3),
        ("src_rep_stride is 3", "0, 4..255"),
    ),
    # h_ methods
    Case("h-shape", lambda k: k.t.h_add(k.u[:32], k.v[:33], k.v[:32]), ("h_add: shape of src0 is [33]", "[32]")),
    Case("h-dtype", lambda k: k.t.h_add(k.u, k.f, k.v), ("h_add: dtype of src0 is float32",)),
    Case("h-scalars", lambda k: k.t.h_add(k.u, 1.0, 2.0), ("src0 and src1 is two scalars", "at least one tensor")),
    Case("h-int-scalar", lambda k: k.t.h_mul(k.u, k.v, 2), ("h_mul: src1 is 2", "a float immediate")),
    Case("h-scope", lambda k: k.t.h_abs(k.u, k.gm), ("h_abs: scope of src (gm) is gm", "ub"), TikScopeError),
    Case("h-overlap", lambda k: k.t.h_abs(k.u[:64], k.u[32:96]), ("h_abs: bytes of src in tensor u", "exactly")),
    Case("h-single", lambda k: k.t.h_abs(k.u[:64], k.v[0]), ("h_abs: shape of src is [1]", "[64]")),
    Case("h-sync", _off, ("h_abs: scope is new_stmt_scope(disable_sync=True)",), TikScopeError),
    Case(
        "h-capacity",
        _full,
        ("h_abs: scope_ubuf bytes reserved by the h_ methods is 16384", "bytes free"),
        TikCapacityError,
    ),
    Case(
        "h-chip", lambda k: k.t.h_div(k.u, k.u, k.v), ("h_div: Ascend310 does not have",), TikSupportError, "Ascend310"
    ),
    Case("h-cast-mode", lambda k: k.t.h_cast(k.i, k.f, "up"), ("h_cast: round_mode is 'up'", "'floor'")),
    Case(
        "h-cast-pair",
        lambda k: k.t.h_cast(k.b, k.f[:64], ""),
        ("h_cast: dtype is float32 to uint8", "f322f16"),
        TikSupportError,
    ),
    Case(
        "h-quant",
        lambda k: k.t.h_quant(k.u, k.f, 1.0),
        ("h_quant: dtype is float32 to float16", "s322f16"),
        TikSupportError,
    ),
    Case("h-duplicate-expr", lambda k: k.t.h_duplicate(k.u, k.h + 1.0), ("src for float16 on Ascend910A is an",)),
    Case(
        "h-move-piece",
        lambda k: k.t.h_data_move(k.u[:8], k.v[:8]),
        ("contiguous bytes of a piece is 16", "32"),
        TikAlignError,
    ),
    Case(
        "h-move-start",
        lambda k: k.t.h_data_move(k.u[8:24], k.v[:16]),
        ("start address of dst (u[8]) is 16 bytes",),
        TikAlignError,
    ),
    Case("h-move-route", lambda k: k.t.h_data_move(k.gm, k.gm), ("route is gm->gm", "ub->gm")),
    Case("h-move-dtype", lambda k: k.t.h_data_move(k.u, k.f), ("h_data_move: dtype of src is float32",)),
    Case("h-move-bool", lambda k: k.t.h_data_move(ub(k, "bool", 32), ub(k, "bool", 64)), ("dtype of dst is bool",)),
    Case("h-rank", lambda k: k.t.h_abs(k.u.reshape((1,) * 9 + (1024,)), k.v), ("rank of dst is 10", "1..8")),
    Case("h-axis", lambda k: k.t.h_reduce_sum(k.u[:1], k.v, 1), ("h_reduce_sum: axis is 1", "-1..0")),
    Case("h-reduce-dst", lambda k: k.t.h_reduce_sum(k.s, k.v.reshape((2, 512)), 1), ("dst is Scalar", "a Tensor")),
    Case(
        "h-reduce-shape", lambda k: k.t.h_reduce_sum(k.u[:3], k.v.reshape((2, 512)), 1), ("shape of dst is [3]", "[2]")
    ),
    Case("h-reduce-dtype", lambda k: k.t.h_reduce_max(k.f[:2], k.v.reshape((2, 512)), 1), ("dtype of dst is float32",)),
    Case(
        "h-place-dtype",
        lambda k: k.t.h_reduce_argmax(k.f[:2], k.v.reshape((2, 512)), 1),
        ("dtype of dst is float32", "integer dtypes"),
    ),
    Case(
        "h-place-axes",
        lambda k: k.t.h_reduce_argmax(k.i[:1], k.v.reshape((2, 512)), [0, 1]),
        ("axis is [0, 1]", "one dimension, or None"),
    ),
    Case("h-cmpv-mask", lambda k: k.t.h_cmpv(k.b, k.u[:64], k.v[:64], "LT"), ("dtype of mask_tensor is uint8", "bool")),
    Case("h-cmpv-mode", lambda k: k.t.h_cmpv(ub(k, "bool"), k.u, k.v, "<"), ("cmp_mode is '<'", "'LT'")),
    Case("h-cmpv-dtype", lambda k: k.t.h_cmpv(ub(k, "bool"), k.u, k.f, "LT"), ("dtype of src1 is float32",)),
    Case("h-sel-mask", lambda k: k.t.h_sel(k.u[:64], k.v[:64], 1.0, k.b), ("h_sel: dtype of mask_tensor is uint8",)),
    Case("h-sel-dtype", lambda k: k.t.h_sel(k.u, k.f, 1.0, ub(k, "bool")), ("h_sel: dtype of src0 is float32",)),
    Case(
        "h-sin-chip",
        lambda k: k.t.h_sin(k.u, k.v),
        ("h_sin: Ascend310P3 does not have", "310, 910A"),
        TikSupportError,
        P,
    ),
    Case("h-sin-dtype", lambda k: k.t.h_sin(k.u, k.f), ("h_sin: dtype of src is float32",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_message(case: Case) -> None:
    assert issubclass(case.kind, TikError)
    check_message(case, __file__)
