# SPDX-License-Identifier: Apache-2.0
"""Forms of calls that the manual lists beside the usual ones: results, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
RNG = np.random.default_rng(41)
X, Y = RNG.normal(size=(2, 512)).astype(np.float32)
I = RNG.integers(-9, 9, 512).astype(np.int32)  # noqa: E741
HX, HY = X.astype(np.float16), Y.astype(np.float16)
LANES = np.array([bool(0x5555555555555555 >> i % 64 & 1) if i < 64 else bool(0xF >> i - 64 & 1) for i in range(128)])


@pytest.fixture(scope="module")
def run():
    kernel = mco.ascendc.build(Path(__file__).with_name("documented.cpp"), entry="documented", soc="Ascend910B1")

    def run(group: int, which: int, i: np.ndarray = I) -> np.ndarray:
        out = np.zeros(1024, np.float32)
        kernel(1, X, Y, i, out, group, which)
        return out

    return run


def silu(x: np.ndarray, beta: float) -> np.ndarray:
    return x / (1 + np.exp(-beta * x))


ROWS = X.reshape(8, 64).astype(np.float64)
NORM = (ROWS - ROWS.mean(1, keepdims=True)) / np.sqrt(ROWS.var(1, keepdims=True) + 1e-5)
WIDE = X.astype(np.float64)
FUNCTIONS = [
    ("Exp of a series, with a buffer", np.exp(WIDE), 500),
    ("Exp of a series", np.exp(WIDE), 500),
    ("Exp, the instruction", np.exp(WIDE), 500),
    ("Power of a number", 2.0**WIDE, 500),
    ("Power of a number, without a count", 2.0**WIDE, 512),
    ("Power of a number, without a buffer", 2.0**WIDE, 512),
    ("Power with a number, without a count", Y.astype(np.float64) ** 3, 512),
    ("Power of whole numbers", I.astype(np.int64) ** 3, 500),
    ("Power of a whole number", np.trunc((-2.0) ** I), 500),
    ("Axpy of a product and a sum", (HX.astype(np.float32) * np.float32(np.float16(0.3))), 500),
    ("Gelu with flags", silu(WIDE + 0.044715 * WIDE**3, 1.5957691216057308) * WIDE / (WIDE + 0.044715 * WIDE**3), 500),
    ("FasterGelu with flags", silu(WIDE, 1.702), 500),
    ("LayerNorm of a type", NORM.ravel(), 512),
    ("LayerNorm of a flag", NORM.ravel(), 512),
]


def layer_norm(x: np.ndarray, gamma: np.ndarray | float, beta: np.ndarray | float) -> tuple[np.ndarray, ...]:
    """Rows, and their means and reciprocals of standard deviations."""
    mean, reciprocal = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return (x - mean) * reciprocal * gamma + beta, mean.ravel(), reciprocal.ravel()


def test_version_of_the_architecture(run):
    assert run(0, 16)[0] == 0x220


def test_rows_of_elements_of_4_bits(run):
    numbers = RNG.integers(-(2**31), 2**31, 512).astype(np.int32)
    rows = np.stack([numbers.view(np.int8)[8 + 40 * i : 32 + 40 * i] for i in range(4)])
    out = run(0, 17, numbers)[:256].reshape(4, 64)
    assert np.array_equal(out[:, :48:2], (rows << 4) >> 4)
    assert np.array_equal(out[:, 1:48:2], rows >> 4)
    with pytest.raises(AscendcError, match="DataCopyPad: padding of elements of 4 bits; accepted: none"):
        run(0, 18)


def test_layer_norm_with_reciprocals(run):
    rows, mean, reciprocal = layer_norm(ROWS[:, :60], Y[:60].astype(np.float64), Y[64:124].astype(np.float64))
    out = run(0, 14)
    assert np.allclose(out[:512].reshape(8, 64)[:, :60], rows, rtol=2e-6, atol=2e-6)
    assert np.allclose(out[512:528], np.concatenate([mean, reciprocal]), rtol=2e-6, atol=2e-6)
    x, beta = HX.reshape(8, 64).astype(np.float64), HY[:64].astype(np.float64)
    rows, mean, reciprocal = layer_norm(x, Y[:64].astype(np.float64), 0)
    out = run(0, 15)
    assert np.allclose(out[:512].reshape(8, 64), rows, rtol=2e-3, atol=2e-3)
    assert np.allclose(out[512:544], np.tile(np.concatenate([mean, reciprocal]), 2), rtol=2e-6, atol=2e-6)
    assert np.allclose(out[544:608], layer_norm(x, 1, beta)[0][0], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("which", range(len(FUNCTIONS)), ids=[name for name, *_ in FUNCTIONS])
def test_library_functions(run, which):
    name, wanted, count = FUNCTIONS[which]
    got = run(0, which)
    got = got.view(np.int32) if "whole" in name else got
    np.testing.assert_allclose(got[:count], wanted[:count], 2e-6, 2e-6)
    assert (got[512:] == 0).all() and (got[count:512] == 0).all()


def masked(values: np.ndarray, lanes: int, on: np.ndarray | int) -> np.ndarray:
    """Repeats of ``lanes``, off where the mask is."""
    on = np.arange(lanes) < on if isinstance(on, int) else on[:lanes]
    return np.where(on, values, 0)


def saturated(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x.astype(np.float64)), -128, 127)


def conversion(which: int) -> tuple[np.ndarray, type, int]:
    """What is written, its type, and the distance of its repeats."""
    x, y = X.reshape(8, 64), Y.reshape(8, 64)[::2]
    hx, hy, i = HX.reshape(4, 128), HY.reshape(4, 128), I.reshape(8, 64)
    scaled = (np.maximum(2 * i, 0) * 0.5).astype(np.float16)
    return [
        (masked(np.maximum(x[:3] + y[:3], 0).astype(np.float16), 64, 40), np.float16, 64),
        (masked(np.maximum(x[:3] - y[:3], 0).astype(np.float16), 64, LANES), np.float16, 64),
        (masked(saturated(np.maximum(hx[:2] + hy[:2], 0)), 128, 100), np.int8, 128),
        (masked(np.zeros((2, 128)), 128, LANES), np.int8, 128),  # i - (i + 3)
        (masked(saturated(np.maximum(hx[:1] + hy[:1], 0)), 128, 8), np.int8, 128),
        (masked(scaled[:3], 64, 40), np.float16, 64),
        (masked(scaled[:3], 64, LANES), np.float16, 64),
        ((I[:500] * 0.5)[None], np.float16, 512),
        (masked(i[:3] * 0.5, 64, LANES), np.float16, 64),
        (masked(saturated((hx[:2].astype(np.float32) * hy[:2]).astype(np.float16)), 128, LANES), np.int8, 128),
    ][which]


NAMES = """AddReluCast of 40 lanes, SubReluCast of bits, AddReluCast of half, SubReluCast of int16, AddReluCast of the
register, AddDeqRelu of 40 lanes, AddDeqRelu of bits, CastDeq with flags, CastDequant of bits, MulCast of bits"""


@pytest.mark.parametrize("which", range(10), ids=[" ".join(name.split()) for name in NAMES.split(",")])
def test_conversions_by_masks(run, which):
    wanted, kind, pitch = conversion(which)
    got = run(1, which).view(kind)
    rows = got[: len(wanted) * pitch].reshape(len(wanted), pitch)[:, : wanted.shape[1]]
    np.testing.assert_array_equal(rows, wanted)
    assert not got[len(wanted) * pitch :].any()


def test_what_becomes_of_numbers_beyond_the_range_can_be_set(run):
    big = (I * 9999).astype(np.int32)
    out = run(1, 10, big)
    got = out.view(np.int16)
    np.testing.assert_array_equal(got[:500], big[:500].astype(np.int16))  # the low bits
    np.testing.assert_array_equal(got[512:1012], np.clip(big[:500], -32768, 32767))
    assert out.view(np.int32)[-1] == 0
    out = run(1, 11)
    got, product = out.view(np.float16), HX[:500].astype(np.float32) * 60000
    with np.errstate(over="ignore"):
        infinite = product.astype(np.float16)
    np.testing.assert_array_equal(got[:500], infinite)
    np.testing.assert_array_equal(got[512:1012], np.clip(infinite, -65504, 65504))
    np.testing.assert_array_equal(got[1024:1524], infinite)
    assert out.view(np.int32)[-1] == 1


def test_select_by_the_compare_register(run):
    x, y = X[:256].reshape(4, 64), Y[:256].reshape(4, 64)
    bits = x < y
    for which, wanted in enumerate([np.where(bits[:1], x, y), np.where(bits, x, y), np.where(bits, x, Y[0])]):
        got = run(2, which)
        np.testing.assert_array_equal(got[:256].reshape(4, 64), np.where(np.arange(64) < 40, wanted, 0))


def test_columns_of_fractals_go_to_rows_of_half(run):
    got = run(3, 0).view(np.float16)
    for matrix in range(2):
        at = 256 * matrix + np.arange(4)[:, None] * 16 + np.arange(32) // 16 * 128 + np.arange(32) % 16
        rows = got[400 * matrix :][: 4 * 40].reshape(4, 40)
        np.testing.assert_array_equal(rows[:, :32], HX[at])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("SetDeqScale(1.0f, int16_t(3), true);", "SetDeqScale: a scale with an offset, for int16_t to 8 bits, is not"),
        ("CastDeq<int8_t, int16_t>(b, s, 8);", "CastDeq: these types are not accepted; accepted: int32_t to half"),
        ("SetSaturationFlag<SaturationMode::INT>(true);", "INT is not there; accepted: SaturationMode::FLOAT"),
        ("TQueSync<PIPE_V, PIPE_ALL> sync;", "TQueSync: these pipes are not accepted; accepted: two different ones"),
        ("Power(s, s, s, 8);", "Power: the type of the tensors is not accepted; accepted: half, float, int32_t"),
    ],
    ids="SetDeqScale CastDeq SetSaturationFlag TQueSync Power".split(),
)
def test_what_is_refused(tmp_path, call, words):
    source = tmp_path / "k.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {\n'
        f"  LocalTensor<int8_t> b;\n  LocalTensor<int16_t> s;\n  {call}\n}}\n"
    )
    with pytest.raises(AscendcBuildError) as caught:
        mco.ascendc.build(source)
    assert str(caught.value).startswith(f"{source}:6: ") and words in str(caught.value)
