# SPDX-License-Identifier: Apache-2.0
"""Faults of values: parameters that are known only while running, results, Python assignments."""

from __future__ import annotations

from kit import Kit, fault

from ms_custom_ops import tik

INF, NAN = float("inf"), float("nan")


@fault("param_range")
def repeat_256(k: Kit) -> None:
    x, y = k.gm(4096), k.out(4096)
    a, r = k.load(x), k.load(x)
    k.t.vec_abs(16, r, a, k.number(256 if k.bad else 255), 1, 1)  # AT
    k.move(y, r, 4096)


@fault("param_range")
def repeat_stride_300(k: Kit) -> None:
    x, y = k.gm(8192), k.out(8192)
    a, r = k.load(x), k.load(x)
    k.t.vec_abs(16, r, a, 2, 8, k.number(300 if k.bad else 255))  # AT
    k.move(y, r, 8192)


@fault("param_range")
def burst_0(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a = k.load(x)
    k.t.data_move(y, a, 0, 1, 4, 0, 0)
    k.t.data_move(y, a, 0, 1, k.number(0 if k.bad else 1), 0, 0)  # AT


@fault("param_range")
def too_many_bursts(k: Kit) -> None:
    x, y = k.gm(16), k.out(4096 * 16)
    a = k.ub(4096 * 16)
    k.t.vec_dup(128, a, 0.0, 255, 8)
    k.t.vec_dup(128, a[255 * 128], 0.0, 255, 8)
    k.t.vec_dup(128, a[510 * 128], 0.0, 2, 8)
    k.move(a, x, 16)
    k.t.data_move(y, a, 0, 16, 256, 0, 0)
    k.t.data_move(y, a, 0, k.number(4096 if k.bad else 4095), 1, 0, 0)  # AT


@fault("param_range")
def a_gap_of_65536(k: Kit) -> None:
    x, y = k.gm(16), k.out(16)
    a = k.load(x)
    k.move(y, a, 16)
    k.t.data_move(y, a, 0, 1, 1, k.number(65536 if k.bad else 65535), 0)  # AT


@fault("param_range")
def fractals_of_256_repeats(k: Kit) -> None:
    x, y = k.gm(16), k.out(16)
    a = k.load(x)
    l1, l0 = k.ub(66000, scope=tik.scope_cbuf), k.ub(32768, scope=tik.scope_ca)
    k.t.load2dv1(l0, l1, 0, k.number(256 if k.bad else 0), 0, 0, False)  # AT
    k.move(y, a, 16)


@fault("param_range")
def a_mask_of_129_lanes(k: Kit) -> None:
    x, y = k.gm(256), k.out(256)
    a, r = k.load(x), k.load(x)
    k.t.vec_abs(k.number(129 if k.bad else 128), r, a, 1, 8, 8)  # AT
    k.move(y, r, 256)


@fault("param_range")
def a_repeat_below_zero(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a = k.load(x)
    k.t.vec_abs(64, a, a, k.number(-1 if k.bad else 1), 8, 8)  # AT
    k.move(y, a, 64)


@fault("param_range")
def repeats_of_a_reduction(k: Kit) -> None:
    x, y = k.gm(64 * 300, "float32"), k.out(304, "float32")
    u, r = k.load(x), k.ub(304, "float32")
    k.t.vec_dup(8, r, 0.0, 38, 1)
    k.t.vcadd(64, r, u, k.number(300 if k.bad else 255), 1, 1, 8)  # AT
    k.move(y, r, 304)


@fault("param_range")
def a_mask_without_lanes(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    k.t.vec_muls(k.number(0 if k.bad else 64), u, u, 2.0, 1, 8, 8)  # AT
    k.move(y, u, 64)


@fault("param_range")
def a_mask_of_bits_without_lanes(k: Kit) -> None:
    x, y = k.gm(64, "float32"), k.out(64, "float32")
    u = k.load(x)
    low = k.number(0 if k.bad else 5, "uint64")
    k.t.vec_muls([0, low], u, u, 2.0, 1, 8, 8)  # AT
    k.move(y, u, 64)


@fault("param_range", traced=True)
def repeat_known_while_tracing(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a = k.load(x)
    k.t.vec_abs(64, a, a, 256 if k.bad else 1, 0, 0)  # AT
    k.move(y, a, 64)


@fault("nan_produced", values=True)
def logarithm_below_zero(k: Kit) -> None:
    x, y = k.gm(64, "float32"), k.out(64, "float32")
    a, r = k.load(x), k.ub(64, "float32")
    if k.bad:
        k.t.vec_muls(64, a, a, -1.0, 1, 8, 8)
    k.t.vec_ln(64, r, a, 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("saturated", values=True)
def an_exponential_too_large(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, r = k.load(x), k.ub(64)
    k.t.vec_muls(64, a, a, 100.0 if k.bad else 1.0, 1, 8, 8)
    k.t.vec_exp(64, r, a, 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("nan_produced", values=True, tensor="r")
def infinity_less_infinity(k: Kit) -> None:
    x, y = k.gm(64, "float32", [INF if k.bad else 1.0] * 64), k.out(64, "float32")
    a, r = k.load(x), k.ub(64, "float32", name="r")
    k.t.vec_sub(64, r, a, a, 1, 8, 8, 8)  # AT
    k.move(y, r, 64)


@fault("nan_produced", values=True, tensor="u")
def nothing_by_nothing_in_place(k: Kit) -> None:
    x, y = k.gm(64, "float32", [0.0 if k.bad else 2.0] * 64), k.out(64, "float32")
    u = k.load(x)
    k.t.vdiv(64, u, u, u, 1, 1, 1, 1, 8, 8, 8)  # AT
    k.move(y, u, 64)


def a_nan_that_was_given(k: Kit) -> None:
    """Every way in which an operand holds one: the same bytes, others of the tensor, the sum, a scalar."""
    x, y = k.gm(256, "float32", [NAN] * 256), k.out(256, "float32")
    u, r = k.load(x), k.ub(64, "float32", name="r")
    k.t.vec_muls(64, u, u, 2.0, 1, 8, 8)
    k.t.vec_muls(64, u[64], u, 2.0, 1, 8, 8)
    k.t.vec_dup(64, r, 1.0, 1, 8)
    k.t.vmla(64, u[128], r, r, 1, 1, 1, 1, 8, 8, 8)
    s = k.t.Scalar("float32", "s")
    s.set_as(u[0])
    k.t.vec_muls(64, r, r, s, 1, 8, 8)
    k.t.vec_dup(64, u[192], s, 1, 8)
    k.t.vec_adds(64, u[192], r, s, 1, 8, 8)
    k.move(y, u, 256)


@fault("nan_produced", soc="Ascend910B1", values=True, tensor="sums", twin=a_nan_that_was_given)
def a_product_of_infinity_and_nothing(k: Kit) -> None:
    x, y = k.gm(512, data=[INF] * 256 + [0.0] * 256), k.out(256, "float32")
    l1 = k.ub(512, scope=tik.scope_cbuf)
    left, right = k.ub(256, scope=tik.scope_ca), k.ub(256, scope=tik.scope_cb)
    sums = k.ub(256, "float32", "sums", tik.scope_cc)
    k.move(l1, x, 512)
    k.t.load2dv2(left, l1, 0, 1, 0, 1, 0, False)
    k.t.load2dv2(right, l1[256], 0, 1, 0, 1, 0, False)
    k.t.mmad(sums, left, right, 16, 16, 16, 0)  # AT
    k.t.fixpipe(y, sums, 1, 32, 0, 0)


@fault("saturated", values=True, tensor="r")
def converted_beyond_float16(k: Kit) -> None:
    x, y = k.gm(64, "float32", [1e6 if k.bad else 1e3] * 64), k.out(64)
    a, r = k.load(x), k.ub(64, name="r")
    k.t.vec_conv(64, "none", r, a, 1, 4, 8)  # AT
    k.move(y, r, 64)


def an_end_that_was_given(k: Kit) -> None:
    """The lowest float16 as what a maximum starts from, copies of it, and inputs that hold it."""
    x, y = k.gm(128, data=[65504.0] * 64 + [1.0] * 64), k.out(128)
    u, r = k.load(x), k.ub(64)
    k.t.vec_dup(64, r, -65504.0, 1, 8)
    k.t.vec_max(64, u[64], r, u[64], 1, 8, 8, 8)
    k.t.vec_adds(64, u, u, 0.0, 1, 8, 8)
    k.move(y, u, 128)


@fault("saturated", values=True, tensor="r", twin=an_end_that_was_given)
def a_sum_beyond_float16(k: Kit) -> None:
    x, y = k.gm(128, data=[1000.0] * 128), k.out(16)
    a, r = k.load(x), k.ub(16, name="r")
    k.t.vec_dup(16, r, 0.0, 1, 8)
    k.t.vcadd(128, r, a, 1, 1, 1, 8)  # AT
    k.move(y, r, 16)


def summed(k: Kit) -> None:
    x, y = k.gm(16, "int32"), k.out(16, "int32")
    u = k.load(x)
    s = k.t.Scalar("int32", "s", 0)
    with k.t.for_range(0, 8) as i:
        s.set_as(s + u[i])
    doubled = s + s
    k.t.vec_dup(8, u, doubled, 1, 8)
    k.move(y, u, 16)


@fault("dead_assignment", twin=summed)
def a_sum_that_does_nothing(k: Kit) -> None:
    x, y = k.gm(16, "int32"), k.out(16, "int32")
    u = k.load(x)
    s = k.t.Scalar("int32", "s", 0)  # WITH
    with k.t.for_range(0, 8) as i:
        s = s + u[i]  # AT
    k.move(y, u, 16)


@fault("dead_assignment", twin=summed)
def a_sum_in_short_form(k: Kit) -> None:
    x, y = k.gm(16, "int32"), k.out(16, "int32")
    u = k.load(x)
    s = k.t.Scalar("int32", "s", 0)  # WITH
    with k.t.for_range(0, 8):
        s += 1  # AT
    k.move(y, u, 16)


def chosen(k: Kit) -> None:
    x, y = k.gm(16, "int32"), k.out(16, "int32")
    u = k.load(x)
    n = k.number(3)
    s = k.t.Scalar("int32", "s", 1)
    with k.t.if_scope(n > 5):
        s.set_as(n + 1)
        again = n + 2
        k.t.vec_dup(8, u, again, 1, 8)
    k.t.vec_dup(8, u, s, 1, 8)
    k.move(y, u, 16)


@fault("dead_assignment", twin=chosen)
def a_choice_that_is_always_made(k: Kit) -> None:
    x, y = k.gm(16, "int32"), k.out(16, "int32")
    u = k.load(x)
    n = k.number(3)
    s = k.t.Scalar("int32", "s", 1)  # WITH
    with k.t.if_scope(n > 5):
        s = n + 1  # AT
    k.t.vec_dup(8, u, s, 1, 8)
    k.move(y, u, 16)
