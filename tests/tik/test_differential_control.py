# SPDX-License-Identifier: Apache-2.0
"""Scalar, control, register, reduction, transpose and high-precision methods: both engines and NumPy formulas."""

from __future__ import annotations

import numpy as np
import pytest
from kernels2 import GUARD, run_kernel

from ms_custom_ops import tik
from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import TikError
from ms_custom_ops.soc import use_soc


def lanes_of(dtype: str) -> int:
    return 256 // np.dtype(dtype).itemsize


@pytest.mark.parametrize("mode", [0, 1], ids=["saturate", "low bits"])
def test_float_conversions_obey_the_mode(mode):
    x = np.array([1.5, -1.5, 300.0, -129.0, 1e9, 3e9, np.inf, np.nan] * 8, np.float32)

    def body(t, k):
        t.set_fp2int_mode(mode)
        t.vec_conv(64, "to-zero", k.y, k.x, 1, 8, 8)

    y = run_kernel(body, {"x": x}, {"y": ("int32", 64)})["y"][:8]
    low = [1, -1, 300, -129, 10**9, 3 * 10**9 - 2**32, 0, 0]
    assert list(y) == (low if mode else [1, -1, 300, -129, 10**9, 2**31 - 1, 2**31 - 1, 0])


def test_set_fp2fp_mode():
    x = np.full(128, 60000, np.float16)

    def body(t, k):
        t.set_fp2fp_mode(1)
        t.vec_add(128, k.y, k.x, k.x, 1, 8, 8, 8)
        t.set_fp2fp_mode(0)
        t.vec_add(128, k.z, k.x, k.x, 1, 8, 8, 8)

    out = run_kernel(body, {"x": x}, {"y": ("float16", 128), "z": ("float16", 128)}, "Ascend910B1", saturate=True)
    assert np.isinf(out["y"]).all() and (out["z"] == 65504).all()


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910A", "Ascend910B1"])
@pytest.mark.parametrize("api, formula", [("vec_ln_high_preci", np.log), ("vec_expm1_high_preci", np.expm1)])
@pytest.mark.parametrize("mask, repeat, rep", [(128, 3, 8), (17, 1, 8), (100, 2, 0), ([1, 5], 2, 8)], ids=str)
def test_half_high_precision(api, formula, mask, repeat, rep, soc):
    rng = np.random.default_rng(5)
    x = np.exp(rng.uniform(-9, 4, repeat * 128)).astype(np.float16)
    if api == "vec_expm1_high_preci":
        x = np.where(rng.random(x.size) < 0.5, x, -x).astype(np.float16)
        x = np.clip(x, -10, 10).astype(np.float16)
    size = 11 * repeat * 128
    y = run_kernel(
        lambda t, k: getattr(t, api)(mask, k.y, k.x, k.w, repeat, 8, rep),
        {"x": x},
        {"y": ("float16", repeat * 128), "w": ("float16", size)},
        soc,
        ulp=1,
    )["y"].reshape(repeat, 128)
    rows = x.reshape(repeat, 128) if rep else np.tile(x[:128], (repeat, 1))
    on = np.zeros(128, bool)
    on[[0, 2, 64] if isinstance(mask, list) else slice(mask)] = True
    with np.errstate(all="ignore"):
        want = formula(rows.astype(np.float64)).astype(np.float16)
    steps = np.abs(y.view(np.int16).astype(int) - want.view(np.int16))[:, on]
    assert steps.max() <= 1, steps.max()
    assert (y[:, ~on] == GUARD).all()


def test_control_registers_read_back():
    def body(t, k):
        s = t.Scalar("uint64", "s")
        t.set_overflow_status(5)
        t.get_overflow_status(s)
        k.n[0].set_as(s)
        t.set_small_channel(True)
        t.mov_small_channel_to_scalar(s)
        k.n[1].set_as(s)
        t.set_system_cache(2)
        t.mov_system_cache_to_scalar(s)
        k.n[2].set_as(s)
        t.set_atomic_add(1)
        t.mov_atomic_add_to_scalar(s)
        k.n[3].set_as(s)
        t.set_atomic_add(0)
        t.mov_overflow_warning_to_scalar(s)
        k.n[4].set_as(s)
        t.set_cond_task_id(3)
        t.instr_preload(0, 4)
        t.set_vbi_options(True)

    assert list(run_kernel(body, {}, {"n": ("uint64", 8)}, "Ascend910A")["n"][:5]) == [5, 1, 2, 1, 5]


