#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs public Ascend C kernels, unmodified, from a folder and compares them with their formulas.

usage: python scripts/ascendc_kernels.py FOLDER [--list] [NAME ...]

Nothing is fetched: FOLDER holds checkouts, under any names, of the repositories in the table below. A kernel whose file
is not there is skipped by name. Exits with the number of kernels that are wrong or fail.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import ascendc_driving  # noqa: F401  registers its kernels
import ascendc_launches  # noqa: F401
import ascendc_points  # noqa: F401
import ascendc_scans  # noqa: F401
import ascendc_serving  # noqa: F401
import ascendc_tasks  # noqa: F401
import numpy as np
from ascendc_public import KERNELS, RNG, Missing, find, half, kernel, same, single

import ms_custom_ops as mco

LISTED = """add add_tile add_project add_asc trig_asc tril triu lerp xlogy get_row dup quantize_q8 quantize_q4 bgmv
rotary reshape_and_cache matmul_310p row_scan matmul_project""".split()
"""The 14 entries of the list of kernels to try, some of which hold several."""

SAMPLES = "4_op_dev/6_ascendc_custom_op"


@kernel
def add(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, f"{SAMPLES}/kernel_invocation/Add/add_custom.cpp"), entry="add_custom")
    x, y, z = half(8, 2048), half(8, 2048), half(8, 2048)
    run(8, x, y, z)
    same(z, x + y)


@kernel
def add_tile(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, f"{SAMPLES}/kernel_invocation/Add_tile/add_custom.cpp"), entry="add_custom")
    x, y, z = half(8, 2048), half(8, 2048), half(8, 2048)
    run(8, x, y, z, tiling=np.array([8, 8 * 2048, 8], np.uint32))
    same(z, x + y)


@kernel
def add_project(folder: Path) -> None:
    ops = mco.ascendc.load_project(find(folder, f"{SAMPLES}/acl_invocation/op_dev"))
    x, y = half(8, 2048), half(8, 2048)
    same(ops["AddCustom"](x, y), x + y)


@kernel
def add_asc(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, "cpp_extension_asc/csrc/add_custom.asc"), entry="add_custom")
    x, y = RNG.integers(-99, 99, (2, 8 * 2048)).astype(np.int32)
    z = np.zeros_like(x)
    run(8, x, y, z, z.size)
    same(z, x + y)


@kernel
def trig_asc(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, "cpp_extension_asc/csrc/trig_inplace_custom.asc"), entry="trig_inplace_custom")
    x = single(8 * 2048)
    s, c, t = np.zeros((3, x.size), np.float32)
    given = x.copy()
    run(8, x, s, c, t, x.size)
    for got, wanted in ((s, np.sin(given)), (c, np.cos(given)), (t, np.tan(given))):
        same(got, wanted, 1e-5, 1e-6)


def _op(folder: Path, end: str, name: str) -> Callable:
    return mco.ascendc.load_project(find(folder, end))[name]


@kernel
def tril(folder: Path) -> None:
    x = half(2, 100, 200)
    same(_op(folder, "Tril/FrameworkLaunch", "Tril")(x, diagonal=0), np.tril(x))


@kernel
def triu(folder: Path) -> None:
    x = half(2, 100, 200)
    same(_op(folder, "Triu/FrameworkLaunch/Triu", "Triu")(x, diagonal=0), np.triu(x))


@kernel
def lerp(folder: Path) -> None:
    start, end, weight = half(64, 128), half(64, 128), half(64, 128)
    wanted = start.astype(np.float32) + weight.astype(np.float32) * (end.astype(np.float32) - start.astype(np.float32))
    same(_op(folder, "Lerp", "Lerp")(start, end, weight), wanted, 2e-3, 2e-3)


@kernel
def xlogy(folder: Path) -> None:
    x, y = single(64, 128), np.abs(single(64, 128)) + 0.1
    x[0] = 0
    same(_op(folder, "Xlogy/Framework", "Xlogy")(x, y), np.where(x == 0, 0, x * np.log(y)), 1e-4, 1e-4)


