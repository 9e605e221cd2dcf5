# SPDX-License-Identifier: Apache-2.0
"""TIK kernels that tests of the exporter take."""

from __future__ import annotations

from ms_custom_ops import tik


def doubled(length: int = 1024) -> None:
    """y = 2 * x, in tiles, each loaded, computed and stored."""
    t = tik.Tik()
    x = t.Tensor("float16", (length,), tik.scope_gm, "x")
    y = t.Tensor("float16", (length,), tik.scope_gm, "y")
    with t.for_range(0, 2, block_num=2) as core, t.for_range(0, length // 256) as j:
        tile = t.Tensor("float16", (128,), tik.scope_ubuf, "tile")
        start = core * (length // 2) + j * 128
        t.data_move(tile, x[start], 0, 1, 8, 0, 0)
        t.vec_muls(128, tile, tile, 2.0, 1, 8, 8)
        t.data_move(y[start], tile, 0, 1, 8, 0, 0)
    t.BuildCCE("doubled", [x], [y])


def own_flags() -> None:
    """y = x + x, with flags of the kernel's own."""
    t = tik.Tik(disable_debug=True)
    x = t.Tensor("float32", (64,), tik.scope_gm, "x")
    y = t.Tensor("float32", (64,), tik.scope_gm, "y")
    a = t.Tensor("float32", (64,), tik.scope_ubuf, "a")
    with t.new_stmt_scope(disable_sync=True):
        t.data_move(a, x, 0, 1, 8, 0, 0)
        t.set_flag("PIPE_MTE2", "PIPE_V", 3)
        t.wait_flag("PIPE_MTE2", "PIPE_V", 3)
        t.vec_add(64, a, a, a, 1, 8, 8, 8)
        t.set_flag("PIPE_V", "PIPE_MTE3", 0)
        t.wait_flag("PIPE_V", "PIPE_MTE3", 0)
        t.data_move(y, a, 0, 1, 8, 0, 0)
    t.BuildCCE("own_flags", [x], [y])


def scaled() -> None:
    """y = x * count, count known only at run time, where it is above 1; else x."""
    t = tik.Tik()
    x = t.Tensor("int32", (64,), tik.scope_gm, "x")
    y = t.Tensor("int32", (64,), tik.scope_gm, "y")
    count = t.InputScalar("int32", "count")
    a = t.Tensor("int32", (64,), tik.scope_ubuf, "a")
    times = t.Scalar("int32", "times", 0)
    t.data_move(a, x, 0, 1, 8, 0, 0)
    with t.if_scope(count > 1):
        times.set_as(count)
    with t.else_scope():
        times.set_as(1)
    t.vec_muls(64, a, a, times, 1, 8, 8)
    t.data_move(y, a, 0, 1, 8, 0, 0)
    t.BuildCCE("scaled", [x, count], [y])


def turned() -> None:
    """Asks for an instruction that has no call."""
    t = tik.Tik()
    x = t.Tensor("float16", (256,), tik.scope_gm, "x")
    y = t.Tensor("float16", (256,), tik.scope_gm, "y")
    a = t.Tensor("float16", (256,), tik.scope_ubuf, "a")
    b = t.Tensor("float16", (256,), tik.scope_ubuf, "b")
    t.data_move(a, x, 0, 1, 16, 0, 0)
    t.vec_dup(128, b, 0.0, 2, 8)
    t.v4dtrans(False, b, a, 16, 16)
    t.data_move(y, b, 0, 1, 16, 0, 0)
    t.BuildCCE("turned", [x], [y])


def tabled(values: int = 24, dtype: str = "float16") -> None:
    """y = x + a table of constants."""
    t = tik.Tik()
    x = t.Tensor(dtype, (values,), tik.scope_gm, "x")
    y = t.Tensor(dtype, (values,), tik.scope_gm, "y")
    table = t.Tensor(dtype, (values,), tik.scope_gm, "table", init_value=[k * 0.5 for k in range(values)])
    with t.for_range(0, 2, block_num=2) as i, t.if_scope(i == 1):
        a = t.Tensor(dtype, (values + 8,), tik.scope_ubuf, "a")
        b = t.Tensor(dtype, (values + 8,), tik.scope_ubuf, "b")
        t.data_move(a, x, 0, 1, -(-values // 16), 0, 0)
        t.data_move(b, table, 0, 1, -(-values // 16), 0, 0)
        t.vec_add(min(values, 128), a, a, b, 1, 8, 8, 8)
        t.data_move(y, a, 0, 1, -(-values // 16), 0, 0)
    t.BuildCCE("tabled", [x], [y])


def many_constants() -> None:
    """A table too long for a source."""
    tabled(20000)


def started() -> None:
    """An output of atomic adds that starts with ones."""
    t = tik.Tik()
    y = t.Tensor("float32", (8,), tik.scope_gm, "y", is_atomic_add=True, init_value=1)
    u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
    t.vec_dup(8, u, 1.0, 1, 8)
    t.set_atomic_add(1)
    t.data_move(y, u, 0, 1, 1, 0, 0)
    t.BuildCCE("started", [], [y])


def addressed() -> None:
    """y = what lies at an address."""
    t = tik.Tik()
    table = t.TensorAddrList(4, tik.scope_gm, "table")
    y = t.Tensor("int32", (8,), tik.scope_gm, "y")
    local = t.TensorAddrList(4, tik.scope_ubuf, "local")
    u = t.Tensor("int32", (8,), tik.scope_ubuf, "u")
    t.data_move(local, table, 0, 1, 1, 0, 0)
    t.data_move(u, local[0].value, 0, 1, 1, 0, 0)
    t.data_move(y, u, 0, 1, 1, 0, 0)
    t.BuildCCE("addressed", [table], [y])


def product(rows: int = 32) -> None:
    """z = max(a @ b, 0) with rows of 16: the product on the cube, through GM to the vector unit on split cores."""
    t = tik.Tik()
    a = t.Tensor("float16", (rows, 16), tik.scope_gm, "a")
    b = t.Tensor("float16", (16, 16), tik.scope_gm, "b")
    z = t.Tensor("float32", (rows // 16, 16, 16), tik.scope_gm, "z")
    tiles = t.Tensor("float32", (256,), tik.scope_gm, "tiles", is_workspace=True)
    a1 = t.Tensor("float16", (256,), tik.scope_cbuf, "a1")
    b1 = t.Tensor("float16", (256,), tik.scope_cbuf, "b1")
    a2 = t.Tensor("float16", (256,), tik.scope_ca, "a2")
    b2 = t.Tensor("float16", (256,), tik.scope_cb, "b2")
    c = t.Tensor("float32", (256,), tik.scope_cc, "c")
    ub = t.Tensor("float32", (256,), tik.scope_ubuf, "ub")
    limit = t.Tensor("float32", (64,), tik.scope_ubuf, "limit")
    t.vec_dup(64, limit, 0.0, 1, 8)
    t.data_move(b1, b, 0, 1, 16, 0, 0)
    t.load2dv2(b2, b1, 0, 1, 0, 1, 0, True)
    with t.for_range(0, rows // 16) as i:
        t.data_move(a1, a[i * 256], 0, 1, 16, 0, 0)
        t.load2dv2(a2, a1, 0, 1, 0, 1, 0, False)
        t.mmad(c, a2, b2, 16, 16, 16, 0)
        t.fixpipe(tiles, c, 1, 32, 0, 0)
        t.data_move(ub, tiles, 0, 1, 32, 0, 0)
        t.vec_max(64, ub, ub, limit, 4, 8, 8, 0)
        t.data_move(z[i * 256], ub, 0, 1, 32, 0, 0)
    t.BuildCCE("product", [a, b], [z])


def overlapped(length: int = 1024) -> None:
    """y = x + 1 in tiles that have two buffers."""
    t = tik.Tik()
    x = t.Tensor("float32", (length,), tik.scope_gm, "x")
    y = t.Tensor("float32", (length,), tik.scope_gm, "y")
    with t.for_range(0, length // 64, thread_num=2) as j:
        tile = t.Tensor("float32", (64,), tik.scope_ubuf, "tile")
        t.data_move(tile, x[j * 64], 0, 1, 8, 0, 0)
        t.vec_adds(64, tile, tile, 1.0, 1, 8, 8)
        t.data_move(y[j * 64], tile, 0, 1, 8, 0, 0)
    t.BuildCCE("overlapped", [x], [y])


def squared(turns: int = 2) -> None:
    """z = (a @ b) @ b, again and again: what the cube multiplies second comes back from the vector unit."""
    t = tik.Tik()
    a = t.Tensor("float16", (turns, 256), tik.scope_gm, "a")
    b = t.Tensor("float16", (16, 16), tik.scope_gm, "b")
    z = t.Tensor("float32", (turns, 256), tik.scope_gm, "z")
    wide = t.Tensor("float32", (256,), tik.scope_gm, "wide", is_workspace=True)
    half = t.Tensor("float16", (256,), tik.scope_gm, "half", is_workspace=True)
    left = t.Tensor("float16", (256,), tik.scope_cbuf, "left")
    right = t.Tensor("float16", (256,), tik.scope_cbuf, "right")
    a2 = t.Tensor("float16", (256,), tik.scope_ca, "a2")
    b2 = t.Tensor("float16", (256,), tik.scope_cb, "b2")
    c = t.Tensor("float32", (256,), tik.scope_cc, "c")
    ub = t.Tensor("float32", (256,), tik.scope_ubuf, "ub")
    ub_half = t.Tensor("float16", (256,), tik.scope_ubuf, "ub_half")
    t.data_move(right, b, 0, 1, 16, 0, 0)
    t.load2dv2(b2, right, 0, 1, 0, 1, 0, True)
    with t.for_range(0, turns) as i:
        t.data_move(left, a[i * 256], 0, 1, 16, 0, 0)
        t.load2dv2(a2, left, 0, 1, 0, 1, 0, False)
        t.mmad(c, a2, b2, 16, 16, 16, 0)
        t.fixpipe(wide, c, 1, 32, 0, 0)
        t.data_move(ub, wide, 0, 1, 32, 0, 0)
        t.vec_conv(64, "none", ub_half, ub, 4, 4, 8)
        t.data_move(half, ub_half, 0, 1, 16, 0, 0)
        t.data_move(left, half, 0, 1, 16, 0, 0)
        t.load2dv2(a2, left, 0, 1, 0, 1, 0, False)
        t.mmad(c, a2, b2, 16, 16, 16, 0)
        t.fixpipe(wide, c, 1, 32, 0, 0)
        t.data_move(ub, wide, 0, 1, 32, 0, 0)
        t.data_move(z[i * 256], ub, 0, 1, 32, 0, 0)
    t.BuildCCE("squared", [a, b], [z])
