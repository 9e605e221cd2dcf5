# SPDX-License-Identifier: Apache-2.0
"""Public kernels of points, boxes and voxels (Ascend/DrivingSDK), as whole projects, against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from ascendc_public import RNG, find, kernel, same, single

import ms_custom_ops as mco


def _op(folder: Path, end: str, name: str) -> Callable:
    include = find(folder, "include/ge/utils.h").parents[1]
    return mco.ascendc.load_project(find(folder, end), include_dirs=[include])[name]


@kernel
def max_pool(folder: Path) -> None:
    x = single(2, 13, 11, 16)
    padded = np.full((2, 15, 13, 16), -np.inf, np.float32)
    padded[:, 1:14, 1:12] = x
    wanted = np.max([padded[:, i : i + 13 : 2, j : j + 11 : 2] for i in range(3) for j in range(3)], axis=0)
    same(_op(folder, "kernels/max_pool2d", "MaxPool2d")(x), wanted)


@kernel
def group_points(folder: Path) -> None:
    op = _op(folder, "kernels/group_points", "GroupPoints")
    points, places = single(2, 50, 16), RNG.integers(0, 50, (2, 9, 5)).astype(np.int32)
    got = op(points, places, b=2, c=16, n=50, npoints=9, nsample=5)
    same(got.reshape(2, 9, 5, 16), np.stack([points[i][places[i]] for i in range(2)]))


@kernel
def deformable_attention(folder: Path) -> None:
    op = _op(folder, "kernels/multi_scale_deformable_attn", "MultiScaleDeformableAttn")
    for width, levels, points in ((16, 2, 4), (20, 3, 2)):
        shapes = np.array([[6, 7], [3, 4], [2, 2]][:levels], np.int32)
        starts = np.concatenate([[0], np.cumsum(shapes.prod(1))[:-1]]).astype(np.int32)
        value = single(2, int(shapes.prod(1).sum()), 4, width)
        where = RNG.uniform(-0.1, 1.1, (2, 9, 4, levels, points, 2)).astype(np.float32)
        weights = RNG.uniform(size=(2, 9, 4, levels, points)).astype(np.float32)
        wanted = np.zeros((2, 9, 4, width))
        for b, q, h, level, p in np.ndindex(weights.shape):
            height, across = shapes[level]
            rows = value[b, starts[level] : starts[level] + height * across, h].reshape(height, across, width)
            x, y = where[b, q, h, level, p].astype(np.float64) * (across, height) - 0.5
            for c, r in ((np.floor(x) + i, np.floor(y) + j) for i in (0, 1) for j in (0, 1)):
                if 0 <= c < across and 0 <= r < height:
                    share = (1 - abs(x - c)) * (1 - abs(y - r))
                    wanted[b, q, h] += weights[b, q, h, level, p] * share * rows[int(r), int(c)]
        same(op(value, shapes, starts, where, weights).reshape(wanted.shape), wanted, 1e-3, 1e-4)
