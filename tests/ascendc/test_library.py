# SPDX-License-Identifier: Apache-2.0
"""Library functions over rows against NumPy: first k, sums so far, choices by bytes, pads, softmax by parts, int8."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

SOURCE = Path(__file__).with_name("library.cpp")
RNG = np.random.default_rng(23)
SIZES = np.dtype([(name, np.uint32) for name in ("rows", "inner", "n", "k", "mode", "group")])
DTYPES = {"float": np.float32, "half": np.float16}


GROUPS = ("top_float", "top_half", "rows_float", "rows_half", "softmaxes", "quants", "names")
NONE = np.zeros(1024, np.int32)


@pytest.fixture(scope="module")
def run():
    kernel = ascendc.build(SOURCE, entry="library")

    def run(group: str, x, out, rows: int, inner: int, n: int, k=0, mode=0, *, y=NONE, i=NONE, p=NONE):
        kernel(1, x, y, i, out, p, np.array((rows, inner, n, k, mode, GROUPS.index(group)), SIZES)[()])
        return out

    return run


def data(rows: int, inner: int, dtype=np.float32) -> np.ndarray:
    return RNG.normal(size=(rows, inner)).astype(dtype)


def rounded(n: int, dtype) -> int:
    block = 32 // np.dtype(dtype).itemsize
    return -(-n // block) * block


MODES = ("normal", "smallest_given_finished", "small")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("mode", "n"), [(mode, n) for mode in MODES for n in (1, 15, 17, 63, 200) if mode != "small" or n <= 32]
)
def test_top_k(run, dtype, mode, n):
    number = MODES.index(mode)
    rows, inner, k = 3, -(-n // 32) * 32, min(n, 13)
    x = data(rows, inner, DTYPES[dtype])
    x[:, n // 2] = x[:, 0]  # equal ones
    if n > 4:
        x[2, 3] = np.nan
    given = RNG.integers(0, 10**6, (rows, inner)).astype(np.int32)
    values, places = np.zeros(1024, DTYPES[dtype]), np.zeros(1024, np.int32)
    run(f"top_{dtype}", x, values, rows, inner, n, k, number, i=given, p=places)
    pitch = (k, k) if number == 2 else (rounded(k, DTYPES[dtype]), rounded(k, np.int32))
    for r in range(rows):
        keys = x[r, :n].astype(np.float64)
        keys = np.where(np.isnan(keys), np.inf, keys if number == 1 else -keys)
        order = np.argsort(keys, kind="stable")[:k]
        np.testing.assert_array_equal(values[r * pitch[0] :][:k], x[r, order])
        wanted = [order, np.full(k, n) if r == 1 else given[0, order], given[r, order]][number]
        np.testing.assert_array_equal(places[r * pitch[1] :][:k], wanted)


@pytest.mark.parametrize("what", [(3, 32, 40, 1, 0), (1, 32, 8, 9, 0), (1, 64, 33, 1, 2)], ids=["n", "k", "small"])
def test_top_k_says_what_does_not_fit(run, what):
    with pytest.raises(AscendcError, match=r"AIV core 0: TopK: .*accepted: .*library\.cpp:\d+\]"):
        run("top_float", data(3, 64), np.zeros(1024, np.float32), *what, p=np.zeros(1024, np.int32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 15])
def test_cum_sum(run, dtype, rows):
    inner = 48
    x = data(rows, inner, DTYPES[dtype])
    for mode, axis in ((0, 1), (1, 0)):
        out = np.zeros((rows + 1, inner), DTYPES[dtype])
        run(f"rows_{dtype}", x, out, rows, inner, inner, 0, mode)
        wanted = np.cumsum(x.astype(np.float64), axis)
        tolerance = 2e-6 if dtype == "float" else 2e-3
        np.testing.assert_allclose(out[:rows], wanted, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(out[rows], out[rows - 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [32, 64])
def test_select_with_bytes_mask(run, dtype, wide):
    rows, inner = 5, 32
    x, mask = data(rows, inner, DTYPES[dtype]), RNG.integers(0, 2, (rows, wide)).astype(np.uint8)
    for mode, wanted in ((2, np.where(mask[:, :inner] == 0, x, -3)), (3, np.where(mask[:, :inner] == 0, -3, x))):
        out = np.zeros((rows + 1, inner), DTYPES[dtype])
        run(f"rows_{dtype}", x, out, rows, inner, inner, wide, mode, y=mask)
        np.testing.assert_array_equal(out[:rows], wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pad_and_unpad(run, dtype):
    rows, inner, n = 7, 64, 61
    x, group = data(rows, inner, DTYPES[dtype]), f"rows_{dtype}"
    wanted = np.concatenate([x[:, :n], np.full((rows, inner - n), -7)], axis=1)
    for mode, given in ((4, x.ravel()[: rows * n].reshape(rows, n)), (5, x)):
        out = np.zeros((rows + 1, inner), DTYPES[dtype])
        run(group, x, out, rows, inner, n, 0, mode)
        wanted[:, :n] = given[:, :n]
        np.testing.assert_array_equal(out[:rows], wanted)
    out = np.zeros((rows + 1, inner), DTYPES[dtype])
    run(group, x, out, rows, inner, n, 0, 6)
    np.testing.assert_array_equal(out.ravel()[: rows * n], x[:, :n].ravel())
    run(group, x, out, rows, inner, inner, 0, 6)
    np.testing.assert_array_equal(out[:rows], x)  # nothing is left out
    with pytest.raises(AscendcError, match=r"UnPad: rightPad is \d+; accepted: 0 to \d+, .*library\.cpp"):
        run(group, x, out, rows, inner, inner - 32, 0, 6)
    with pytest.raises(AscendcError, match=r"Pad: rightPad is 0; accepted: 1 to \d+, .*library\.cpp"):
        run(group, x, out, rows, inner, inner, 0, 5)


@pytest.mark.parametrize("n", [1, 15, 40])
def test_softmax_by_parts_and_its_gradient(run, n):
    rows, inner = 5, 40
    x, y = data(rows, inner), data(rows, inner)

    def result(mode: int) -> np.ndarray:
        return run("softmaxes", x, np.zeros(2 * rows * inner + 1, np.float32), rows, inner, n, 0, mode, y=y)

    got = result(0)[:-1].reshape(rows, 2, inner)[:, :, :n].reshape(rows, -1)
    both = np.concatenate([x[:, :n], y[:, :n]], axis=1).astype(np.float64)
    e = np.exp(both - both.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=2e-6, atol=1e-7)
    front = (x[:, :n].astype(np.float64) * y[:, :n]).sum(1, keepdims=True)
    got = result(1)[: rows * inner].reshape(rows, inner)[:, :n]
    np.testing.assert_allclose(got, (x[:, :n] - front) * y[:, :n], rtol=1e-5, atol=1e-5)
    for mode in (2, 3):
        got = result(mode)[: 8 * rows].reshape(rows, 8)
        np.testing.assert_allclose(got, np.repeat(front, 8, 1), rtol=1e-5, atol=1e-5)
    got = result(4)
    wanted = x.copy()
    wanted[1] = 5
    np.testing.assert_array_equal(got[: rows * inner].reshape(rows, inner), wanted)
    assert got[-1] == 1


def to_int8(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Product and sum in float16, as the manual's diagram has it."""
    half = np.float16
    return np.clip(np.rint((x.astype(half) * half(scale) + half(offset)).astype(np.float64)), -128, 127)


