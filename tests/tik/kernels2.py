# SPDX-License-Identifier: Apache-2.0
"""What the tests of gather, sorting, h_ and register methods share: a kernel around some calls, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from programs import same_bits

from ms_custom_ops import tik
from ms_custom_ops.engine import native as engine
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.soc import use_soc

GUARD = 7  # what outputs hold where a kernel does not write


def padded(array: np.ndarray) -> np.ndarray:
    """The array with zeros up to whole blocks of 32 bytes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    blocks = -(-flat.nbytes // 32) * 32
    return np.concatenate([flat, np.zeros((blocks - flat.nbytes) // flat.itemsize, flat.dtype)])


class Kernel:
    """UB tensors of the inputs, and of the outputs filled with GUARD."""

    def __init__(self, t: Any, inputs: dict[str, np.ndarray], outputs: dict[str, tuple[str, int]]):
        self.t = t
        self.gm: dict[str, Any] = {}
        for name, array in inputs.items():
            self._tensor(name, _dtype(array), array.size)
        for name, (dtype, count) in outputs.items():
            self._tensor(name, dtype, count)
            self.gm[f"{name}_out"] = t.Tensor(dtype, (count,), tik.scope_gm, f"{name}_out")

    def _tensor(self, name: str, dtype: str, count: int) -> None:
        self.gm[name] = self.t.Tensor(dtype, (count,), tik.scope_gm, f"{name}_gm")
        ub = self.t.Tensor(dtype, (count,), tik.scope_ubuf, name)
        self.t.data_move(ub, self.gm[name], 0, 1, count * SIZE[dtype] // 32, 0, 0)
        setattr(self, name, ub)


def _dtype(array: np.ndarray) -> str:
    return next(name for name, d in DTYPES.items() if d.numpy == array.dtype)


def run_kernel(
    body: Callable[[Any, Kernel], None],
    inputs: dict[str, np.ndarray],
    outputs: dict[str, tuple[str, int]],
    soc: str = "Ascend310P3",
    ulp: int = 0,
    saturate: bool | None = None,
) -> dict[str, np.ndarray]:
    """Outputs of a kernel whose body is ``body(tik_instance, kernel)``; both engines must agree bit for bit.

    ``outputs`` maps names to (dtype, elements); sizes are rounded up to whole blocks.
    """
    feed = {n: padded(a) for n, a in inputs.items()}
    sizes = {n: (d, -(-c * SIZE[d] // 32) * 32 // SIZE[d]) for n, (d, c) in outputs.items()}
    with use_soc(soc):
        t = tik.Tik(saturate=saturate)
        k = Kernel(t, feed, sizes)
        body(t, k)
        for name, (dtype, count) in sizes.items():
            t.data_move(k.gm[f"{name}_out"], getattr(k, name), 0, 1, count * SIZE[dtype] // 32, 0, 0)
        t.BuildCCE("kernel", [k.gm[n] for n in (*feed, *sizes)], [k.gm[f"{n}_out"] for n in sizes])
    program = t.programs[0]
    guards = [np.full(c, GUARD, DTYPES[d].numpy) for d, c in sizes.values()]
    results = [engine.run(program, [*feed.values(), *guards], engine=e) for e in ("native", "reference")]
    for name, got, want in zip(sizes, *results, strict=True):
        same = same_bits(got, want, sizes[name][0], ulp)
        at = np.flatnonzero(~same)
        assert same.all(), f"{name}: engines differ at {at[:4]}: native {got[at[:4]]}, reference {want[at[:4]]}"
    return {n: r[: outputs[n][1]] for n, r in zip(sizes, results[0], strict=True)}
