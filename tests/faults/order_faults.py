# SPDX-License-Identifier: Apache-2.0
"""Faults of order: cores, pipes, flags."""

from __future__ import annotations

from typing import Any

from kit import Kit, fault

from ms_custom_ops import tik

S, V, MTE2, MTE3 = "PIPE_S", "PIPE_V", "PIPE_MTE2", "PIPE_MTE3"


@fault("race_cores", tensor="y0")
def two_cores_write_a_row(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 4, block_num=4) as i:
        u = k.ub(16)
        k.move(u, x[i * 16], 16)
        k.move(y[i * 16], u, 16)  # AT
        if k.bad:
            with k.t.if_scope(i == 1):
                k.move(y[32], u, 16)  # WITH


@fault("race_cores", tensor="y0")
def two_cores_write_a_row_alike(k: Kit) -> None:
    x, y = k.gm(16), k.out(32)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.load(x)
        with k.t.if_scope(i == 0):
            k.move(y, u, 16)
            k.move(y[16], u, 16)  # WITH
        if k.bad:
            with k.t.if_scope(i == 1):
                k.move(y[16], u, 16)  # AT


def moved_back(k: Kit) -> None:
    x, y = k.gm(40), k.out(40)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.ub(32)
        k.move(u, x[i * 8], 32)
        k.move(y[i * 8], u, 32)


@fault("race_cores", tensor="y0", twin=moved_back)
def moved_back_by_too_much(k: Kit) -> None:
    x, y = k.gm(48), k.out(40)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.ub(32)
        k.move(u, x[i * 16], 32)
        k.move(y[i * 8], u, 32)  # AT # WITH


