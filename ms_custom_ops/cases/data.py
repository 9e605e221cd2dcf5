# SPDX-License-Identifier: Apache-2.0
"""Arrays of a case, made from its seed, and how they lie in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.model import Fill, PlannedCase

#: contiguous; swapped: the last two axes are stored the other way round; stepped: every second value of a row.
LAYOUTS = ("contiguous", "swapped", "stepped")


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a full dtype name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def filled(rng: np.random.Generator, fill: Fill, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A C-contiguous array of ``fill``; for integers, a uniform range includes both its ends."""
    kind = numpy_dtype(dtype)
    if fill.kind == "normal":
        array = rng.standard_normal(shape) * fill.high
    elif fill.kind == "constant":
        array = np.full(shape, fill.high)
    elif kind.kind in "iub":
        array = rng.integers(int(fill.low), int(fill.high) + 1, shape).astype(np.float64)
    else:
        array = rng.uniform(fill.low, fill.high, shape)
    if fill.upper is not None:
        array = np.where(np.triu(np.ones(shape[-2:], bool)), fill.upper, array)
    if fill.lower is not None:
        array = np.where(np.tril(np.ones(shape[-2:], bool)), fill.lower, array)
    return np.ascontiguousarray(array.astype(np.float32) if kind == ml_dtypes.bfloat16 else array).astype(kind)


def plain_fill(dtype: str) -> Fill:
    """What a tensor holds of which nothing is known: normal numbers; -9 to 9, 0 to 9 or 0 and 1 for integers."""
    kind = numpy_dtype(dtype).kind
    if kind in "iub":
        return Fill("uniform", -9.0 if kind == "i" else 0.0, 1.0 if kind == "b" else 9.0)
    return Fill("normal", 0.0, 1.0)


def make_arrays(case: PlannedCase) -> dict[str, np.ndarray]:
    """The tensors that are there, C-contiguous. The same case gives the same bits on every machine."""
    known = case_data(case.op)
    arrays: dict[str, np.ndarray] = {}
    for index, arg in enumerate(case.op.tensors):
        shape, dtype = case.shapes.get(arg.name), case.dtypes.get(arg.name)
        if shape is None or dtype is None:
            continue
        rng = np.random.default_rng((*case.seed, index))
        fill = case.fills.get(arg.name)
        if fill is None and arg.name in known.makers:
            made = known.makers[arg.name](rng, shape, case.symbols, case.attrs)
            arrays[arg.name] = np.ascontiguousarray(made).astype(numpy_dtype(dtype))
        else:
            arrays[arg.name] = filled(rng, fill or plain_fill(dtype), shape, dtype)
    if known.complete is not None and not case.invalid:
        known.complete(case, np.random.default_rng((*case.seed, len(case.op.tensors))), arrays)
    return arrays


def stored(array: np.ndarray, layout: str) -> np.ndarray:
    """The memory that ``layout`` keeps ``array`` in; :func:`view` of it is the array again."""
    if layout == "swapped":
        return np.ascontiguousarray(array.swapaxes(-1, -2))
    if layout == "stepped":
        base = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        base[..., 1::2] = 7  # a kernel that ignores the step reads these
        base[..., ::2] = array
        return base
    return array


def view(base: np.ndarray, layout: str) -> np.ndarray:
    """The array in the memory of :func:`stored`."""
    return {"swapped": lambda: base.swapaxes(-1, -2), "stepped": lambda: base[..., ::2]}.get(layout, lambda: base)()
