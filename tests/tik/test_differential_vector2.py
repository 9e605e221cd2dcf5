# SPDX-License-Identifier: Apache-2.0
"""Gather, compaction, selection and fused conversion methods: both engines and NumPy formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels2 import GUARD, run_kernel

QUIET = {"deadline": None, "max_examples": 15, "suppress_health_check": list(HealthCheck)}
GATHERED = ("int16", "uint16", "float16", "float32", "int32", "uint32")
KINDS = st.sampled_from(GATHERED)
SEEDS = st.integers(0, 2**20)


def numbers(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Distinct small values of a dtype."""
    return rng.permutation(np.arange(1, count + 1)).astype(dtype)


def lanes_of(dtype: str) -> int:
    return 256 // np.dtype(dtype).itemsize


@settings(**QUIET)
@given(KINDS, SEEDS, st.integers(1, 3), st.sampled_from([1, 15, 17, 63, 64]))
def test_vgather(dtype, seed, repeat, mask):
    rng = np.random.default_rng(seed)
    size, lanes = np.dtype(dtype).itemsize, lanes_of(dtype)
    src = numbers(rng, dtype, 256)
    offset = (rng.integers(0, 200, repeat * lanes) * size).astype(np.uint32)
    out = run_kernel(
        lambda t, k: t.vgather(mask, k.y, k.x, k.offset, repeat, 8, 16),
        {"x": src, "offset": offset},
        {"y": (dtype, repeat * lanes)},
    )["y"].reshape(repeat, lanes)
    want = src[(offset.reshape(repeat, lanes) + 16) // size]
    assert np.array_equal(out[:, :mask], want[:, :mask])
    assert (out[:, mask:] == GUARD).all()


@settings(**QUIET)
@given(KINDS, SEEDS, st.sampled_from([1, 17, 64]))
def test_vscatter(dtype, seed, mask):
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize
    src = numbers(rng, dtype, 128)
    offset = (rng.integers(0, 100, 128) * size).astype(np.uint32)
    out = run_kernel(
        lambda t, k: t.vscatter(mask, k.y, k.x, k.offset, 1, 8), {"x": src, "offset": offset}, {"y": (dtype, 128)}
    )["y"]
    want = np.full(128, GUARD, dtype)
    for i in range(mask):
        want[offset[i] // size] = src[i]
    assert np.array_equal(out, want)


@settings(**QUIET)
@given(KINDS, SEEDS, st.integers(1, 3), st.sampled_from([1, 2]))
def test_vgatherb_and_vbcb(dtype, seed, repeat, blk):
    rng = np.random.default_rng(seed)
    per_block = 32 // np.dtype(dtype).itemsize
    src = numbers(rng, dtype, 40 * per_block)
    offset = (rng.integers(0, 40, repeat * 8) * 32).astype(np.uint32)

    def body(t, k):
        t.vgatherb(k.y, k.x, k.offset, repeat, blk, 8 * blk)
        t.vbcb(k.z, k.x, repeat, blk, 8 * blk)

    count = repeat * 8 * blk * per_block
    out = run_kernel(body, {"x": src, "offset": offset}, {"y": (dtype, count), "z": (dtype, count)}, "Ascend910B1")
    blocks = out["y"].reshape(repeat * 8, blk, per_block)[:, 0]
    assert np.array_equal(blocks, src.reshape(-1, per_block)[offset // 32])
    spread = out["z"].reshape(repeat * 8, blk, per_block)[:, 0]
    assert np.array_equal(spread, np.repeat(src[: repeat * 8, None], per_block, axis=1))


@pytest.mark.parametrize("dtype", ["int16", "int32", "float16", "float32"])
@pytest.mark.parametrize("mask", [1, 17, 64])
def test_vci(dtype, mask):
    lanes = lanes_of(dtype)
    out = run_kernel(lambda t, k: t.vci(mask, k.y, 3, 2, 1, 8), {}, {"y": (dtype, 2 * lanes)})["y"].reshape(2, lanes)
    want = np.arange(2 * lanes).reshape(2, lanes) + 3
    assert np.array_equal(out[:, :mask], want[:, :mask].astype(dtype))
    assert (out[:, mask:] == GUARD).all()


@pytest.mark.parametrize("mask, mode", [(17, "normal"), (200, "counter"), ([0, 0b101], "normal")], ids=str)
def test_vcopy(mask, mode):
    x = np.arange(512, dtype=np.int16)
    y = run_kernel(
        lambda t, k: t.vcopy(mask, k.y, k.x, 2, 1, 1, 16, 16, mode), {"x": x}, {"y": ("int16", 512)}, "Ascend910B1"
    )["y"].reshape(2, 256)
    on = np.zeros(256, bool)
    on[[0, 2] if isinstance(mask, list) else slice(mask)] = True
    assert np.array_equal(y, np.where(on, x.reshape(2, 256), GUARD))


@pytest.mark.parametrize("side", [False, True], ids=["left", "right"])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float16", "uint32"])
def test_vpadding(dtype, mode, side):
    per_block = 32 // np.dtype(dtype).itemsize
    x = np.arange(1, 8 * per_block + 1).astype(dtype)
    y = run_kernel(
        lambda t, k: t.vpadding(8 * per_block, mode, side, k.y, k.x, 1, 1, 1, 8, 8),
        {"x": x},
        {"y": (dtype, 8 * per_block)},
    )["y"].reshape(8, per_block)
    for row, block in zip(y, x.reshape(8, per_block), strict=True):
        whole = {
            0: np.repeat(block[-1 if side else 0], per_block),
            1: block[::-1],
            2: np.append(block[::-1][1:], 0) if side else np.insert(block[::-1][:-1], 0, 0),
        }[mode]
        assert np.array_equal(row, whole)


@settings(**QUIET)
@given(SEEDS, st.booleans(), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["float16", "float32"]))
def test_vbi(seed, per_block, vertical, horizontal, dtype):
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize
    lanes, width = 256 // size, 32 // size
    src = rng.integers(-4, 5, 30 * width).astype(dtype)
    weight = rng.integers(-3, 4, vertical * horizontal * 8).astype(dtype)
    offset = (rng.integers(0, 30, vertical * horizontal * 8) * 32).astype(np.uint32)
    y = run_kernel(
        lambda t, k: t.vbi(lanes, k.y, k.x, k.w, k.offset, 1, vertical, horizontal, per_block, lanes),
        {"x": src, "w": weight, "offset": offset},
        {"y": (dtype, vertical * lanes)},
        "Ascend910B1",
    )["y"]
    blocks = src.reshape(-1, width)[offset // 32].reshape(vertical, horizontal, 8, width)
    if per_block:
        factors = weight.reshape(vertical, horizontal, 8, 1)
    else:
        factors = weight[: vertical * horizontal].reshape(vertical, horizontal, 1, 1)
    assert np.array_equal(y, (blocks * factors).sum(axis=1).reshape(-1))


def kept_by(pattern: int, count: int) -> np.ndarray:
    n = np.arange(count)
    return n % 2 == pattern - 1 if pattern < 3 else n % 4 == pattern - 3 if pattern < 7 else n >= 0


@settings(**QUIET)
@given(KINDS, SEEDS, st.integers(0, 6), st.integers(1, 3))
def test_vreduce(dtype, seed, pattern, repeat):
    rng = np.random.default_rng(seed)
    lanes = lanes_of(dtype)
    x = numbers(rng, dtype, repeat * lanes)
    bits = rng.integers(0, 2, repeat * lanes).astype(bool)
    words = np.packbits(bits, bitorder="little").view("uint16" if lanes == 128 else "uint32")
    # One repeat of bits is lanes/8 bytes; the stride of the pattern is in blocks of 32 bytes.
    spread = np.zeros((repeat, 32 // words.itemsize), words.dtype)
    spread[:, : lanes // 8 // words.itemsize] = words.reshape(repeat, -1)

    def body(t, k):
        kept = t.Scalar("uint32", "kept")
        t.vreduce(lanes, k.y, k.x, pattern or k.p, repeat, 1, 8, 1, 0, kept)
        k.n[0].set_as(kept)

    out = run_kernel(body, {"x": x, "p": spread}, {"y": (dtype, repeat * lanes), "n": ("uint32", 8)})
    rows = x.reshape(repeat, lanes)
    keep = bits.reshape(repeat, lanes) if pattern == 0 else np.broadcast_to(kept_by(pattern, lanes), rows.shape)
    want = rows[keep]
    assert out["n"][0] == len(want)
    assert np.array_equal(out["y"][: len(want)], want)
    assert (out["y"][len(want) :] == GUARD).all()


@pytest.mark.parametrize(
    "api, soc, mask, repeat",
    [("vreduce", "Ascend310P3", 150, 1), ("vreducev2", "Ascend910B1", 100, 2), ("vreducev2", "Ascend910B1", 1, 3)],
)
@pytest.mark.parametrize("pattern", [1, 4, 6])
def test_vreduce_counter_mode(api, soc, mask, repeat, pattern):
    x = np.arange(512, dtype=np.float32)
    extra = () if api == "vreducev2" else (0,)

    def body(t, k):
        getattr(t, api)(mask, k.y, k.x, pattern, repeat, 1, 16, 0, *extra, None, "counter")

    y = run_kernel(body, {"x": x}, {"y": ("float32", 512)}, soc)["y"]
    if api == "vreduce":  # mask elements in all, repeats of 64 elements 16 blocks apart
        rows = [x[r * 128 : r * 128 + 64][: mask - r * 64] for r in range(-(-mask // 64))]
    else:
        rows = [x[r * 128 : r * 128 + mask] for r in range(repeat)]
    want = np.concatenate([row[kept_by(pattern, len(row))] for row in rows])
    assert np.array_equal(y[: len(want)], want)
    assert (y[len(want) :] == GUARD).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_vmulconv(dtype):
    rng = np.random.default_rng(1)
    a, c = ((rng.standard_normal(128) * 20).astype(np.float16) for _ in range(2))
    y = run_kernel(
        lambda t, k: t.vmulconv(128, k.y, k.a, k.c, 1, 1, 1, 1, 4, 8, 8), {"a": a, "c": c}, {"y": (dtype, 128)}
    )["y"]
    info = np.iinfo(dtype)
    assert np.array_equal(y, np.clip(np.rint(a * c), info.min, info.max).astype(dtype))


def test_vadddeqrelu():
    rng = np.random.default_rng(2)
    a, c = (rng.integers(-2000, 2000, 64).astype(np.int32) for _ in range(2))
    y = run_kernel(
        lambda t, k: t.vadddeqrelu(64, k.y, 0.5, k.a, k.c, 1, 1, 1, 1, 4, 8, 8),
        {"a": a, "c": c},
        {"y": ("float16", 64)},
    )["y"]
    assert np.allclose(y, np.maximum((a + c) * 0.5, 0), rtol=2e-3, atol=1)
    assert (y[a + c <= 0] == 0).all()


@pytest.mark.parametrize("mode", [0, 1], ids=["saturate", "low bits"])
def test_vcbd_and_its_mode(mode):
    x = np.array([0, 1, -1, 32767, 32768, -32769, 70000, 2**31 - 1] * 8, np.int32)

    def body(t, k):
        seen = t.Scalar("uint64", "seen")
        t.set_fp2int_mode(mode)
        t.mov_fp2int_mode_to_scalar(seen)
        t.vcbd(64, k.y, k.x, 1, 1, 1, 4, 8)
        k.n[0].set_as(seen)

    out = run_kernel(body, {"x": x}, {"y": ("int16", 64), "n": ("uint64", 4)})
    assert np.array_equal(out["y"], x.astype(np.int16) if mode else np.clip(x, -32768, 32767).astype(np.int16))
    assert out["n"][0] == mode


@pytest.mark.parametrize("high", [False, True], ids=["low", "high"])
@pytest.mark.parametrize("vector", [False, True], ids=["word", "vector"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_vconv_by_scale_word(dtype, vector, high):
    rng = np.random.default_rng(3)
    x = rng.integers(-300, 300, 128).astype(np.int16)
    sign = (dtype == "int8") << 46
    scales, offsets = rng.choice([0.25, 0.5, 1.0, 1.5], 16).astype(np.float32), rng.integers(-20, 20, 16)
    if not vector:
        scales[:], offsets[:] = scales[0], offsets[0]
    words = np.array(
        [sign | int(o) % 512 << 37 | int(s.view(np.uint32)) for s, o in zip(scales, offsets, strict=True)], np.uint64
    )

    def body(t, k):
        t.vconv(128, "none", k.y, k.x, 1, 1, 1, 8, 8, k.w if vector else int(words[0]), high)

    y = run_kernel(body, {"x": x, "w": words}, {"y": (dtype, 256)})["y"].reshape(8, 2, 16)
    info = np.iinfo(dtype)
    rows = x.reshape(8, 16)
    want = np.clip(np.rint(rows * scales) + offsets, info.min, info.max).astype(dtype)
    assert np.array_equal(y[:, int(high)], want)
    assert (y[:, 1 - int(high)] == GUARD).all()


@pytest.mark.parametrize(
    "mode, first, second", [(0, "t", "s"), (0, "s", "t"), (0, "s", "s"), (0, "t", "t"), (1, "t", "s"), (2, "t", "t")]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_vec_sel_with_scalars(dtype, mode, first, second):
    rng = np.random.default_rng(4)
    lanes = lanes_of(dtype)
    a, c = numbers(rng, dtype, 2 * lanes), -numbers(rng, dtype, 2 * lanes)
    bits = rng.integers(0, 2, 2 * lanes).astype(bool)

    def body(t, k):
        s0, s1 = k.a if first == "t" else 100.0, k.c if second == "t" else -100.0
        t.vec_sel(lanes, mode, k.y, k.s, s0, s1, 2, 8, 8, 8)

    packed = np.packbits(bits, bitorder="little")
    y = run_kernel(body, {"a": a, "c": c, "s": packed}, {"y": (dtype, 2 * lanes)})["y"]
    chosen = bits if mode else np.tile(bits[:lanes], 2)
    want = np.where(chosen, a if first == "t" else 100, c if second == "t" else -100)
    assert np.array_equal(y, want.astype(dtype))
