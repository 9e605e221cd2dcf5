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


@kernel
def pointwise(folder: Path) -> None:
    x, y, g = single(33, 65), single(33, 65), single(33, 65)
    same(_op(folder, "kernels/add_relu", "AddRelu")(x, y), np.maximum(x + y, 0))
    z = np.hypot(x, y)
    same(_op(folder, "kernels/hypot", "Hypot")(x, y), z, 1e-5, 1e-5)
    for got, side in zip(_op(folder, "kernels/hypot", "HypotGrad")(x, y, z, g), (x, y), strict=True):
        same(got, g * side / z, 1e-4, 1e-5)
    x, largest = single(1000), np.array([2.5], np.float32)
    quantize = _op(folder, "kernels/fake_tensor_quant", "FakeTensorQuant")
    scale = np.float32(127) / largest[0]
    wanted = np.clip(np.rint(x * scale), -127, 127) / scale
    same(quantize(x, largest, num_bits=8, is_unsigned=False, narrow_range=True), wanted, 1e-5, 1e-5)


@kernel
def farthest_points(folder: Path) -> None:
    batch, count, wanted = 2, 200, np.zeros((2, 9), np.int32)
    points, far = single(batch, 3, count), np.full((batch, count), 1e10, np.float32)
    for b in range(batch):
        nearest = far[b].copy()
        for i in range(1, 9):
            nearest = np.minimum(nearest, ((points[b] - points[b][:, wanted[b, i - 1], None]) ** 2).sum(0))
            wanted[b, i] = nearest.argmax()
    op = _op(folder, "kernels/furthest_point_sampling", "FurthestPointSampling")
    same(op(points, far, num_points=9), wanted)


@kernel
def nearest_points(folder: Path) -> None:
    points, centers, k = single(2, 3, 130), single(2, 17, 3), 5
    squares = ((centers[:, :, None] - points.transpose(0, 2, 1)[:, None]) ** 2).sum(-1)
    distances, places = _op(folder, "kernels/knn", "Knn")(points, centers, is_from_knn=True, k=k)
    same(np.sort(distances, -1), np.sort(squares, -1)[..., :k], 1e-4, 1e-4)
    same(np.take_along_axis(squares, places.astype(np.int64), -1), distances, 1e-4, 1e-4)


@kernel
def voxel_sums(folder: Path) -> None:
    batch, count, width, x, y = 2, 50, 32, 6, 5
    where = RNG.integers(-1, 7, (batch, count, 3)).astype(np.int32)
    where[..., 2] = 0
    features, wanted = single(batch, count, width), np.zeros((batch, y, x, width))
    for b, n in np.ndindex(batch, count):
        if 0 <= where[b, n, 0] < x and 0 <= where[b, n, 1] < y:
            wanted[b, where[b, n, 1], where[b, n, 0]] += features[b, n]
    op = _op(folder, "kernels/voxel_pooling_train", "VoxelPoolingTrain")
    sizes = {"num_voxel_x": x, "num_voxel_y": y, "num_voxel_z": 1}
    out, _ = op(where, features, batch_size=batch, num_points=count, num_channels=width, **sizes)
    same(out.reshape(wanted.shape), wanted, 1e-5, 1e-5)


@kernel
def graph_softmax(folder: Path) -> None:
    edges, nodes = single(60, 8), RNG.integers(0, 7, 60).astype(np.int32)
    nodes[0] = 6
    powers = np.exp(edges.astype(np.float64))
    sums = np.zeros((7, 8))
    np.add.at(sums, nodes, powers)
    same(_op(folder, "kernels/graph_softmax", "GraphSoftmax")(edges, nodes, N=7), powers / sums[nodes], 1e-3, 1e-4)


@kernel
def pooled_cells(folder: Path) -> None:
    count, width, height, across = 60, 32, 5, 6
    features, cells = single(count, width), np.sort(RNG.integers(0, height * across, count))
    starts = np.flatnonzero(np.diff(cells, prepend=-1)).astype(np.int32)
    lengths = np.diff(np.append(starts, count)).astype(np.int32)
    places = np.zeros((count, 4), np.int32)
    places[:, 0], places[:, 1] = cells // across, cells % across
    op = _op(folder, "kernels/bev_pool", "BEVPool")
    out = op(features, places, lengths, starts, b=1, d=1, h=height, w=across, c=width)
    wanted = np.zeros((height * across, width))
    np.add.at(wanted, cells, features.astype(np.float64))
    same(out.reshape(wanted.shape), wanted, 1e-5, 1e-5)


@kernel
def unique(folder: Path) -> None:
    x = RNG.integers(0, 500, 3000).astype(np.int32)
    values, count = _op(folder, "kernels/unique_v2", "UniqueV2")(x)
    same(values[: int(count.ravel()[0])], np.unique(x))


