# SPDX-License-Identifier: Apache-2.0
"""More public kernels of points, images and cells (Ascend/DrivingSDK), as whole projects, against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from ascendc_public import RNG, find, half, kernel, same, single

import ms_custom_ops as mco


def _op(folder: Path, end: str, name: str) -> Callable:
    include = find(folder, "include/ge/utils.h").parents[1]
    return mco.ascendc.load_project(find(folder, f"kernels/{end}"), include_dirs=[include])[name]


def _indices(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


@kernel
def scatters(folder: Path) -> None:
    """Sums, means and maxima of rows by index, and the gradients of the first two."""
    for shape in ((50, 3, 16), (60,), (64, 128)):
        x, index, out = single(*shape), _indices(7, shape[0]), (7, *shape[1:])
        counts = np.bincount(index, minlength=7).reshape(-1, *[1] * (len(shape) - 1))
        total, grad = np.zeros(out), single(*out)
        np.add.at(total, index, x.astype(np.float64))
        added = _op(folder, "scatter_add", "ScatterAddV1")
        same(added(x, index, np.zeros(out, np.float32), dim=0, out_shapes=[out]), total, 1e-5, 1e-5)
        back = _op(folder, "scatter_add", "ScatterAddGradV1")
        same(back(grad, index, dim=0, out_shapes=[shape]), grad[index])
        if len(shape) == 1:
            continue
        mean = _op(folder, "scatter_mean", "ScatterMean")
        sums, found = mean(x, index, np.zeros(out, np.float32), dim=0, out_shapes=[out, (7,)])
        same(found, counts.ravel())
        divided = _op(folder, "scatter_mean", "ScatterMeanDiv")(sums, found, out_shapes=[out])
        same(divided, total / np.maximum(counts, 1), 1e-5, 1e-5)
        back = _op(folder, "scatter_mean", "ScatterMeanGrad")
        got = back(grad, index, np.maximum(counts, 1).ravel().astype(np.float32), dim=0, out_shapes=[shape])
        same(got, (grad / np.maximum(counts, 1))[index], 1e-5, 1e-5)
    for shape in ((100, 48), (1024, 123, 5)):
        x, index, out = np.abs(single(*shape)) + 0.1, _indices(9, shape[0]), (9, *shape[1:])
        wanted = np.zeros(out, np.float32)
        np.maximum.at(wanted, index, x)
        rows = index.reshape(-1, *[1] * (len(shape) - 1))
        same(_op(folder, "scatter_max", "ScatterMaxV1")(x, rows, out_shapes=[out, out])[0], wanted)


@kernel
def quantized_axis(folder: Path) -> None:
    x, largest = single(6, 40, 33), np.abs(single(40)) + np.float32(0.5)
    quantize = _op(folder, "fake_tensor_quant_with_axis", "FakeTensorQuantWithAxis")
    scale = (np.float32(127) / largest)[None, :, None]
    got = quantize(x, largest, axis=1, num_bits=8, is_unsigned=False, narrow_range=True)
    same(got, np.clip(np.rint(x * scale), -127, 127) / scale, 1e-5, 1e-5)


@kernel
def grouped_gradients(folder: Path) -> None:
    grad, index, wanted = single(2, 9, 5, 16), _indices(50, 2, 9, 5), np.zeros((2, 50, 16))
    for batch in range(2):
        np.add.at(wanted[batch], index[batch].ravel(), grad[batch].reshape(-1, 16))
    op = _op(folder, "group_points", "GroupPointsGrad")
    got = op(grad.reshape(-1, 16), index, b=2, c=16, n=50, npoints=9, nsample=5, out_shapes=[(100, 16)])
    same(got.reshape(wanted.shape), wanted, 1e-5, 1e-5)


@kernel
def farthest_by_distance(folder: Path) -> None:
    points, wanted = single(2, 60, 3), np.zeros((2, 11), np.int32)
    squares = ((points[:, :, None] - points[:, None]) ** 2).sum(-1).astype(np.float32)
    far = np.full((2, 60), 1e10, np.float32)
    for batch in range(2):
        nearest = far[batch].copy()
        for i in range(1, 11):
            nearest = np.minimum(nearest, squares[batch, wanted[batch, i - 1]])
            wanted[batch, i] = nearest.argmax()
    op = _op(folder, "furthest_point_sampling_with_dist", "FurthestPointSamplingWithDist")
    same(op(squares, far, num_points=11, out_shapes=[wanted.shape]), wanted)


@kernel
def cells_of_depth(folder: Path) -> None:
    """Features into cells by ranks, with and without a depth, in any order of the ranks."""
    count, width, cells = 40, 32, 30
    out, sizes = (1, 1, 5, 6, width), {"b": 1, "d": 1, "h": 5, "w": 6, "c": width}
    op, cell, wanted = _op(folder, "bev_pool_v3", "BEVPoolV3"), _indices(cells, count), np.zeros((cells, width))
    features = single(count, width)
    np.add.at(wanted, cell, features.astype(np.float64))
    got = op(None, features, None, None, cell, with_depth=False, **sizes, out_shapes=[out])
    same(got.reshape(wanted.shape), wanted, 1e-5, 1e-5)
    depth, features, wanted = single(2, 3, 4, 5), single(2, 4, 5, 1, width), np.zeros((cells, width))
    depths, rows = _indices(depth.size, count), _indices(40, count)
    np.add.at(wanted, cell, depth.ravel()[depths][:, None].astype(np.float64) * features.reshape(-1, width)[rows])
    got = op(depth, features, depths, rows, cell, with_depth=True, **sizes, out_shapes=[out])
    same(got.reshape(wanted.shape), wanted, 1e-5, 1e-5)


@kernel
def graph_softmax_gradient(folder: Path) -> None:
    nodes, index = 7, _indices(7, 60)
    out, grad, sums = np.abs(single(60, 8)), single(60, 8), np.zeros((7, 8), np.float32)
    np.add.at(sums, index, out * grad)
    op = _op(folder, "graph_softmax", "GraphSoftmaxGrad")
    got = op(index, out, grad, sums, node_num=nodes, out_shapes=[(60, 8)])
    same(got, out * (grad - sums[index]), 1e-4, 1e-4)


def _corners(x: float, y: float) -> list[tuple[int, int, float]]:
    """Column, row and share of the four cells around a place."""
    left, top = int(np.floor(x)), int(np.floor(y))
    return [(c, r, (1 - abs(x - c)) * (1 - abs(y - r))) for c in (left, left + 1) for r in (top, top + 1)]


@kernel
def assigned_scores(folder: Path) -> None:
    """Sums over neighbours' differences from their first, by scores, and their gradients (atomic adds of rows)."""
    for batches, points, weights, features, places, near in ((2, 20, 5, 11, 7, 6), (4, 16, 8, 16, 8, 8)):
        x, centers = single(batches, points, weights, features), single(batches, points, weights, features)
        scores, grad = single(batches, places, near, weights), single(batches, places, near, features)
        index = RNG.integers(0, points, (batches, places, near))
        sizes = {"batch_size": batches, "nsource": points, "npoint": places, "num_weights": weights}
        sizes |= {"num_neighbors": near, "num_features": features, "aggregate": 0}
        b = np.broadcast_to(np.arange(batches)[:, None, None], index.shape)
        first = np.broadcast_to(index[:, :, :1], index.shape)
        apart = (x[b, index] - centers[b, first]).astype(np.float64)
        inner = (np.ascontiguousarray(a.transpose(0, 3, 1, 2)) for a in (x, centers))
        forward = _op(folder, "assign_score_withk", "AssignScoreWithk")
        got = forward(*inner, scores, index, **sizes, out_shapes=[(batches, features, places, near)])
        same(got, np.einsum("bpkm,bpkmo->bopk", scores, apart), 1e-5, 1e-5)
        back = _op(folder, "assign_score_withk", "AssignScoreWithkGrad")
        got = back(grad, x, centers, scores, index, **sizes, out_shapes=[scores.shape, x.shape, x.shape])
        share, wanted = scores[..., None] * grad[:, :, :, None].astype(np.float64), np.zeros((2, *x.shape))
        np.add.at(wanted[0], (b, index), share)
        np.add.at(wanted[1], (b, first), -share)
        same(got[0], np.einsum("bpkmo,bpko->bpkm", apart, grad), 1e-5, 1e-5)
        same(got[1], wanted[0], 1e-5, 1e-5)
        same(got[2], wanted[1], 1e-5, 1e-5)


