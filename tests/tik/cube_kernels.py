# SPDX-License-Identifier: Apache-2.0
"""Small kernels for the tests of the cube family: run on the reference engine, their tensors, maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops import tik
from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.program.dtypes import DTYPES
from ms_custom_ops.tik.trace import trace

RNG = np.random.default_rng(17)


def run(
    body: Callable[[tik.Tik, list, list], None],
    inputs: list[np.ndarray],
    outputs: list[tuple[tuple, str]],
    soc: str = "Ascend910A",
) -> list[np.ndarray]:
    """Outputs of a kernel: ``body(tik_instance, input tensors, output tensors)``, all in GM."""

    def kernel() -> None:
        t = tik.Tik()
        ins = [t.Tensor(str(a.dtype), a.shape, tik.scope_gm, f"x{i}") for i, a in enumerate(inputs)]
        outs = [t.Tensor(dtype, shape, tik.scope_gm, f"y{i}") for i, (shape, dtype) in enumerate(outputs)]
        body(t, ins, outs)
        t.BuildCCE("probe", ins, outs)

    results = [np.zeros(shape, DTYPES[dtype].numpy) for shape, dtype in outputs]
    run_reference(trace(kernel, soc=soc), [np.ascontiguousarray(a) for a in inputs], [], results)
    return results


def move(t: tik.Tik, dst: Any, src: Any) -> None:
    """All of src, in whole 32-byte blocks."""
    t.data_move(dst, src, 0, 1, int(np.prod(src.shape)) * DTYPES[src.dtype].size_bytes // 32, 0, 0)


def local(t: tik.Tik, scope: str, name: str, like: Any, dtype: str | None = None) -> Any:
    return t.Tensor(dtype or like.dtype, like.shape, scope, name)


def half(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float16)


def unfolded(x: np.ndarray, kernel: tuple[int, int], stride: int, pad: int, dilation: int = 1, fill: float = 0):
    """[pixels, C, kh, kw] of a (C, H, W) map, by slicing the padded map."""
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    kh, kw = kernel
    rows = (padded.shape[1] - (kh - 1) * dilation - 1) // stride + 1
    cols = (padded.shape[2] - (kw - 1) * dilation - 1) // stride + 1
    out = np.empty((rows * cols, x.shape[0], kh, kw), x.dtype)
    for p in range(rows * cols):
        y0, x0 = p // cols * stride, p % cols * stride
        out[p] = padded[:, y0 : y0 + kh * dilation : dilation, x0 : x0 + kw * dilation : dilation]
    return out


def blocks(x: np.ndarray, c0: int = 16) -> np.ndarray:
    """(C, H, W) as [C1, H, W, C0]."""
    c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(c // c0, c0, h, w).transpose(0, 2, 3, 1))


def identity(t: tik.Tik, dst: Any, l0a: Any, rows: int) -> None:
    """L0A fractals to GM as they are: a product with the unit matrix."""
    ones = t.Tensor("float16", (256,), tik.scope_ubuf, "ones")
    t.vec_dup(128, ones, 0.0, 2, 8)
    with t.for_range(0, 16) as i:
        ones[i * 17].set_as(1.0)
    unit_l1 = t.Tensor("float16", (256,), tik.scope_cbuf, "unit_l1")
    unit = t.Tensor("float16", (256,), tik.scope_cb, "unit")
    t.data_move(unit_l1, ones, 0, 1, 16, 0, 0)
    t.load2dv1(unit, unit_l1, 0, 1, 0, 0)
    l0c = t.Tensor("float32", (rows, 16, 16), tik.scope_cc, "l0c")
    ub = t.Tensor("float16", (rows, 16, 16), tik.scope_ubuf, "ub")
    t.mmad(l0c, l0a, unit, rows * 16, 16, 16, 0)
    t.tensor_mov(ub, l0c, "m", 1, rows, 0, 0)
    t.data_move(dst, ub, 0, 1, rows * 16, 0, 0)