def test_multi_for_range_and_address_lists():
    def body(t, k):
        total = t.Scalar("int32", "total", 0)
        with t.multi_for_range((0, 1), (3, 4)) as (i, j):
            total.set_as(total + i * 10 + j)
        k.n[0].set_as(total)
        addresses = t.TensorAddrList(4, "local.UB", "addresses")
        t.data_move(addresses, k.x, 0, 1, 1, 0, 0)
        k.a[0].set_as(addresses[2].value)

    x = np.array([11, 22, 33, 44], np.uint64)
    out = run_kernel(body, {"x": x}, {"n": ("int32", 8), "a": ("uint64", 4)}, "Ascend910A")
    assert out["n"][0] == sum(i * 10 + j for i in range(3) for j in range(1, 4))
    assert out["a"][0] == 33


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910A"])
@pytest.mark.parametrize("dtype, factor", [("float16", 6), ("float32", 4)])
@pytest.mark.parametrize("api, power", [("vec_rsqrt_high_preci", -0.5), ("vec_rec_high_preci", -1.0)])
@pytest.mark.parametrize("mask, repeat", [(64, 3), (17, 1)], ids=str)
def test_newton_high_precision(api, power, dtype, factor, mask, repeat, soc):
    rng = np.random.default_rng(13)
    lanes = lanes_of(dtype)
    x = np.exp(rng.uniform(-4, 4, repeat * lanes)).astype(dtype)
    y = run_kernel(
        lambda t, k: getattr(t, api)(mask, k.y, k.x, k.w, repeat, 8, 8),
        {"x": x},
        {"y": (dtype, repeat * lanes), "w": ("float32", factor * repeat * lanes)},
        soc,
        ulp=4,
    )["y"]
    on = np.arange(repeat * lanes) % lanes < mask
    np.testing.assert_allclose(y[on], x[on].astype(np.float64) ** power, rtol=1e-3 if dtype == "float16" else 1e-6)
    assert (y[~on] == GUARD).all()


@pytest.mark.parametrize("dtype, lanes, rep", [("float16", 40, 3), ("float16", 80, 5), ("float32", 16, 2)])
@pytest.mark.parametrize("api, power", [("vec_rsqrt_high_preci", -0.5), ("vec_rec_high_preci", -1.0)])
def test_newton_of_few_lanes_side_by_side(api, power, dtype, lanes, rep):
    """Repeats as near as their lanes allow, as many as a register says."""
    row = rep * 32 // np.dtype(dtype).itemsize

    def body(t, k):
        r = t.Scalar("int32", "r")
        r.set_as(k.n[0])
        getattr(t, api)(lanes, k.y, k.x, k.w, r, rep, rep)

    x = np.exp(np.random.default_rng(15).uniform(-4, 4, 8 * row)).astype(dtype)
    for count in (1, 8):
        y = run_kernel(
            body,
            {"x": x, "n": np.array([count, 0, 0, 0, 0, 0, 0, 0], np.int32)},
            {"y": (dtype, 8 * row), "w": ("float32", 6 * 8 * row)},
            "Ascend910A",
            ulp=4,
        )["y"].reshape(8, row)
        wanted = x.reshape(8, row)[:count, :lanes].astype(np.float64) ** power
        np.testing.assert_allclose(y[:count, :lanes], wanted, rtol=1e-3 if dtype == "float16" else 1e-6)
        assert (y[count:] == GUARD).all() and (y[:, lanes:] == GUARD).all()


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("rep", [0, 8], ids=["one row for all repeats", "rows"])
@pytest.mark.parametrize("api, power", [("vec_rsqrt_high_preci", -0.5), ("vec_rec_high_preci", -1.0)])
@pytest.mark.parametrize("dtype, lanes", [("float16", 128), ("float32", 64), ("float32", 33)])
def test_newton_of_repeats_known_at_run_time(api, power, dtype, lanes, rep, soc):
    """Repeats, and lanes of float32, from a register."""
    row, repeats = lanes_of(dtype), 3

    def body(t, k):
        r, mask = t.Scalar("int32", "r"), t.Scalar("int32", "mask")
        r.set_as(k.n[0])
        mask.set_as(k.n[1])
        getattr(t, api)(lanes if dtype == "float16" else mask, k.y, k.x, k.w, r, 8, rep)

    x = np.exp(np.random.default_rng(14).uniform(-4, 4, repeats * row)).astype(dtype)
    for count in (1, repeats):
        y = run_kernel(
            body,
            {"x": x, "n": np.array([count, lanes, 0, 0, 0, 0, 0, 0], np.int32)},
            {"y": (dtype, repeats * row), "w": ("float32", 6 * repeats * row)},
            soc,
            ulp=4,
        )["y"].reshape(repeats, row)
        rows = x.reshape(repeats, row)[:count, :lanes].astype(np.float64)
        wanted = (rows if rep else np.tile(rows[:1], (count, 1))) ** power
        np.testing.assert_allclose(y[:count, :lanes], wanted, rtol=1e-3 if dtype == "float16" else 1e-6)
        assert (y[count:] == GUARD).all() and (y[:, lanes:] == GUARD).all()