def _corners_of(x: float, y: float, width: float, height: float, angle: float) -> list[tuple[float, float]]:
    c, s = np.cos(angle), np.sin(angle)
    ends = ((-width, -height), (width, -height), (width, height), (-width, height))
    return [(x + (c * i - s * j) / 2, y + (s * i + c * j) / 2) for i, j in ends]


def _shared(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    """Area that two convex polygons share: one, cut by every side of the other."""
    for (ax, ay), (bx, by) in zip(other, other[1:] + other[:1], strict=True):
        sides = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in one]
        cut = []
        for u, v, at, to in zip(one, one[1:] + one[:1], sides, sides[1:] + sides[:1], strict=True):
            cut += [u] if at >= 0 else []
            if at * to < 0:
                cut.append(tuple(p + at / (at - to) * (q - p) for p, q in zip(u, v, strict=True)))
        one = cut
    return abs(sum(x * w - y * v for (x, y), (v, w) in zip(one, one[1:] + one[:1], strict=True))) / 2


@kernel
def turned_boxes(folder: Path) -> None:
    """Areas that turned boxes share, by numbers of the scalar unit, of two kernels."""
    boxes = [
        np.concatenate([RNG.uniform(0, 10, (n, 2)), RNG.uniform(1, 4, (n, 2)), RNG.uniform(-3, 3, (n, 1))], 1)
        for n in (13, 17)
    ]
    a, b = (box.astype(np.float32) for box in boxes)
    area = (a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3]
    overlap, quotient = _op(folder, "boxes_overlap_bev", "BoxesOverlapBev"), _op(folder, "box_iou", "BoxIou")
    for sign in (1, -1):
        corners = [[_corners_of(*box[:4], sign * box[4]) for box in many.astype(np.float64)] for many in (a, b)]
        shared = np.array([[_shared(one, other) for other in corners[1]] for one in corners[0]])
        sides = {"format_flag": 1, "clockwise": sign == 1, "aligned": False, "margin": 1e-5}
        for mode, wanted in enumerate((shared, shared / (area - shared))):
            same(overlap(a, b, **sides, mode_flag=mode, out_shapes=[shared.shape]), wanted, 1e-4, 1e-4)
    points = [np.array(many, np.float32).reshape(-1, 8) for many in corners]
    for mode, below in enumerate((area - shared, np.broadcast_to((a[:, 2] * a[:, 3])[:, None], shared.shape))):
        got = quotient(*points, mode_flag=mode, aligned=False, out_shapes=[shared.shape])
        same(got, shared / below, 1e-4, 1e-4)


