# SPDX-License-Identifier: Apache-2.0
"""Public kernels of single tasks (AscendOpGenAgent: norms, pooling, sorts, products) against their formulas."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
from ascendc_public import RNG, find, kernel, same, single

import ms_custom_ops as mco

VECTORS = 2  # vector cores of a block


def _built(folder: Path, file: str, entry: str) -> mco.ascendc.Kernel:
    return mco.ascendc.build(find(folder, f"archive_tasks/{file}"), entry=entry)


def _words(*values: float) -> np.ndarray:
    return np.array(
        [struct.unpack("i", struct.pack("f", v))[0] if isinstance(v, float) else v for v in values], np.int32
    )


@kernel
def task_rms_norm(folder: Path) -> None:
    for kind, widths in (("merge_n", (64, 768)), ("single_row", (1536, 4104)), ("splitd", (8200,))):
        for dtype, name, near in (
            (np.float32, "fp32", 1e-5), (np.float16, "fp16", 4e-3), (ml_dtypes.bfloat16, "bf16", 2e-2)
        ):  # fmt: skip
            suffix = "" if name == "fp32" else f"_{name}"
            run = _built(folder, f"rms_norm/kernel/rms_norm_{kind}{suffix}.cpp", f"rms_norm_{kind}_custom_{name}")
            for width in widths:
                rows, block = 130, 64
                cores = -(-rows // block)
                x, gamma = (RNG.normal(size=shape).astype(dtype) for shape in ((rows, width), width))
                y, inverse = np.zeros_like(x), np.zeros(rows, dtype)
                run(cores, x, gamma, y, inverse, _words(rows, width, block, cores, 1, 8, 1e-5, 1 / width))
                wide = x.astype(np.float64)
                scale = 1 / np.sqrt((wide**2).mean(1) + 1e-5)
                same(y, wide * scale[:, None] * gamma.astype(np.float64), near, near)
                same(inverse, scale, near, near)


@kernel
def task_avg_pool(folder: Path) -> None:
    width, sizes = 64, (4, 6, 8)
    x = single(1, *sizes, width)
    for number, kind in enumerate(("generic", "reduce_d", "split_c", "split_w", "multi_w")):
        window, step = ((2, 1, 1), (2, 1, 1)) if kind == "reduce_d" else ((2, 3, 2), (2, 1, 2))
        outs = tuple((s - k) // t + 1 for s, k, t in zip(sizes, window, step, strict=True))
        wanted = np.zeros((1, *outs, width))
        for place in np.ndindex(outs):
            at = [slice(i * t, i * t + k) for i, t, k in zip(place, step, window, strict=True)]
            wanted[0][place] = x[0][tuple(at)].mean((0, 1, 2))
        rows = int(np.prod(outs))
        block = next(c for c in (64, 32, 16, 8, 4, 2) if rows % c == 0)
        mode, many = max(number - 1, 0), rows // block
        split = 32 if kind == "split_c" else 0
        run = _built(folder, f"avg_pool3_d/kernel/avg_pool3_d_{kind}.cpp", f"avg_pool3_d_{kind}_custom")
        y = np.zeros((rows, width), np.float32)
        tiling = _words(
            1, width, *sizes, *outs, *window, *step, 0, 0, 0, 0, 0, mode, split, 2 if mode == 2 else 0,
            2 if mode == 3 else 1, block, block // VECTORS, many, rows, int(np.prod(sizes)), sizes[1] * sizes[2],
            width // split if split else 1, many, 1, many, width, number, 0,
        )  # fmt: skip
        run(many, x, y, tiling)
        same(y.reshape(wanted.shape), wanted, 1e-5, 1e-6)


@kernel
def task_concat(folder: Path) -> None:
    counts, width = (5, 70, 1, 30), 96
    x = [single(count, width) for count in counts]
    for number in (1, 2, 3, 4):
        run = _built(folder, f"concat_dv2/kernel/concat_dim0_{number}.cpp", f"concat_dim0_{number}_custom")
        total = sum(counts[:number])
        cut = next(c for c in (64, 32, 16, 8, 4, 2) if total >= c)
        blocks = -(-total // cut)
        y = np.zeros((total, width), np.float32)
        many = [counts[i] if i < number else 0 for i in range(4)]
        run(blocks, *x, y, _words(*many, number, width, total, cut, cut // VECTORS, blocks, blocks, 1))
        same(y, np.concatenate(x[:number]))


@kernel
def task_gather_elements(folder: Path) -> None:
    for dtype, name in ((np.float16, "fp16"), (np.float32, "fp32")):
        for mode, kind in enumerate(("last_dim", "transpose", "scalar")):
            run = _built(
                folder, f"gather_elements_v2/kernel/gather_elements_v2_{kind}_{name}.cpp",
                f"gather_elements_v2_{kind}_{name}_custom",
            )  # fmt: skip
            rows, width, taken, block = 67, 128, 64, 32
            x = RNG.normal(size=(rows, width)).astype(dtype)
            index = RNG.integers(0, width, (rows, taken)).astype(np.int32)
            place = RNG.permutation(rows).astype(np.int32) if mode else np.arange(rows, dtype=np.int32)
            y = np.zeros((rows, taken), dtype)
            cores = -(-rows // block)
            sizes = (rows, rows, width, taken, width, taken, block, cores, 1, block // VECTORS, int(mode > 0), mode)
            run(cores, x, index, place, y, _words(*sizes))
            same(y, np.take_along_axis(x[place], index, 1))


@kernel
def task_sort(folder: Path) -> None:
    """Keys in ascending order with their values: one pass in UB, merges on one core, merges of several cores."""
    run = _built(folder, "sort/kernel/sort_kernel.cpp", "kv_sort_kernel")
    for count in (1, 33, 1000, 2048, 3000, 5000):
        keys = RNG.integers(-50, 50, count).astype(np.int32)
        values, outs = RNG.integers(0, 10**6, count).astype(np.int32), np.zeros((2, count), np.int32)
        padded = -(-count // 32) * 32
        if count <= 4096:
            words, cores = [int(count > 2048), count, padded, 1, *[0] * 9, 1], 1
        else:
            cores, loop = min(20, -(-count // 512)), 512
            each = math.ceil(math.ceil(count / cores) / 32) * 32
            last = count - each * (cores - 1)
            cut = min(loop, each)
            words = [2, count, padded, cores, each, last, -(-each // cut), -(-last // cut), cut, cut,
                     each - cut * (-(-each // cut) - 1), last - cut * (-(-last // cut) - 1), 256, cores]  # fmt: skip
        run(cores, keys, values, *outs, np.zeros(1 << 20, np.uint8), _words(*words))
        order = np.argsort(keys, kind="stable")
        same(outs[0], keys[order])
        if count <= 4096:
            same(outs[1], values[order])


@kernel
def task_products(folder: Path) -> None:
    """Cube and vector cores: leaky products, products of int8 with scales, rows quantized by their largest."""
    m, n, k = 256, 384, 512
    for dtype, name in ((np.float16, "fp16"), (np.int8, "int8")):
        run = _built(folder, f"matmul_leakyrelu/kernel/matmul_leakyrelu_{name}.cpp", f"matmul_leakyrelu_custom_{name}")
        a, b = RNG.integers(-8, 8, (m, k)).astype(dtype), RNG.integers(-8, 8, (k, n)).astype(dtype)
        c = np.zeros((m, n), np.float32)
        run(4, a, b, c, np.zeros(8 << 20, np.uint8), _words(m, n, k, 128, 128, 128, 4))
        product = a.astype(np.float64) @ b.astype(np.float64)
        same(c, np.where(product > 0, product, 0.001 * product), 1e-5, 1e-5)
    run = _built(folder, "quant_matmul/kernel/int8_matmul_scale.cpp", "int8_matmul_scale_custom")
    a, b = RNG.integers(-128, 127, (m, k)).astype(np.int8), RNG.integers(-128, 127, (k, n)).astype(np.int8)
    scale, c = (single(n) * 1e-3).astype(np.float32), np.zeros((m, n), np.float16)
    run(2, a, b, scale, c, np.zeros(8 << 20, np.uint8), _words(m, n, k, 128, 128, 128))
    same(c, (a.astype(np.float64) @ b.astype(np.float64)) * scale, 1e-3, 1e-3)
    run = _built(
        folder, "reshape_matmul_rowwise_quant_int8/kernel/reshape_matmul_quant_bf16.cpp", "reshape_matmul_quant_bf16"
    )
    m, n, k = 256, 1024, 512
    x, h = (RNG.uniform(size=shape).astype(ml_dtypes.bfloat16) for shape in ((m, n), (k, k)))
    y = np.zeros((m, n), np.int8)
    tiling = _words(m, n, k, 128, 256, 64, 256, n // 256, k // 256)
    run(m // 128, x, h, y, np.zeros(m * n * 4, np.uint8), tiling)
    product = (x.astype(np.float64).reshape(-1, k) @ h.astype(np.float64)).reshape(m, n)
    same(y, np.rint(product / (np.abs(product).max(1, keepdims=True) / 127)), 0, 1)
