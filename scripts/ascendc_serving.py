# SPDX-License-Identifier: Apache-2.0
"""Public kernels of serving (sgl-kernel-npu, xllm-ops, vllm-ascend) against their formulas."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from ascendc_public import RNG, find, half, kernel, same

import ms_custom_ops as mco

SGL = "sgl-kernel-npu/csrc"
VLLM = "vllm-ascend/csrc"
TYPES = ((np.float16, "half", 2e-3), (ml_dtypes.bfloat16, "bfloat16_t", 1e-2))


def _built(folder: Path, end: str, entry: str) -> mco.ascendc.Kernel:
    path = find(folder, f"{SGL}/{end}")
    return mco.ascendc.build(path, entry=entry, include_dirs=[path.parent, find(folder, f"{SGL}/utils/kernel")])


@kernel
def token_bitmask(folder: Path) -> None:
    rows, words, cores = 7, 48, 3
    for dtype, name in ((np.float32, "fp32"), (np.float16, "fp16"), (ml_dtypes.bfloat16, "bf16")):
        run = _built(folder, "apply_token_bitmask/op_kernel/apply_token_bitmask.cpp", f"apply_token_bitmask_{name}")
        x = RNG.normal(size=(rows, words * 32)).astype(dtype)
        mask = RNG.integers(-(2**31), 2**31, (rows, words)).astype(np.int32)
        mask[0] = -1
        on = (mask[..., None] >> np.arange(32) & 1).reshape(x.shape)
        wanted = np.where(on, x, np.array(-np.inf, dtype))
        run(cores, x, mask, rows, words * 32, words * 32, words, *divmod(rows, cores), 512, cores, x.itemsize)
        same(x, wanted)


@kernel
def cache_locations(folder: Path) -> None:
    run = _built(folder, "cache_location_assign/op_kernel/cache_loc_assign_kernel.cpp", "cache_loc_assign")
    batch, row, pool, cores = 8, 64, 9, 1
    starts, steps = np.arange(0, 40, 5), RNG.integers(1, 17, batch)
    ends, heads = starts + steps, np.cumsum(steps) - steps
    for dtype, key in ((np.int32, 1), (np.int64, 2)):
        places = RNG.permutation(pool)[:batch].astype(dtype)
        sizes = [8, 8 * places.itemsize, 16, 64, 8, 64, 16 * batch, 16 * batch, 64 * batch]
        tiling = np.array([key, cores, pool, batch, batch, 0, row, *sizes], np.uint64)
        for mode in (0, 1):
            table, found = (RNG.integers(0, 10**6, shape).astype(np.int32) for shape in ((pool, row), 16 * batch))
            tables, wanted = table.copy(), found.copy()
            for place, start, end, head in zip(places, starts, ends, heads, strict=True):
                if mode:
                    wanted[head : head + end - start] = table[place, start:end]
                else:
                    tables[place, start:end] = found[head : head + end - start]
            run(cores, places, table, starts, ends, found, tiling, mode)
            same(table, tables)
            same(found, wanted)


@kernel
def conv_update(folder: Path) -> None:
    batch, width, taps, cores = 6, 256, 4, 3
    for dtype, name, near in TYPES:
        end = "causal_conv1d_update/op_kernel/causal_conv1d_update.cpp"
        run = _built(folder, end, f"causal_conv1d_update_{name}")
        shapes = ((batch, 1, width), (taps, width), (9, taps - 1, width), (width,))
        x, weights, state, bias = (RNG.normal(size=shape).astype(dtype) for shape in shapes)
        y, places = np.zeros_like(x), np.array([4, 0, 8, -1, 2, 5], np.int32)
        wanted, states = np.zeros(x.shape), state.copy()
        for i, place in enumerate(places):
            if place >= 0:
                window = np.concatenate([state[place], x[i]]).astype(np.float64)
                total = (window * weights.astype(np.float64)).sum(0) + bias.astype(np.float64)
                wanted[i, 0], states[place] = total / (1 + np.exp(-total)), window[1:].astype(dtype)
        tiling = np.array([cores, 2, 2, batch, 1, width, taps, taps - 1, 1, 1, 0, 0, 1, -1], np.int64)
        none = np.zeros(8, np.int32)
        run(cores, x, weights, state, places, bias, none, none, y, none, tiling)
        same(state, states)
        same(y, wanted, near, near)


@kernel
def sgemmv_expand(folder: Path) -> None:
    batch, edges = 9, np.array([0, 4096, 5120], np.int32)
    which, lengths = np.array([1, -1, 2], np.int32), np.array([2, 3, 4], np.int32)
    for dtype, name, near in TYPES:
        run = _built(folder, "lora/op_kernel/sgemmv_expand_kernel.cpp", f"sgemmv_expand_{name}")
        for rank in (16, 32, 64):
            ranks = np.full(3, rank, np.int32)
            x = RNG.normal(scale=0.3, size=(batch, 2, rank)).astype(np.float32)
            weights, y = (RNG.normal(size=shape).astype(dtype) for shape in ((3, 5120, rank), (batch, 5120)))
            wanted = y.astype(np.float64)
            for token, lora in enumerate(np.repeat(which, lengths)):
                for part in (0, 1) if lora >= 0 else ():
                    rows = slice(*edges[part : part + 2])
                    wanted[token, rows] += weights[lora, rows].astype(np.float64) @ x[token, part]
            run(6, x, weights, which, 3, lengths, 3, ranks, 3, edges, 3, y, y, batch, 3, rank, 5120)
            same(y, wanted, near, near)


@kernel
def replace_token(folder: Path) -> None:
    forward, last = RNG.integers(-20, 500, 333).astype(np.int32), RNG.integers(0, 9999, 40)
    op = mco.ascendc.load_project(find(folder, "xllm_ops/replace_token"))["ReplaceToken"]
    same(op(forward, last), np.where(forward < 0, last[np.clip(-forward - 1, 0, 39)], forward))


@kernel
def cache_to_nz(folder: Path) -> None:
    op = mco.ascendc.load_project(find(folder, "xllm_ops/convert_kv_cache_format"))["ConvertKvCacheFormat"]
    starts, lengths = np.array([0, 256, 512]), np.array([200, 256, 0], np.int32)
    caches = [half(768, 128), half(768, 64)]
    wanted = [cache.copy() for cache in caches]
    for cache in wanted:
        for first in (0, 256, 384):
            block = cache[first : first + 128]
            block[:] = block.reshape(128, -1, 16).transpose(1, 0, 2).reshape(block.shape)
    op(*caches, starts, lengths, is_prefill=True, num_kv_heads=2, head_size_k=64, head_size_v=32, out_shapes=[])
    for cache, expected in zip(caches, wanted, strict=True):
        same(cache, expected)


@kernel
def assigned_caches(folder: Path) -> None:
    run = _built(folder, "assign_cache_op/op_kernel/assign_cache_op.cpp", "assign_cache_op")
    batch, pool, cores = 6, 128, 4
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        counts, heads, starts = RNG.integers(1, 30, batch), np.arange(batch) * 64, RNG.integers(0, 3, batch) * 32
        source, caches = (RNG.integers(0, 100, shape).astype(dtype) for shape in (400, (batch + 1, pool)))
        wanted = caches.copy()
        for row, count, head, start in zip(wanted, counts, heads, starts, strict=False):
            row[start : start + count] = source[head : head + count]
        tiling = np.array([batch, pool, np.dtype(dtype).itemsize, 4096, 195584], np.uint32)
        flags = np.zeros(4096, np.int32)
        run(cores, caches, source, starts, starts + counts, heads, heads + counts, flags, tiling)
        same(caches, wanted)


@kernel
def stored_blocks(folder: Path) -> None:
    run = mco.ascendc.build(
        find(folder, f"{VLLM}/attention/store_kv_block/op_kernel/store_kv_block.cpp"), entry="store_kv_block"
    )
    cores, groups, width, most = 3, 7, 40, 16
    for dtype, key in ((np.int8, 1), (np.float16, 2), (np.float32, 4)):
        keys, cache = (RNG.normal(size=(120, width)) * 20).astype(dtype), np.zeros((200, width), dtype)
        counts = RNG.integers(0, most, groups).astype(np.int32)
        heads = np.arange(groups, dtype=np.int32) * most
        places = (RNG.permutation(12)[:groups] * most).astype(np.int32)
        heads[2], wanted = -1, cache.copy()  # a group without keys
        for count, head, place in zip(counts, heads, places, strict=True):
            if head >= 0:
                wanted[place : place + count] = keys[head : head + count]
        tiling = np.array([most, keys.itemsize, width, *divmod(groups, cores), 120, 200, groups], np.uint32)
        run(cores, keys, cache, counts, heads, places, tiling=tiling, tiling_key=key)
        same(cache, wanted)


def _lists(chosen: np.ndarray, tokens: list[int], blocks: list[int], turns: bool) -> list[list[list[int]]]:
    """Of each head the tokens (of their sequence) that chose each block. Blocks are numbered sequence by sequence, or
    in turns: the first of each sequence, then the second."""
    numbers = [(b, k) for b, count in enumerate(blocks) for k in range(count)]
    order = {pair: i for i, pair in enumerate(sorted(numbers, key=lambda p: (p[1], p[0])) if turns else numbers)}
    lists: list[list[list[int]]] = [[[] for _ in order] for _ in chosen]
    for head, rows in enumerate(chosen):
        at = 0
        for b, count in enumerate(tokens):
            for token in range(count):
                for k in rows[at + token]:
                    if k >= 0:
                        lists[head][order[b, int(k)]].append(token)
            at += count
    return lists


@kernel
def chosen_blocks(folder: Path) -> None:
    """Five kernels, one after another, that turn the blocks each token chose into the tokens of each block."""
    stages = ("meta", "hist", "row_prefix", "tile_prefix", "scatter")
    base, runs = f"{VLLM}/attention/k2q_csr", {}
    for stage in stages:
        path = find(folder, f"{base}/k2q_csr_{stage}/op_kernel/k2q_csr_{stage}.cpp")
        runs[stage] = mco.ascendc.build(path, entry=f"k2q_csr_{stage}", include_dirs=[path.parent])
    cases = ((2, [37], [20], 4, False), (3, [20, 33, 5], [9, 12, 4], 3, False), (1, [100, 60], [30, 17], 8, True))
    for heads, tokens, blocks, most, turns in cases:
        total, rows, longest, groups = sum(tokens), sum(blocks), max(blocks), 4
        chosen = np.full((heads, total, most), -1, np.int32)
        for head in range(heads):
            for token, room in enumerate(np.repeat(blocks, tokens)):
                count = min(int(RNG.integers(0, most + 1)), int(room))
                chosen[head, token, :count] = RNG.permutation(room)[:count]
        ends, block_ends = (np.cumsum([0, *counts]).astype(np.int32) for counts in (tokens, blocks))
        mapped, edges = len(tokens) * longest, total * most
        wide = [heads, total, most, edges, len(tokens), rows, longest, mapped, 2048, 1, heads, heads, heads]
        scratch = np.zeros(mapped + total + (2 * groups + 1) * heads * rows + 64, np.int32)
        starts = np.zeros((heads, rows + 1), np.int32)
        queries, slots = (np.full((heads, edges), -1, np.int32) for _ in range(2))
        arguments = {
            "meta": (1, ends, block_ends, scratch, None),
            "hist": (groups, chosen, scratch, None),
            "row_prefix": (min(heads, groups), scratch, starts),
            "tile_prefix": (groups, scratch, starts, None),
            "scatter": (groups, chosen, ends, scratch, queries, slots),
        }
        for number, stage in enumerate(stages):
            narrow = [int(turns), 1, 2048, 0, groups, -(-total // groups), number, 0, 0, 0]
            tiling = np.array([*wide, arguments[stage][0]], np.int64).tobytes() + np.array(narrow, np.int32).tobytes()
            runs[stage](*arguments[stage], tiling=tiling)
        for head, lists in enumerate(_lists(chosen, tokens, blocks, turns)):
            same(starts[head], np.cumsum([0, *map(len, lists)]).astype(np.int32))
            for row, wanted in enumerate(lists):
                same(queries[head, starts[head, row] : starts[head, row + 1]], np.array(wanted, np.int32))
