# SPDX-License-Identifier: Apache-2.0
"""Public kernels of inference engines and of students: launches with strides, projects, a build file as it is."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ascendc_public import RNG, find, half, kernel, same, single

import ms_custom_ops as mco

INFINI = "src/infiniop/ops"
PAGE, WIDTH = 4, 16


def _infini(folder: Path, file: str, entry: str) -> mco.ascendc.Kernel:
    return mco.ascendc.build(find(folder, f"{INFINI}/{file}"), entry=entry, soc="Ascend910B3")


def _swish(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    b = b.astype(np.float32)
    return a.astype(np.float32) * b / (1 + np.exp(-b))


@kernel
def infini_swiglu(folder: Path) -> None:
    file = "swiglu/ascend/swiglu_ascend_kernel.cpp"
    for dtype, entry in ((np.float16, "swiglu_kernel_half"), (np.float32, "swiglu_kernel_float")):
        run = _infini(folder, file, entry)
        for batch, rows, width in ((1, 3, 128), (2, 3, 256)):
            a, b = RNG.normal(size=(2, batch, rows, width)).astype(dtype)
            c = np.zeros_like(a)
            run(8, c, a, b, batch, rows, width, *[rows * width] * 3, *[width] * 3)
            same(c, _swish(a, b), 4e-3, 4e-3)


@kernel
def infini_rope(folder: Path) -> None:
    """Of heads that fill whole repeats: of narrower ones it gathers what is behind the block."""
    tokens, heads, width, table = 5, 3, 128, 20
    places = RNG.integers(0, table, tokens).astype(np.int32)
    for dtype, name in ((np.float16, "half"), (np.float32, "float")):
        x = RNG.normal(size=(tokens, heads, width)).astype(dtype)
        sin, cos = RNG.normal(size=(2, table, width // 2)).astype(dtype)
        s, c = (t[places][:, None].astype(np.float32) for t in (sin, cos))
        strides = (heads * width, width, tokens * heads * width)
        for form in ("", "neox_"):
            run, y = (
                _infini(folder, "rope/ascend/rope_ascend_kernel.cpp", f"rope_kernel_{form}{name}"),
                np.zeros_like(x),
            )
            run(heads, y, x, places, sin, cos, tokens, width, heads, 1, *strides, *strides, 5)
            pairs = x.astype(np.float32)
            a, b = (pairs[..., : width // 2], pairs[..., width // 2 :]) if form else (pairs[..., ::2], pairs[..., 1::2])
            turned = np.stack([a * c - b * s, a * s + b * c], -2 if form else -1).reshape(x.shape)
            same(y, turned, 4e-3, 4e-3)


@kernel
def infini_random_sample(folder: Path) -> None:
    file, count, kept, random, most, heat = "random_sample/ascend/random_sample_kernel.cpp", 1000, 24, 0.37, 0.6, 0.9
    logits = single(count)
    order = np.argsort(-logits, kind="stable")[:kept]
    powers = np.exp((logits - logits.max()) / heat)
    sums = np.cumsum(powers[order] / powers.sum())
    end = min(int((sums < most).sum()) + 1, kept)
    wanted = order[int((sums[:end] <= random * sums[end - 1]).sum())]
    for dtype, entry in ((np.int64, "random_sample_kernel_fp32"), (np.int32, "random_sample_kernel_fp32_i32")):
        found = np.zeros(1, dtype)
        run = _infini(folder, file, entry)
        run(1, logits, found, logits[order].copy(), order.astype(np.int64), random, most, kept, heat, count)
        same(found, np.array([wanted]))


def _softmax(score: np.ndarray) -> np.ndarray:
    powers = np.exp(score - score.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@kernel
def infini_paged(folder: Path) -> None:
    """Tokens into pages, and attention to pages: one query for each sequence, and a causal prefill."""
    pages, heads, groups, lengths = 9, 2, 2, np.array([7, 11], np.int64)
    table = np.array([[3, 1, 0], [2, 5, 8]], np.int64)
    keys, values = (RNG.normal(size=(2, lengths.sum(), heads, WIDTH))).astype(np.float16)
    slots = [table[s][p // PAGE] * PAGE + p % PAGE for s, length in enumerate(lengths) for p in range(length)]
    caches = np.zeros((2, pages, heads, PAGE, WIDTH), np.float16)
    strides = (heads * PAGE * WIDTH, WIDTH, PAGE * WIDTH)  # of a page, a row, a head
    run = _infini(folder, "paged_caching/ascend/paged_caching_ascend_kernel.cpp", "paged_caching_kernel_f16")
    run(len(slots) * heads, caches[0], caches[1], keys, values, np.array(slots, np.int64), heads, WIDTH, PAGE,
        *[heads * WIDTH] * 2, *[strides[0]] * 2, *[strides[2]] * 2, *[strides[1]] * 2)  # fmt: skip
    for cache, given in zip(caches, (keys, values), strict=True):
        same(cache.transpose(0, 2, 1, 3).reshape(-1, heads, WIDTH)[slots], given)
    queries, scale = half(lengths.sum(), heads * groups, WIDTH), WIDTH**-0.5
    starts = np.concatenate([[0], np.cumsum(lengths)])
    wanted = np.zeros(queries.shape)
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        q, k, v = (a[first:last].astype(np.float64) for a in (queries, keys, values))
        k, v = (np.repeat(a, groups, 1) for a in (k, v))
        score = np.einsum("qhd,khd->hqk", q, k) * scale + np.triu(np.full((last - first,) * 2, -np.inf), 1)
        wanted[first:last] = np.einsum("hqk,khd->qhd", _softmax(score), v)
    ends, out = starts[1:] - 1, np.zeros((2, heads * groups, WIDTH), np.float16)
    run = _infini(folder, "paged_attention/ascend/paged_attention_ascend_kernel.cpp", "paged_attention_f16_i64")
    row = heads * groups * WIDTH
    run(2 * heads * groups, out, queries[ends].copy(), *caches, table, lengths, None, False, heads * groups, 2, heads,
        WIDTH, scale, 3, PAGE, row, *strides, *strides, row, 3, 1)  # fmt: skip
    same(out, wanted[ends], 4e-3, 4e-3)
    file = "paged_attention_prefill/ascend/paged_attention_prefill_ascend_kernel.cpp"
    run, out = _infini(folder, file, "paged_attention_prefill_f16_i64"), np.zeros_like(queries)
    run(len(queries) * heads * groups, out, queries, *caches, table, lengths, starts, None, False, heads * groups, 2,
        len(queries), heads, WIDTH, scale, 3, PAGE, row, WIDTH, *strides, *strides, row, WIDTH, 3)  # fmt: skip
    same(out, wanted, 4e-3, 4e-3)


@kernel
def infini_build(folder: Path) -> None:
    """Its own CMakeLists.txt, linked into a library whose launch functions are called."""
    root = Path(mco.ascendc.__file__).parent
    source = find(folder, "src/infiniop/devices/ascend/CMakeLists.txt").parent
    with tempfile.TemporaryDirectory() as build:
        options = [f"-DASCEND_CANN_PACKAGE_PATH={root}", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"]
        for command in (["-S", source, "-B", build, *options], ["--build", build, "-j", "2"]):
            subprocess.run(["cmake", *map(str, command)], check=True, capture_output=True)
        archive, library = f"{build}/lib/libascend_kernels.a", f"{build}/kernels.so"
        whole = ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]
        subprocess.run(["g++", "-shared", *whole, *mco.ascendc.compile.libs(), "-o", library], check=True)
        launch = ctypes.CDLL(library).swiglu_kernel_launch
        a, b = single(2, 3, 256)
        c = np.zeros_like(a)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (c, a, b)]
        sizes = [ctypes.c_size_t(n) for n in (1, 3, 256, *[768] * 3, *[256] * 3)]
        assert launch(*pointers, 13, *sizes, None) == 0  # INFINI_DTYPE_F32
        same(c, _swish(a, b), 1e-5, 1e-5)


def _project(folder: Path, end: str) -> mco.ascendc.Project:
    return mco.ascendc.load_project(find(folder, end))


MINDNLP = "ascend910a_extras/csrc/opdev"


@kernel
def mindnlp_extras(folder: Path) -> None:
    """Of six ops of a student's project three whose kernels are for any chip."""
    ops = _project(folder, MINDNLP)
    for rows, width in ((8, 128), (3, 64), (7, 192)):
        x = half(rows, 2 * width)
        same(ops["SwiGluEx"](x), _swish(x[:, width:], x[:, :width]), 5e-3, 5e-3)
    q, k, places, cos, sin = half(5, 8, 64), half(5, 4, 64), RNG.integers(0, 99, 5).astype(np.int32), *half(2, 128, 32)
    for x, y in zip((q, k), ops["RopeEx"](q, k, places, cos, sin), strict=True):
        a, b = x[..., :32].astype(np.float32), x[..., 32:].astype(np.float32)
        c, s = (t[places][:, None].astype(np.float32) for t in (cos, sin))
        same(y, np.concatenate([a * c - b * s, b * c + a * s], -1), 5e-3, 5e-3)
    for rows, width in ((8, 128), (3, 512)):
        x, more, weight = half(rows, width), half(rows, width), half(width)
        shapes = [(rows, width)] * 2  # its InferShape sets dims and no number of them
        y, total = ops["AddRMSNormEx"](x, more, weight, np.array([1e-5], np.float32), out_shapes=shapes)
        wide = x.astype(np.float32) + more
        same(total, x + more, 1e-3, 1e-3)
        same(y, wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * weight, 1e-2, 1e-2)