@kernel
def pooled_points(folder: Path) -> None:
    """Points of each box with their features, those of boxes with few of them again and again."""
    batches, n, channels, many, samples = 2, 200, 16, 5, 32
    points, features = RNG.uniform(0, 10, (batches, n, 3)).astype(np.float32), single(batches, n, channels)
    shape = (batches, many)
    boxes = np.concatenate(
        [RNG.uniform(2, 8, (*shape, 3)), RNG.uniform(3, 6, (*shape, 3)), RNG.uniform(-3, 3, (*shape, 1))], -1
    ).astype(np.float32)
    boxes[0, 0, :3] = 100  # none
    wanted, none = np.zeros((*shape, samples, 3 + channels), np.float32), np.zeros(shape, np.int32)
    for b, m in np.ndindex(*shape):
        x, y, z = (points[b] - boxes[b, m, :3]).astype(np.float64).T
        c, s = np.cos(boxes[b, m, 6], dtype=np.float64), np.sin(boxes[b, m, 6], dtype=np.float64)
        apart = np.abs([x * c + y * s, y * c - x * s, z - boxes[b, m, 5] / 2])
        inside = np.nonzero((apart < boxes[b, m, 3:6, None] / 2).all(0))[0]
        none[b, m] = not inside.size
        if inside.size:
            chosen = np.resize(inside, samples)
            wanted[b, m] = np.concatenate([points[b, chosen], features[b, chosen]], -1)
    inner = (np.ascontiguousarray(v.swapaxes(1, 2)) for v in (points, features))
    got, empty = _op(folder, "roipoint_pool3d", "RoipointPool3dForward")(
        *inner, boxes, num_sampled_points=samples, out_shapes=[(*shape, 3 + channels, samples), shape]
    )
    same(empty, none)
    same(np.where(none[..., None, None], 0, np.asarray(got).swapaxes(2, 3)), wanted)


