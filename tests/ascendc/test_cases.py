# SPDX-License-Identifier: Apache-2.0
"""Calls of the API against NumPy: reductions, selections, gathers, sorts, library functions, registers, moves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc

need_ascendc()

SOURCE = Path(__file__).with_name("cases.cpp")
RNG = np.random.default_rng(11)
F = RNG.normal(size=512).astype(np.float32)
H = RNG.normal(size=512).astype(np.float16)
INTS = RNG.integers(-7, 7, 64).astype(np.int32)


@pytest.fixture(scope="module")
def run():
    kernel = ascendc.build(SOURCE, entry="cases")

    def run(group: int, which: int = 0) -> np.ndarray:
        out = np.zeros(2048, np.float32)
        kernel(1, F, H, INTS, out, group, which)
        return out

    return run


def tree(x: np.ndarray) -> np.float32:
    x = np.concatenate([x, np.zeros(-len(x) % 64, np.float32)])
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]


def in_order(x: np.ndarray) -> np.float32:
    """Repeats of 64 as trees, one after another."""
    total = None
    for start in range(0, len(x), 64):
        part = tree(x[start : start + 64])
        total = part if total is None else np.float32(total + part)
    return total


def test_reductions(run):
    r = run(0).reshape(-1, 64)
    repeats = F.reshape(8, 64)
    masked = np.array([tree(np.where(np.arange(64) < 33, row, np.float32(0))) for row in repeats[:5]])
    assert r[0, 0] == in_order(F[:300])
    assert r[1, 0] == tree(masked)
    assert r[2, 0] == F[:300].max() and r[2].view(np.uint32)[1] == F[:300].argmax()
    assert r[3, 0] == F.min() and r[3].view(np.uint32)[1] == F.argmin()
    assert (r[4, :4] == [tree(row[:40]) for row in repeats[:4]]).all()
    assert (r[5, 0:8:2] == repeats[:4].max(1)).all() and (r[5].view(np.uint32)[1:8:2] == repeats[:4].argmax(1)).all()
    assert (r[6, :4] == repeats[:4].min(1)).all() and (r[6, 4:] == 0).all()
    blocks = F[:128].reshape(16, 8)
    sums = blocks[:, 0::2] + blocks[:, 1::2]
    sums = sums[:, 0::2] + sums[:, 1::2]
    assert (r[7, :16] == sums[:, 0] + sums[:, 1]).all()
    assert (r[8, :16] == blocks.max(1)).all() and (r[9, :16] == blocks.min(1)).all()
    assert (r[10].reshape(2, 32) == F[:128].reshape(2, 64)[:, 0::2] + F[:128].reshape(2, 64)[:, 1::2]).all()
    assert (r[11, :4] == [tree(row) for row in repeats[:4]]).all()
    assert (r[12, 1:8:2] == repeats[:4].max(1)).all() and (r[12].view(np.uint32)[0:8:2] == repeats[:4].argmax(1)).all()
    assert (r[13].view(np.uint32)[:4] == repeats[:4].argmax(1)).all()
    assert r[15, 0] == in_order(F)


def test_compare_and_select(run):
    r = run(1)
    x, y = F, -F
    assert (r[:512] == np.where(x < y, x, y)).all()
    assert (r[512:1012] == np.where(x >= 0.5, x, 7)[:500]).all()
    same = np.tile(x[:64] >= 0.5, 8)
    assert (r[1024:1536] == np.where(same, x, y)).all()
    assert (r[1536:1600] == np.where(x[:64] > y[:64], x[:64], y[:64])).all()
    assert (r[1600:1700] == np.where(x < y, x, y)[:100]).all()
    assert (r[1728:1828] == np.where(x >= 0.5, x, 7)[:100]).all()


def test_gathers_and_transposes(run):
    r = run(2)
    assert (r[:512] == F[::-1]).all()
    assert (r[512:768] == F[1::2]).all() and r[768] == 256
    wanted = np.concatenate([row[:50][np.arange(50) % 4 == 0] for row in F.reshape(8, 64)[:4]])
    assert (r[776 : 776 + len(wanted)] == wanted).all() and r[1000] == len(wanted)
    square = H[:256].reshape(16, 16).T.astype(np.float32).ravel()
    assert (r[1024:1280] == square).all() and (r[1280:1536] == square).all()
    assert (r[1536:1664] == np.repeat(F[:16], 8)).all()
    assert (r[1664:1728].reshape(8, 8) == F[:64].reshape(8, 8)[::-1]).all()


def test_sorts(run):
    r = run(3)
    order = np.argsort(-F, kind="stable")
    assert (r[:512] == F[order]).all() and (r[512:1024].view(np.uint32) == order).all()
    first = np.argsort(-F[:128], kind="stable")
    assert (r[1024:1152] == F[first]).all() and (r[1152:1280].view(np.uint32) == first).all()
    assert list(r[1280:1283]) == [64, 1, 64 + 128]


Y = np.abs(F) + np.float32(1)
ERF = np.vectorize(math.erf)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ROWS = F.reshape(8, 64).astype(np.float64)
FUNCTIONS = {
    "Sin": np.sin(F),
    "Cos": np.cos(F),
    "Tanh": np.tanh(F),
    "Log": np.log(Y),
    "Floor": np.floor(F),
    "Ceil": np.ceil(F),
    "Round": np.rint(F),
    "Sigmoid": 1 / (1 + np.exp(-F)),
    "Silu": F / (1 + np.exp(-F)),
    "Gelu": 0.5 * F * (1 + np.tanh(np.sqrt(2 / np.pi) * (F + 0.044715 * F**3))),
    "Erf": ERF(F),
    "Power": Y**F,
    "Power of a number": Y**2,
    "ClampMax": np.minimum(F, 0.25),
    "ClampMin": np.maximum(F, 0.25),
    "SwiGLU": F * Y / (1 + np.exp(-Y)),
    "Sign": np.sign(F),
    "Trunc": np.trunc(F),
    "Fmod": np.fmod(F, Y),
    "ArithProgression": 1.5 + 0.5 * np.arange(512),
    "Sum": np.concatenate([F.reshape(4, 128)[:, :100].sum(1), np.full(4, np.nan), np.zeros(504)]),
    "BroadCast of columns": np.repeat(F[:16], 32),
    "BroadCast of rows": np.tile(F[:32], 16),
    "SoftMax": np.concatenate([softmax(ROWS[:, :50]), np.full((8, 14), np.nan)], axis=1).ravel(),
    "LayerNorm": ((ROWS - ROWS.mean(1, keepdims=True)) / np.sqrt(ROWS.var(1, keepdims=True) + 1e-5) + 0.5).ravel(),
    "RmsNorm": (2 * ROWS / np.sqrt((ROWS**2).mean(1, keepdims=True) + 1e-5)).ravel(),
    "SoftmaxFlashV2": softmax(ROWS).ravel(),
    "fused": np.concatenate(
        [
            np.full(64, -8),
            np.full(64, 21),
            F[128:256] * 0 + F[:128] - np.float32(0.5),
            F[:128] / np.float32(3),
            F[:128].reshape(16, 8).max(1),
            np.ones(112),
        ]
    ),
    "Truncate": np.floor(F),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_library_functions(run, name):
    got, wanted = run(4, list(FUNCTIONS).index(name))[:512], FUNCTIONS[name]
    known = ~np.isnan(wanted)
    np.testing.assert_allclose(got[known], wanted[known], rtol=2e-6, atol=2e-6)


def test_moves_registers_and_scalars(run):
    r = run(5)
    assert (r[1024:1536] == np.maximum(F, 0)).all()  # SetAtomicMax into zeros
    r = r[:1024] / 2  # SetAtomicAdd, twice into zeros
    rows = r[:24].reshape(3, 8)
    for row, start in zip(rows, (0, 8, 16), strict=True):
        assert (row[:5] == F[start : start + 5]).all() and (row[5:] == F[start]).all()
    for at, start in ((64, 0), (64 + 16, 8)):
        assert (r[at : at + 8] == [-1, *F[start : start + 6], -1]).all()
    assert (r[128:192] == F[:64]).all() and (r[192:256] == F[128:192]).all()
    for burst in range(4):
        assert (r[256 + 24 * burst :][:8] == F[16 * burst :][:8]).all()
        assert burst == 3 or (r[256 + 24 * burst + 8 :][:16] == 0).all()
    assert (r[384:454] == F[:70] + 1).all() and (r[454:512] == 0).all()
    bits = np.array([0xF0F0 >> i & 1 for i in range(64)], bool)
    assert (r[512:576] == np.where(bits, F[:64] + 1, 0)).all()
    ends = np.isin(np.arange(64), (0, 63))
    assert (r[576:640] == np.where(ends, 2 * F[:64], 0)).all()
    halves = (INTS * 0.5).astype(np.float32)
    assert (r[640:704] == halves).all()
    assert (r[704:768] == np.clip(np.rint(halves), -8, 7)).all()
    assert (r[768:832] == F[:64] + F[64:128]).all()
    assert list(r[832:839]) == [12, 63, 3, 2, 1.75, 1, 4]
    products = H[:64].astype(np.float32) * H[64:128].astype(np.float32)
    assert (r[896:960] == products).all()
    assert (r[960:1024] == 2 * H[:64].astype(np.float32)).all()