@pytest.mark.parametrize("rows", [1, 7])
def test_quantization(run, rows):
    inner, n = 24, 15
    x = 4 * data(rows, inner)
    ints = RNG.integers(-(10**4), 10**4, (rows, inner)).astype(np.int32)
    scale = np.abs(data(1, inner))[0] + np.float32(0.25)

    def result(mode: int) -> tuple[np.ndarray, np.ndarray]:
        out, bytes_ = np.zeros(2048, np.float32), np.zeros(2048, np.int8)
        run("quants", x, out, rows, inner, n, 0, mode, y=scale, i=ints, p=bytes_)
        return out, bytes_[: rows * inner].reshape(rows, inner)

    np.testing.assert_array_equal(result(0)[1], to_int8(x, np.float16(20), np.float16(1.5)))
    np.testing.assert_array_equal(result(1)[1], to_int8(x, scale, np.float16(1.5)))
    np.testing.assert_array_equal(result(2)[1], to_int8(x, scale, scale * np.float32(0.5)))
    products = ints[:, :n].astype(np.float64) * scale[:n]
    np.testing.assert_allclose(result(3)[0][: rows * inner].reshape(rows, inner)[:, :n], products, rtol=1e-6)
    got = result(4)[0][: rows * 32].reshape(rows, 32)[:, :n]  # rows of half begin at blocks
    np.testing.assert_allclose(got, products, rtol=1e-3)
    np.testing.assert_array_equal(result(5)[0][: rows * inner].reshape(rows, inner)[:, :n], ints[:, :n] * 0.25)
    eight = ints.ravel()[: rows * inner // 8 * 8].reshape(-1, 8) * scale[:8].astype(np.float64)
    np.testing.assert_allclose(result(6)[0][: eight.size], eight.ravel(), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 17, 200])
