# SPDX-License-Identifier: Apache-2.0
"""Matmul of lib/matmul_intf.h: vector cores ask, the cube core of their block computes."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops
from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

HERE = Path(__file__).parent
HALF, BFLOAT, FLOAT = np.float16, ml_dtypes.bfloat16, np.float32
TYPES = ((HALF, FLOAT, FLOAT), (HALF, HALF, HALF), (BFLOAT, BFLOAT, FLOAT), (FLOAT,) * 3, (np.int8, np.int32, np.int32))
ALL, BLOCKS, FROM_UB, BATCH, ATOMIC, ASYNC, NEVER, BATCH_NUMBER = range(8)
FIELDS = re.findall(
    r"MCO_CUBE_FIELD\((\w+)\)",
    (Path(ms_custom_ops.__file__).parent / "ascendc/include_host/mco_host/cube_tiling_fields.inc").read_text(),
)


@pytest.fixture(scope="module")
def mm():
    return ascendc.build(HERE / "matmul.cpp", entry="mm")


def plan(m, n, k, base=(32, 32, 32), cores=(1, 1), mode=ALL, transposed=(0, 0), batch=1, order=0) -> bytes:
    values = {
        "usedCoreNum": cores[0] * cores[1], "M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": -(-m // cores[0]),
        "singleCoreN": -(-n // cores[1]), "singleCoreK": k, "baseM": base[0], "baseN": base[1], "baseK": base[2],
        "iterateOrder": order, "depthA1": 1, "depthB1": 1, "stepM": 1, "stepN": 1,
    }  # fmt: skip
    return np.array([*(values.get(f, 0) for f in FIELDS), mode, *transposed, batch], np.int32).tobytes()


def given(types: int, m: int, n: int, k: int, batch: int = 1):
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-4, 5, (batch, m, k)), rng.integers(-4, 5, (k, n))
    dtype, out, bias = TYPES[types]
    return a.astype(dtype), b.astype(dtype), np.arange(n).astype(bias), np.zeros((batch, m, n), out), a @ b


def call(mm, types, m, n, k, bias=False, blocks=1, **how):
    transposed = how.get("transposed", (0, 0))
    a, b, v, c, exact = given(types, m, n, k, how.get("batch", 1))
    a = np.ascontiguousarray(a.swapaxes(1, 2)) if transposed[0] else a
    b = np.ascontiguousarray(b.T) if transposed[1] else b
    mm(blocks, a, b, v if bias else None, c, tiling=plan(m, n, k, **how), tiling_key=types)
    return c, exact + (np.arange(n) if bias else 0)


@pytest.mark.parametrize("transposed", ((0, 0), (0, 1), (1, 0), (1, 1)))
@pytest.mark.parametrize("types", range(5))
def test_types_and_transposes(mm, types, transposed):
    for m, n, k in ((64, 64, 64), (35, 50, 77)):
        c, exact = call(mm, types, m, n, k, transposed=transposed, bias=types != 2 or not any(transposed))
        assert np.array_equal(c, exact.astype(c.dtype)), (m, n, k)


@pytest.mark.parametrize("options", ({}, {"order": 1}, {"mode": BLOCKS}, {"mode": ATOMIC}))
def test_cores_share_a_product(mm, options):
    double = 2 if options.get("mode") else 1
    c, exact = call(mm, 0, 90, 120, 40, blocks=2, cores=(2, 2), **options)
    assert np.array_equal(c, exact * double)


@pytest.mark.parametrize("mode", [BATCH, BATCH_NUMBER], ids=["arguments", "SetBatchNum"])
def test_batches(mm, mode):
    c, exact = call(mm, 0, 20, 24, 40, mode=mode, batch=3)
    assert np.array_equal(c, exact)


def test_blocks_one_behind_the_other(mm):
    c, exact = call(mm, 0, 64, 96, 40, mode=ASYNC)
    blocks = exact[0].reshape(2, 32, 3, 32).transpose(2, 0, 1, 3)
    assert np.array_equal(c.ravel(), blocks.ravel())


def test_operands_in_ub(mm):
    a, b, _, c, _ = given(0, 32, 64, 48)
    mm(1, a, b, None, c, tiling=plan(32, 64, 48, mode=FROM_UB))
    assert np.array_equal(c, (a * a).astype(FLOAT) @ b.astype(FLOAT))


def test_operands_in_ub_checked(mm):
    a, b, _, c, _ = given(0, 32, 64, 48)
    report = mm.check(1, a, b, None, c, tiling=plan(32, 64, 48, mode=FROM_UB), outputs=[c])
    assert report.ok, str(report)
    assert np.array_equal(c, (a * a).astype(FLOAT) @ b.astype(FLOAT))


def test_operands_in_ub_timed(mm):
    """The cube core works when it is asked; what it takes and gives goes through GM."""
    a, b, _, c, _ = given(0, 32, 64, 48)
    p = mm.profile(1, a, b, None, c, tiling=plan(32, 64, 48, mode=FROM_UB))
    assert np.array_equal(c, (a * a).astype(FLOAT) @ b.astype(FLOAT))
    assert p.macs == 32 * 64 * 48
    assert p.pipe("S").stalls["flag of another core"] > p.pipe("M").busy
    assert p.pipe("FIX").busy >= 32 * 64 * 4 / p.chip.values["fix_gm"]


def test_reverse_and_threads_give_the_same(mm):
    for options in ({"reverse": True}, {"threads": 1}, {"threads": 2, "reverse": True}):
        a, b, _, c, exact = given(0, 90, 120, 40)
        mm(3, a, b, None, c, tiling=plan(90, 120, 40, cores=(2, 3)), tiling_key=0, **options)
        assert np.array_equal(c, exact)


def test_what_is_refused(mm):
    a, b, _, c, _ = given(0, 512, 512, 512)
    with pytest.raises(AscendcError, match=r"Init: baseM x baseN takes 262144 bytes of L0C; accepted: at most 131072"):
        mm(1, a, b, None, c, tiling=plan(512, 512, 512, base=(256, 256, 64)), tiling_key=0)
    with pytest.raises(AscendcError, match=r"Init: baseM, baseN, baseK are 0, 32, 32; accepted: 1 or more"):
        mm(1, a, b, None, c, tiling=plan(512, 512, 512, base=(0, 32, 32)), tiling_key=0)
    with pytest.raises(AscendcError, match=r"AIC core 0: Matmul::IterateAll: src needs .*matmul\.cpp:\d+"):
        mm(1, a[:, :8], b, None, c, tiling=plan(512, 512, 512), tiling_key=0)


def test_who_waits_for_whom(mm):
    a, b, _, c, _ = given(0, 32, 32, 32)
    with pytest.raises(AscendcError) as caught:
        mm(1, a, b, None, c, tiling=plan(32, 32, 32, mode=NEVER), tiling_key=0)
    text = str(caught.value)
    for words in (
        r"AIC core 0 waits in REGIST_MATMUL_OBJ: for work of the vector cores of its block \[.*matmul\.cpp:\d+\]",
        r"AIV core 0 waits in CrossCoreWaitFlag: for flag 5 \[.*matmul\.cpp:\d+\]",
        "ended: AIV core 1",
    ):
        assert re.search(words, text), text
