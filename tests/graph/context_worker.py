# SPDX-License-Identifier: Apache-2.0
"""A rank of test_context_parallel.py: attention and scans over rows of all ranks beside those of the whole sequence."""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from context_refusals import refusals
from context_scans import SCANS, alone, scan_case
from mindspore import Tensor, ops
from mindspore.communication import init

import ms_custom_ops as mco
from ms_custom_ops.mindspore import context_rounds
from ms_custom_ops.mindspore.context_attention import context_parallel_attention
from ms_custom_ops.mindspore.context_parallel import ContextGroup, context_rows, context_split

ALIBI = 0.5
PART_BYTES = context_rounds.PART_BYTES
# (B, N1, N2, S, D, options, lengths, ALiBi, keep_prob)
CASES = {
    "causal-17": (1, 2, 1, 17, 20, dict(sparse_mode=3), None, False, 1.0),
    "full-lengths": (2, 2, 2, 64, 16, dict(sparse_mode=0), (40, 64), False, 1.0),
    "causal-everything": (2, 4, 2, 100, 32, dict(sparse_mode=3), (70, 100), True, 0.8),
    "parts-everything": (2, 4, 2, 100, 32, dict(sparse_mode=3), (70, 100), True, 0.8),
    "causal-1": (1, 2, 1, 1, 16, dict(sparse_mode=3), None, False, 1.0),
    "window": (2, 2, 1, 90, 32, dict(sparse_mode=4, pre_tokens=30, next_tokens=0), (90, 41), False, 1.0),
    "band": (1, 2, 1, 96, 32, dict(sparse_mode=4, pre_tokens=30, next_tokens=20), None, True, 0.9),
    "causal-1000": (1, 2, 1, 1000, 64, dict(sparse_mode=3), None, False, 1.0),
    "causal-1024": (1, 2, 2, 1024, 64, dict(sparse_mode=3), None, False, 1.0),
}


def lse(maximum, total):
    top, sums = maximum.asnumpy().astype(np.float64), total.asnumpy().astype(np.float64)
    return np.where(sums > 0, top + np.log(np.where(sums > 0, sums, 1)), 0)


def errors(name, group, jit):
    """Relative root mean square of each result and gradient, rows of this rank against the same rows of the whole."""
    batch, n1, n2, seq, dim, options, lengths, alibi, keep = CASES[name]
    context_rounds.PART_BYTES = 1 if name.startswith("parts") else PART_BYTES  # heads one by one, as of long sequences
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((batch, n, seq, dim)).astype(np.float16) for n in (n1, n2, n2)]
    arrays.append(rng.standard_normal((batch, n1, seq, dim)).astype(np.float32))
    seed = Tensor(np.array([5, 9, 0, 0, 0, 0, 0, 0], np.int32)) if keep < 1 else None
    slopes = Tensor((ALIBI ** np.arange(1, n1 + 1)).astype(np.float32)) if alibi else None
    tokens = None if lengths is None else Tensor(np.array(lengths, np.int32))
    at = np.arange(seq)
    bias = None if slopes is None else Tensor(
        (slopes.asnumpy()[None, :, None, None] * (at[None, :] - at[:, None])).astype(np.float32))  # fmt: skip

    def parallel(query, key, value, weights):
        out, top, total = context_parallel_attention(
            query, key, value, tokens, slopes, seed, keep_prob=keep, **options
        )  # fmt: skip
        return (ops.cast(out, ms.float32) * weights).sum(), out, top, total

    def whole(query, key, value, weights):
        out, top, total = mco.ops.flash_attention(
            query, key, value, None, bias, None, lengths, lengths, seed, keep_prob=keep, **options
        )
        return (ops.cast(out, ms.float32) * weights).sum(), out, top, total

    call = ms.value_and_grad(parallel, (0, 1, 2), has_aux=True)
    call = ms.jit(call) if jit else call
    mine = [Tensor(context_split(x, group, 2)) for x in arrays]
    ours = [call(*mine) for _ in range(2)][-1]  # a collective that a rank leaves out shows at the second call
    theirs = alone(lambda: ms.value_and_grad(whole, (0, 1, 2), has_aux=True), *[Tensor(x) for x in arrays])
    rows = context_rows(seq, group)
    real = rows < seq
    pairs = [(ours[0][1].asnumpy(), theirs[0][1].asnumpy()), (lse(*ours[0][2:]), lse(*theirs[0][2:]))]
    pairs += [(x.asnumpy(), y.asnumpy()) for x, y in zip(ours[1], theirs[1], strict=True)]
    found = []
    for a, b in pairs:
        a, b = a[:, :, real].astype(np.float64), b[:, :, rows[real]].astype(np.float64)
        found.append(float(np.sqrt(((a - b) ** 2).sum() / max((b**2).sum(), 1e-12))) if a.size else 0.0)
    return found


def memory(name, group, jit):
    """MiB that a training step of causal attention takes at its peak beyond what the process had before, and the peak
    of the process; one rank alone has the whole sequence and flash_attention."""
    _, seq, heads = (int(x) if x.isdigit() else x for x in name.split("-"))
    rows = seq // group.size
    query, key, value = (Tensor(np.full((1, heads, rows, 64), 0.01 * i, np.float16)) for i in range(3))

    def loss(query, key, value):
        if group.size == 1:
            out = mco.ops.flash_attention(query, key, value, sparse_mode=3)[0]
        else:
            out = context_parallel_attention(query, key, value)[0]
        return ops.cast(out, ms.float32).sum()

    call = ms.value_and_grad(loss, (0, 1, 2))
    call = ms.jit(call) if jit else call
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status("VmRSS")
    found = call(query, key, value)
    found[0].asnumpy(), [x.asnumpy() for x in found[1]]
    return [status("VmHWM") - before, status("VmHWM")]


def status(name):
    """MiB of a line of /proc/self/status."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def main() -> None:
    mode, names = sys.argv[1], sys.argv[2:]
    init()
    group = ContextGroup.of()
    ms.set_context(mode=ms.GRAPH_MODE if mode == "GRAPH" else ms.PYNATIVE_MODE)
    for kind, text in refusals(group).items():
        print("refusal", group.rank, kind, text, flush=True)
    for name in names:
        case = memory if name.startswith("memory") else scan_case if name in SCANS else errors
        print("figures", group.rank, name, *(f"{x:.3e}" for x in case(name, group, mode == "GRAPH")), flush=True)


if __name__ == "__main__":
    main()
