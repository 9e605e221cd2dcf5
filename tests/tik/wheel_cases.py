# SPDX-License-Identifier: Apache-2.0
"""Calls of the TIK kernels of the MindSpore wheel: arguments, inputs, and what NumPy formulas expect.

Layouts: a matrix M[r, c] in 16x16 fractals is written ``tiles(M, order)`` below, ``order`` naming the axes
(R, C number the fractals, r, c the elements in one) from the slowest to the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F16, F32 = "float16", "float32"


def tiles(matrix: np.ndarray, order: str) -> np.ndarray:
    """A (..., rows, columns) matrix as 16x16 fractals in ``order``, e.g. "CRrc" (NZ)."""
    *lead, rows, cols = matrix.shape
    axes = {"R": 0, "r": 1, "C": 2, "c": 3}
    split = matrix.reshape(*lead, rows // 16, 16, cols // 16, 16)
    n = len(lead)
    return np.ascontiguousarray(split.transpose(*range(n), *(n + axes[a] for a in order)))


def untile(array: np.ndarray, order: str) -> np.ndarray:
    """The matrix of :func:`tiles`."""
    n = array.ndim - 4
    back = array.transpose(*range(n), *(n + order.index(a) for a in "RrCc"))
    *lead, r1, r0, c1, c0 = back.shape
    return back.reshape(*lead, r1 * r0, c1 * c0)


def tensor(array: Any, dtype: str | None = None, **more: Any) -> dict[str, Any]:
    """The dict that describes a tensor to a TBE operator."""
    shape = tuple(array.shape if isinstance(array, np.ndarray) else array)
    return {"shape": shape, "dtype": dtype or str(array.dtype), "format": "ND", "ori_shape": shape, **more}


@dataclass
class Case:
    """A call of a kernel: arguments, arrays in BuildCCE order, expected outputs, tolerances (rtol, atol)."""

    args: tuple
    kwargs: dict[str, Any]
    inputs: list[np.ndarray]
    expected: list[np.ndarray]
    tolerance: tuple[float, float]


KERNELS: dict[str, tuple[str, str, dict[str, Callable[[np.random.Generator], Case]]]] = {}


def kernel(name: str, module: str, function: str, shapes: dict[str, tuple]) -> Callable:
    """Register a builder of cases: ``builder(rng, *shape)`` for each named shape."""

    def register(builder: Callable) -> Callable:
        table = {label: (lambda rng, s=shape: builder(rng, *s)) for label, shape in shapes.items()}
        KERNELS[name] = (module, function, table)
        return builder

    return register


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = F16, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def block_diagonal(matrix: np.ndarray, size: int = 128) -> np.ndarray:
    """The matrix with everything outside its ``size`` x ``size`` diagonal blocks set to zero."""
    block = np.arange(matrix.shape[0]) // size
    return np.where(block[:, None] == block[None, :], matrix, 0)


@kernel(
    "batch_matmul", "batch_matmul_impl", "cus_batch_matmul", {"1x64": (1, 64), "1x128": (1, 128), "5x128": (5, 128)}
)
def batch_matmul(rng: np.random.Generator, batch: int, n: int) -> Case:
    a, b = normal(rng, (batch, n, n), F32), normal(rng, (batch, n, n), F32)
    y = wide(a) @ wide(b).swapaxes(1, 2)
    return Case((tensor(a), tensor(b), tensor(a)), {}, [a.ravel(), b.ravel()], [y.ravel()], (1e-5, 1e-4))


@kernel("cholesky_trsm", "cholesky_trsm_impl", "cus_cholesky_trsm", {"64": (64,), "128": (128,), "256": (256,)})
def _cholesky_trsm(rng: np.random.Generator, n: int) -> Case:
    """Inverse of the upper Cholesky factor of each 128 x 128 diagonal block."""
    size = min(n, 128)
    root = rng.standard_normal((n, n))
    a = (root @ root.T / n + 2 * np.eye(n)).astype(F32)
    blocks = [wide(a)[k : k + size, k : k + size] for k in range(0, n, size)]
    y = np.stack([np.linalg.inv(np.linalg.cholesky(block).T) for block in blocks])
    return Case((tensor(a), tensor(y, F32)), {"kernel_name": "trsm"}, [a], [y], (1e-3, 1e-4))


def global_rows(head: int, seq: int) -> np.ndarray:
    """Rows of the sequence that every position of a head sees: one 16-row tile of each 64 rows."""
    first = np.arange(0, seq, 64) + 16 * (3 - head % 4)
    return (first[:, None] + np.arange(16)).ravel()


def _dsd_data(rng: np.random.Generator, batch: int, heads: int, seq: int, embedding: int) -> tuple:
    """Block weights (batch, heads, block, 64, keys) local and global, and values (batch, heads, seq, embedding)."""
    w1 = normal(rng, (batch, heads, seq // 64, 64, 64), F16, 0.1)
    w2 = normal(rng, (batch, heads, seq // 64, 64, seq // 4), F16, 0.1)
    return w1, w2, normal(rng, (batch, heads, seq, embedding))


def _rows_of_heads(values: np.ndarray, order: str) -> np.ndarray:
    """(batch, heads, seq, e) as fractals of the (batch * seq, heads * e) matrix."""
    batch, heads, seq, e = values.shape
    return tiles(values.transpose(0, 2, 1, 3).reshape(batch * seq, heads * e), order)


@kernel("dsd", "dsd_impl", "dsd_matmul", {"b1h2s512": (1, 2, 512, 128), "b2h1s1024": (2, 1, 1024, 64)})
def _dsd(rng: np.random.Generator, batch: int, heads: int, seq: int, embedding: int) -> Case:
    w1, w2, v = _dsd_data(rng, batch, heads, seq, embedding)
    y = np.zeros((batch, heads, seq, embedding))
    for b, h in np.ndindex(batch, heads):
        shared = wide(v[b, h, global_rows(h, seq)])
        local = wide(v[b, h]).reshape(seq // 64, 64, embedding)
        y[b, h] = (wide(w1[b, h]) @ local + wide(w2[b, h]) @ shared).reshape(seq, embedding)
    inputs = [tiles(w1, "CRrc"), tiles(w2, "CRrc"), _rows_of_heads(v, "RCcr")]
    return Case(tuple(map(tensor, inputs)), {}, inputs, [tiles(y, "CRrc")], (2e-3, 2e-3))


@kernel("dsd_back", "dsd_back_impl", "dsdbpropimpl", {"b1h2s512": (1, 2, 512, 128), "b1h1s1024": (1, 1, 1024, 128)})
def _dsd_back(rng: np.random.Generator, batch: int, heads: int, seq: int, embedding: int) -> Case:
    w1, w2, v = _dsd_data(rng, batch, heads, seq, embedding)
    a, da = normal(rng, v.shape), normal(rng, v.shape, F16, 0.5)
    dw1, dw2, dv = np.zeros(w1.shape), np.zeros(w2.shape), np.zeros(v.shape)
    for b, h in np.ndindex(batch, heads):
        rows = global_rows(h, seq)
        grad, local = (wide(x[b, h]).reshape(seq // 64, 64, embedding) for x in (da, v))
        dw1[b, h] = grad @ local.swapaxes(1, 2)
        dw2[b, h] = grad @ wide(v[b, h, rows]).T
        dv[b, h] = (wide(w1[b, h]).swapaxes(1, 2) @ grad).reshape(seq, embedding)
        dv[b, h, rows] += np.einsum("bmk,bme->ke", wide(w2[b, h]), grad)
    inputs = [tiles(w1, "CRrc"), tiles(w2, "CRrc"), _rows_of_heads(v, "RCcr"), tiles(a, "CRrc"), tiles(da, "CRrc")]
    expected = [tiles(dw1, "CRrc"), tiles(dw2, "CRrc"), _rows_of_heads(dv, "RCcr")]
    return Case(tuple(map(tensor, inputs)), {}, inputs, expected, (2e-3, 2e-2))


@kernel(
    "fused_abs_max1", "fused_abs_max1_impl", "cus_fused_abs_max1",
    {"1x64": (1, 64), "1x128": (1, 128), "2x128": (2, 128), "9x128": (9, 128)},
)  # fmt: skip
def _fused_abs_max1(rng: np.random.Generator, batch: int, n: int) -> Case:
    """Row b of the result holds the largest magnitude of the b-th 32nd of the elements, 64 times."""
    x = normal(rng, (batch, n, n), F32)
    y = np.repeat(np.abs(x).reshape(32, -1).max(axis=1)[:, None], 64, axis=1)
    return Case((tensor(x), tensor(y)), {"origin_shape": (-1, -1)}, [x], [y], (0, 0))


@kernel(
    "img2col", "img2col_impl", "cus_img2col",
    {"7x7k3": (32, 7, 3, 1), "14x14k3s2": (32, 14, 3, 2), "7x7k1": (32, 7, 1, 1), "14x14k1s2": (64, 14, 1, 2)},
)  # fmt: skip
def img2col(rng: np.random.Generator, c1: int, size: int, filter_size: int, stride: int) -> Case:
    """Columns (c1, kh, kw, c0) of the output pixels of 32 images, as NZ fractals."""
    x = normal(rng, (32, c1, size, size, 16))
    pad = filter_size // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0)))
    out = size // stride
    last = (out - 1) * stride + 1
    taps = [
        padded[:, :, kh : kh + last : stride, kw : kw + last : stride]
        for kh in range(filter_size)
        for kw in range(filter_size)
    ]
    columns = np.stack(taps, axis=2)  # image, c1, tap, h, w, c0
    pixels = columns.transpose(1, 2, 0, 3, 4, 5).reshape(c1 * len(taps), 32 * out * out // 16, 16, 16)
    args = (tensor(x), tensor(pixels), (1, filter_size, filter_size, 1), (1, stride, stride, 1), (1, 1, 1, 1), "same")
    return Case(args, {}, [x], [pixels], (0, 0))


@kernel("matmul_cube_dense_left", "matmul_cube_dense_left_impl", "cus_matmul_cube_dense_left", {"1008x2048": ()})
def _dense_left(rng: np.random.Generator) -> Case:
    a, b = normal(rng, (1008, 1008), F16, 0.1), normal(rng, (1008, 2048))
    y = tiles(block_diagonal(wide(a)) @ wide(b), "CRrc")
    inputs = [tiles(a, "CRrc"), tiles(b, "CRrc")]
    args = (tensor(a), tensor(b, format="FRACTAL_NZ"), None, tensor(y, F16))
    return Case(args, {}, inputs, [y], (2e-3, 2e-3))


@kernel("matmul_cube_dense_right", "matmul_cube_dense_right_impl", "cus_matmul_cube_dense_right", {"1008x2048": ()})
def _dense_right(rng: np.random.Generator) -> Case:
    a, b = normal(rng, (1008, 2048)), normal(rng, (2048, 2048), F16, 0.1)
    factor = np.array([1.75], F32)
    y = tiles(wide(a) @ block_diagonal(wide(b)) * 1.75, "CRrc")
    inputs = [tiles(a, "CRrc"), tiles(b, "CRrc"), factor]
    args = (*map(tensor, inputs), tensor(y, F32))
    return Case(args, {}, inputs, [y], (1e-5, 1e-4))


@kernel(
    "matmul_cube_fracz_left_cast", "matmul_cube_fracz_left_cast_impl", "cus_matmul_cube_fraczleftcast",
    {"64x64": (64, 64), "128x256": (128, 256), "256x512": (256, 512)},
)  # fmt: skip
def _fracz_left_cast(rng: np.random.Generator, m: int, n: int) -> Case:
    a, b = normal(rng, (m, m), F16, 0.1), normal(rng, (m, n), F32)
    y = tiles(block_diagonal(wide(a)) @ wide(b.astype(F16)), "CRrc")
    inputs = [tiles(a, "CRrc"), tiles(b, "CRrc")]
    return Case((tensor(a), tensor(b), None, tensor(y, F16)), {}, inputs, [y], (2e-3, 2e-3))


@kernel(
    "matmul_cube_fracz_right_mul", "matmul_cube_fracz_right_mul_impl", "cus_matmul_cube_fraczrightmul",
    {"64x64": (64, 64), "512x128": (512, 128), "128x256": (128, 256), "64x576": (64, 576)},
)  # fmt: skip
def _fracz_right_mul(rng: np.random.Generator, m: int, k: int) -> Case:
    a, b = normal(rng, (m, k)), normal(rng, (k, k), F16, 0.1)
    factor = np.array([0.625], F32)
    right = block_diagonal(wide(b)) if k % 128 == 0 else wide(b)  # whole blocks of 128 are taken as diagonal ones
    y = tiles(wide(a) @ right * 0.625, "CRrc")
    inputs = [tiles(a, "CRrc"), tiles(b, "CRrc"), factor]
    return Case((*map(tensor, inputs), tensor(y, F32)), {}, inputs, [y], (1e-5, 1e-4))


def _dds_scores(q: np.ndarray, k: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray]:
    """(block, 64, 64) local and (block, 64, seq / 4) global products of one head."""
    seq, e = q.shape
    rows = wide(q).reshape(seq // 64, 64, e)
    return rows @ wide(k).reshape(seq // 64, 64, e).swapaxes(1, 2), rows @ wide(k[global_rows(h, seq)]).T


@kernel("matmul_dds", "matmul_dds_impl", "matmul_dds", {"b1h2s512": (1, 2, 512), "b2h1s1024": (2, 1, 1024)})
def _matmul_dds(rng: np.random.Generator, batch: int, heads: int, seq: int) -> Case:
    """Softmax over the keys of the own block of 64 and the shared keys together, masks added before."""
    q, k = (normal(rng, (batch, heads, seq, 128), F16, 0.25) for _ in range(2))
    local_mask = normal(rng, (batch, seq // 64, 64, 64), F32)
    global_mask = normal(rng, (batch, seq, seq // 4), F32)
    local = np.zeros((batch, heads, seq // 64, 64, 64))
    shared = np.zeros((batch, heads, seq // 64, 64, seq // 4))
    for b, h in np.ndindex(batch, heads):
        x, y = _dds_scores(q[b, h], k[b, h], h)
        both = np.concatenate([x + local_mask[b], y + global_mask[b].reshape(y.shape)], axis=-1)
        p = np.exp(both - both.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        local[b, h], shared[b, h] = p[..., :64], p[..., 64:]
    # Columns of the masks' fractals run over (block, key) resp. (batch, key).
    lm = tiles(local_mask.transpose(0, 2, 1, 3).reshape(batch * 64, seq), "CRrc")
    gm = tiles(global_mask.transpose(1, 0, 2).reshape(seq, batch * seq // 4), "CRrc")
    inputs = [_rows_of_heads(q, "CRrc"), _rows_of_heads(k, "CRrc"), lm, gm]
    # The kernel takes its block size from the first dimension of the mask's description: 64.
    args = (
        tensor(inputs[0]),
        tensor(inputs[1]),
        tensor((64, *lm.shape[1:]), F32),
        tensor(gm),
        None,
        None,
        batch,
        heads,
    )
    return Case(args, {}, inputs, [tiles(local, "CRrc"), tiles(shared, "CRrc")], (2e-2, 1e-4))


@kernel(
    "matmul_dds_grad", "matmul_dds_grad_impl", "matmul_dds_grad", {"b1h2s512": (1, 2, 512), "b1h1s1024": (1, 1, 1024)}
)
def _matmul_dds_grad(rng: np.random.Generator, batch: int, heads: int, seq: int) -> Case:
    q, k = (normal(rng, (batch, heads, seq, 128), F16, 0.5) for _ in range(2))
    blocks = (batch, heads, seq // 64, 64)
    p = rng.random((*blocks, 64 + seq // 4))
    p = (p / p.sum(axis=-1, keepdims=True)).astype(F16)
    dp = normal(rng, p.shape)
    dq, dk = np.zeros(q.shape), np.zeros(k.shape)
    for b, h in np.ndindex(batch, heads):
        rows = global_rows(h, seq)
        prob, grad = wide(p[b, h]), wide(dp[b, h])
        ds = prob * (grad - (prob * grad).sum(axis=-1, keepdims=True))
        own, shared = ds[..., :64], ds[..., 64:]
        key = wide(k[b, h]).reshape(-1, 64, 128)
        query = wide(q[b, h]).reshape(-1, 64, 128)
        dq[b, h] = (own @ key + shared @ wide(k[b, h, rows])).reshape(seq, 128)
        dk[b, h] = (own.swapaxes(1, 2) @ query).reshape(seq, 128)
        dk[b, h, rows] += np.einsum("bmk,bme->ke", shared, query)
    parts = [tiles(np.ascontiguousarray(x), "CRrc") for y in (p, dp) for x in (y[..., :64], y[..., 64:])]
    inputs = [_rows_of_heads(q, "CRrc"), _rows_of_heads(k, "CRrc"), *parts]
    expected = [_rows_of_heads(dq, "CRrc"), _rows_of_heads(dk, "RCcr")]
    return Case((*map(tensor, inputs), None, None), {}, inputs, expected, (1e-2, 2e-3))


@kernel(
    "matrix_combine",
    "matrix_combine_impl",
    "cus_matrix_combine",
    {"1x64": (1, 64), "2x128": (2, 128), "5x128": (5, 128)},
)
def _matrix_combine(rng: np.random.Generator, batch: int, n: int) -> Case:
    x = normal(rng, (batch, n, n), F32)
    y = np.zeros((batch * n, batch * n), F32)
    for k in range(batch):
        y[k * n : (k + 1) * n, k * n : (k + 1) * n] = x[k]
    return Case((tensor(x), tensor(y)), {}, [x], [y], (0, 0))


@kernel(
    "transpose02314", "transpose02314_impl", "cus_transpose02314",
    {"32x7x7": (32, 7), "128x7x7": (128, 7), "16x14x14": (16, 14), "8x28x28": (8, 28)},
)  # fmt: skip
def _transpose02314(rng: np.random.Generator, c1: int, size: int) -> Case:
    x = normal(rng, (32, c1, size, size, 16))
    y = np.ascontiguousarray(x.transpose(0, 2, 3, 1, 4))
    return Case((tensor(x), tensor(y)), {}, [x], [y], (0, 0))
