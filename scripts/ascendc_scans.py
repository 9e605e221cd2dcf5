# SPDX-License-Identifier: Apache-2.0
"""Public kernels of scans, sorts and inverses on the cube (huawei-csl/pytorch-tcuscan) against their formulas."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from ascendc_public import RNG, find, half, kernel, same, single

import ms_custom_ops as mco

WORKSPACE = 8 << 20
SHAPES = ((32, 7, 4), (64, 20, 20), (32, 40, 20))  # side of a tile, tiles, blocks


def built(folder: Path, file: str, entry: str, asserts: bool = True) -> mco.ascendc.Kernel:
    """``asserts`` False: its ASCENDC_ASSERT names what is not declared, which a build for the chip never reads."""
    path = find(folder, f"src/{file}.cpp")
    return mco.ascendc.build(
        path, entry=entry, include_dirs=[path.parent], defines=[] if asserts else "ASCENDC_ASSERT(...)="
    )


def words(*values: float) -> np.ndarray:
    """A tiling of 32-bit words; floats as their bits."""
    return np.array(
        [struct.unpack("I", struct.pack("f", v))[0] if isinstance(v, float) else v for v in values], np.uint32
    )


def integers(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(dtype)


@kernel
def row_scan(folder: Path) -> None:
    run = built(folder, "row_scan", "row_scan_fp16")
    for side in (32, 64, 128):
        x = integers(4 * side * side)
        y = np.zeros(x.size, np.float32)
        run(2, x, y, None, words(x.size, side))
        same(y.reshape(-1, side), np.cumsum(x.astype(np.float32).reshape(-1, side), axis=1))


@kernel
def scan_single_core(folder: Path) -> None:
    for entry, dtype, out in (("fp16", np.float16, np.float32), ("int8", np.int8, np.int32)):
        run = built(folder, "scan_single_core", f"scan_single_core_{entry}")
        for side, count in ((32, 2144), (64, 12288)):
            x, y = integers(count, dtype=dtype), np.zeros(count, out)
            run(1, x, y, tiling=words(count, side, 0), workspace=WORKSPACE)
            same(y, np.cumsum(x.astype(np.float64)))


@kernel
def scan_multi_core(folder: Path) -> None:
    for entry, dtype, out in (
        ("fp16", np.float16, np.float32), ("int8", np.int8, np.int32), ("fp16_no_l2", np.float16, np.float32)
    ):  # fmt: skip
        run = built(folder, "scan_multi_core", f"scan_multi_core_{entry}")
        for side, tiles, blocks in SHAPES:
            x, y = integers(side * side * tiles, dtype=dtype), np.zeros(side * side * tiles, out)
            run(blocks, x, y, tiling=words(blocks, x.size, side, 0, 192 << 20, 0), workspace=WORKSPACE)
            same(y, np.cumsum(x.astype(np.float64)))


@kernel
def scan_batch(folder: Path) -> None:
    run = built(folder, "scan_batch", "scan_batch_fp16")
    for side, width, rows in ((32, 2048, 6), (64, 4096, 2), (32, 1023, 4)):
        x, y = integers(rows, width), np.zeros((rows, width), np.float32)
        run(rows, x, y, tiling=words(rows, width, rows, side, 2), workspace=WORKSPACE)
        same(y, np.cumsum(x.astype(np.float64), axis=1))


@kernel
def scan_cubes(folder: Path) -> None:
    side, tiles, blocks = 32, 8, 4
    upper, lower = np.triu(np.ones((side, side), np.float16)), np.tril(np.ones((side, side), np.float16), -1)
    x, size = integers(side * side * tiles), side * side
    y = np.zeros(x.size, np.float32)
    built(folder, "block_scan", "block_scan_fp16", False)(blocks, x, upper, lower, y, None, words(x.size, side))
    same(y.reshape(-1, size), np.cumsum(x.reshape(-1, size).astype(np.float64), axis=1))
    tiling = words(blocks, x.size, side, 0, 192 << 20, 0)
    run = built(folder, "scan_multi_cube", "scan_multi_cube_fp16", False)
    run(blocks, x, upper, lower, y, tiling=tiling, workspace=WORKSPACE)
    same(y, np.cumsum(x.astype(np.float64)))


@kernel
def cube_reduce(folder: Path) -> None:
    for blocks, side in ((4, 64), (20, 32)):
        x, z = integers(blocks * 4 * side * side), np.zeros(blocks, np.float32)
        tiling = words(blocks, x.size, side)
        built(folder, "cube_reduce", "cube_reduce_fp16")(blocks, x, z, tiling=tiling, workspace=WORKSPACE)
        same(z.sum(), x.astype(np.float64).sum())


@kernel
def seg_scan(folder: Path) -> None:
    side, tiles = 32, 4
    x, y = integers(side * side * tiles), np.zeros(side * side * tiles, np.float32)
    flags = np.zeros(x.size + side * side, np.int8)  # it reads a tile behind their end
    flags[: x.size] = RNG.random(x.size) < 0.02
    run = built(folder, "seg_scan_single_core", "seg_scan_single_core")
    run(1, x, flags, y, tiling=words(x.size, side), workspace=WORKSPACE)
    wanted = x.astype(np.float64)
    for i in range(1, x.size):
        wanted[i] += 0 if flags[i] else wanted[i - 1]
    same(y, wanted)


@kernel
def seg_sum(folder: Path) -> None:
    side, blocks = 32, 4
    x = integers(side * side * 8)
    ends = np.unique(RNG.integers(1, x.size, 60))
    starts = np.concatenate([[0], ends, [x.size]]).astype(np.int32)
    first = np.searchsorted(starts, np.arange(blocks + 1) * x.size // blocks).astype(np.int32)  # of each block
    sums = np.zeros(starts.size - 1, np.float32)
    tiling = words(x.size, sums.size, side, x.size // blocks)
    run = built(folder, "seg_sum_multi_core", "seg_sum_multi_core_fp16")
    run(blocks, x, starts[1:].copy(), first, sums, tiling=tiling, workspace=WORKSPACE)
    same(sums, np.add.reduceat(x.astype(np.float64), starts[:-1]))


@kernel
def split_and_compress(folder: Path) -> None:
    side, blocks = 32, 4
    x, mask = half(side * side * 8), RNG.integers(0, 2, side * side * 8).astype(np.int8)
    z, index, places = np.zeros_like(x), np.arange(x.size, dtype=np.int32), np.zeros(x.size, np.int32)
    tiling = words(blocks, x.size, side, side * side // 2)
    run = built(folder, "split", "split_ind_uint16")
    run(blocks, x, mask, index, z, places, tiling=tiling, workspace=WORKSPACE)
    same(z, np.concatenate([x[mask == 1], x[mask == 0]]))
    same(places, np.concatenate([index[mask == 1], index[mask == 0]]))
    kept = np.zeros(int(mask.sum()), np.float16)
    run = built(folder, "compress", "compress_fp16")
    run(blocks, x, mask, kept, tiling=words(blocks, x.size, side), workspace=WORKSPACE)
    same(kept, x[mask == 1])


@kernel
def radix_sort(folder: Path) -> None:
    side, blocks = 32, 4
    x = half(side * side * 4)
    z, order = np.zeros_like(x), np.zeros(x.size, np.int32)
    tiling = words(blocks, x.size, side, side * side // 2)
    run = built(folder, "radix_sort", "radix_sort_fp16")
    run(blocks, x, z, order, tiling=tiling, workspace=WORKSPACE)
    same(z, np.sort(x))
    same(x[order], z)


@kernel
def topk(folder: Path) -> None:
    side, blocks, k = 32, 4, 64
    x = RNG.permutation(side * side * 4).astype(np.int16)
    z, places = np.zeros(k, np.int16), np.zeros(k, np.int32)
    tiling = words(blocks, x.size, side, side * side // 2, int(x.min()), int(x.max()), k)
    built(folder, "topk", "topk_int16")(blocks, x, z, places, tiling=tiling, workspace=WORKSPACE)
    same(np.sort(z)[::-1], np.sort(x)[::-1][:k])


@kernel
def vector_passes(folder: Path) -> None:
    """Copies, differences, sums of products with gathers, searches, pieces of a sum: no cube, or one switched on."""
    x, y = single(5000), np.zeros(5000, np.float32)
    built(folder, "copy", "copy_fp32")(1, x, y, None, words(1, x.size, 256))
    same(y, x)
    a, b = half(1000), half(1000)
    total = np.zeros_like(a)
    built(folder, "vadd", "vadd_custom")(4, a, b, total, None, words(a.size, 128))
    same(total, a + b)
    x, y = single(20000), np.zeros(20000, np.float32)
    built(folder, "diff", "diff_fp32")(4, x, y, None, words(x.size, 5120))
    same(y[1:], np.diff(x), 1e-6, 1e-6)
    ordered, wanted = np.sort(RNG.integers(0, 1000, 500)).astype(np.int32), RNG.integers(0, 1000, 37).astype(np.int32)
    found = np.zeros(wanted.size, np.int32)
    built(folder, "searchsorted", "searchsorted_int32")(5, ordered, wanted, found, None, words(500, wanted.size))
    same(found, np.searchsorted(ordered, wanted))
    bits, pieces = RNG.integers(0, 2, 8 * 2048).astype(np.int8), np.zeros(8, np.int32)
    built(folder, "reduce_tiles", "reduce_tiles_int8")(8, bits, pieces, None, words(bits.size, 512))
    same(pieces.sum(), bits.sum(dtype=np.int64))
    values, columns, z = single(3000), RNG.integers(0, 500, 3000).astype(np.int32), np.zeros(3000, np.float32)
    x = single(500)
    built(folder, "csr_gather", "csr_gather_fp32")(3, values, columns, x, z, None, words(3000, 500, 1024))
    same(z, values * x[columns], 1e-6, 1e-6)
    index, z = np.sort(RNG.integers(0, 3000, 2048)).astype(np.int32), np.zeros(2048, np.float32)
    built(folder, "mc_gather", "mc_gather_fp32")(4, values, index, z, None, words(4, 3000, 2048, 512))
    same(z, values[index])


@kernel
def triangles(folder: Path) -> None:
    """Lower triangles of ones, and inverses of upper ones."""
    for n in (32, 128):
        z = np.zeros((n, n), np.float16)
        built(folder, "gen_lower", "gen_lower_fp16")(n // 8, z, None, words(n, 8 * n))
        same(z, np.tril(np.ones((n, n))))
    n, matrices = 32, 3
    x = (np.triu(0.1 * RNG.normal(size=(matrices, n, n)), 1) + np.eye(n)).astype(np.float16)
    out = np.zeros(x.shape, np.float32)
    run = built(folder, "tri_inv_cube_col_sweep", "tri_inv_cube_col_sweep_fp16")
    run(matrices, x, out, tiling=words(matrices, n, 4), workspace=WORKSPACE)
    same(out, np.linalg.inv(x.astype(np.float64)), 1e-3, 1e-3)
    n = 64
    x = np.triu(0.1 * RNG.normal(size=(matrices, n, n)), 1).astype(np.float16)
    out = np.zeros(x.shape, np.float32)
    run = built(folder, "triu_inv_rec_unroll", "triu_inv_rec_unroll_fp16")
    run(matrices, x, out, tiling=words(matrices, n), workspace=WORKSPACE)
    same(out, np.linalg.inv(x.astype(np.float64) + np.eye(n)), 1e-2, 1e-2)