def test_conditions_views_and_return():
    def body(t, k):
        a = t.Scalar("int32", "a")
        a.set_as(k.x[0])
        with t.if_scope(tik.all(a > 1, tik.any(a == 2, a == 3), tik.negate(a == 3))):
            k.y[0].set_as(a)
        with t.elif_scope(a == 3):
            k.y[0].set_as(100)
        with t.else_scope():
            k.y[0].set_as(200)
        with t.new_stmt_scope():
            words = t.Tensor("int32", (2, 4), tik.scope_ubuf, "words")
            t.data_move(words, k.x, 0, 1, 1, 0, 0)
            k.y[1].set_as(words.reshape((4, 2)).flatten()[5])
            halves = words.reinterpret_cast_to("uint16")
            k.y.reinterpret_cast_to("uint16")[4].set_as(halves[2])
        values = t.ScalarArray("int32", 2, "values", [5, 6])
        k.y[4].set_as(values[a - 2])
        with t.if_scope(a == 3):
            t.tik_return()
        k.y[5].set_as(1)

    for first, want in ((2, [2, 60, 20, GUARD, 5, 1]), (3, None)):
        x = np.array([first, 20, 30, 40, 50, 60, 70, 80], np.int32)
        y = run_kernel(body, {"x": x}, {"y": ("int32", 8)}, "Ascend910A")["y"]
        if want is None:  # the block ended before it wrote anything
            assert (y == -1).all()
        else:
            assert list(y[:2]) == want[:2] and y[2] & 0xFFFF == 20 and list(y[4:6]) == want[4:]


def test_tiling_parameters_are_checked():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor("float16", (16,), tik.scope_gm, "x")
        tiling = t.Tensor("int64", (4,), tik.scope_gm, "tiling")
        t.set_tiling_params([x], tiling)
        assert t._tiling_gm is tiling
        with pytest.raises(TikError, match="set_tiling_params: tiling_gm is int"):
            t.set_tiling_params([x], 3)


def test_scalar_instructions():
    def body(t, k):
        a, c, r = (t.Scalar("int64", n) for n in "acr")
        f, g = t.Scalar("float32", "f"), t.Scalar("float32", "g")
        u, v = t.Scalar("uint64", "u"), t.Scalar("uint64", "v")
        a.set_as(k.x[0])
        c.set_as(k.x[1])
        f.set_as(k.f[0])
        u.set_as(k.x.reinterpret_cast_to("uint64")[2])
        for n, call in enumerate(
            (
                lambda: t.scalar_max(r, a, c),
                lambda: t.scalar_min(r, a, c),
                lambda: t.scalar_abs(r, a),
                lambda: t.scalar_sqrt(r, c),
            )
        ):
            call()
            k.y[n].set_as(r)
        for n, api in enumerate(("scalar_countbit0", "scalar_countbit1", "scalar_countleading0")):
            getattr(t, api)(v, u)
            k.y[4 + n].set_as(v)
        for n, call in enumerate(
            (
                lambda: t.scalar_max(g, f, -1.5),
                lambda: t.scalar_min(g, f, -1.5),
                lambda: t.scalar_abs(g, f),
                lambda: t.scalar_sqrt(g, 2.25),
            )
        ):
            call()
            k.z[n].set_as(g)

    x = np.array([-9, 50, 0xFF00, 0], np.int64)
    out = run_kernel(body, {"x": x, "f": np.full(8, -2.5, np.float32)}, {"y": ("int64", 8), "z": ("float32", 8)})
    assert list(out["y"][:7]) == [50, -9, 9, 7, 56, 8, 48]
    assert list(out["z"][:4]) == [-1.5, -2.5, 2.5, 1.5]


