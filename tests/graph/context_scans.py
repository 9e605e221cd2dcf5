# SPDX-License-Identifier: Apache-2.0
"""Cases of context_worker.py: the Mamba scans over steps of all ranks beside the scans of the whole sequence."""

from __future__ import annotations

import hashlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

import ms_custom_ops as mco
from ms_custom_ops.mindspore.context_parallel import context_rows, context_split

B, H, P, G, N, R = 2, 4, 12, 2, 10, 2
STEPS = (1, 17, 1000, 1024)
KINDS = ("ssd", "mamba3", "layer")
SCANS = {f"{kind}-{steps}": (kind, steps) for kind in KINDS for steps in STEPS}
SCANS |= {"segsum-150": ("segsum", 150), "differences-9": ("differences", 9), "behind-40": ("behind", 40)}
SCANS["forward-19"] = ("forward", 19)
LAYER = dict(d_model=24, d_state=10, headdim=12, ngroups=2, chunk_size=16, dt_min=0.05, dt_max=1.0, seed=3)


def normal(*shape, seed=0, kind=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(kind)


def ssd_inputs(steps):
    """x, da, B, C and the axes of their steps; the initial states."""
    arrays = [normal(B, steps, H, P, kind=np.float16), -0.2 * np.abs(normal(B, H, steps, seed=1))]
    arrays += [normal(B, steps, G, N, seed=seed, kind=np.float16) for seed in (2, 3)]
    return arrays, (1, 2, 1, 1), normal(B, H, P, N)


def mamba3_inputs(steps):
    """q, k, v, da, dt, trap and the axes of their steps; the initial states."""
    arrays = [normal(B, steps, R, G, N, seed=seed, kind=np.float16) for seed in (4, 5)]
    arrays += [normal(B, steps, R, H, P, kind=np.float16), -0.2 * np.abs(normal(B, H, steps, seed=6))]
    arrays += [0.3 * np.abs(normal(B, H, steps, seed=7)), normal(B, H, steps, seed=8)]
    return arrays, (1, 1, 1, 2, 2, 2), normal(B, H, P, N)


SCAN = {
    "ssd": (ssd_inputs, mco.ops.context_parallel_ssd_chunk_scan, mco.ops.ssd_chunk_scan),
    "mamba3": (mamba3_inputs, mco.ops.context_parallel_mamba3_chunk_scan, mco.ops.mamba3_chunk_scan),
}


def alone(make, *args):
    """``make()(*args)``: the whole sequence on one rank, without a graph: compiling takes most of a case's time."""
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        return make()(*args)
    finally:
        ms.set_context(mode=mode)


def distance(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.sqrt(((a - b) ** 2).sum() / max((b**2).sum(), 1e-12))) if a.size else 0.0


def rows_of(x, group, axis, seq_len):
    """(rows of this rank of the whole array x, without padding; how many)."""
    rows = context_rows(seq_len, group, zigzag=False)
    rows = rows[rows < seq_len]
    return np.take(x, rows, axis), len(rows)


def weighted(scan, share):
    """value_and_grad of a loss that reads the outputs, and the final states with the weight ``share``."""

    def loss(*args):
        *inputs, initial, weights, ends = args
        y, end = scan(*inputs, 16, initial)
        return (ops.cast(y, ms.float32) * weights).sum() + (end * ends).sum() * share, y, end

    return lambda count: ms.value_and_grad(loss, tuple(range(count)), has_aux=True)


def scan_errors(kind, steps, group, jit):
    """Distances of y, the final states and all gradients: this rank's steps against the same steps of the whole."""
    make, parallel, whole = SCAN[kind]
    arrays, axes, initial = make(steps)
    count = len(arrays) + 1
    sums = ops.AllReduce()
    weights = normal(*arrays[2 if kind == "mamba3" else 0].shape, seed=9)
    ends = normal(*initial.shape, seed=10)

    def on_ranks(*args):
        return parallel(*args)

    call = weighted(on_ranks, 1 / group.size)(count)
    call = ms.jit(call) if jit else call
    mine = [Tensor(context_split(x, group, axis, zigzag=False)) for x, axis in zip(arrays, axes, strict=True)]
    mine += [Tensor(initial), Tensor(context_split(weights, group, zigzag=False)), Tensor(ends)]
    ours = [call(*mine) for _ in range(2)][-1]  # a collective that a rank leaves out shows at the second call
    theirs = alone(lambda: weighted(whole, 1)(count), *(Tensor(x) for x in (*arrays, initial, weights, ends)))
    found = []
    for a, b, axis in zip((ours[0][1], *ours[1]), (theirs[0][1], *theirs[1]), (1, *axes, None), strict=True):
        if axis is None:  # of the initial states: the ranks' gradients are parts of a sum
            found.append(distance(sums(a).asnumpy(), b.asnumpy()))
            continue
        b, rows = rows_of(b.asnumpy(), group, axis, steps)
        found.append(distance(np.take(a.asnumpy(), np.arange(rows), axis), b))
    return [*found, distance(ours[0][2].asnumpy(), theirs[0][2].asnumpy())]


def layer_errors(steps, group, jit):
    """Distances of the layer's output, the gradient of its input and those of its weights, summed over the ranks."""
    u, weights = normal(B, steps, LAYER["d_model"]), normal(B, steps, LAYER["d_model"], seed=1)
    one = mco.nn.Mamba2(**LAYER)
    for parameter in (one.in_proj.weight, one.out_proj.weight):
        parameter.set_data(Tensor(normal(*parameter.shape, seed=2) * parameter.shape[1] ** -0.5))
    many = mco.nn.ContextParallelMamba2(**LAYER, group=group)
    ms.load_param_into_net(many, {p.name: ms.Parameter(p.value(), name=p.name) for p in one.get_parameters()})
    sums = ops.AllReduce()

    def gradients(layer):
        def loss(x, w):
            out = layer(x)
            return (out * w).sum(), out

        return ms.value_and_grad(loss, 0, layer.trainable_params(), has_aux=True)

    call = ms.jit(gradients(many)) if jit else gradients(many)
    mine = [Tensor(context_split(x, group, zigzag=False)) for x in (u, weights)]
    ours = [call(*mine) for _ in range(2)][-1]
    theirs = alone(lambda: gradients(one), Tensor(u), Tensor(weights))
    found = []
    for a, b in ((ours[0][1], theirs[0][1]), (ours[1][0], theirs[1][0])):
        b, rows = rows_of(b.asnumpy(), group, 1, steps)
        found.append(distance(a.asnumpy()[:, :rows], b))
    summed = [sums(a).asnumpy() for a in ours[1][1]]
    # An error on every rank unless these are the same bits, and with them the weights after a step.
    mco.ops.check_ranks(gradients=hashlib.sha256(b"".join(a.tobytes() for a in summed)).hexdigest())
    return found + [distance(a, b.asnumpy()) for a, b in zip(summed, theirs[1][1], strict=True)]


def forward_errors(steps, group, jit):
    """Distances of Mamba-3's outputs and final states, without the time its gradients take to compile."""
    arrays, axes, initial = mamba3_inputs(steps)

    def on_ranks(*args):
        return mco.ops.context_parallel_mamba3_chunk_scan(*args[:-1], 16, args[-1])

    mine = [Tensor(context_split(x, group, axis, zigzag=False)) for x, axis in zip(arrays, axes, strict=True)]
    y, end = (ms.jit(on_ranks) if jit else on_ranks)(*mine, Tensor(initial))
    whole = mco.ops.mamba3_chunk_scan(*map(Tensor, arrays), 16, Tensor(initial))
    expected, rows = rows_of(whole[0].asnumpy(), group, 1, steps)
    return [distance(y.asnumpy()[:, :rows], expected), distance(end.asnumpy(), whole[1].asnumpy())]


def segsum_errors(steps, group, jit):
    """What works chunk by chunk needs no collective where a rank has whole chunks."""
    chunk = 16
    da = -0.2 * np.abs(normal(B, H, steps))

    def decay(x):
        return mco.ops.segsum_decay(x, chunk_size=chunk)

    mine = Tensor(context_split(da, group, 2, zigzag=False, multiple=chunk))
    ours = (ms.jit(decay) if jit else decay)(mine).asnumpy()
    filled = np.pad(da, ((0, 0), (0, 0), (0, group.size * mine.shape[2] - steps)))
    theirs = np.split(decay(Tensor(filled)).asnumpy(), group.size, 2)[group.rank]
    return [distance(ours, theirs)]


def difference_errors(steps, group, jit):
    """Gradients of the loss of all ranks along a direction in da and in the initial states, against central
    differences."""
    arrays, axes, initial = ssd_inputs(steps)
    x, da, b, c = (context_split(a, group, axis, zigzag=False) for a, axis in zip(arrays, axes, strict=True))
    weights = context_split(normal(*arrays[0].shape, seed=9), group, zigzag=False)
    sums = ops.AllReduce()
    fixed = Tensor(weights), Tensor(normal(*initial.shape, seed=10))

    def on_ranks(*args):
        return mco.ops.context_parallel_ssd_chunk_scan(*args)

    call = weighted(on_ranks, 1.0)(5)
    call = ms.jit(call) if jit else call

    def run(da, initial):
        return call(Tensor(x), Tensor(da), Tensor(b), Tensor(c), Tensor(initial), *fixed)

    def total(value):
        return float(sums(Tensor(np.float32([value]))).asnumpy()[0])

    gradients, found = run(da, initial)[1], []
    for place, step, gradient in ((0, 0.02, gradients[1]), (1, 0.5, gradients[4])):
        if place == 0:
            along = context_split(-np.abs(normal(B, H, steps, seed=11)), group, 2, zigzag=False)
            moved = [(da + signed * along, initial) for signed in (step, -step)]
        else:
            along = normal(*initial.shape, seed=12)
            moved = [(da, initial + signed * along) for signed in (step, -step)]
        high, low = (total(float(run(*m)[0][0].asnumpy())) for m in moved)
        expected = total(float((gradient.asnumpy().astype(np.float64) * along).sum()))
        found.append(abs((high - low) / (2 * step) - expected) / abs(expected))
    return found


def behind_errors(steps, group, jit):
    """0 where a NaN in the last rank's steps reaches no output of an earlier rank."""
    arrays, axes, _ = ssd_inputs(steps)
    x, da, b, c = (context_split(a, group, axis, zigzag=False) for a, axis in zip(arrays, axes, strict=True))
    last = group.rank == group.size - 1

    def scan(x, da, b, c):
        return mco.ops.context_parallel_ssd_chunk_scan(x, da, b, c, 16)[0]

    call = ms.jit(scan) if jit else scan
    clean = call(*map(Tensor, (x, da, b, c))).asnumpy()
    bad = call(*map(Tensor, (np.full_like(x, np.nan) if last else x, da, b, c))).asnumpy()
    if last:
        return [0.0 if np.isnan(bad).any() else 1.0]
    return [0.0 if np.array_equal(clean, bad) else 1.0]


def scan_case(name, group, jit):
    kind, steps = SCANS[name]
    if kind in SCAN:
        return scan_errors(kind, steps, group, jit)
    others = {"layer": layer_errors, "segsum": segsum_errors, "differences": difference_errors, "behind": behind_errors,
              "forward": forward_errors}  # fmt: skip
    return others[kind](steps, group, jit)