@kernel
def scattered(folder: Path) -> None:
    for rows, width, slots in ((37, 8, 5), (200, 33, 17), (64, 1, 9)):
        x, index, zeros = single(rows, width), RNG.integers(0, slots, rows).astype(np.int32), np.zeros((slots, width))
        sums = zeros.copy()
        np.add.at(sums, index, x)
        op, start = _op(folder, "kernels/scatter_add", "ScatterAddV1"), zeros.astype(np.float32)
        same(op(x, index, start, dim=0, out_shapes=[zeros.shape]), sums, 1e-5, 1e-5)
        gradient = _op(folder, "kernels/scatter_add", "ScatterAddGradV1")
        same(gradient(start + 1, index, dim=0, out_shapes=[x.shape]), np.ones_like(x))
        op = _op(folder, "kernels/scatter_mean", "ScatterMean")
        total, count = op(x, index, start, dim=0, out_shapes=[zeros.shape, (slots,)])
        same(total, sums, 1e-5, 1e-5)
        same(count, np.bincount(index, minlength=slots))
    width, batch, points, chosen = 16, 2, 30, 7 * 5
    index, gradients = RNG.integers(0, points, (batch, chosen)).astype(np.int32), single(batch, chosen, width)
    sums = np.zeros((batch, points, width))
    for at in range(batch):
        np.add.at(sums[at], index[at], gradients[at])
    op = _op(folder, "kernels/group_points", "GroupPointsGrad")
    sizes = dict(b=batch, c=width, n=points, npoints=7, nsample=5)
    got = op(gradients.reshape(-1, width), index.ravel(), **sizes, out_shapes=[sums.shape])
    same(got, sums, 1e-5, 1e-5)


@kernel
def pools_by_rank(folder: Path) -> None:
    """Cells of a grid that sum depths times features, ranked, in the two later forms, and the first one's gradient."""
    height, width, channels, points = 4, 5, 32, 50
    depth, features = single(1, 2, 3, 4, 5), single(1, 2, 4, 5, channels)
    of_depth, of_features = (RNG.integers(0, n, points).astype(np.int32) for n in (depth.size, 40))
    cells = np.sort(RNG.integers(0, height * width, points)).astype(np.int32)
    starts = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]]).astype(np.int32)
    lengths = np.diff(np.r_[starts, points]).astype(np.int32)
    terms = depth.ravel()[of_depth][:, None] * features.reshape(-1, channels)[of_features]
    sums = np.zeros((height * width, channels))
    np.add.at(sums, cells, terms)
    sizes = dict(b=1, d=1, h=height, w=width, c=channels)
    shape = (1, 1, height, width, channels)
    op = _op(folder, "kernels/bev_pool_v2", "BEVPoolV2")
    got = op(depth, features, of_depth, of_features, cells, lengths, starts, **sizes, out_shapes=[shape])
    same(got.reshape(sums.shape), sums, 1e-4, 1e-4)
    op = _op(folder, "kernels/bev_pool_v3", "BEVPoolV3")
    got = op(depth, features, of_depth, of_features, cells, with_depth=True, **sizes, out_shapes=[shape])
    same(got.reshape(sums.shape), sums, 1e-4, 1e-4)
    got = op(None, terms, None, None, cells, with_depth=False, **sizes, out_shapes=[shape])
    same(got.reshape(sums.shape), sums, 1e-4, 1e-4)
    gradient = single(*shape)
    zeros = np.zeros_like(cells)
    places = np.stack([cells // width, cells % width, zeros, zeros], 1)
    op = _op(folder, "kernels/bev_pool", "BEVPoolGrad")
    got = op(gradient, places, lengths, starts, **sizes, out_shapes=[(points, channels)])
    same(got, gradient.reshape(-1, channels)[cells])


@kernel
def voxel_codes(folder: Path) -> None:
    points = RNG.integers(0, 200, (3, 1003)).astype(np.int32)
    x, y, z = points
    codes = x * 2048 * 256 + y * 256 + z
    none = dict(voxel_sizes=[-1.0] * 3, coor_ranges=[-1.0] * 6, layout="XYZ")
    got = _op(folder, "DrivingSDK/kernels", "PointToVoxel")(points, **none, out_shapes=[(1003,)])
    same(got.view(np.int32), codes)
    same(_op(folder, "DrivingSDK/kernels", "VoxelToPoint")(codes, **none, out_shapes=[points.shape]), points)


@kernel
def distances(folder: Path) -> None:
    batch, points, chosen = 2, 50, 7
    x = single(batch, points, 3)
    apart = ((x[:, :, None] - x[:, None]) ** 2).sum(-1).astype(np.float32)
    op = _op(folder, "kernels/furthest_point_sampling_with_dist", "FurthestPointSamplingWithDist")
    far = np.full((batch, points), 1e10, np.float32)
    got = op(apart, far.copy(), num_points=chosen, out_shapes=[(batch, chosen)])
    for at in range(batch):
        nearest, wanted = far[at].copy(), [0]
        for _ in range(chosen - 1):
            nearest = np.minimum(nearest, apart[at, wanted[-1]])
            wanted.append(int(nearest.argmax()))
        same(got[at], np.array(wanted))
    index, out, gradient = RNG.integers(0, 7, 45).astype(np.int32), single(45, 8), single(45, 8)
    sums = np.zeros((7, 8), np.float32)
    np.add.at(sums, index, out * gradient)
    op = _op(folder, "kernels/graph_softmax", "GraphSoftmaxGrad")
    got = op(index, out, gradient, np.zeros((7, 8), np.float32), node_num=7, out_shapes=[(45, 8)])
    same(got, out * (gradient - sums[index]), 1e-4, 1e-4)


@kernel
def scatter_max(folder: Path) -> None:
    """Into a result that starts as minus infinity, and the places of the largest ones."""
    rows, width, slots = 60, 16, 9
    x, index = single(rows, width), RNG.integers(0, slots, rows).astype(np.int32)
    wanted = np.full((slots, width), -np.inf, np.float32)
    np.maximum.at(wanted, index, x)
    shapes = dict(out_shapes=[wanted.shape] * 2)
    op = _op(folder, "kernels/scatter_max", "ScatterMaxV1")
    found, _ = op(x, index, **shapes, out_values={"res": np.full_like(wanted, -np.inf)})
    same(found, wanted)
