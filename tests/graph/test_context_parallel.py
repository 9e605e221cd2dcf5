# SPDX-License-Identifier: Apache-2.0
"""Attention over the rows of several ranks: layout, balance, errors, and 2 and 4 ranks under msrun against one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from context_worker import CASES
from mindspore import Tensor

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.mindspore.context_attention import ContextParallelAttention, context_parallel_attention
from ms_custom_ops.mindspore.context_parallel import (
    ContextGroup,
    context_join,
    context_rows,
    context_split,
    context_work,
)

WORKER = Path(__file__).with_name("context_worker.py")
LIMIT = 2e-3  # of flash_attention in float16, of which both sides are one rounding
ALONE = (0, 1, "", False)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def run_ranks(size: int, folder: Path, mode: str, names: list[str]) -> dict[tuple[int, str], list[float]]:
    """(rank, case) -> errors, from the logs of the ranks."""
    start = "from mindspore.parallel.cluster.run import main; main()"
    command = [sys.executable, "-c", start, f"--worker_num={size}", f"--local_worker_num={size}", "--join=True"]
    command += [f"--master_port={free_port()}", f"--log_dir={folder}", str(WORKER), mode, *names]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, cwd=folder, env=environ)
    logs = "".join(log.read_text() for log in sorted(folder.glob("worker_*.log")))
    found = {
        (int(rank), name): [float(x) for x in rest.split()]
        for rank, name, rest in re.findall(r"^figures (\d+) (\S+) (.*)$", logs, re.M)
    }
    assert set(found) == {(rank, name) for rank in range(size) for name in names}, done.stderr[-500:] + logs[-3000:]
    return found


@pytest.mark.parametrize(
    "size, mode, names",
    [(2, "GRAPH", ["causal-everything"])]
    + [pytest.param(size, mode, list(CASES), marks=pytest.mark.nightly)
       for size in (2, 4) for mode in ("GRAPH", "PYNATIVE")],
    ids=lambda value: "all" if value == list(CASES) else str(value),
)  # fmt: skip
def test_ranks_give_what_one_gives(tmp_path, size, mode, names):
    for (rank, name), figures in run_ranks(size, tmp_path, mode, names).items():
        assert max(figures) < LIMIT, (rank, name, figures)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("seq_len", [1, 15, 17, 64, 1000])
def test_every_row_lies_on_one_rank(size, seq_len):
    groups = [ContextGroup(rank, size) for rank in range(size)]
    rows = np.concatenate([context_rows(seq_len, group) for group in groups])
    assert len(set(rows)) == len(rows) and set(range(seq_len)) <= set(rows) and len(rows) - seq_len < 2 * size
    x = np.random.default_rng(0).standard_normal((2, seq_len, 3))
    np.testing.assert_array_equal(context_join([context_split(x, group) for group in groups], seq_len), x)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_causal_work_is_the_same_on_every_rank(size):
    work = [context_work(ContextGroup(rank, size)) for rank in range(size)]
    total = sum(a + 0.5 for a in range(2 * size))
    assert sum(work) == total and max(work) <= 1.15 * total / size


def tensors(shape=(1, 2, 6, 16), keys=None):
    return [Tensor(np.zeros(s, np.float16)) for s in (shape, keys or shape, keys or shape)]


REFUSED = {
    "odd_rows": (tensors((1, 2, 5, 16)), {}, r"query is shape \(1, 2, 5, 16\); accepted: .*even number of rows"),
    "other_rows": (tensors(keys=(1, 2, 4, 16)), {}, r"key is shape \(1, 2, 4, 16\); accepted: \(1, N2, 6, 16\)"),
    "lengths": ([*tensors(), Tensor([1, 2], ms.int32)], {}, r"actual_seq_len is shape \(2,\); accepted: \(1,\)"),
    "slopes": ([*tensors(), None, Tensor([1.0])], {}, r"alibi_slopes is shape \(1,\); accepted: \(2,\)"),
    "mode": (tensors(), dict(sparse_mode=2), "sparse_mode is 2; accepted: 0 none, 3 causal, 4 band"),
    "seed": (tensors(), dict(keep_prob=0.5), "seed_words is None; accepted: an int32 tensor"),
    "probability": (tensors(), dict(keep_prob=0), "keep_prob is 0; accepted: 0 < keep_prob <= 1"),
    "scale": (tensors(), dict(scale_value="1"), "scale_value is '1'; accepted: a number"),
    "window": (tensors(), dict(sparse_mode=4, pre_tokens=1.5), "pre_tokens is 1.5; accepted: an int"),
    "empty_band": (tensors(), dict(sparse_mode=4, pre_tokens=-5, next_tokens=3), "accepted: a band that is not empty"),
    "band_ahead": (
        [*tensors(), Tensor([3], ms.int32)],
        dict(sparse_mode=4, pre_tokens=2, next_tokens=3),
        "next_tokens is 3; accepted: at most 0 beside actual_seq_len",
    ),
}


@pytest.mark.parametrize("inputs, options, text", REFUSED.values(), ids=REFUSED.keys())
def test_refusals(inputs, options, text):
    with pytest.raises(OpArgumentError, match=f"context_parallel_attention: .*{text}"):
        context_parallel_attention(*inputs, group=ALONE, **options)


def test_a_length_of_the_sequence_is_a_number():
    with pytest.raises(OpArgumentError, match="context_rows: seq_len is 0; accepted: an int of at least 1"):
        context_rows(0, ContextGroup())


def test_alone_the_layer_is_flash_attention(mode):
    query, key, value = (
        Tensor(np.random.default_rng(i).standard_normal((1, 2, 18, 16)).astype(np.float16)) for i in range(3)
    )
    layer = ContextParallelAttention(ContextGroup())
    expected, _, _ = mco.ops.flash_attention(query, key, value, sparse_mode=3)
    np.testing.assert_allclose(layer(query, key, value).asnumpy(), expected.asnumpy(), atol=LIMIT)
