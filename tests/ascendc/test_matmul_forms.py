# SPDX-License-Identifier: Apache-2.0
"""Rarer forms of Matmul: tilings of constants, partial sums, blocks through a workspace, batches of batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc
from test_matmul import FIELDS

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
WHOLE, MIXED, PARTIAL, TWO_SUMS, ATOMIC_BLOCKS, WORKSPACE, ASYNC, BATCHES, BATCHES_UB, TAKEN = range(10)
SOURCE = Path(__file__).with_name("matmul_forms.cpp")


@pytest.fixture(scope="module")
def forms():
    return ascendc.build(SOURCE, entry="forms")


def call(forms, form, m, n, k, base=(32, 32, 32), parts=1, batch=1, blocks=1, c=None, **options):
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-4, 5, (batch, m, k)).astype(np.float16), rng.integers(-4, 5, (batch, k, n)).astype(np.float16)
    b = b[: parts if batch > 1 else 1]
    values = {
        "usedCoreNum": 1, "M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": m, "singleCoreN": n, "singleCoreK": k,
        "baseM": base[0], "baseN": base[1], "baseK": base[2],
    }  # fmt: skip
    tiling = np.array([*(values.get(f, 0) for f in FIELDS), parts, 0], np.int32)
    c = np.zeros((batch, m, n), np.float32) if c is None else c
    work = np.zeros((batch, m, n), np.float32)
    exact = np.matmul(a.astype(np.float32), np.repeat(b, batch // len(b), 0).astype(np.float32))
    forms(blocks, a, b, c, work, tiling, form, **options)
    return c, exact


def test_a_tiling_of_constants(forms):
    c, exact = call(forms, WHOLE, 48, 40, 72, base=(1, 1, 1))  # nothing of the tiling counts
    assert np.array_equal(c, exact)


def test_base_blocks_of_constants(forms):
    """Base blocks and their order are constants, this core's part comes at run time."""
    c, exact = call(forms, MIXED, 64, 32, 72, base=(1, 1, 1))
    assert np.array_equal(c.ravel(), exact[0].reshape(2, 32, 2, 16).transpose(0, 2, 1, 3).ravel())


@pytest.mark.parametrize("shape", [(32, 32, 96, 3), (17, 21, 80, 5), (32, 8, 32, 1)])
def test_partial_sums(forms, shape):
    m, n, k, parts = shape
    c, exact = call(forms, PARTIAL, m, n, k, parts=parts)
    assert np.array_equal(c, exact)


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"deterministic": True}])
def test_each_object_keeps_its_sum(forms, options):
    """Two objects in each of two vector cores; both cores do the same."""
    m, n, k, parts = 20, 24, 64, 4
    c, exact = call(forms, TWO_SUMS, m, n, k, parts=parts, c=np.zeros((1, m, n), np.float32), **options)
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    short = a[:, : k - k // parts] @ b[: k - k // parts]
    # C is stored, then added to, by each of the cores, in an order that is not theirs alone.
    seen = {0: exact[0] + short, 1: exact[0] + 2 * short}
    assert any(np.array_equal(c[0], value) for value in seen.values())


def test_iterate_computes_at_once(forms):
    c, exact = call(forms, TAKEN, 32, 24, 48)
    assert np.array_equal(c, exact)


def test_blocks_added_in_gm(forms):
    start = np.arange(90 * 70, dtype=np.float32).reshape(1, 90, 70)
    c, exact = call(forms, ATOMIC_BLOCKS, 90, 70, 40, c=start.copy())
    assert np.array_equal(c, start + exact)
    c, exact = call(forms, ATOMIC_BLOCKS, 30, 20, 40, c=start[:, :30, :20].copy())
    assert np.array_equal(c, start[:, :30, :20] + exact)


@pytest.mark.parametrize("form", [WORKSPACE, ASYNC], ids=["workspace", "UB"])
def test_blocks_without_waiting(forms, form):
    c, exact = call(forms, form, 64, 96, 40)
    blocks = exact[0].reshape(2, 32, 3, 32).transpose(2, 0, 1, 3)
    assert np.array_equal(c.ravel(), blocks.ravel())


@pytest.mark.parametrize("form", [BATCHES, BATCHES_UB], ids=["workspace", "UB"])
def test_batches_of_batches(forms, form):
    c, exact = call(forms, form, 20, 24, 40, parts=3, batch=6)
    assert np.array_equal(c, 2 * exact)


REFUSED = [
    (20, r"Matmul::Init: the tiling is null; accepted: one of the host, or constants of GetMatmulApiTiling"),
    (21, r"Matmul::Iterate: enPartialSum is true and there is no sum; accepted: after an Iterate\(false\)"),
    (22, r"Matmul::Iterate: enPartialSum is true without sync; accepted: Iterate<true>"),
    (23, r"Matmul::Iterate: enPartialSum is true, this core's part is 33 x 20 and a base block 32 x 32; accepted: a"),
    (24, r"Matmul::GetTensorC: there is no workspace; accepted: SetWorkspace before"),
    (25, r"Matmul::Iterate: enPartialSum is true and a bias is set; accepted: ClearBias before"),
    (26, r"Matmul::Iterate: enPartialSum is true for a block of 31 x 20, the sum has 32 x 20; accepted: one shape"),
    (27, r"Matmul::GetBatchTensorC: a row of C has 12 bytes in UB; accepted: whole blocks of 32 bytes, or .*ND_ALIGN"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "text"), REFUSED)
def test_what_is_refused(forms, form, text):
    with pytest.raises(AscendcError, match=text):
        call(forms, form, 32, 3 if form == 27 else 20, 16)


UNBUILT = [
    ("Matmul<A, A, C, C, kOuter> mm; mm.Iterate();", "OUTER_PRODUCT is not accepted; accepted: INNER_PRODUCT"),
    ("Matmul<A, A, C> mm; mm.SetSparseIndex(x);", "sparse products are not accepted; accepted: dense A and B"),
    ("Matmul<A, A, Nz> mm; mm.IterateNBatch(1, 1, 1, false);", "format of C is not accepted; accepted: ND, ND_ALIGN"),
    ("Matmul<L, L, L> mm; mm.IterateNBatch(1, 1, 1, false);", "the layout is not accepted; accepted: NONE, NORMAL"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "text"), UNBUILT)
def test_what_does_not_compile(tmp_path, body, text):
    source = tmp_path / "refused.cpp"
    source.write_text(f"""#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;
using A = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using C = MatmulType<TPosition::GM, CubeFormat::ND, float>;
using Nz = MatmulType<TPosition::GM, CubeFormat::NZ, float>;
using L = MatmulType<TPosition::GM, CubeFormat::ND, half, false, LayoutMode::BSNGD>;
constexpr MatmulConfig kOuter = GetNormalConfig(false, false, false, BatchMode::NONE, true, IterateOrder::ORDER_M,
                                                ScheduleType::OUTER_PRODUCT);
extern "C" __global__ __aicore__ void refused(GM_ADDR x) {{ {body} }}
""")
    with pytest.raises(AscendcBuildError, match=text):
        ascendc.build(source, entry="refused")
