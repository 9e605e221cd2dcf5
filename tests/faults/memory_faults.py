# SPDX-License-Identifier: Apache-2.0
"""Faults of memory: bytes never written, places outside of tensors, alignment, overlap, capacity, lifetime."""

from __future__ import annotations

from kit import Kit, fault

from ms_custom_ops import tik


@fault("uninitialized_read", tensor="never")
def operand_never_written(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, never, r = k.load(x), k.ub(64, name="never"), k.ub(64)
    if not k.bad:
        k.t.vec_dup(64, never, 1.0, 1, 8)
    k.t.vec_add(64, r, a, never, 1, 8, 8, 8)  # AT
    k.move(y, r, 64)


@fault("uninitialized_read")
def more_lanes_than_loaded(k: Kit) -> None:
    x, y = k.gm(32), k.out(64)
    a, r = k.ub(128), k.ub(128)
    k.t.vec_dup(64, r, 0.0, 1, 8)
    k.move(a, x, 32)
    k.t.vec_exp(64 if k.bad else 32, r, a, 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("uninitialized_read")
def one_lane_of_a_bit_mask(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, r = k.ub(128), k.ub(128)
    k.t.vec_dup(64, r, 0.0, 1, 8)
    k.move(a, x, 48)
    k.t.vec_relu([0, (1 << 48 | 5) if k.bad else 5], r, a, 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("uninitialized_read")
def sum_over_the_tail(k: Kit) -> None:
    x, y = k.gm(48), k.out(16)
    a, r = k.ub(128), k.ub(16)
    k.t.vec_dup(16, r, 0.0, 1, 8)
    k.move(a, x, 48)
    k.t.vcadd(64 if k.bad else 48, r, a, 1, 1, 1, 8)  # AT
    k.move(y, r, 16)


@fault("uninitialized_read", tensor="never")
def moved_out_as_it_is(k: Kit) -> None:
    y = k.out(64)
    never = k.ub(64, name="never")
    if not k.bad:
        k.t.vec_dup(64, never, 1.0, 1, 8)
    k.move(y, never, 64)  # AT


@fault("uninitialized_read")
def through_a_copy(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, b, r = k.ub(64), k.ub(64), k.ub(64)
    k.move(a, x, 32 if k.bad else 64)
    k.move(b, a, 64)  # AT
    k.t.vec_muls(64, r, b, 2.0, 1, 8, 8)
    k.move(y, r, 64)


@fault("uninitialized_read")
def converted(k: Kit) -> None:
    y = k.out(64, "float32")
    a, r = k.ub(64), k.ub(64, "float32")
    if not k.bad:
        k.t.vec_dup(64, a, 1.0, 1, 8)
    k.t.vec_conv(64, "", r, a, 1, 8, 4)  # AT
    k.move(y, r, 64)


@fault("uninitialized_read")
def accumulated_from_nothing(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, acc = k.load(x), k.ub(64, name="acc")
    if not k.bad:
        k.t.vec_dup(64, acc, 0.0, 1, 8)
    with k.t.for_range(0, 3):
        k.t.vec_add(64, acc, acc, a, 1, 8, 8, 8)  # AT
    k.move(y, acc, 64)


@fault("uninitialized_read", tensor="work")
def workspace_never_written(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    w = k.workspace(64)
    a = k.load(x)
    if not k.bad:
        k.move(w, a, 64)
    b, r = k.ub(64), k.ub(64)
    k.move(b, w, 64)  # AT
    k.t.vec_add(64, r, a, b, 1, 8, 8, 8)
    k.move(y, r, 64)


@fault("uninitialized_read")
def left_by_the_round_before(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 2) as i:
        u = k.ub(32)
        with k.t.if_scope(i == 0 if k.bad else i >= 0):
            k.move(u, x, 32)
        k.move(y[i * 32], u, 32)  # AT


@fault("uninitialized_read")
def bits_of_a_selection(k: Kit) -> None:
    x, y = k.gm(128), k.out(128)
    a, zero, r = k.load(x), k.ub(128), k.ub(128)
    sel = k.ub(16, "uint16", "sel")
    k.t.vec_dup(128, zero, 0.0, 1, 8)
    if not k.bad:
        k.t.vec_dup(16, sel, 0x5555, 1, 8)
    k.t.vec_sel(128, 0, r, sel, a, zero, 1, 8, 8, 8)  # AT
    k.move(y, r, 128)


@fault("uninitialized_read")
def a_row_of_a_transpose(k: Kit) -> None:
    x, y = k.gm(256), k.out(256)
    a, r = k.ub(256), k.ub(256)
    k.move(a, x, 240 if k.bad else 256)
    k.t.vec_trans(r, a, 1, 1, 1)  # AT
    k.move(y, r, 256)


@fault("uninitialized_read")
def added_to_an_output_that_is_not_zeroed(k: Kit) -> None:
    x = k.gm(64, "float32")
    y = k.out(64, "float32", is_atomic_add=not k.bad)
    a = k.load(x)
    k.t.set_atomic_add(1)
    k.move(y, a, 64)  # AT
    k.t.set_atomic_add(0)


@fault("uninitialized_read")
def rows_of_a_product(k: Kit) -> None:
    a, b, y = k.gm(256), k.gm(256), k.out(256, "float32")
    l1a, l1b = k.ub(256, scope=tik.scope_cbuf), k.ub(256, scope=tik.scope_cbuf)
    l0a, l0b = k.ub(256, scope=tik.scope_ca), k.ub(256, scope=tik.scope_cb)
    l0c, r = k.ub(256, "float32", scope=tik.scope_cc), k.ub(256, "float32")
    k.move(l1a, a, 128 if k.bad else 256)
    k.move(l1b, b, 256)
    k.t.load2dv1(l0a, l1a, 0, 1, 1, 0, False)  # AT
    k.t.load2dv1(l0b, l1b, 0, 1, 1, 0, False)
    k.t.mmad(l0c, l0a, l0b, 16, 16, 16, 0)
    k.t.tensor_mov(r, l0c, "m", 1, 1, 0, 0)
    k.move(y, r, 256)


@fault("uninitialized_scalar", tensor="never")
def element_never_written(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, never, r = k.load(x), k.ub(16, "int32", "never"), k.ub(64)
    if not k.bad:
        k.t.vec_dup(16, never, 1, 1, 8)
    k.t.vec_dup(64, r, 0.0, 1, 8)
    s = k.t.Scalar("int32")
    s.set_as(never[3])  # AT
    with k.t.if_scope(s == 1):
        k.t.vec_abs(64, r, a, 1, 8, 8)
    k.move(y, r, 64)


@fault("uninitialized_scalar")
def computed_from_nothing(k: Kit) -> None:
    y = k.out(16, "int32")
    u, r = k.ub(64, "int32"), k.ub(64, "int32")
    k.t.vec_dup(64, r, 0, 1, 8)
    if not k.bad:
        k.t.vec_dup(64, u, 1, 1, 8)
    k.t.vec_add(64, r, u, u, 1, 8, 8, 8)  # WITH
    s = k.t.Scalar("int32")
    s.set_as(r[0])  # AT
    k.t.vec_dup(16, r, s, 1, 8)
    k.move(y, r, 16)


@fault("uninitialized_scalar")
def scalar_never_set(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, r = k.load(x), k.ub(64)
    k.t.vec_dup(64, r, 0.0, 1, 8)
    s = k.t.Scalar("int32", "repeats")
    if not k.bad:
        s.set_as(1)
    k.t.vec_abs(64, r, a, s, 8, 8)  # AT
    k.move(y, r, 64)


@fault("uninitialized_scalar")
def set_on_one_way_only(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a, r = k.load(x), k.ub(64)
    k.t.vec_dup(64, r, 0.0, 1, 8)
    s = k.t.Scalar("float16")
    with k.t.if_scope(k.number(1 if k.bad else 0) == 0):
        s.set_as(2.0)
    k.t.vec_muls(64, r, a, s, 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("unwritten_output", tensor="y0")
def last_row_left_out(k: Kit) -> None:
    x = k.gm(64)
    y = k.out(64)
    a = k.load(x)
    with k.t.for_range(0, 3 if k.bad else 4) as i:
        k.move(y[i * 16], a[i * 16], 16)


@fault("unwritten_output", soc="Ascend910B1", tensor="y0")
def bytes_behind_an_exact_move(k: Kit) -> None:
    x, y = k.gm(64), k.out(50)
    a = k.load(x)
    k.t.data_move_pad(y, a, 1, 96 if k.bad else 100, 0, 0)


@fault("unwritten_output", tensor="y1")
def a_second_output_forgotten(k: Kit) -> None:
    x, y, z = k.gm(64), k.out(64), k.out(64)
    a = k.load(x)
    k.move(y, a, 64)
    k.move(y if k.bad else z, a, 64)


@fault("unwritten_output", tensor="y0")
def one_core_does_nothing(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 4, block_num=4) as i, k.t.if_scope(i < 3 if k.bad else i < 4):
        u = k.ub(16)
        k.move(u, x[i * 16], 16)
        k.move(y[i * 16], u, 16)


@fault("out_of_bounds", tensor="x0")
def rows_behind_the_input(k: Kit) -> None:
    x, y = k.gm(128), k.out(64)
    u = k.ub(64)
    with k.t.for_range(0, k.number(4 if k.bad else 2)) as i:
        k.move(u, x[i * 64], 64)  # AT
    k.move(y, u, 64)


@fault("out_of_bounds")
def repeats_behind_a_tensor(k: Kit) -> None:
    x, y = k.gm(256), k.out(256)
    a = k.load(x)
    k.t.vec_abs(128, a, a, k.number(3 if k.bad else 2), 8, 8)  # AT
    k.move(y, a, 256)


@fault("out_of_bounds")
def destination_too_short(k: Kit) -> None:
    x, y = k.gm(128), k.out(64)
    a, r = k.load(x), k.ub(64, name="short")
    k.t.vec_dup(64, r, 0.0, 1, 8)
    k.t.vec_add(k.number(128 if k.bad else 64), r, a, a, 1, 8, 8, 8)  # AT
    k.move(y, r, 64)


@fault("out_of_bounds")
def element_behind_a_tensor(k: Kit) -> None:
    x, y = k.gm(64), k.out(16)
    a, r = k.load(x), k.ub(16)
    s = k.t.Scalar("float16")
    s.set_as(a[k.number(64 if k.bad else 63)])  # AT
    k.t.vec_dup(16, r, s, 1, 8)
    k.move(y, r, 16)


@fault("out_of_bounds")
def element_before_a_tensor(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a = k.load(x)
    a[k.number(-1 if k.bad else 0)].set_as(k.number(1, "float16"))  # AT
    k.move(y, a, 64)


@fault("out_of_bounds")
def stride_behind_the_output(k: Kit) -> None:
    x, y = k.gm(64), k.out(112)
    a = k.load(x)
    k.t.vec_dup(16, a, 0.0, 1, 8)
    for at in range(0, 112, 16):
        k.move(y[at], a, 16)
    k.t.data_move(y, a, 0, 4, 1, 0, k.number(3 if k.bad else 1))  # AT


@fault("out_of_bounds")
def l1_too_small(k: Kit) -> None:
    x, y = k.gm(512), k.out(256)
    l1, u = k.ub(256, scope=tik.scope_cbuf), k.ub(256)
    k.t.data_move(l1, x, 0, 1, k.number(32 if k.bad else 16), 0, 0)  # AT
    k.t.data_move(u, l1, 0, 1, 16, 0, 0)
    k.move(y, u, 256)


@fault("out_of_bounds", traced=True)
def known_while_tracing(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    a = k.load(x)
    k.t.vec_abs(64, a, a, 2 if k.bad else 1, 8, 8)  # AT
    k.move(y, a, 64)


@fault("misaligned")
def source_off_the_grid(k: Kit) -> None:
    x, y = k.gm(128), k.out(64)
    a, r = k.load(x), k.ub(64)
    k.t.vec_abs(64, r, a[k.number(8 if k.bad else 16)], 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("misaligned")
def move_off_the_grid(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.ub(128)
    k.t.vec_dup(128, u, 0.0, 1, 8)
    k.move(u[k.number(1 if k.bad else 16)], x, 64)  # AT
    k.move(y, u, 64)


@fault("misaligned")
def results_of_groups(k: Kit) -> None:
    x, y = k.gm(128), k.out(32)
    a, r = k.load(x), k.ub(32)
    k.t.vec_dup(32, r, 0.0, 1, 8)
    k.t.vcgadd(128, r[k.number(1 if k.bad else 8)], a, 1, 1, 1, 8)  # AT
    k.move(y, r, 32)


@fault("misaligned", traced=True)
def start_known_while_tracing(k: Kit) -> None:
    x, y = k.gm(128), k.out(64)
    a, r = k.load(x), k.ub(64)
    k.t.vec_abs(64, r, a[3 if k.bad else 16], 1, 8, 8)  # AT
    k.move(y, r, 64)


@fault("capacity", traced=True)
def unified_buffer_too_small(k: Kit) -> None:
    y = k.out(16)
    u = k.ub(200_000 if k.bad else 100_000)  # AT
    k.t.vec_dup(16, u, 0.0, 1, 8)
    k.move(y, u, 16)


@fault("capacity", traced=True)
def twice_for_two_threads(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 4, thread_num=2) as i:
        u = k.ub(70_000 if k.bad else 60_000)  # AT
        k.move(u, x[i * 16], 16)
        k.move(y[i * 16], u, 16)


@fault("capacity", traced=True)
def l0a_too_small(k: Kit) -> None:
    y = k.out(16)
    k.ub(65536 if k.bad else 32768, scope=tik.scope_ca)  # AT
    u = k.ub(16)
    k.t.vec_dup(16, u, 0.0, 1, 8)
    k.move(y, u, 16)


@fault("overlap")
def half_of_the_source(k: Kit) -> None:
    x, y = k.gm(256), k.out(64)
    a = k.load(x)
    k.t.vec_abs(64, a[k.number(32 if k.bad else 64)], a, 1, 8, 8)  # AT
    k.move(y, a, 64)


@fault("overlap")
def source_of_the_next_repeat(k: Kit) -> None:
    x, y = k.gm(512), k.out(64)
    a = k.load(x)
    k.t.vec_adds(64, a[k.number(64 if k.bad else 256)], a, 1.0, 3, 4, 4)  # AT
    k.move(y, a, 64)


@fault("overlap", traced=True)
def overlap_known_while_tracing(k: Kit) -> None:
    x, y = k.gm(256), k.out(64)
    a = k.load(x)
    k.t.vec_abs(64, a[32 if k.bad else 64], a, 1, 8, 8)  # AT
    k.move(y, a, 64)


@fault("use_after_scope", traced=True)
def after_its_scope(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.new_stmt_scope():
        u = k.load(x)
        k.move(y, u, 64)
    if k.bad:
        k.move(y, u, 64)  # AT


@fault("use_after_scope", traced=True)
def of_a_branch(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, n = k.load(x), k.number(1)
    with k.t.if_scope(n > 0):
        v = k.ub(64, name="v")
        k.t.vec_abs(64, v, u, 1, 8, 8)
    if k.bad:
        k.t.vec_abs(64, u, v, 1, 8, 8)  # AT
    k.move(y, u, 64)


@fault("use_after_scope", traced=True)
def an_element_of_the_last_round(k: Kit) -> None:
    x, y = k.gm(64, "int32"), k.out(64, "int32")
    u, s = k.load(x), k.t.Scalar("int32", "s", 1)
    with k.t.for_range(0, 2):
        v = k.ub(64, "int32", name="v")
        k.t.vec_dup(64, v, 3, 1, 8)
    if k.bad:
        s.set_as(v[3])  # AT
    k.t.vec_dup(8, u, s, 1, 8)
    k.move(y, u, 64)


def largest_of_all_rounds(k: Kit) -> None:
    x, y = k.gm(64), k.out(16)
    best = k.ub(16, name="best")
    k.t.vec_dup(16, best, -100.0, 1, 8)
    with k.t.for_range(0, 4, thread_num=2) as i:
        u = k.ub(16)
        k.move(u, x[i * 16], 16)
        k.t.vec_max(16, best, best, u, 1, 8, 8, 8)
    k.move(y, best, 16)


@fault("double_buffer_carry", tensor="best", twin=largest_of_all_rounds)
def a_maximum_in_a_tensor_of_the_loop(k: Kit) -> None:
    x, y = k.gm(64), k.out(16)
    with k.t.for_range(0, 4, thread_num=2) as i:
        u, best = k.ub(16), k.ub(16, name="best")
        k.move(u, x[i * 16], 16)
        with k.t.if_scope(i == 0):
            k.t.vec_dup(16, best, -100.0, 1, 8)
        k.t.vec_max(16, best, best, u, 1, 8, 8, 8)  # AT
        with k.t.if_scope(i == 3):
            k.move(y, best, 16)


@fault("double_buffer_carry", tensor="acc")
def sum_in_a_tensor_of_the_loop(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    outer = k.ub(64, name="acc")
    k.t.vec_dup(64, outer, 0.0, 1, 8)
    with k.t.for_range(0, 4, thread_num=2) as i:
        acc = k.ub(64, name="acc") if k.bad else outer
        u = k.load(x)
        with k.t.if_scope(i == 0):
            k.t.vec_dup(64, acc, 0.0, 1, 8)
        k.t.vec_add(64, acc, acc, u, 1, 8, 8, 8)  # AT
        k.move(y, acc, 64)


@fault("double_buffer_carry")
def loaded_a_round_earlier(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 4, thread_num=2) as i:
        u = k.ub(16)
        with k.t.if_scope(i % 2 == 0 if k.bad else i >= 0):
            k.move(u, x[i * 16], 16)
        k.move(y[i * 16], u, 16)  # AT


@fault("gm_tail", tensor="x0")
def input_ends_in_a_block(k: Kit) -> None:
    x, y = k.gm(40), k.out(32)
    u = k.ub(48)
    k.move(u, x, 40 if k.bad else 32)  # AT
    k.move(y, u, 32)


@fault("gm_tail", tensor="y0")
def output_ends_in_a_block(k: Kit) -> None:
    x, y = k.gm(64), k.out(40 if k.bad else 48)
    u = k.load(x)
    k.move(y, u, 40)  # AT


@fault("gm_tail", tensor="x0")
def the_last_of_strided_rows(k: Kit) -> None:
    x, y = k.gm(72), k.out(32)
    u = k.ub(32)
    k.t.data_move(u, x[32 if k.bad else 24], 0, 2, 1, 1, 0)  # AT
    k.move(y, u, 32)
