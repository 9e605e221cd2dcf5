# SPDX-License-Identifier: Apache-2.0
"""The h_ methods: both engines, and NumPy on slices, strides, scalars, axes, sizes from 1 to beyond a tile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels2 import GUARD, run_kernel

from ms_custom_ops import tik
from ms_custom_ops.errors import TikCapacityError
from ms_custom_ops.soc import use_soc

QUIET = {"deadline": None, "max_examples": 10, "suppress_health_check": list(HealthCheck)}
SEEDS = st.integers(0, 2**20)
SHAPES = ((1,), (15,), (17,), (200,), (3, 17), (5, 64), (2, 3, 15), (1, 700), (4, 1, 33))


def view(tensor, shape):
    """A tensor of a kernel as an array of a shape at its start."""
    return tensor[: int(np.prod(shape))].reshape(shape)


def values(rng, shape, dtype):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-50, 50, shape).astype(dtype)
    return (rng.standard_normal(shape) * 4).astype(dtype)


FORMULAS = {
    "h_add": np.add,
    "h_sub": np.subtract,
    "h_mul": np.multiply,
    "h_max": np.maximum,
    "h_min": np.minimum,
    "h_div": np.divide,
    "h_and": np.bitwise_and,
    "h_or": np.bitwise_or,
}


@pytest.mark.parametrize("form", ["tt", "ts", "st"])
@pytest.mark.parametrize("api", FORMULAS)
@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
def test_two_operands(api, shape, form):
    rng = np.random.default_rng(len(shape) + shape[-1])
    dtype = "int16" if api in ("h_and", "h_or") else "float32"
    x, y = values(rng, shape, dtype), values(rng, shape, dtype)
    scalar = 3 if dtype == "int16" else 2.5

    def body(t, k):
        a, c = view(k.x, shape), view(k.y, shape)
        operands = {"tt": (a, c), "ts": (a, scalar), "st": (scalar, c)}[form]
        getattr(t, api)(view(k.z, shape), *operands)

    z = run_kernel(body, {"x": x, "y": y}, {"z": (dtype, x.size + 8)}, ulp=int(api == "h_div"))["z"]
    pair = {"tt": (x, y), "ts": (x, np.array(scalar, dtype)), "st": (np.array(scalar, dtype), y)}[form]
    want = FORMULAS[api](*pair).astype(dtype).reshape(-1)
    np.testing.assert_allclose(z[: x.size], want, rtol=1e-6 if api == "h_div" else 0)
    assert (z[x.size :] == GUARD).all()


@settings(**QUIET)
@given(SEEDS, st.sampled_from(["float16", "int32"]), st.integers(0, 3), st.integers(1, 30), st.integers(1, 3))
def test_slices_with_steps(seed, dtype, first, width, step):
    rng = np.random.default_rng(seed)
    x, y = values(rng, (6, 40), dtype), values(rng, (6, 40), dtype)
    rows, columns = slice(1, 5, step), slice(first, min(first + width, 40), step)

    def body(t, k):
        a, c, d = (view(v, (6, 40)) for v in (k.x, k.y, k.z))
        t.h_add(d[rows, columns], a[rows, columns], c[rows, columns])
        t.h_mul(d[5, :], a[5, :], a[5, :])

    z = run_kernel(body, {"x": x, "y": y}, {"z": (dtype, 240)}, saturate=False)["z"].reshape(6, 40)
    want = np.full((6, 40), GUARD, dtype)
    want[rows, columns] = (x + y)[rows, columns]
    want[5] = x[5] * x[5]
    assert np.array_equal(z, want)


@pytest.mark.parametrize(
    "api, formula, dtype",
    [
        ("h_abs", np.abs, "float16"),
        ("h_relu", lambda v: np.maximum(v, 0), "float16"),
        ("h_not", np.invert, "uint16"),
        ("h_exp", np.exp, "float32"),
        ("h_ln", np.log, "float32"),
        ("h_rec", lambda v: 1 / v, "float32"),
        ("h_rsqrt", lambda v: 1 / np.sqrt(v), "float32"),
        ("h_exp", np.exp, "float16"),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (63,), (3, 200)], ids=str)
def test_one_operand(api, formula, dtype, shape):
    rng = np.random.default_rng(7)
    x = values(rng, shape, dtype)
    if api in ("h_ln", "h_rec", "h_rsqrt"):
        x = np.abs(x) + np.float32(0.25)
    y = run_kernel(
        lambda t, k: getattr(t, api)(view(k.y, shape), view(k.x, shape)), {"x": x}, {"y": (dtype, x.size)}, ulp=1
    )["y"]
    want = formula(x if dtype == "uint16" else x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(y, want.reshape(-1), rtol=2e-3 if dtype == "float16" else 5e-7)


@pytest.mark.parametrize(
    "src, dst, mode",
    [
        ("float16", "float32", ""),
        ("float32", "float16", "none"),
        ("float32", "int32", "floor"),
        ("float16", "int32", "ceil"),
        ("int32", "float16", ""),
        ("uint8", "float16", "none"),
        ("float16", "uint8", "none"),
        ("int32", "float32", ""),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (15,), (3, 40), (2, 300)], ids=str)
def test_h_cast(src, dst, mode, shape):
    rng = np.random.default_rng(8)
    x = values(rng, shape, "float32" if src.startswith("float") else "int32").astype(src)
    y = run_kernel(
        lambda t, k: (t.h_cast if len(shape) == 1 else t.h_conv)(view(k.y, shape), view(k.x, shape), mode),
        {"x": x},
        {"y": (dst, x.size)},
    )["y"]
    rounding = {"floor": np.floor, "ceil": np.ceil}.get(mode, np.rint if dst in ("uint8", "int32") else np.asarray)
    with np.errstate(all="ignore"):
        whole = rounding(x.astype(np.float64))
    want = np.clip(whole, 0, 255) if dst == "uint8" else whole
    assert np.array_equal(y, want.astype(dst).reshape(-1))


def test_h_quant():
    x = np.arange(-100, 100, dtype=np.int32)
    y = run_kernel(
        lambda t, k: t.h_quant(view(k.y, (200,)), view(k.x, (200,)), 0.5),
        {"x": x},
        {"y": ("float16", 200)},
        "Ascend910A",
    )["y"]
    assert np.allclose(y, x * 0.5, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(1,), (17,), (4, 50)], ids=str)
def test_h_duplicate(shape):
    def body(t, k):
        t.h_duplicate(view(k.y, shape), 2.5)
        s = t.Scalar("int32", "s", 9)
        t.h_duplicate(view(k.z, (6, 16))[1:3, 3:10], s)

    count = int(np.prod(shape))
    out = run_kernel(body, {}, {"y": ("float16", count + 4), "z": ("int32", 96)})
    assert (out["y"][:count] == 2.5).all() and (out["y"][count:] == GUARD).all()
    want = np.full((6, 16), GUARD)
    want[1:3, 3:10] = 9
    assert np.array_equal(out["z"].reshape(6, 16), want)


def test_h_data_move():
    x = np.arange(8 * 64, dtype=np.float16).reshape(8, 64)

    def body(t, k):
        t.h_data_move(view(k.y, (8, 64))[2:6, 16:48], k.gm["x"].reshape((8, 64))[1:5, 16:48])
        t.h_data_move(view(k.z, (8, 64))[:, :], view(k.x, (8, 64))[:, :])

    out = run_kernel(body, {"x": x}, {"y": ("float16", 512), "z": ("float16", 512)})
    want = np.full((8, 64), GUARD, np.float16)
    want[2:6, 16:48] = x[1:5, 16:48]
    assert np.array_equal(out["y"].reshape(8, 64), want)
    assert np.array_equal(out["z"].reshape(8, 64), x)


REDUCED = [
    ((17,), None),
    ((1,), None),
    ((200,), 0),
    ((3, 17), None),
    ((3, 17), 1),
    ((3, 17), 0),
    ((2, 3, 40), (0, 2)),
    ((2, 3, 40), 1),
    ((2, 3, 40), [0, 1]),
    ((4, 9, 5), -1),
    ((2, 9000), 1),
    ((20000,), None),
]


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("shape, axis", REDUCED, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_h_reduce(kind, shape, axis, dtype):
    rng = np.random.default_rng(9)
    x = (rng.integers(-8, 9, shape) / 4).astype(dtype)
    axes = None if axis is None else tuple(np.atleast_1d(axis))
    want = getattr(np, kind)(x.astype(np.float64), axis=axes)

    def body(t, k):
        source = view(k.x, shape)
        if axis is None:
            s = t.Scalar(dtype, "s")
            getattr(t, f"h_reduce_{kind}")(s, source)
            k.y[0].set_as(s)
        else:
            getattr(t, f"h_reduce_{kind}")(view(k.y, want.shape or (1,)), source, axis)

    y = run_kernel(body, {"x": x}, {"y": (dtype, max(want.size, 1))})["y"]
    if kind == "sum":
        np.testing.assert_allclose(y, want.reshape(-1), rtol=2e-2 if dtype == "float16" else 1e-5, atol=0.5)
    else:
        assert np.array_equal(y, want.reshape(-1).astype(dtype))


@pytest.mark.parametrize(
    "shape, axis", [((17,), None), ((3, 17), None), ((3, 17), 1), ((3, 17), 0), ((2, 3, 5), 1)], ids=str
)
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_h_reduce_places(shape, axis, kind):
    rng = np.random.default_rng(10)
    x = rng.integers(-4, 5, shape).astype(np.float16)
    want = getattr(np, kind)(x, axis=axis)

    def body(t, k):
        if axis is None:
            s = t.Scalar("int32", "s")
            getattr(t, f"h_reduce_{kind}")(s, view(k.x, shape))
            k.y[0].set_as(s)
        else:
            getattr(t, f"h_reduce_{kind}")(view(k.y, want.shape), view(k.x, shape), axis)

    y = run_kernel(body, {"x": x}, {"y": ("int32", max(np.size(want), 1))})["y"]
    assert np.array_equal(y, np.ravel(want))


RELATIONS = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


@pytest.mark.parametrize("mode", RELATIONS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(1,), (63,), (3, 40), (1100,)], ids=str)
def test_h_cmpv_and_h_sel(mode, dtype, shape):
    rng = np.random.default_rng(11)
    x, y = (rng.integers(-3, 4, shape).astype(dtype) for _ in range(2))

    def body(t, k):
        a, c, m = view(k.x, shape), view(k.y, shape), view(k.m, shape)
        t.h_cmpv(m, a, c, mode)
        t.h_sel(view(k.z, shape), a, c, m)
        t.h_sel(view(k.w, shape), 7.0, c, m)
        t.h_cmpv(view(k.n, shape), a, 1.0, mode)
        t.h_sel(view(k.v, shape), a, 9.0, view(k.n, shape))

    kinds = {"m": ("bool", x.size), "n": ("bool", x.size)}
    kinds |= {n: (dtype, x.size) for n in ("z", "w", "v")}
    out = run_kernel(body, {"x": x, "y": y}, kinds)
    chosen, first = RELATIONS[mode](x, y).reshape(-1), RELATIONS[mode](x, 1).reshape(-1)
    a, c = x.reshape(-1), y.reshape(-1)
    assert np.array_equal(out["m"], chosen) and np.array_equal(out["n"], first)
    assert np.array_equal(out["z"], np.where(chosen, a, c))
    assert np.array_equal(out["w"], np.where(chosen, 7, c))
    assert np.array_equal(out["v"], np.where(first, a, 9))


@pytest.mark.parametrize("api, formula", [("h_sin", np.sin), ("h_cos", np.cos)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sine_and_cosine(api, formula, dtype):
    rng = np.random.default_rng(12)
    x = np.concatenate([np.linspace(-7, 7, 701), rng.uniform(-60000, 60000, 300), [0, np.pi / 2, np.pi]]).astype(dtype)
    y = run_kernel(
        lambda t, k: getattr(t, api)(view(k.y, (x.size,)), view(k.x, (x.size,))),
        {"x": x},
        {"y": (dtype, x.size)},
        "Ascend910A",
    )["y"]
    error = np.abs(y.astype(np.float64) - formula(x.astype(np.float64)))
    assert error.max() <= (6e-4 if dtype == "float16" else 4e-6)


def test_dynamic_shapes():
    """A length that is known only at run time goes through every kind of h_ method."""
    x = (np.arange(1, 1201) / 512).astype(np.float16)

    def body(t, k):
        n = t.Scalar("int32", "n")
        n.set_as(k.count[0])
        t.h_add(k.y[0:n], k.x[0:n], k.x[0:n])
        total = t.Scalar("float16", "total")
        t.h_reduce_max(total, k.x[0:n])
        k.m[0].set_as(total)
        t.h_reduce_sum(total, k.x[0:n])
        k.m[1].set_as(total)
        t.h_reduce_argmax(k.p[0:1], k.x[0:n], 0)
        t.h_cmpv(k.b[0:n], k.x[0:n], 1.0, "GT")

    out = run_kernel(
        body,
        {"x": x, "count": np.array([777], np.int32)},
        {"y": ("float16", 1200), "m": ("float16", 16), "p": ("int32", 1), "b": ("bool", 1200)},
    )
    assert np.array_equal(out["y"][:777], x[:777] * 2) and (out["y"][777:] == GUARD).all()
    assert out["m"][0] == x[776] and abs(float(out["m"][1]) - x[:777].astype(float).sum()) < 2
    assert out["p"][0] == 776
    assert np.array_equal(out["b"][:777], x[:777] > 1)


def test_work_space_is_taken_once_and_counts():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        before = t.get_available_buffer_size(tik.scope_ubuf)
        u = t.Tensor("float16", (64,), tik.scope_ubuf, "u")
        t.h_abs(u, u)
        t.h_exp(u, u)
        assert t.get_available_buffer_size(tik.scope_ubuf) == before - 128 - 16384
        with pytest.raises(TikCapacityError, match=r"Tensor big: scope_ubuf bytes asked"):
            t.Tensor("int8", (before - 16384,), tik.scope_ubuf, "big")