def _shape(*sizes: int) -> np.ndarray:
    return np.array([*sizes, *[1] * (4 - len(sizes))], np.int64)


def _strides(shape: np.ndarray, size: int) -> np.ndarray:
    return np.array([size, *(size * np.cumprod(shape)[:3])], np.int64)


GGML = "ggml-cann/kernels"


@kernel
def get_row(folder: Path) -> None:
    for dtype, name in ((np.float32, "f32"), (np.float16, "f16")):
        run = mco.ascendc.build(find(folder, f"{GGML}/get_row_{name}.cpp"), entry=f"ascendc_get_row_{name}")
        table, index = RNG.normal(size=(64, 256)).astype(dtype), RNG.integers(0, 64, 10).astype(np.int32)
        out = np.zeros((10, 256), np.float32)
        shapes = [_shape(256, 64), _shape(10), _shape(256, 10)]
        sizes = (table.itemsize, 4, 4)
        pairs = [part for shape, size in zip(shapes, sizes, strict=True) for part in (shape, _strides(shape, size))]
        run(4, table, index, out, *pairs)
        same(out, table[index])


@kernel
def dup(folder: Path) -> None:
    for source, target, name in (
        (np.float16, np.float16, "fp16"),
        (np.float32, np.float32, "fp32"),
        (np.float32, np.float16, "fp32_to_fp16"),
        (np.float16, np.float32, "fp16_to_fp32"),
    ):
        run = mco.ascendc.build(find(folder, f"{GGML}/dup.cpp"), entry=f"ascendc_dup_by_rows_{name}")
        x = RNG.normal(size=(10, 64)).astype(source)
        out = np.zeros((10, 64), target)
        shape = _shape(64, 10)
        run(10, x, out, shape, _strides(shape, x.itemsize), shape, _strides(shape, out.itemsize))
        same(out, x.astype(target))