@kernel
def pooled_gradients(folder: Path) -> None:
    """Gradients back to points: from each channel's largest, and shared by the points of a cell."""
    for boxes, channels, points, most in ((3, 16, 50, 8), (2, 70, 33, 5)):
        shape, grad = (boxes, 2, 3, 2), single(boxes, 2, 3, 2, channels)
        sizes = {"boxes_num": boxes, "out_x": 2, "out_y": 3, "out_z": 2, "channels": channels, "npoints": points}
        largest, wanted = _indices(points, *shape, channels), np.zeros((points, channels))
        np.add.at(wanted, (largest, np.broadcast_to(np.arange(channels), largest.shape)), grad)
        back = _op(folder, "roiaware_maxpool3d", "RoiawareMaxpool3dGrad")
        same(back(largest, grad, **sizes, out_shapes=[wanted.shape]), wanted, 1e-5, 1e-5)
        members, wanted = np.zeros((*shape, most), np.int32), np.zeros((points, channels))
        for cell in np.ndindex(*shape):
            count = RNG.integers(0, most)
            chosen = RNG.choice(points, count, replace=False)
            members[cell][0], members[cell][1 : 1 + count] = count, chosen
            wanted[chosen] += grad[cell] / max(count, 1)
        back = _op(folder, "roiaware_avgpool3d", "RoiawareAvgpool3dGrad")
        got = back(members, grad, **sizes, max_pts_per_voxel=most, out_shapes=[wanted.shape])
        same(got, wanted, 1e-5, 1e-5)


@kernel
def sparse_products(folder: Path) -> None:
    """A convolution of the cells of a grid that are there: products by Matmul from a workspace."""
    offsets = np.stack(np.unravel_index(np.arange(27), (3, 3, 3)), 1)
    for n, channels, outs in ((40, 16, 32), (130, 24, 48)):
        x, weights = single(n, channels), single(3, 3, 3, channels, outs) * np.float32(0.2)
        cells = np.stack(np.unravel_index(RNG.choice(512, n, replace=False), (8, 8, 8)), 1)
        places = np.ravel_multi_index((cells[:, None] + offsets).reshape(-1, 3).T, (10, 10, 10))
        order = np.argsort(places, kind="stable").astype(np.int32)
        found, place, counts = np.unique(places, return_inverse=True, return_counts=True)
        wanted = np.zeros((len(found), outs))
        parts = np.einsum("ni,kio->nko", x, weights.reshape(27, channels, outs).astype(np.float64))
        np.add.at(wanted, place, parts.reshape(-1, outs))
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        got, _ = _op(folder, "sparse_matmul", "SparseMatmul")(
            x, weights, ends, order, np.zeros((n * 27, 8), np.int32), out_shapes=[wanted.shape, (len(found), 8)]
        )
        same(got, wanted, 1e-4, 1e-4)


@kernel
def attention_of_keys(folder: Path) -> None:
    """Attention of a few keys by their places in images."""
    for batches, queries, heads, width in ((2, 40, 4, 32), (1, 9, 8, 64)):
        levels, points = 8, 4
        shape = (batches, queries, heads, levels, points)
        sizes, starts = np.array([[6, 10]] * levels, np.int32), np.arange(levels, dtype=np.int32) * 60
        value, shares = single(batches, heads, 60 * levels, width), np.abs(single(*shape))
        x, y = RNG.integers(-3, 13, shape), RNG.integers(-3, 9, shape)
        keys = np.clip(x, 0, 9) + np.clip(y, 0, 5) * 10 + starts[:, None]
        of = np.arange(batches)[:, None, None, None, None], np.arange(heads)[:, None, None]
        wanted = np.einsum("bqhlpd,bqhlp->bqhd", value[of[0], of[1], keys].astype(np.float64), shares)
        places = np.stack([x, y], -1).astype(np.float32)
        attend = _op(folder, "geometric_kernel_attention", "GeometricKernelAttention")
        out = (batches, queries, heads * width)
        same(attend(value, sizes, starts, places, shares, out_shapes=[out]), wanted.reshape(out), 1e-4, 1e-4)


@kernel
def deformable_products(folder: Path) -> None:
    """A deformable convolution: samples by vector cores, products of each row by Matmul."""
    height, width, channels, outs = 4, 8, 64, 32
    x, weights = single(1, height, width, channels), single(outs, 3, 3, channels) * np.float32(0.1)
    offsets, shares = single(1, height, width, 18) * np.float32(0.7), np.abs(single(1, height, width, 9))
    op = _op(folder, "deformable_conv2d", "DeformableConv2d")
    for modulated in (False, True):
        columns = np.zeros((height, width, 9, channels))
        for i, j, k in np.ndindex(height, width, 9):
            y, across = i - 1 + k // 3 + offsets[0, i, j, 2 * k], j - 1 + k % 3 + offsets[0, i, j, 2 * k + 1]
            for c, r, share in _corners(float(across), float(y)):
                if 0 <= c < width and 0 <= r < height:
                    columns[i, j, k] += share * (shares[0, i, j, k] if modulated else 1) * x[0, r, c]
        wanted = np.einsum("ijkc,okc->ioj", columns, weights.reshape(outs, 9, channels).astype(np.float64))
        sides = {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1]}
        got, found = op(
            x, weights, np.zeros(outs, np.float32), offsets, shares, **sides, groups=1, deformable_groups=1,
            modulated=modulated, with_bias=False,
            out_shapes=[(1, height, outs, width), (1, height * width, 1, 9, channels)],
        )  # fmt: skip
        same(found.reshape(columns.shape), columns, 1e-4, 1e-4)
        same(got[0], wanted, 1e-4, 1e-4)


