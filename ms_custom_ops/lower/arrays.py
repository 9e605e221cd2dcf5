# SPDX-License-Identifier: Apache-2.0
"""Steps on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ms_custom_ops.lower.steps import Chain, Step, Steps, of_zeros

Arrays = Mapping[str, np.ndarray]


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a full dtype name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _pad(x: np.ndarray, axis: int, count: int, value: float) -> np.ndarray:
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return np.concatenate([x, np.full(shape, value, x.dtype)], axis)


def _step(x: np.ndarray, step: Step, computed: Arrays) -> np.ndarray:
    kind, rest = step[0], step[1:]
    if kind == "pad":
        return _pad(x, *rest)
    if kind == "cut":
        return x[(slice(None),) * rest[0] + (slice(rest[1]),)]
    if kind == "cast":
        with np.errstate(over="ignore"):  # beyond float16 the result is inf
            return x.astype(numpy_dtype(rest[0]))
    if kind == "flags":
        return (x != 0).astype(np.float16)
    if kind == "reshape":
        return x.reshape(rest[0])
    if kind == "broadcast":
        return np.broadcast_to(x, rest[0])
    if kind == "repeat":
        return np.concatenate([x, np.repeat(x[-1:], rest[0])])
    if kind == "corner":
        return x[..., : rest[0], : rest[1]]
    if kind == "swap":
        return np.swapaxes(x, 0, 1)
    if kind == "batch":
        return x[None]
    if kind == "unbatch":
        return x[0]
    if kind == "take":
        return np.take(x, computed[rest[0]], rest[1])
    if kind == "keep":
        mask = computed[rest[0]].reshape((-1,) + (1,) * (x.ndim - rest[1] - 1))
        return np.where(mask, x, np.zeros((), x.dtype))
    if kind == "transpose":
        return x.transpose(rest[0])
    if kind == "bits":
        return np.unpackbits(x, axis=-1, bitorder="little")
    if kind == "tile":
        return np.broadcast_to(x[..., None], (*x.shape, rest[0]))
    if kind == "first":
        return x[..., 0]
    if kind == "sum":
        return x.sum(dtype=np.float32).reshape(1)
    assert kind == "stop", kind
    return x


def apply(chain: Chain | None, tensors: Arrays) -> np.ndarray | None:
    """The array that ``chain`` makes; ``tensors`` by the names of sources. None of None."""
    if chain is None:
        return None
    steps = chain.steps
    if chain.source is None:
        shape, steps = of_zeros(chain)
        x = np.zeros(shape, numpy_dtype(chain.dtype))
    else:
        x = tensors[chain.source] if isinstance(chain.source, str) else np.array(chain.source, np.int32)
    for step in steps:
        x = _step(x, step, tensors)
    return x


def prepare(steps: Steps, arrays: Arrays) -> dict[str, np.ndarray | None]:
    """Arrays of the primitive's tensors from those of the call (absent ones left out)."""
    tensors = with_computed(steps, arrays)
    return {name: apply(chain, tensors) for name, chain in steps.inputs.items()}


def with_computed(steps: Steps, arrays: Arrays) -> dict[str, np.ndarray]:
    """``arrays`` and the computed tensors."""
    tensors = dict(arrays)
    for item in steps.computed:
        tensors.update(zip(item.names, item.values(item.arrays(tensors)), strict=True))
    return tensors


def finish(steps: Steps, arrays: Arrays, results: Arrays) -> dict[str, np.ndarray]:
    """Public outputs that were asked for, from the primitive's results; of an empty call, ``results`` is not read."""
    tensors: dict[str, Any] = {**with_computed(steps, arrays), **results} if not steps.empty else dict(arrays)
    chains = steps.answers if steps.empty else steps.outputs
    return {name: x for name, chain in chains.items() if (x := apply(chain, tensors)) is not None}
