# SPDX-License-Identifier: Apache-2.0
"""The TIK kernels of the installed MindSpore wheel, imported unmodified, against NumPy formulas.

Layouts: a matrix M[r, c] in 16x16 fractals is written ``tiles(M, order)`` below, ``order`` naming the axes
(R, C number the fractals, r, c the elements in one) from the slowest to the fastest.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

from ms_custom_ops import compat, engine
from ms_custom_ops.errors import EngineError, TikOverflowError
from ms_custom_ops.tik.trace import trace

PACKAGE = "mindspore.ops._op_impl._custom_op."
SOC = "Ascend910A"
F16, F32 = "float16", "float32"


@pytest.fixture(scope="module", autouse=True)
def served_names() -> Iterator[None]:
    """The import names of CANN, and the root logger as it was (some of the kernels configure it)."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    compat.install()
    yield
    compat.uninstall()
    root.setLevel(level)
    root.handlers[:] = handlers


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
def _batch_matmul(rng: np.random.Generator, batch: int, n: int) -> Case:
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
def _img2col(rng: np.random.Generator, c1: int, size: int, filter_size: int, stride: int) -> Case:
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


def traced(name: str, case: Case) -> Any:
    module, function, _ = KERNELS[name]
    entry = getattr(importlib.import_module(PACKAGE + module), function)
    return trace(entry, *case.args, soc=SOC, **case.kwargs)


def check(program: Any, case: Case, which: str) -> None:
    outputs = engine.run(program, case.inputs, which)
    rtol, atol = case.tolerance
    for got, want in zip(outputs, case.expected, strict=True):
        np.testing.assert_allclose(wide(got).reshape(want.shape), wide(want), rtol=rtol, atol=atol)


def data(name: str, label: str, seed: int = 0) -> Case:
    return KERNELS[name][2][label](np.random.default_rng(seed))


SHAPES = [(name, label) for name, (_, _, shapes) in KERNELS.items() for label in shapes]
# Kernels with a defect in every shape they support: a local tensor that is too small. The elements it needs.
TOO_SMALL = {
    "matmul_cube_dense_left": {"input_2_local_l1": 65536},
    "matmul_cube_dense_right": {"input_1_local_l11": 30976},
}


def test_all_fourteen_are_here() -> None:
    assert len(KERNELS) == 14
    assert all(len(shapes) >= 2 for name, (_, _, shapes) in KERNELS.items() if name not in TOO_SMALL)


@pytest.mark.parametrize(
    ("name", "label"), [pytest.param(n, s, id=f"{n}-{s}") for n, s in SHAPES if n not in TOO_SMALL]
)
def test_result(name: str, label: str) -> None:
    case = data(name, label)
    check(traced(name, case), case, "native")


@pytest.mark.parametrize(
    ("name", "label"),
    [pytest.param(n, s, id=f"{n}-{s}") for n, s in [("batch_matmul", "1x64"), ("cholesky_trsm", "64"),
     ("fused_abs_max1", "1x64"), ("matmul_cube_fracz_left_cast", "64x64"), ("matmul_cube_fracz_right_mul", "64x64"),
     ("matrix_combine", "1x64"), ("dsd", "b1h2s512")]],
)  # fmt: skip
def test_result_of_the_reference_engine(name: str, label: str) -> None:
    case = data(name, label)
    check(traced(name, case), case, "reference")


# ---- defects of kernels: what goes wrong unmodified, and that nothing else does ----


def test_dense_left_moves_more_than_its_l1_tensor_holds() -> None:
    case = data("matmul_cube_dense_left", "1008x2048")
    with pytest.raises(
        TikOverflowError, match=r"input_2_local_l1\) overflow: elements needed 65536, elements there 32768 \[.*:178\]"
    ):
        traced("matmul_cube_dense_left", case)


@pytest.mark.parametrize("which", ["native", "reference"])
def test_dense_right_reads_a_row_of_fractals_behind_its_l1_tensor(which: str) -> None:
    case = data("matmul_cube_dense_right", "1008x2048")
    program = traced("matmul_cube_dense_right", case)
    with pytest.raises(
        EngineError, match=r"load2d: src needs bytes \[7680, 61952\) of input_1_local_l11, it has 61440 \[.*:188\]"
    ):
        engine.run(program, case.inputs, which)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", TOO_SMALL)
def test_result_with_room(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is right but for the size of that tensor: declared with room, its results agree."""
    from te import tik

    class Roomy(tik.Tik):
        def Tensor(self, dtype: str, shape: Any, *args: Any, **kwargs: Any) -> Any:
            elements = TOO_SMALL[name].get(kwargs["name"])
            return super().Tensor(dtype, shape if elements is None else (elements,), *args, **kwargs)

    monkeypatch.setattr(tik, "Tik", Roomy)
    case = data(name, "1008x2048", seed)
    check(traced(name, case), case, "native")


def test_dense_left_takes_its_tik_path_for_one_shape_only() -> None:
    """Other shapes go to the DSL, which is named."""
    x = np.zeros((64, 64), F16)
    args = (tensor(x), tensor(x), None, tensor((4, 4, 16, 16), F16))
    with pytest.raises(compat.CannMissingError, match=r"te.lang.cce.matmul: .*needs a CANN installation"):
        traced("matmul_cube_dense_left", Case(args, {}, [], [], (0, 0)))


def test_fused_abs_max1_writes_a_block_into_an_output_of_one_element() -> None:
    """The second stage with the output shape of its operator; with a block of room it is right."""
    x = normal(np.random.default_rng(0), (32, 64), F32)
    for elements in (1, 8):
        y = x.max(axis=0)[:elements]
        case = Case((tensor(x), tensor(y)), {"origin_shape": (-1, -1)}, [x], [y], (0, 0))
        if elements == 1:
            with pytest.raises(TikOverflowError, match=r"dst \(res\) overflow: elements needed 8, elements there 1"):
                traced("fused_abs_max1", case)
        else:
            check(traced("fused_abs_max1", case), case, "native")


def test_img2col_of_28x28_k3_takes_channels_0_for_all_of_them() -> None:
    """Of its nineteen shapes one fixes c1_index to 0 in the loop over C1: block 0 is right, the others repeat it."""
    case = _img2col(np.random.default_rng(0), 8, 28, 3, 1)
    (got,) = engine.run(traced("img2col", case), case.inputs)
    first = case.expected[0][:9]
    np.testing.assert_array_equal(got, np.tile(first, (8, 1, 1, 1)))


@pytest.mark.parametrize("batch", [6, 24])
def test_batch_matmul_of_a_batch_that_does_not_divide_its_blocks(batch: int) -> None:
    """Block b of 32 multiplies with matrix b // (32 // batch) of x2: for the last block there is none."""
    case = _batch_matmul(np.random.default_rng(0), batch, 128)
    size = batch * 128 * 128 * 4
    with pytest.raises(EngineError, match=rf"data_move: src needs bytes \[{size}, {size + 32768}\) of input2, it has"):
        engine.run(traced("batch_matmul", case), case.inputs)


def test_transpose02314_of_eight_channels_reads_sixteen() -> None:
    """Of the twelve shapes one has a loop over 16 where C1 is 8; it leaves both of its UB tensors."""
    x = np.zeros((32, 8, 56, 56, 16), F16)
    case = Case((tensor(x), tensor((32, 56, 56, 8, 16), F16)), {}, [x], [], (0, 0))
    with pytest.raises(EngineError, match=r"vadds: .* needs bytes .* of input_1_local_ub, it has 57344"):
        engine.run(traced("transpose02314", case), case.inputs)