def test_names_of_later_versions_and_results_that_are_converted(run, n):
    x, y = data(1, 512)[0], data(1, 512)[0]
    out = run("names", x, np.zeros(2048, np.float32), 1, 512, n, y=y)
    repeats = x.reshape(8, 64)
    np.testing.assert_allclose(out[:4], repeats[:4, :40].astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[64:68], repeats[:4].max(1))
    np.testing.assert_array_equal(out[128:136:2], repeats[:4].min(1))
    np.testing.assert_array_equal(out[192:256], x[0:128:2] + x[1:128:2])
    np.testing.assert_array_equal(out[256:320], x[:64])
    assert out[320] == 0b101011
    np.testing.assert_array_equal(out[512 : 512 + n], np.maximum(x + y, 0).astype(np.float16)[:n])
    scaled = x * np.float32(60)
    halves = np.maximum(scaled.astype(np.float16) - y.astype(np.float16), 0)
    np.testing.assert_array_equal(out[1024 : 1024 + n], np.clip(np.rint(halves), 0, 127)[:n])
    words = np.maximum(np.rint(scaled) + np.rint(y), 0)
    np.testing.assert_array_equal(out[1536 : 1536 + n], np.clip(words, 0, 127)[:n])
    assert (out[512 + n : 1024] == 0).all()


SCATTER = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR offsets, GM_ADDR o, uint32_t n) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 4096);
  const LocalTensor<float> a = buffer.GetWithOffset<float>(128, 0), to = buffer.GetWithOffset<float>(256, 512);
  const LocalTensor<uint32_t> at = buffer.GetWithOffset<uint32_t>(128, 2048);
  GlobalTensor<float> from, out;
  GlobalTensor<uint32_t> places;
  from.SetGlobalBuffer((__gm__ float*)x);
  places.SetGlobalBuffer((__gm__ uint32_t*)offsets);
  out.SetGlobalBuffer((__gm__ float*)o);
  DataCopy(a, from, 128);
  DataCopy(at, places, 128);
  Duplicate(to, 0.0f, 256);
  if (n) Scatter(to, a, at, 0, n);
  else Scatter(to, a, at, 0, uint64_t(17), 2, 8);
  DataCopy(out, to, 256);
}
"""


def test_scatter_on_the_chip_that_has_it(tmp_path):
    source = tmp_path / "scatter.cpp"
    source.write_text(SCATTER)
    scatter = ascendc.build(source, entry="k", soc="Ascend310P3")
    x, places = data(1, 128)[0], RNG.permutation(256)[:128].astype(np.uint32)
    for n in (1, 15, 63, 0):
        out, wanted = np.zeros(256, np.float32), np.zeros(256, np.float32)
        scatter(1, x, places * np.uint32(4), out, np.uint32(n))
        if n:
            wanted[places[:n]] = x[:n]
        else:  # 17 lanes of two repeats, offsets for all lanes
            for start in (0, 64):
                wanted[places[start : start + 17]] = x[start : start + 17]
        np.testing.assert_array_equal(out, wanted)
    with pytest.raises(
        AscendcBuildError, match=r"scatter\.cpp:1[78]: AscendC::Scatter is not there on 910B and 910_93; accepted"
    ):
        ascendc.build(source, entry="k", soc="Ascend910B1")


REFUSED = {
    "Gemm<half, true>(t, t, 8);": "AscendC::Gemm is not there: no public kernel was found that uses it",
    "GetSpr<RoundMode::CAST_RINT>();": "AscendC::GetSpr is not there: it exists on Ascend950 alone",
    "Dequantize(t, t);": "AscendC::Dequantize is not there: a name of CANN 9 that no public kernel was found to use; "
    "accepted: AscendDequant",
    "LocalTensor<fp8_e4m3fn_t> e;": "fp8, fp4 and hifloat8 exist on Ascend950 alone",
    "SetFixPipeConfig<uint64_t, true>(w);": "AscendC::SetFixPipeConfig: setRelu is not there",
}


@pytest.mark.parametrize("some", [slice(0, 3), slice(3, 5)], ids=["names", "types"])
def test_names_that_are_refused_say_why(tmp_path, some):
    source = tmp_path / "k.cpp"
    refused = dict(list(REFUSED.items())[some])
    calls = "\n".join(refused)
    source.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) {\n'
        f"LocalTensor<half> t; LocalTensor<uint64_t> w;\n{calls}\n}}\n"
        "template <class T> void Quantize(LocalTensor<T> a, int64_t n) {}\n"  # a function of the kernel's own
        "void own(LocalTensor<half> t) { Quantize(t, 8); }\n"
    )
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(source)
    text = str(caught.value)
    assert re.match(rf"{source}:\d+: AscendC.*(is not there|alone)", text)
    for line, says in enumerate(refused.values(), 5):
        assert says in text and f"{source}:{line}:" in text
    assert "Quantize is not there" not in text.replace("Dequantize", "")