@kernel
def deformable_sums(folder: Path) -> None:
    width, anchors, points, cameras, levels, groups = 32, 9, 4, 2, 2, 8
    shapes = np.array([[[4, 5], [2, 3]]] * cameras, np.int32)
    sizes = shapes.prod(-1).ravel()
    starts = (np.cumsum(sizes) - sizes).reshape(cameras, levels).astype(np.int32)
    features = single(1, int(sizes.sum()), width)
    where = RNG.uniform(0.05, 0.95, (1, anchors, points, cameras, 2)).astype(np.float32)
    weights, wanted = np.abs(single(1, anchors, points, cameras, levels, groups)), np.zeros((1, anchors, width))
    for a, p, c, level in np.ndindex(anchors, points, cameras, levels):
        rows, across = shapes[c, level]
        first = starts[c, level]
        image = features[0, first : first + rows * across].reshape(rows, across, width)
        x, y = where[0, a, p, c].astype(np.float64) * (across, rows) - 0.5
        share = np.repeat(weights[0, a, p, c, level], width // groups)
        for column, row, part in _corners(x, y):
            if 0 <= column < across and 0 <= row < rows:
                wanted[0, a] += share * part * image[row, column]
    counts = {"batch_size": 1, "num_feat": features.shape[1], "num_embeds": width, "num_anchors": anchors}
    counts |= {"num_pts": points, "num_cams": cameras, "num_scale": levels, "num_groups": groups}
    op = _op(folder, "deformable_aggregation", "DeformableAggregation")
    same(op(features, shapes, starts, where, weights, **counts, out_shapes=[wanted.shape]), wanted, 1e-4, 1e-4)


@kernel
def dynamic_voxels(folder: Path) -> None:
    points = RNG.uniform(-1, 11, (5, 400)).astype(np.float32)
    sizes = {"voxel_x": 0.5, "voxel_y": 0.5, "voxel_z": 1.0, "grid_x": 20, "grid_y": 20, "grid_z": 10}
    op = _op(folder, "dynamic_voxelization", "DynamicVoxelization")
    got = op(points, coors_min_x=0.0, coors_min_y=0.0, coors_min_z=0.0, **sizes, out_shapes=[(3, 400)])
    cells = np.floor(points[:3] / np.array([[0.5], [0.5], [1]], np.float32)).astype(np.int32)
    inside = ((cells >= 0) & (cells < np.array([[20], [20], [10]]))).all(0)
    same(got[::-1][:, inside] if (got[0, inside] == cells[2, inside]).all() else got[:, inside], cells[:, inside])


@kernel
def gate_sums(folder: Path) -> None:
    """Sums of gates within chunks, in base 2 (flash-linear-attention-npu)."""
    op = mco.ascendc.load_project(find(folder, "ascendc/kda/kda_gate_cumsum"))["KdaGateCumsum"]
    batch, steps, heads, chunk = 2, 130, 3, 64
    for width, cast in ((64, half), (128, single)):
        gates = cast(batch, steps, heads, width)
        logs, bias = single(heads), single(heads, width)
        for gated, safe in ((False, False), (True, False), (True, True)):
            got = op(
                gates, logs if gated else None, bias if gated else None, None, chunk_size=chunk,
                use_gate_in_kernel=gated, safe_gate=safe, lower_bound=-5.0, logical_rank=4, logical_batch=batch,
                logical_seqlen=steps, logical_heads=heads, logical_head_dim=width,
                out_shapes=[(batch, heads, steps, width)],
            )  # fmt: skip
            x = gates.astype(np.float64)
            if gated:
                power, z = np.exp(logs.astype(np.float64))[:, None], x + bias
                x = -5 / (1 + np.exp(-power * z)) if safe else -power * np.log1p(np.exp(z))
            sums = [np.cumsum(x[:, at : at + chunk], 1) for at in range(0, steps, chunk)]
            same(got, np.concatenate(sums, 1).transpose(0, 2, 1, 3) / np.log(2), 1e-4, 1e-3)
