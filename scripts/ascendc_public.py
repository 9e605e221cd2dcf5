# SPDX-License-Identifier: Apache-2.0
"""What the tables of public Ascend C kernels share: the registry, files of the given folder, comparisons."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(0)
KERNELS: dict[str, Callable[[Path], None]] = {}


class Missing(Exception):
    """A file that the folder does not hold."""


def kernel(function: Callable[[Path], None]) -> Callable[[Path], None]:
    KERNELS[function.__name__] = function
    return function


@functools.cache
def _files(folder: Path) -> tuple[str, ...]:
    return tuple(str(path) for path in folder.rglob("*"))


def find(folder: Path, end: str) -> Path:
    """The file or folder whose path ends so."""
    for path in _files(folder):
        if path.endswith("/" + end):
            return Path(path)
    raise Missing(end)


def same(got: np.ndarray, wanted: np.ndarray, rtol: float = 0, atol: float = 0) -> None:
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol)


def half(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float16)


def single(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)
