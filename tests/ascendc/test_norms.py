# SPDX-License-Identifier: Apache-2.0
"""Normalisations beside LayerNorm, gradients of LayerNorm, LogSoftMax, DropOut and AscendAntiQuant against NumPy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

SOURCE = Path(__file__).with_name("norms.cpp")
RNG = np.random.default_rng(29)
SIZES = np.dtype([(name, np.uint32) for name in ("rows", "inner", "n", "k", "mode", "what")])
DTYPES = {"float": np.float32, "half": np.float16}
EPSILON = {"float": float(np.float32(0.001)), "half": float(np.float16(0.001))}
TOLERANCE = {"float": 2e-6, "half": 2e-3}
NORMS, PARTS, DROPS = range(3)
ROWS = [(1, 1, 16), (3, 15, 16), (5, 16, 16), (7, 61, 64), (2, 200, 208)]  # rows, columns that count, pitch
both = pytest.mark.parametrize("dtype", DTYPES)
shapes = pytest.mark.parametrize(("rows", "n", "inner"), ROWS)


@pytest.fixture(scope="module")
def kernels():
    return {name: ascendc.build(SOURCE, entry=name, soc="Ascend910B1") for name in ("norm_float", "norm_half", "anti")}


@pytest.fixture(scope="module")
def run(kernels):
    def run(dtype, group, x, y, v, rows, inner, n, k=0, mode=0, what=0):
        outs = [np.zeros(4096, DTYPES[dtype])]
        outs += [np.zeros(4096, np.float32 if group == PARTS else DTYPES[dtype]) for _ in range(2)]
        sizes = np.array((rows, inner, n, k, mode, what), SIZES)[()]
        kernels[f"norm_{dtype}"](1, x, y, v, *outs, np.uint32(group), sizes)
        return outs

    return run


def data(*shape: int, dtype: str = "float") -> np.ndarray:
    return RNG.normal(size=shape).astype(DTYPES[dtype])


def vectors(dtype: str = "float") -> np.ndarray:
    """Gamma, beta, variances, means."""
    v = data(4, 256, dtype=dtype)
    v[2] = np.abs(v[2]) + np.float16(0.25)
    return v


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [array.astype(np.float64) for array in arrays]


def close(got: np.ndarray, wanted: np.ndarray, dtype: str, scale: float = 1) -> None:
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=scale * TOLERANCE[dtype])


@both
@shapes
@pytest.mark.parametrize("what", [0, 1])
def test_layer_norm_grad(run, dtype, rows, n, inner, what):
    dy, x, v = data(rows, inner, dtype=dtype), data(rows, inner, dtype=dtype), vectors(dtype)
    out, res, _ = run(dtype, NORMS, dy, x, v, rows, inner, n, mode=0, what=what)
    wdy, wx, wv = wide(dy[:, :n], x[:, :n], v)
    variance, mean = wv[2, :rows, None] + EPSILON[dtype], wv[3, :rows, None]
    pd_xl, off = wdy * wv[0, :n], wx - mean
    pd_var = np.sum(-0.5 * pd_xl * off * variance**-1.5, 1, keepdims=True)
    pd_mean = np.sum(-pd_xl * variance**-0.5, 1, keepdims=True) + pd_var / n * np.sum(-2 * off, 1, keepdims=True)
    wanted = pd_xl * variance**-0.5 + pd_var * 2 / n * off + pd_mean / n
    close(out[: rows * inner].reshape(rows, inner)[:, :n], wanted, dtype, 4)
    close(res[: rows * inner].reshape(rows, inner)[:, :n], off * variance**-0.5, dtype)
    assert (out[: rows * inner].reshape(rows, inner)[:, n:] == -9).all() and (out[rows * inner :] == -9).all()


@both
@shapes
@pytest.mark.parametrize("what", [0, 1])
def test_layer_norm_grad_beta(run, dtype, rows, n, inner, what):
    dy, normal = data(rows, inner, dtype=dtype), data(rows, inner, dtype=dtype)
    gamma, beta, _ = run(dtype, NORMS, dy, normal, vectors(dtype), rows, inner, n, mode=1, what=what)
    wdy, wnormal = wide(dy[:, :n], normal[:, :n])
    close(gamma[:n], (wdy * wnormal).sum(0), dtype)
    close(beta[:n], wdy.sum(0), dtype)
    assert (gamma[n:] == -9).all() and (beta[n:] == -9).all()


def test_layer_norm_grad_beta_of_the_manual(run):
    numbers = np.arange(64, dtype=np.float32)
    gamma, beta, _ = run("float", NORMS, numbers, numbers, vectors(), 8, 8, 8, mode=1)
    np.testing.assert_array_equal(gamma[:8], [8960, 9416, 9888, 10376, 10880, 11400, 11936, 12488])
    np.testing.assert_array_equal(beta[:8], [224, 232, 240, 248, 256, 264, 272, 280])


def test_layer_norm_and_its_gradient_agree_with_differences(run):
    """The gradient of a weighted sum of LayerNorm, by small steps."""
    n, step = 15, 1e-6
    x, dy, gamma = data(n).astype(np.float64), data(16), data(256)
    normed = lambda at: (at - at.mean()) / np.sqrt(at.var() + EPSILON["float"]) * gamma[:n]  # noqa: E731
    slopes = [((normed(x + step * e) - normed(x - step * e)) @ dy[:n]) / (2 * step) for e in np.eye(n)]
    v = vectors()
    v[0], v[2, 0], v[3, 0] = gamma, x.var(), x.mean()
    padded = np.zeros(16, np.float32)
    padded[:n] = x
    out, _, _ = run("float", NORMS, dy, padded, v, 1, 16, n)
    np.testing.assert_allclose(out[:n], slopes, rtol=1e-4, atol=1e-5)


@both
@pytest.mark.parametrize(("n", "c", "groups", "size"), [(1, 1, 1, 1), (2, 6, 3, 15), (1, 6, 2, 33), (3, 4, 4, 64)])
def test_group_norm(run, dtype, n, c, groups, size):
    block = 32 // np.dtype(DTYPES[dtype]).itemsize
    pitch = -(-size // block) * block
    x, v = data(n, c, pitch, dtype=dtype), vectors(dtype)
    out, mean, variance = run(dtype, NORMS, x, x, v, n, pitch, c, groups, 2, size)
    wx, wv = wide(x[:, :, :size].reshape(n, groups, -1), v)
    normal = (wx - wx.mean(2, keepdims=True)) / np.sqrt(wx.var(2, keepdims=True) + EPSILON[dtype])
    wanted = normal.reshape(n, c, size) * wv[0, :c, None] + wv[1, :c, None]
    close(out[: x.size].reshape(x.shape)[:, :, :size], wanted, dtype, 2)
    close(mean[: n * groups], wx.mean(2).ravel(), dtype)
    close(variance[: n * groups], wx.var(2).ravel(), dtype)
    assert (mean[n * groups :] == -9).all()


@both
@shapes
@pytest.mark.parametrize("what", [0, 1])
def test_deep_norm(run, dtype, rows, n, inner, what):
    x, gx, v = data(rows, inner, dtype=dtype), data(rows, inner, dtype=dtype), vectors(dtype)
    out, mean, variance = run(dtype, NORMS, x, gx, v, rows, inner, n, mode=3, what=what)
    wx, wgx, wv = wide(x[:, :n], gx[:, :n], v)
    both = 0.75 * wx + wgx
    normal = (both - both.mean(1, keepdims=True)) / np.sqrt(both.var(1, keepdims=True) + EPSILON[dtype])
    close(out[: rows * inner].reshape(rows, inner)[:, :n], normal * wv[0, :n] + wv[1, :n], dtype, 2)
    close(mean[:rows], both.mean(1), dtype)
    close(variance[:rows], both.var(1), dtype)


@both
@pytest.mark.parametrize(("rows", "size"), [(1, 16), (3, 48), (15, 16), (7, 208)])
@pytest.mark.parametrize("what", [0, 1], ids=["in place", "with a buffer"])
def test_batch_norm(run, dtype, rows, size, what):
    x, v = data(rows, size, dtype=dtype), vectors(dtype)
    out, mean, variance = run(dtype, NORMS, x, x, v, rows, size, size, mode=4, what=what)
    wx, wv = wide(x, v)
    normal = (wx - wx.mean(0)) / np.sqrt(wx.var(0) + EPSILON[dtype])
    close(out[: x.size].reshape(x.shape), normal * wv[0, :rows, None] + wv[1, :rows, None], dtype, 2)
    close(mean[:size], wx.mean(0), dtype)
    close(variance[:size], wx.var(0), dtype)


@both
@shapes
@pytest.mark.parametrize("what", [0, 1], ids=["shape", "tiling"])
def test_log_softmax(run, dtype, rows, n, inner, what):
    n = inner if what else n
    x = data(rows, inner, dtype=dtype)
    out, total, most = run(dtype, NORMS, x, x, vectors(dtype), rows, inner, n, mode=5, what=what)
    (wx,) = wide(x[:, :n])
    e = np.exp(wx - wx.max(1, keepdims=True))
    close(out[: x.size].reshape(x.shape)[:, :n], np.log10(e / e.sum(1, keepdims=True)), dtype)
    block = 32 // x.itemsize
    close(total[: rows * block].reshape(rows, block), np.repeat(e.sum(1, keepdims=True), block, 1), dtype)
    np.testing.assert_array_equal(most[: rows * block : block], x[:, :n].max(1))


@both
@shapes
@pytest.mark.parametrize("what", range(4), ids=["all", "no beta", "no gamma", "neither"])
def test_normalize(run, dtype, rows, n, inner, what):
    x, v = data(rows, inner, dtype=dtype), vectors()
    out, rstd, _ = run(dtype, PARTS, x, data(1024), v, rows, inner, n, what=what)
    wx, wv = wide(x[:, :n], v)
    scale = 1 / np.sqrt(wv[2, :rows, None] + float(np.float32(0.001)))
    gamma, beta = wv[0, :n] if what in (0, 1) else 1, wv[1, :n] if what in (0, 2) else 0
    close(out[: x.size].reshape(x.shape)[:, :n], (wx - wv[3, :rows, None]) * scale * gamma + beta, dtype, 2)
    close(rstd[:rows], scale.ravel(), "float")


@both
@pytest.mark.parametrize(("inner", "n"), [(16, 1), (16, 16), (64, 61), (208, 200)])
@pytest.mark.parametrize("what", [0, 1], ids=["new", "in place"])
def test_welford_update(run, dtype, inner, n, what):
    x, y = data(1, inner, dtype=dtype), data(4, 256)
    _, mean, variance = run(dtype, PARTS, x, y, vectors(), 1, inner, n, 3, 1, what)
    (wx, wy) = wide(x[0, :n], y)
    now = wy[0, :n] + (wx - wy[0, :n]) * float(np.float32(1) / np.float32(3))
    close(mean[:n], now, "float")
    close(variance[:n], wy[1, :n] + (wx - wy[0, :n]) * (wx - now), "float")
    rest = y[:2, n:inner] if what else np.full((2, inner - n), -9)
    np.testing.assert_array_equal([mean[n:inner], variance[n:inner]], rest)


@pytest.mark.parametrize(("inner", "n"), [(8, 8), (8, 3), (64, 64), (200, 61)])
@pytest.mark.parametrize("what", range(4))
def test_welford_finalize(run, inner, n, what):
    """Mean and variance of a row that went through in parts, of which the last may be short."""
    parts = 5
    counts = np.where(np.arange(inner) < n, parts, parts - 1)
    values = data(parts, inner).astype(np.float64)
    means = np.array([values[:c, i].mean() for i, c in enumerate(counts)])
    squares = np.array([values[:c, i].var() * c for i, c in enumerate(counts)])
    y = np.zeros((4, 256), np.float32)
    y[0, :inner], y[1, :inner], y[2, :inner] = means, squares, counts
    _, mean, variance = run("float", PARTS, data(1, inner), y, vectors(), 1, inner, n, parts, 2, what)
    every = np.concatenate([values[:c, i] for i, c in enumerate(counts)])
    np.testing.assert_allclose([mean[0], variance[0]], [every.mean(), every.var()], rtol=2e-5, atol=1e-6)
    assert (mean[1:] == -9).all() and (variance[1:] == -9).all()


@both
@pytest.mark.parametrize(
    ("mode", "rows", "inner", "pitch"),
    [(0, 5, 48, 48), (0, 3, 48, 64), (0, 5, 64, 8), (0, 3, 48, 32), (1, 5, 48, 64), (1, 3, 15, 32), (2, 7, 48, 48)]
    + [(3, 5, 64, 8), (3, 3, 15, 2), (4, 5, 64, 32), (4, 1, 61, 32), (4, 3, 15, 2)],
)
@pytest.mark.parametrize("keep", [1, 5, 8])
def test_drop_out(run, dtype, mode, rows, inner, pitch, keep):
    x, mask = data(rows, inner, dtype=dtype), RNG.integers(0, 2, (rows, inner)).astype(np.uint8)
    bits = mode >= 3 or (mode == 0 and pitch < inner)
    given = RNG.integers(0, 256, 4096).astype(np.uint8)
    if mode in (2, 3):  # one row after the other
        row = np.packbits(mask, bitorder="little") if bits else mask.ravel()
        given[: row.size] = row
    else:
        packed = np.packbits(mask, axis=1, bitorder="little") if bits else mask
        for r in range(rows):
            given[r * pitch : r * pitch + packed.shape[1]] = packed[r]
            if bits and inner % 8:  # what of the last byte does not count
                given[r * pitch + inner // 8] |= 0xFF << inner % 8 & 0xFF
    out, _, _ = run(dtype, DROPS, x, given, x, rows, inner, pitch, keep, mode)
    wanted = np.where(mask, x.astype(np.float64) / (keep / 8), 0).astype(DTYPES[dtype])
    np.testing.assert_array_equal(out[: x.size].reshape(x.shape), wanted)
    assert (out[x.size :] == -9).all()


KINDS = [(False, np.float16, 8), (True, np.float16, 8), (False, ml_dtypes.bfloat16, 8), (False, np.float16, 4),
         (True, ml_dtypes.bfloat16, 4)]  # fmt: skip


def integers(kernels, kind, n, k, groups, mode):
    """What AscendAntiQuant gives, and what it shall."""
    transposed, dtype, bits = KINDS[kind]
    numbers = RNG.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), n * k).astype(np.int8)
    given = np.zeros(4096, np.int8)
    packed = numbers if bits == 8 else (numbers[::2] & 15 | numbers[1::2] << 4).astype(np.int8)
    given[: packed.size] = packed
    shape = (n, groups) if transposed else (groups, n)
    scale, offset = RNG.normal(size=(2, *shape)).astype(dtype)
    out = np.zeros(n * k, dtype)
    kernels["anti"](1, given, scale, offset, out, np.uint32(kind), np.array((*shape, n, k, mode, 0), SIZES)[()])
    if mode in (3, 4, 5):
        scale, offset = scale.ravel()[:1].reshape(1, 1), offset.ravel()[:1].reshape(1, 1)
    else:
        axis = 1 if transposed else 0
        scale, offset = (np.repeat(array, k // groups, axis) for array in (scale, offset))
    x = numbers.reshape((n, k) if transposed else (k, n)).astype(np.float32)
    offset = np.zeros_like(offset) if mode in (2, 5) else offset
    middle = np.float16 if dtype == np.float16 else np.float32
    moved = (x + offset.astype(np.float32)).astype(middle).astype(np.float32)
    return out, (moved * scale.astype(np.float32)).astype(dtype).ravel()


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=["half", "turned", "bfloat16", "int4", "int4 turned"])
@pytest.mark.parametrize("mode", range(6))
@pytest.mark.parametrize(("n", "k", "groups"), [(32, 32, 1), (32, 3 * 32, 3), (64, 32, 32)])
def test_anti_quant(kernels, kind, mode, n, k, groups):
    out, wanted = integers(kernels, kind, n, k, groups, mode)
    np.testing.assert_array_equal(out.view(np.uint16), wanted.view(np.uint16))


FAULTS = {
    "a format": (NORMS, (3, 16, 16, 1, 0), r"LayerNormGrad: dataFormat is 1; accepted: DataFormat::ND"),
    "groups": (NORMS, (1, 16, 6, 4, 2, 16), r"GroupNorm: 6 channels in 4 groups; accepted: groups of as many channels"),
    "no group": (NORMS, (1, 16, 6, 0, 2, 16), r"GroupNorm: 6 channels in 0 groups; accepted: groups of as many"),
    "long rows": (NORMS, (1, 2048, 2048, 0, 3), r"DeepNorm: rows of 2048; accepted: up to 2040"),
    "a length": (PARTS, (2, 16, 16, 0, 0, 4), r"Normalize: aLength is 2; accepted: that of the configuration, 3"),
    "rows of parts": (PARTS, (2, 16, 16, 1, 1), r"WelfordUpdate: rnLength is 2; accepted: 1"),
    "begun blocks": (PARTS, (1, 12, 12, 1, 1), r"WelfordUpdate: abLength is 12; accepted: multiples of 8"),
    "nothing": (PARTS, (1, 16, 0, 1, 1), r"WelfordUpdate: abComputeLength is 0; accepted: 1 to abLength, which is 16"),
    "beyond": (PARTS, (1, 16, 17, 1, 1), r"WelfordUpdate: abComputeLength is 17; accepted: 1 to abLength"),
    "a begun block": (PARTS, (1, 12, 12, 2, 2), r"WelfordFinalize: abLength is 12; accepted: multiples of 8"),
    "lengths": (PARTS, (1, 16, 8, 2, 2, 4), r"headCountLength is 9 and tailCountLength 8; accepted: together abLength"),
    "no tail": (PARTS, (1, 16, 8, 1, 2), r"WelfordFinalize: tailCountLength is 8 and tailCount 0; accepted: 0 with it"),
    "none kept": (DROPS, (1, 16, 16, 0, 0), r"DropOut: keepProb is 0; accepted: above 0, to 1"),
    "more than all": (DROPS, (1, 16, 16, 9, 0), r"DropOut: keepProb is 1.125; accepted: above 0, to 1"),
    "bytes": (DROPS, (2, 48, 32, 4, 1), r"DropOut: maskLastAxis is 32; accepted: at least 48, for rows of 48 elements"),
    "bits": (DROPS, (2, 61, 7, 4, 4), r"DropOut: maskLastAxis is 7; accepted: at least 8, for rows of 61 elements"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_does_not_fit(run, what):
    group, sizes, says = FAULTS[what]
    with pytest.raises(AscendcError, match=rf"AIV core 0: .*{says}.*norms\.cpp:\d+\]"):
        run("float", group, data(4096), data(4096), vectors(), *sizes)


@pytest.mark.parametrize(
    ("kind", "sizes", "says"),
    [
        (
            0,
            (2, 32, 32, 33, 0),
            r"scale of \[2, 32\]; accepted: \[groups of K, N\], given by shapeInfo or SetShapeInfo, ",
        ),
        (0, (2, 32, 64, 32, 0), r"scale of \[2, 32\]; accepted: \[groups of K, N\].* for K of 32 and N of 64"),
        (1, (32, 5, 32, 32, 0), r"scale of \[32, 5\]; accepted: \[N, groups of K\]"),
        (0, (2, 32, 32, 32, 6), r"scale of \[0, 0\]; accepted: .* given by shapeInfo or SetShapeInfo"),
        (0, (2, 32, 32, 0, 0), r"0 elements with k of 0; accepted: whole matrices"),
    ],
)
def test_scales_that_do_not_fit(kernels, kind, sizes, says):
    arrays = [np.zeros(4096, np.int8), *np.ones((2, 1024), np.float16), np.zeros(4096, np.float16)]
    with pytest.raises(AscendcError, match=rf"AscendAntiQuant: {says}"):
        kernels["anti"](1, *arrays, np.uint32(kind), np.array((*sizes, 0), SIZES)[()])


REFUSED = {
    "LayerNormGrad(b, b, b, b, b, b, b, bfloat16_t(1.0f), LayerNormGradTiling{});": (
        "LayerNormGrad: the type of the tensors is not accepted; accepted: half, float"
    ),
    "LayerNormGrad<half, true>(h, h, h, h, h, h, h, half(1), LayerNormGradTiling{});": (
        "LayerNormGrad: isReuseSource is not accepted for this type; accepted: float"
    ),
    "LayerNormGradBeta<half, true>(h, h, h, h, LayerNormGradBetaTiling{});": "LayerNormGradBeta: isReuseSource is not",
    "GroupNorm<half, true>(h, h, h, h, h, h, half(1), GroupNormTiling{});": "GroupNorm: isReuseSource is not accepted",
    "DeepNorm<half, true>(h, h, h, h, h, h, h, half(1), half(1), DeepNormTiling{});": "DeepNorm: isReuseSrc is not",
    "BatchNorm<float, true>(f, f, f, f, f, f, 1.0f, BatchNormTiling{});": (
        "BatchNorm: isReuseSource is not accepted; accepted: false"
    ),
    "LogSoftMax<half, false, true>(h, h, h, h, u, LogSoftMaxTiling{});": (
        "LogSoftMax: isDataFormatNZ is not there; accepted: ND rows"
    ),
    "WelfordUpdate<half, half>(h, h, h, h, h, WelfordUpdateParam{});": (
        "WelfordUpdate: the type of means and variances is not accepted; accepted: float"
    ),
    "Normalize<half, float>(f, f, f, f, f, h, h, 1.0f, NormalizePara{});": (
        "Normalize: the type of gamma and beta is not accepted; accepted: float, or half with half"
    ),
    "Normalize<half, half, false, kOnly>(h, f, f, f, h, h, h, 1.0f, NormalizePara{});": (
        "Normalize: the configuration is not accepted; accepted: ReducePattern::AR, isOnlyOutput false"
    ),
    "DropOut<half, false, 5>(h, h, u, 0.5f, DropOutShapeInfo{});": (
        "DropOut: dropOutMode is not accepted; accepted: 0 to 4"
    ),
    "AscendAntiQuant<half, half, false>(h, h, half(1), half(1), 8);": (
        "AscendAntiQuant: the type of src is not accepted; accepted: int8_t, int4b_t"
    ),
    "SoftmaxFlashV3(h, h);": "SoftmaxFlashV3 is not there: the manual does not say which columns share a mean",
}


@pytest.mark.parametrize("first", range(0, len(REFUSED), 3))
def test_types_and_flags_that_are_refused(tmp_path, first):
    source = tmp_path / "k.cpp"
    refused = dict(list(REFUSED.items())[first : first + 3])
    calls = "\n".join(refused)
    source.write_text(
        '#include "kernel_operator.h"\n#include "lib/normalization/groupnorm.h"\n#include "lib/filter/dropout.h"\n'
        "using namespace AscendC;\nconstexpr NormalizeConfig kOnly{ReducePattern::AR, -1, false, false, true};\n"
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) {\nLocalTensor<half> h; LocalTensor<float> f;\n'
        f"LocalTensor<bfloat16_t> b; LocalTensor<uint8_t> u;\n{calls}\n}}\n"
    )
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(source, soc="Ascend910B1")
    text = str(caught.value)
    for line, says in enumerate(refused.values(), 9):
        assert says in text and f"{source}:{line}:" in text