@kernel
def gcd(folder: Path) -> None:
    """The winner of a challenge: three types, and shapes that broadcast."""
    op = _project(folder, "Gcd")["Gcd"]
    shapes = [((32,), (32,)), ((32,), (1,)), ((7, 5, 9), (9,)), ((512, 64, 1, 2, 1),) * 2]
    for shape, other in shapes:
        for dtype in (np.int16, np.int32, np.int64) if len(shape) < 4 else (np.int64,):
            a, b = RNG.integers(-100, 100, shape).astype(dtype), RNG.integers(-100, 100, other).astype(dtype)
            same(op(a, b), np.gcd(a, b))


@kernel
def three_nearest(folder: Path) -> None:
    a, b = single(2, 32, 3), single(2, 64, 3)
    distances = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
    places = np.argsort(distances, -1, kind="stable")[..., :3]
    op = _project(folder, "ThreeNN-02/Framework")["ThreeNN"]
    found, index = op(a, b, out_shapes=[(2, 32, 3)] * 2)
    same(index, places)
    same(found, np.take_along_axis(distances, places, -1), 1e-4, 1e-5)


def _prompt(folder: Path, name: str) -> mco.ascendc.AscendcOp:
    """The op of a page of MultiKernelBench: the texts of its files are strings of a Python file."""
    texts: dict[str, str] = {}
    exec(find(folder, f"prompts/ascendc_new_model_{name}.py").read_text(), texts)
    op = json.loads(texts["project_json_src"])[0]["op"]
    stem = re.sub(r"(?<!^)(?=[A-Z])", "_", op).lower()
    with tempfile.TemporaryDirectory() as root:
        for file, text in (
            (f"op_host/{stem}_tiling.h", "host_tiling_src"),
            (f"op_host/{stem}.cpp", "host_operator_src"),
            (f"op_kernel/{stem}.cpp", "kernel_src"),
        ):
            path = Path(root) / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(texts[text])
        made = mco.ascendc.load_project(root)[op]
        PROMPTS[name](made)  # the kernel is compiled while the files are there
        return made