ROUNDINGS = {
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "ceiling": np.ceil,
    "to-zero": np.trunc,
    "away-zero": lambda v: np.trunc(v + np.copysign(0.5, v)),
}


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_scalar_conv(mode, soc):
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.2, 1e6 + 0.5, -7.75], np.float32)

    def body(t, k):
        f, i = t.Scalar("float32", "f"), t.Scalar("int32", "i")
        h = t.Scalar("float16", "h")
        with t.for_range(0, 8) as n:
            f.set_as(k.x[n])
            t.scalar_conv(mode, i, f)
            k.y[n].set_as(i)
            t.scalar_conv("none", f, i)
            k.z[n].set_as(f)
            t.scalar_conv("odd", h, f)
            k.h[n].set_as(h)

    out = run_kernel(body, {"x": x}, {"y": ("int32", 8), "z": ("float32", 8), "h": ("float16", 8)}, soc)
    want = ROUNDINGS[mode](x.astype(np.float64))
    assert np.array_equal(out["y"], want) and np.array_equal(out["z"], want)
    small = np.abs(want) < 2048
    assert np.array_equal(out["h"][small], want[small])


@pytest.mark.parametrize("relation", ["lt", "gt", "ge", "eq", "ne", "le"])
@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3"])
def test_compare_mask_register(relation, soc):
    rng = np.random.default_rng(14)
    x, y = (rng.integers(-2, 3, 128).astype(np.float16) for _ in range(2))

    def body(t, k):
        bits = getattr(t, f"vcmp_{relation}")(128, k.x, k.y, 1, 1)
        t.mov_cmpmask_to_tensor(k.b, bits)
        again = t.mov_tensor_to_cmpmask(k.b)
        t.vsel(128, 0, k.z, again, k.x, k.y, 1, 1, 1, 1, 8, 8, 8)

    out = run_kernel(body, {"x": x, "y": y}, {"b": ("uint16", 8), "z": ("float16", 128)}, soc)
    chosen = getattr(
        np,
        {"lt": "less", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "le": "less_equal"}[
            relation
        ],
    )(x, y)
    assert np.array_equal(np.unpackbits(out["b"].view(np.uint8), bitorder="little")[:128], chosen)
    assert np.array_equal(out["z"], np.where(chosen, x, y))


@pytest.mark.parametrize("blocks", [2, 3])
def test_blocks_loops_barriers_and_input_scalars(blocks):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        limit = t.InputScalar("int32", "limit")
        y = t.Tensor("float32", (8,), tik.scope_gm, "y", is_atomic_add=True)
        sync = t.Tensor("int64", (4 * blocks,), tik.scope_gm, "sync", is_workspace=True, is_atomic_add=True)
        with t.for_range(0, blocks, block_num=blocks) as i:
            u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
            t.vec_dup(8, u, 0.0, 1, 8)
            with t.for_range(0, 10) as j:
                with t.if_scope(j == limit):
                    t.tik_break()
                with t.if_scope(j == 1):
                    t.tik_continue()
                t.vec_adds(8, u, u, 1.0, 1, 8, 8)
            t.block_barrier(sync)
            t.set_atomic_add(1)
            t.data_move(y, u, 0, 1, 1, 0, 0)
            t.set_atomic_add(0)
            with t.new_stmt_scope(disable_sync=True):
                t.set_flag("PIPE_V", "PIPE_MTE3", i)
                t.wait_flag("PIPE_V", "PIPE_MTE3", i)
                t.pipe_barrier("PIPE_ALL")
        t.BuildCCE("k", [limit], [y])
    for which in ("native", "reference"):
        (got,) = engine.run(t.programs[0], {"limit": 5}, engine=which)
        assert (got == 4 * blocks).all()