@fault("race_cores", tensor="work")
def workspace_of_a_lower_block(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    w = k.workspace(64)
    sync = k.t.Tensor("int64", (16,), tik.scope_gm, "sync", is_workspace=True, is_atomic_add=True)
    with k.t.for_range(0, 4, block_num=4) as i:
        u, v = k.ub(16), k.ub(16)
        k.move(u, x[i * 16], 16)
        k.move(w[i * 16], u, 16)  # WITH
        if not k.bad:
            k.t.block_barrier(sync)
        with k.t.if_scope(i > 0):
            k.move(v, w[(i - 1) * 16], 16)  # AT
        with k.t.else_scope():
            k.move(v, x, 16)
        k.move(y[i * 16], v, 16)


@fault("race_cores", soc="Ascend910B1", tensor="y0", also=("race_cores",))
def half_a_block_too_far(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    with k.t.for_range(0, 4, block_num=4) as i:
        u = k.ub(64)
        k.move(u, x, 64)
        with k.t.if_scope(i < 3):
            k.t.data_move_pad(y[i * 16], u, 1, 36 if k.bad else 32, 0, 0)  # AT
        with k.t.else_scope():
            k.t.data_move_pad(y[i * 16], u, 1, 32, 0, 0)


@fault("race_cores", tensor="y0")
def added_and_written(k: Kit) -> None:
    x, y = k.gm(16, "float32"), k.out(16, "float32", is_atomic_add=True)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.load(x)
        if k.bad:
            with k.t.if_scope(i == 0):
                k.t.set_atomic_add(1)
        else:
            k.t.set_atomic_add(1)
        k.move(y, u, 16)  # AT # WITH
        k.t.set_atomic_add(0)


@fault("race_cores", tensor="y0")
def between_the_same_barriers(k: Kit) -> None:
    x, y = k.gm(32), k.out(32)
    sync = k.t.Tensor("int64", (8,), tik.scope_gm, "sync", is_workspace=True, is_atomic_add=True)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.load(x)
        with k.t.if_scope(i == 0):
            k.move(y, u, 32)  # WITH
        if not k.bad:
            k.t.block_barrier(sync)
        with k.t.if_scope(i == 1):
            k.move(y[16], u, 16)  # AT
        if k.bad:
            k.t.block_barrier(sync)


def flags(k: Kit, first: str, second: str, event: Any = 0) -> None:
    """What the second pipe does next comes after what the first did."""
    k.t.set_flag(first, second, event)
    k.t.wait_flag(first, second, event)


@fault("race_pipes", tensor="u")
def computed_before_it_is_loaded(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)  # WITH
        if not k.bad:
            flags(k, MTE2, V)
        k.t.vec_abs(64, r, u, 1, 8, 8)  # AT
        flags(k, V, MTE3)
        k.move(y, r, 64)


@fault("race_pipes", tensor="r")
def stored_before_it_is_computed(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)
        flags(k, MTE2, V)
        k.t.vec_abs(64, r, u, 1, 8, 8)  # WITH
        if not k.bad:
            flags(k, V, MTE3)
        k.move(y, r, 64)  # AT


@fault("race_pipes", tensor="u")
def loaded_over_what_is_still_read(k: Kit) -> None:
    x, y = k.gm(128), k.out(128)
    u, r = k.ub(64), k.ub(128, name="r")
    with k.t.new_stmt_scope(disable_sync=True), k.t.for_range(0, 2) as i:
        k.move(u, x[i * 64], 64)  # AT
        flags(k, MTE2, V)
        k.t.vec_abs(64, r[i * 64], u, 1, 8, 8)  # WITH
        if not k.bad:
            flags(k, V, MTE2, 1)
        flags(k, V, MTE3)
        k.move(y[i * 64], r[i * 64], 64)


@fault("race_pipes", tensor="u")
def filled_and_loaded(k: Kit) -> None:
    x, y = k.gm(32), k.out(64)
    u = k.ub(64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.vec_dup(64, u, 0.0, 1, 8)  # WITH
        if not k.bad:
            flags(k, V, MTE2)
        k.move(u, x, 32)  # AT
        flags(k, MTE2, MTE3)
        flags(k, V, MTE3)
        k.move(y, u, 64)


@fault("race_pipes", tensor="u")
def the_flag_the_other_way_round(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)  # WITH
        flags(k, V if k.bad else MTE2, MTE2 if k.bad else V)
        k.t.vec_abs(64, r, u, 1, 8, 8)  # AT
        flags(k, V, MTE3)
        k.move(y, r, 64)


@fault("race_pipes", tensor="u")
def a_barrier_of_one_pipe(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)  # WITH
        k.t.pipe_barrier(V if k.bad else "PIPE_ALL")
        k.t.vec_abs(64, r, u, 1, 8, 8)  # AT
        k.t.pipe_barrier("PIPE_ALL")
        k.move(y, r, 64)


@fault("race_pipes", tensor="u")
def one_lane_of_a_mask(k: Kit) -> None:
    x, y = k.gm(16), k.out(64)
    u = k.ub(64)
    k.t.vec_dup(64, u, 0.0, 1, 8)
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u[16], x, 16)  # WITH
        k.t.vec_muls([0, 0xFFFF | (1 << 20 if k.bad else 0)], u, u, 2.0, 1, 8, 8)  # AT
        flags(k, MTE2, MTE3)
        flags(k, V, MTE3)
        k.move(y, u, 64)


@fault("race_pipes", tensor="u")
def stored_by_the_scalar_unit(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.load(x), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        u[0].set_as(u[1])  # WITH
        if not k.bad:
            flags(k, S, V)
        k.t.vec_abs(64, r, u, 1, 8, 8)  # AT
        flags(k, V, MTE3)
        k.move(y, r, 64)


@fault("race_pipes", tensor="u")
def waited_for_too_late(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)  # WITH
        k.t.set_flag(MTE2, V, 0)
        if not k.bad:
            k.t.wait_flag(MTE2, V, 0)
        k.t.vec_abs(64, r, u, 1, 8, 8)  # AT
        if k.bad:
            k.t.wait_flag(MTE2, V, 0)
        flags(k, V, MTE3)
        k.move(y, r, 64)


@fault("flag_unpaired")
def set_without_wait(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.ub(64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)
        flags(k, MTE2, MTE3)
        k.move(y, u, 64)
        k.t.set_flag(MTE3, V, 1)  # AT
        if not k.bad:
            k.t.wait_flag(MTE3, V, 1)


@fault("flag_unpaired")
def wait_without_set(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.ub(64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)
        flags(k, MTE2, MTE3)
        k.move(y, u, 64)
        if not k.bad:
            k.t.set_flag(MTE3, V, 1)
        k.t.wait_flag(MTE3, V, 1)  # AT


@fault("flag_unpaired", also=("flag_unpaired", "race_pipes"))
def another_event(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.ub(64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)
        k.t.set_flag(MTE2, MTE3, 0)  # AT
        k.t.wait_flag(MTE2, MTE3, 1 if k.bad else 0)
        k.move(y, u, 64)


@fault("flag_unpaired", count=2)
def set_again_in_every_round(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    with k.t.new_stmt_scope(disable_sync=True):
        with k.t.for_range(0, 3):
            k.t.set_flag(V, MTE3, 0)  # AT # WITH
            if not k.bad:
                k.t.wait_flag(V, MTE3, 0)
        if k.bad:
            with k.t.for_range(0, 3):
                k.t.wait_flag(V, MTE3, 0)
        k.move(y, u, 64)


@fault("flag_deadlock", also=("flag_deadlock",))
def each_waits_for_the_other(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    with k.t.new_stmt_scope(disable_sync=True):
        if not k.bad:
            k.t.set_flag(V, MTE3, 0)
        k.t.wait_flag(V, MTE3, 0)
        k.t.set_flag(MTE3, V, 0)  # WITH
        k.t.wait_flag(MTE3, V, 0)  # AT
        if k.bad:
            k.t.set_flag(V, MTE3, 0)
    k.move(y, u, 64)


@fault("flag_deadlock", also=("flag_deadlock", "flag_deadlock"))
def three_in_a_circle(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    with k.t.new_stmt_scope(disable_sync=True):
        if not k.bad:
            k.t.set_flag(V, MTE3, 0)
        k.t.wait_flag(V, MTE3, 0)
        k.t.set_flag(MTE3, MTE2, 0)
        k.t.wait_flag(MTE3, MTE2, 0)
        k.t.set_flag(MTE2, V, 0)
        k.t.wait_flag(MTE2, V, 0)  # AT
        if k.bad:
            k.t.set_flag(V, MTE3, 0)
    k.move(y, u, 64)


@fault("flag_deadlock")
def the_scalar_unit_waits_first(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    with k.t.new_stmt_scope(disable_sync=True):
        if not k.bad:
            k.t.set_flag(V, S, 0)
        k.t.wait_flag(V, S, 0)  # AT
        if k.bad:
            k.t.set_flag(V, S, 0)  # WITH
    k.move(y, u, 64)


@fault("event_id_range", soc="Ascend910B1", also=("event_id_range",))
def more_events_than_there_are(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    event = k.number(8 if k.bad else 7)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.set_flag(V, MTE3, event)  # AT
        k.t.wait_flag(V, MTE3, event)
    k.move(y, u, 64)


@fault("event_id_range", also=("event_id_range",))
def an_event_below_zero(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    event = k.number(-1 if k.bad else 0)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.set_flag(V, MTE3, event)  # AT
        k.t.wait_flag(V, MTE3, event)
    k.move(y, u, 64)


@fault("event_id_range", also=("event_id_range",))
def four_events_on_an_910a(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u = k.load(x)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.set_flag(V, MTE3, 4 if k.bad else 3)  # AT
        k.t.wait_flag(V, MTE3, 4 if k.bad else 3)
    k.move(y, u, 64)


@fault("race_pipes", soc="Ascend910B1", tensor="r")
def computed_while_the_pipe_is_at_it(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.load(x), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.vec_abs(64, r, u, 1, 8, 8)  # WITH
        if not k.bad:
            k.t.pipe_barrier(V)
        k.t.vec_muls(64, r, r, 2.0, 1, 8, 8)  # AT
    k.move(y, r, 64)


def told_by_the_scalar_unit(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.load(x), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.vec_abs(64, r, u, 1, 8, 8)
        flags(k, V, S)
        k.t.vec_muls(64, r, r, 2.0, 1, 8, 8)
    k.move(y, r, 64)


@fault("race_pipes", soc="Ascend910B1", tensor="r", twin=told_by_the_scalar_unit)
def another_pipe_knows(k: Kit) -> None:
    x, y = k.gm(64), k.out(64)
    u, r = k.load(x), k.ub(64, name="r")
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.vec_abs(64, r, u, 1, 8, 8)  # WITH
        flags(k, V, MTE3)
        k.t.vec_dup(64, r, 2.0, 1, 8)  # AT
        flags(k, MTE3, S)
    k.move(y, r, 64)


def products(k: Kit, side: int) -> tuple[Any, ...]:
    """Operands of a product of ``side`` rows and columns, and what waits for one."""
    x, y = k.gm(side * 16), k.out(side * side, "float32")
    l1 = k.ub(side * 16, scope=tik.scope_cbuf)
    l0a, l0b = k.ub(side * 16, scope=tik.scope_ca), k.ub(side * 16, scope=tik.scope_cb)
    k.move(l1, x, side * 16)
    for at in range(side // 16):
        k.t.load2dv2(l0a[at * 256], l1[at * 256], 0, 1, 0, 1, 0, False)
        k.t.load2dv2(l0b[at * 256], l1[at * 256], 0, 1, 0, 1, 0, False)
    return k.ub(side * side, "float32", "sums", tik.scope_cc), l0a, l0b, y


def a_long_product_on_another(k: Kit) -> None:
    sums, l0a, l0b, y = products(k, 64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.mmad(sums, l0a, l0b, 64, 16, 64, 0)
        k.t.mmad(sums, l0a, l0b, 64, 16, 64, 1)
    k.t.fixpipe(y, sums, 4, 64 * 2, 0, 0)


@fault("race_pipes", soc="Ascend910B1", tensor="sums", twin=a_long_product_on_another)
def a_short_product_on_another(k: Kit) -> None:
    sums, l0a, l0b, y = products(k, 16)
    with k.t.new_stmt_scope(disable_sync=True):
        k.t.mmad(sums, l0a, l0b, 16, 16, 16, 0)  # WITH
        k.t.mmad(sums, l0a, l0b, 16, 16, 16, 1)  # AT
    k.t.fixpipe(y, sums, 1, 16 * 2, 0, 0)