def _leaky(op: Callable) -> None:
    x = single(16, 16384)
    same(op(x, negative_slope=0.01), np.where(x > 0, x, x * np.float32(0.01)), 1e-6)


def _add(op: Callable) -> None:
    x, y = single(8, 2048), single(8, 2048)
    same(op(x, y), x + y)


def _matmul(op: Callable) -> None:
    a, b, c = single(1024, 256), single(256, 640), single(640)
    same(op(a, b, c, out_shapes=[(1024, 640)]), a @ b + c, 1e-3, 1e-3)


def _sum(op: Callable) -> None:
    for count in (64, 504, 4000):
        x = single(count)
        same(op(x)[:1], np.array([x.sum(dtype=np.float64)]), 1e-3, 1e-3)


PROMPTS = {"add": _add, "leaky_relu": _leaky, "matmul_add": _matmul, "reduce_sum": _sum}


@kernel
def prompts(folder: Path) -> None:
    for name in PROMPTS:
        _prompt(folder, name)


@kernel
def head_layouts(folder: Path) -> None:
    """Tokens by heads, padded to whole blocks, or into the pages of a cache."""
    op = _project(folder, "ops/la_preprocess")["LaPreprocess"]
    given = half(2, 300, 3, 128), half(2, 77, 3, 128), half(2, 77, 3, 128)
    for x, out in zip(given, op(*given, align_len=256), strict=True):
        wanted = np.zeros((2, 3, -(-x.shape[1] // 256) * 256, 128))
        wanted[:, :, : x.shape[1]] = x.transpose(0, 2, 1, 3)
        same(out, wanted)
    size, heads, width, lengths = 8, 2, 32, np.array([5, 20], np.int32)
    pages = np.array([[3, 1, 0], [2, 5, 4]])
    slots = [pages[b][p // size] * size + p % size for b, length in enumerate(lengths) for p in range(length)]
    keys, wanted = (
        RNG.integers(0, 255, (lengths.sum() * heads, width)).astype(np.uint8),
        np.zeros((6, heads, size, width)),
    )
    starts = np.cumsum(lengths) - lengths
    for b, (first, length) in enumerate(zip(starts * heads, lengths, strict=True)):
        rows = keys[first : first + length * heads].reshape(heads, length, width)
        for p in range(length):
            wanted[pages[b][p // size], :, p % size] = rows[:, p]
    op = _project(folder, "ascend/reshape_and_cache_bnsd")["ReshapeAndCacheBnsd"]
    cache = np.zeros(wanted.shape, np.uint8)
    same(op(keys, cache, np.array(slots, np.int32), lengths, out_shapes=[cache.shape]), wanted)