@kernel
def quantize_q8(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, f"{GGML}/quantize_f32_q8_0.cpp"), entry="ascendc_quantize_f32_q8_0")
    x = single(4, 256)
    out = np.zeros(x.size + 2 * x.size // 32, np.int8)
    shape = _shape(256, 4)
    run(2, x, out, shape, _strides(shape, 4), shape)
    groups = x.reshape(-1, 32)
    scale = (np.abs(groups).max(1) / np.float32(127)).astype(np.float32)
    scaled = groups * (np.float32(1) / scale)[:, None]
    same(out[: x.size], (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).ravel())
    same(out[x.size :].view(np.float16), scale.astype(np.float16))


@kernel
def quantize_q4(folder: Path) -> None:
    run = mco.ascendc.build(find(folder, f"{GGML}/quantize_float_to_q4_0.cpp"), entry="ascendc_quantize_f32_to_q4_0")
    x = single(4, 256)
    out = np.zeros(x.size // 2 + 2 * x.size // 32, np.uint8)
    shape = _shape(256, 4)
    run(2, x, out, shape, _strides(shape, 4), shape)
    groups = x.reshape(-1, 32)
    extreme = groups[np.arange(len(groups)), np.abs(groups).argmax(1)]
    scale = (extreme / np.float32(-8)).astype(np.float32)
    q = np.minimum(15, np.floor(groups * (np.float32(1) / scale)[:, None] + np.float32(8.5))).astype(np.int64) - 8
    pairs = (q & 15).reshape(-1, 2)
    same(out[: x.size // 2], (pairs[:, 0] | pairs[:, 1] << 4))
    same(out[x.size // 2 :].view(np.float16), scale.astype(np.float16))


def _bits(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@kernel
def bgmv(folder: Path) -> None:
    shrink, expand = find(folder, "csrc/kernels/bgmv_shrink.cpp"), find(folder, "csrc/kernels/bgmv_expand.cpp")
    for hidden, rank in ((512, 8), (1024, 16), (4096, 64)):
        x, w = half(4, hidden), half(3, rank, hidden)
        index = np.array([0, 2, -1, 1], np.int64)
        y = np.zeros((4, rank), np.float32)
        mco.ascendc.build(shrink, entry="bgmv_shrink_half")(2, x, w, index, 4, y, 4, 2, hidden, rank, 0.5)
        wanted = np.stack([0.5 * w[i].astype(np.float32) @ row.astype(np.float32) if i >= 0 else np.zeros(rank)
                           for i, row in zip(index, x, strict=True)])  # fmt: skip
        same(y, wanted, 1e-3, 2e-2)
        slice_size, full, offset = 128, 512, 64
        x2, w2, base = single(4, rank), half(3, slice_size, rank), half(4, full)
        out = base.copy()
        mco.ascendc.build(expand, entry="bgmv_expand_half")(
            2, x2, w2, index, 4, base, out, 4, 2, rank, slice_size, offset, full
        )
        wanted = base.astype(np.float32)
        for i, row in enumerate(x2):
            if index[i] >= 0:
                wanted[i, offset : offset + slice_size] += w2[index[i]].astype(np.float32) @ row
        same(out, wanted, 2e-3, 2e-2)


@kernel
def rotary(folder: Path) -> None:
    """In float32: in float16 it writes offsets of 32 bits into a buffer that holds as many of 16."""
    op = mco.ascendc.load_project(find(folder, "ops/ascendc/aclnn_src"), soc="Ascend310P3")["ApplyRotaryPosEmbMS"]
    shapes = (7, 4, 64), (7, 2, 64), (7, 32), (7, 32)
    query, key, cos, sin = (RNG.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
    got = op(query, key, cos, sin, layout=1, rotary_mode="interleave")
    c, s = cos[:, None], sin[:, None]
    for x, out in zip((query, key), got, strict=True):
        even, odd = x[..., ::2], x[..., 1::2]
        same(out, np.stack((even * c - odd * s, odd * c + even * s), axis=-1).reshape(x.shape), 1e-5, 1e-6)


@kernel
def reshape_and_cache(folder: Path) -> None:
    """Tokens into a paged cache, and the pages of requests that are no decodes out of it, in both layouts."""
    op = mco.ascendc.load_project(find(folder, "ops/ascendc/aclnn_src"))["ReshapeAndCacheNpd"]
    pages, size, heads, width = 6, 4, 2, 16
    query, kept = np.array([3, 1]), np.array([10, 5])
    table = np.array([[3, 1, 0], [2, 5, 4]], np.int32)
    slots = np.array([table[b][p // size] * size + p % size for b, p in ((0, 7), (0, 8), (0, 9), (1, 4))], np.int32)
    for layout, shape in (("BSND", (pages, size, heads, width)), ("BNSD", (pages, heads, size, width))):
        tokens, caches = (half(4, heads * width), half(4, heads * width)), (half(*shape), half(*shape))
        wanted = [cache.copy() for cache in caches]
        out = op(*tokens, *caches, slots, query, kept, table, kv_cache_layout=layout, key_value_layout="TH")
        for new, cache, want, got in zip(tokens, caches, wanted, out, strict=True):
            rows = want if layout == "BSND" else want.swapaxes(1, 2)  # a view
            for slot, token in zip(slots, new, strict=True):
                rows[slot // size, slot % size] = token.reshape(heads, width)
            same(cache, want)
            same(got[: 3 * size], rows[table[0]].reshape(3 * size, heads * width))


@kernel
def matmul_310p(folder: Path) -> None:
    path = find(folder, f"{SAMPLES}/kernel_invocation/MatMul/matmul_custom.cpp")
    run = mco.ascendc.build(path, entry="matmul_custom", soc="Ascend310P3")  # written for cores that are one
    a, b = RNG.integers(-4, 5, (2, 32, 32)).astype(np.float16)
    c = np.zeros((32, 32), np.float32)
    run(1, a, b, c)
    same(c, a.astype(np.float32) @ b.astype(np.float32))


@kernel
def matmul_project(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as project:  # op_host of its other ops is for another chip
        for name in ("op_host/matmul_at_fp32.cpp", "op_host/matmul_at_fp32_tiling.h", "op_kernel/matmul_at_fp32.cpp"):
            copy = Path(project) / name
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(find(folder, f"ascendfaiss/ops/ascendc/{name}"), copy)
        a, b = single(64, 32), single(32, 128)
        product = mco.ascendc.load_project(project)["MatmulAtFP32"]
        same(product(a, b, out_shapes=[(64, 128)]), a @ b, 1e-5, 1e-5)  # its InferShape gives the shape of a


@kernel
def token_bitmask(folder: Path) -> None:
    path = find(folder, "apply_token_bitmask/op_kernel/apply_token_bitmask.cpp")
    run = mco.ascendc.build(path, entry="apply_token_bitmask_fp32")
    rows, vocabulary = 7, 1024
    logits, words = single(rows, vocabulary), RNG.integers(-(2**31), 2**31, (rows, vocabulary // 32)).astype(np.int32)
    kept = (words.view(np.uint32)[:, :, None] >> np.arange(32, dtype=np.uint32) & 1).reshape(rows, vocabulary)
    wanted = np.where(kept == 1, logits, -np.inf)
    run(3, logits, words, rows, vocabulary, vocabulary, vocabulary // 32, rows // 3, rows % 3, 512, 3, 4)
    same(logits, wanted)


@kernel
def tri_inv(folder: Path) -> None:
    path = find(folder, "tri_inv/op_kernel/tri_inv_kernel.cpp")
    run = mco.ascendc.build(path, entry="tri_inv_col_sweep_fp32")
    n, matrices = 32, 5
    upper = np.triu(0.1 * RNG.normal(size=(matrices, n, n)), 1) + np.eye(n)
    given = np.ascontiguousarray(upper.transpose(0, 2, 1)).astype(np.float32)  # its rows are columns
    out = np.zeros_like(given)
    run(matrices, given, out, np.array([matrices, given.size, n], np.uint32))
    same(out, np.linalg.inv(upper).transpose(0, 2, 1), 1e-3, 1e-4)


@kernel
def lora_shrink(folder: Path) -> None:
    path = find(folder, "lora/op_kernel/sgemmv_shrink_kernel.cpp")
    run = mco.ascendc.build(path, entry="sgemmv_shrink_half")
    rank, which = 16, np.array([2, 0, -1], np.int32)
    lengths, ranks = np.array([3, 2, 2], np.int32), np.array([16, 8, 16], np.int32)
    scales = np.array([0.5, 1, 2], np.float16)
    for hidden in (512, 12288):
        x, weight = half(7, hidden), (0.05 * half(3, rank, hidden)).astype(np.float16)
        y, wanted = np.zeros((7, rank), np.float32), np.zeros((7, rank))
        run(4, x, weight, which, 3, lengths, 3, ranks, 3, scales, 3, y, 7, 2, hidden, rank)
        for token, lora in enumerate(np.repeat(which, lengths)):
            if lora >= 0:
                product = weight[lora, : ranks[lora]].astype(np.float64) @ x[token].astype(np.float64)
                wanted[token, : ranks[lora]] = float(scales[lora]) * product
        same(y, wanted, 2e-3, 2e-3)


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, given = Path(sys.argv[1]).absolute(), [name for name in sys.argv[2:] if not name.startswith("--")]
    names = given or LISTED if "--list" in sys.argv else given or list(KERNELS)
    wrong = 0
    for name in names:
        started = time.perf_counter()
        try:
            KERNELS[name](folder)
            verdict = "right"
        except Missing as missing:
            verdict = f"skipped: {missing} is not in the folder"
        except Exception as error:
            wrong += 1
            lines = str(error).strip().splitlines() or [type(error).__name__]
            verdict = f"FAILED: {' | '.join(lines[:6])}"
            if "--trace" in sys.argv:
                traceback.print_exc()
        print(f"{name:20} {time.perf_counter() - started:6.1f} s  {verdict}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
