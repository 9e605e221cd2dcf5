# SPDX-License-Identifier: Apache-2.0
"""Sorting, merging and proposal methods: both engines, and NumPy formulas of the same thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels2 import GUARD, run_kernel

QUIET = {"deadline": None, "max_examples": 12, "suppress_health_check": list(HealthCheck)}
SEEDS = st.integers(0, 2**20)
DTYPES = st.sampled_from(["float16", "float32"])


def scores(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Few distinct values, so that ties are common, and now and then NaN and infinities."""
    x = rng.integers(-6, 6, count).astype(dtype)
    odd = rng.random(count) < 0.15
    x[odd] = rng.choice([np.nan, np.inf, -np.inf, -0.0], odd.sum())
    return x


def descending(x: np.ndarray) -> list[int]:
    """Places in descending order, NaN last, ties in order: the rule, written a second time."""
    return sorted(range(len(x)), key=lambda i: (np.isnan(x[i]), 0 if np.isnan(x[i]) else -float(x[i])))


def proposals(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    boxes = np.zeros((count, 8), dtype)
    boxes[:, :2] = rng.integers(0, 12, (count, 2))
    boxes[:, 2:4] = boxes[:, :2] + rng.integers(0, 8, (count, 2))
    boxes[:, 4] = scores(rng, dtype, count)
    boxes[:, 5] = np.arange(count)
    return boxes


@settings(**QUIET)
@given(SEEDS, DTYPES, st.integers(1, 3), st.integers(0, 5))
def test_vconcat_and_vextract(seed, dtype, repeat, field):
    rng = np.random.default_rng(seed)
    box, value = proposals(rng, dtype, 16 * repeat), np.arange(16 * repeat).astype(dtype)

    def body(t, k):
        t.vextract(k.y, k.box, repeat, field)
        t.vconcat(k.box, k.value, repeat, field)
        t.vec_add(
            64,
            k.z,
            k.box,
            k.zero,
            16 * repeat * 8 // 64,
            8 if dtype == "float32" else 4,
            8 if dtype == "float32" else 4,
            0,
        )

    count = repeat * 128
    out = run_kernel(
        body,
        {"box": box, "value": value, "zero": np.zeros(128, dtype)},
        {"y": (dtype, 16 * repeat), "z": (dtype, count)},
        saturate=False,
    )
    assert np.array_equal(out["y"], box[:, field], equal_nan=True)
    changed = box.copy()
    changed[:, field] = value
    assert np.array_equal(out["z"].reshape(-1, 8), changed + dtype_zero(dtype), equal_nan=True)


def dtype_zero(dtype: str) -> Any:
    return np.zeros(1, dtype)[0]


@settings(**QUIET)
@given(SEEDS, DTYPES, st.integers(1, 4))
def test_vrpsort16(seed, dtype, repeat):
    box = proposals(np.random.default_rng(seed), dtype, 16 * repeat)
    y = run_kernel(lambda t, k: t.vrpsort16(k.y, k.box, repeat), {"box": box}, {"y": (dtype, box.size)})["y"]
    groups = [g[descending(g[:, 4])] for g in box.reshape(repeat, 16, 8)]
    assert np.array_equal(y.reshape(-1, 8), np.concatenate(groups), equal_nan=True)


def sorted_boxes(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    box = proposals(rng, dtype, count)
    return box[descending(box[:, 4])]


@settings(**QUIET)
@given(SEEDS, DTYPES, st.lists(st.integers(1, 9), min_size=2, max_size=4), st.booleans())
def test_vmrgsort4(seed, dtype, lengths, suspend):
    rng = np.random.default_rng(seed)
    lists = [sorted_boxes(rng, dtype, n) for n in lengths]
    feed = {f"x{i}": box for i, box in enumerate(lists)}
    valid = (1 << len(lists)) - 1
    total = sum(lengths)

    def body(t, k):
        taken = t.ScalarArray("int32", 4, "taken")
        sources = [getattr(k, f"x{i}") for i in range(len(lists))]
        state = t.vmrgsort4(k.y, sources, lengths, suspend, valid, 1, taken)
        again = [t.Scalar("int64", f"s{i}") for i in range(4)]
        t.mov_vmrgsort4_sr_to_scalar(again, state)
        for i in range(4):
            k.n[i].set_as(taken[i])
            k.n[4 + i].set_as(again[i])

    out = run_kernel(body, feed, {"y": (dtype, total * 8), "n": ("int32", 8)}, saturate=False)
    rows, taken = merged(lists, suspend)
    assert list(out["n"]) == [*taken, *[0] * (4 - len(lists))] * 2
    y = out["y"].reshape(-1, 8)
    assert np.array_equal(y[: len(rows)], np.array(rows), equal_nan=True)
    assert (y[len(rows) :] == GUARD).all()


def merged(lists: list[np.ndarray], suspend: bool) -> tuple[list, list[int]]:
    """Stable merge by sorting everything, cut after the record that empties a list."""
    tagged = [
        (np.isnan(b[4]), 0 if np.isnan(b[4]) else -float(b[4]), i, n)
        for i, box in enumerate(lists)
        for n, b in enumerate(box)
    ]
    out, taken = [], [0] * len(lists)
    for _, _, i, n in sorted(tagged):
        out.append(lists[i][n])
        taken[i] += 1
        if suspend and taken[i] == len(lists[i]):
            break
    return out, taken


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910A", "Ascend310P3"])
def test_sort_of_256_proposals_by_a_pyramid(soc):
    rng = np.random.default_rng(3)
    box = proposals(rng, "float16", 256)
    box[:, 4] = rng.permutation(256)

    def body(t, k):
        t.vrpsort16(k.y, k.box, 16)
        t.vmrgsort4(k.box, [k.y[i * 128] for i in range(4)], 16, False, 15, 4)
        t.vmrgsort4(k.y, [k.box[i * 512] for i in range(4)], (64, 64, 64, 64), False, "1111", 1)

    y = run_kernel(body, {"box": box}, {"y": ("float16", 2048)}, soc)["y"].reshape(256, 8)
    assert np.array_equal(y[:, 4], np.arange(255, -1, -1))
    assert np.array_equal(y, box[np.argsort(-box[:, 4].astype(float))])


@settings(**QUIET)
@given(SEEDS, DTYPES, st.integers(1, 3))
def test_vsort32_and_vmrgsort(seed, dtype, repeat):
    rng = np.random.default_rng(seed)
    x, index = scores(rng, dtype, 128), rng.permutation(128).astype(np.uint32)
    per_record = 8 // np.dtype(dtype).itemsize

    def body(t, k):
        t.vsort32(k.y, k.x, k.index, 4)
        lists = [k.y[i * 32 * per_record] for i in range(4)]
        t.vmrgsort(k.z, lists[: repeat + 1], [32] * (repeat + 1), False, 1)

    out = run_kernel(
        body, {"x": x, "index": index}, {"y": (dtype, 128 * per_record), "z": (dtype, 128 * per_record)}, "Ascend910B1"
    )
    for g in range(4):
        rows = out["y"].view(np.uint8).reshape(128, 8)[g * 32 : g * 32 + 32]
        order = descending(x[g * 32 : g * 32 + 32])
        check_records(rows, x[g * 32 :][order], index[g * 32 :][order], dtype)
    count = 32 * (repeat + 1)
    order = descending(x[:count])
    check_records(out["z"].view(np.uint8).reshape(128, 8)[:count], x[order], index[order], dtype)


def check_records(rows: np.ndarray, value: np.ndarray, index: np.ndarray, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    assert np.array_equal(np.ascontiguousarray(rows[:, :size]).view(dtype)[:, 0], value, equal_nan=True)
    assert np.array_equal(np.ascontiguousarray(rows[:, 4:]).view(np.uint32)[:, 0], index)
    assert size == 4 or not rows[:, 2:4].any()


@pytest.mark.parametrize("offset", [None, 0.0, 1.0, 0.5], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_areas_and_overlaps(dtype, offset):
    rng = np.random.default_rng(4)
    a, c = proposals(rng, dtype, 32), proposals(rng, dtype, 16)

    def body(t, k):
        if offset is not None:
            t.set_rpn_offset(offset, dtype)
        t.vrpac(k.area, k.a, 2)
        t.vrpac(k.other, k.c, 1)
        t.viou(k.cross, k.a, k.c, 2)
        t.vaadd(k.both, k.area, k.other, 2)

    out = run_kernel(
        body, {"a": a, "c": c}, {"area": (dtype, 32), "other": (dtype, 16), "cross": (dtype, 512), "both": (dtype, 512)}
    )
    extra = 1.0 if offset is None else offset
    x, y = a.astype(np.float64), c.astype(np.float64)
    area, other = (np.prod(v[:, 2:4] - v[:, :2] + extra, axis=1) for v in (x, y))
    assert np.array_equal(out["area"], area) and np.array_equal(out["other"], other)
    low, high = (f(x[:, None, s], y[None, :, s]) for f, s in ((np.maximum, slice(0, 2)), (np.minimum, slice(2, 4))))
    cross = np.prod(np.maximum(high - low + extra, 0), axis=2)
    assert np.array_equal(out["cross"].reshape(32, 16), cross)
    assert np.array_equal(out["both"].reshape(32, 16), area[:, None] + other[None])


def suppressed(box: np.ndarray, threshold: float) -> list[bool]:
    """Greedy non-maximum suppression of boxes in order: IoU > t, as intersection > sum of areas * t / (1 + t)."""
    gone = [False] * len(box)
    area = np.prod(box[:, 2:4] - box[:, :2] + 1, axis=1)
    for j in range(len(box)):
        for i in range(j):
            sides = np.minimum(box[i, 2:4], box[j, 2:4]) - np.maximum(box[i, :2], box[j, :2]) + 1
            if not gone[i] and np.prod(np.maximum(sides, 0)) > (area[i] + area[j]) * threshold:
                gone[j] = True
    return gone


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
def test_non_maximum_suppression(groups, soc):
    """The suppression helpers as kernels in the field combine them: rows of earlier boxes, then the diagonal."""
    rng = np.random.default_rng(groups)
    box = proposals(rng, "float16", 16 * groups)
    threshold = 0.25

    def body(t, k):
        t.vrpac(k.area, k.box, groups)
        for j in range(groups):
            t.viou(k.cross, k.box, k.box[j * 128], j + 1)
            t.vaadd(k.both, k.area, k.area[j * 16], j + 1)
            t.vec_muls(128, k.both, k.both, threshold, 2 * (j + 1), 8, 8)
            t.vcmpv_gt(k.matrix, k.cross, k.both, 2 * (j + 1), 1, 1, 8, 8)
            state = t.set_rpn_cor_ir(0)
            if j:
                state = t.rpn_cor(k.matrix, k.vector, 1, 1, j)
            t.rpn_cor_diag(k.vector[j * 16], k.matrix[j * 16], state)
            bits = t.Scalar("uint16", "bits")
            t.mov_rpn_cor_ir_to_scalar(bits, state)
            k.bits[j].set_as(bits)

    square = 256 * groups
    out = run_kernel(
        body,
        {"box": box},
        {
            "area": ("float16", 16 * groups),
            "cross": ("float16", square),
            "both": ("float16", square),
            "matrix": ("uint16", 16 * groups),
            "vector": ("uint16", 16 * groups),
            "bits": ("uint16", 16),
        },
        soc,
    )
    want = suppressed(box.astype(np.float32), threshold)
    assert [bool(v) for v in out["vector"]] == want
    assert any(want) and not all(want)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "uint16"])
def test_vmrgch(dtype):
    per_block = 32 // np.dtype(dtype).itemsize
    x = (np.arange(16 * per_block) % 100).astype(dtype)
    soc = "Ascend910A"
    y = run_kernel(lambda t, k: t.vmrgch(k.y, k.x, 2), {"x": x}, {"y": (dtype, 64)}, soc)["y"]
    assert np.array_equal(y, x.reshape(16, per_block)[:, :4].reshape(-1))