@pytest.mark.parametrize("soc, dtype", [("Ascend310", "float16"), ("Ascend910B1", "float32")])
@pytest.mark.parametrize("mask, repeat", [(64, 1), (17, 3), (64, 20), (64, 300)], ids=str)
def test_whole_reductions(soc, dtype, mask, repeat):
    rng = np.random.default_rng(15)
    lanes = lanes_of(dtype)
    x = rng.permutation(repeat * lanes).reshape(repeat, lanes).astype(dtype) / np.dtype(dtype).type(64)

    def body(t, k):
        t.vec_reduce_max(mask, k.y[0], k.x, k.w, repeat, 8, True)
        t.vec_reduce_min(mask, k.y[32], k.x, k.w, repeat, 8, True)
        t.vec_reduce_add(mask, k.y[64], k.x, k.w, repeat, 8)

    out = run_kernel(body, {"x": x}, {"y": (dtype, 128), "w": (dtype, 4 * repeat + 256)}, soc)["y"]
    used = x[:, :mask]
    raw = out.view("uint16" if dtype == "float16" else "uint32")
    for at, place in ((0, used.argmax()), (32, used.argmin())):
        assert out[at] == used.reshape(-1)[place]
        first = np.flatnonzero(used.reshape(-1) == out[at])[0]
        assert raw[at + 1] == first // mask * lanes + first % mask
    total = used.astype(np.float64).sum()
    if dtype == "float16":  # saturates
        total = min(total, 65504)
    np.testing.assert_allclose(float(out[64]), total, rtol=2e-2 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("dtype", ["int16", "float16", "uint16"])
def test_transposes(dtype):
    x = np.arange(3 * 256).astype(dtype)

    def body(t, k):
        times = t.Scalar("int32", "times", 3)
        t.vec_trans(k.y, k.x, times if dtype == "int16" else 3, 1, 1)
        t.vtranspose(k.z, k.x[256])
        t.vec_trans_scatter(False, False, [k.w[i * 16] for i in range(16)], [k.x[i * 16] for i in range(16)], 1, 0, 0)

    out = run_kernel(body, {"x": x}, {"y": (dtype, 768), "z": (dtype, 256), "w": (dtype, 256)})
    tiles = x.reshape(3, 16, 16).transpose(0, 2, 1)
    assert np.array_equal(out["y"].reshape(3, 16, 16), tiles)
    assert np.array_equal(out["z"].reshape(16, 16), tiles[1]) and np.array_equal(out["w"].reshape(16, 16), tiles[0])


@pytest.mark.parametrize("high", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_transpose_of_bytes(high):
    dst_high, src_high = high
    x = np.arange(512).astype(np.uint8)

    def body(t, k):
        t.vnchwconv(dst_high, src_high, [k.y[i * 32] for i in range(16)], [k.x[i * 32] for i in range(16)], 1, 0, 0)

    y = run_kernel(body, {"x": x}, {"y": ("uint8", 512)})["y"].reshape(16, 2, 16)
    assert np.array_equal(y[:, int(dst_high)], x.reshape(16, 2, 16)[:, int(src_high)].T)
    assert (y[:, 1 - int(dst_high)] == GUARD).all()


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B1"])
def test_transpose_of_words(soc):
    x = np.arange(128, dtype=np.int32)

    def body(t, k):
        t.vnchwconv(False, False, [k.y[i * 8] for i in range(16)], [k.x[i * 8] for i in range(16)], 1, 0, 0)

    y = run_kernel(body, {"x": x}, {"y": ("int32", 128)}, soc)["y"].reshape(8, 16)
    assert np.array_equal(y, x.reshape(16, 8).T)


@pytest.mark.parametrize("dtype, repeat", [("float16", 1), ("float16", 17), ("float32", 1), ("float32", 150)])
def test_sum_of_repeats_known_at_run_time(dtype, repeat):
    rng = np.random.default_rng(16)
    lanes = lanes_of(dtype)
    x = rng.integers(-3, 4, (repeat, lanes)).astype(dtype)

    def body(t, k):
        times = t.Scalar("int32", "times")
        times.set_as(k.n[0])
        t.vec_reduce_add(63, k.y[0], k.x, k.w, times, 8)
        t.vec_reduce_add(63, k.y[32], k.x, k.w, repeat, 8)

    out = run_kernel(body, {"x": x, "n": np.array([repeat], np.int32)}, {"y": (dtype, 64), "w": (dtype, repeat + 32)})
    assert out["y"][0] == out["y"][32] == x[:, :63].astype(np.float64).sum()
