# SPDX-License-Identifier: Apache-2.0
"""Attention and scans over the rows of several ranks: layout, balance, errors, and 2 and 4 ranks under msrun against
one."""

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
from context_refusals import DISAGREE
from context_scans import SCANS
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
from ms_custom_ops.mindspore.context_rounds import WIDE, Rounds, _parts, _relation

WORKER = Path(__file__).with_name("context_worker.py")
LIMIT = 2e-3  # of flash_attention in float16, of which both sides are one rounding
DIFFERENCE = 1e-2  # of central differences of a loss whose outputs are float16
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder, env=environ)
    logs = "".join(log.read_text() for log in sorted(folder.glob("worker_*.log")))
    found = {
        (int(rank), name): [float(x) for x in rest.split()]
        for rank, name, rest in re.findall(r"^figures (\d+) (\S+) (.*)$", logs, re.M)
    }
    assert set(found) == {(rank, name) for rank in range(size) for name in names}, done.stderr[-500:] + logs[-3000:]
    check_refusals(size, re.findall(r"^refusal \d+ (\S+) (.*)$", logs, re.M))
    return found


def check_refusals(size: int, refusals: list[tuple[str, str]]) -> None:
    """Every rank refused every disagreement with the same words, and went on."""
    for kind, (_, text) in DISAGREE.items() if size > 1 else ():
        said = [words for name, words in refusals if name == kind]
        assert len(said) == size and len(set(said)) == 1, (kind, said)
        assert re.search(f"check_ranks: job is .*{text}", said[0]), (kind, said[0])


@pytest.mark.parametrize(
    "size, mode, names",
    [(2, "GRAPH", ["parts-everything", "forward-19", "layer-17", "segsum-150", "behind-40"])]
    + [pytest.param(size, mode, list(cases), marks=pytest.mark.nightly)
       for size in (2, 4) for mode in ("GRAPH", "PYNATIVE") for cases in (CASES, SCANS)],
    ids=lambda value: {tuple(CASES): "attention", tuple(SCANS): "scans"}.get(tuple(value), "some")
    if isinstance(value, list) else str(value),
)  # fmt: skip
def test_ranks_give_what_one_gives(tmp_path, size, mode, names):
    for (rank, name), figures in run_ranks(size, tmp_path, mode, names).items():
        assert max(figures) < (DIFFERENCE if name.startswith("differences") else LIMIT), (rank, name, figures)


@pytest.mark.nightly
def test_memory_of_a_rank(tmp_path):
    """A training step of attention over 16,384 rows, of which each of two ranks has a half."""
    name, peaks = "memory-16384-16", {}
    for size in (1, 2):
        (tmp_path / str(size)).mkdir()
        found = run_ranks(size, tmp_path / str(size), "GRAPH", [name])
        peaks[size] = max(step for step, _ in found.values())
    print(f"MiB of a step at its peak, by ranks: {peaks}")
    assert peaks[2] <= 0.65 * peaks[1], peaks


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("seq_len", [1, 15, 17, 64, 1000])
@pytest.mark.parametrize("order", [dict(), dict(zigzag=False), dict(zigzag=False, multiple=16)], ids=str)
def test_every_row_lies_on_one_rank(size, seq_len, order):
    groups = [ContextGroup(rank, size) for rank in range(size)]
    rows = np.concatenate([context_rows(seq_len, group, **order) for group in groups])
    assert len(set(rows)) == len(rows) and set(range(seq_len)) <= set(rows)
    assert len(rows) - seq_len < (2 if order == {} else 1) * size * order.get("multiple", 1)
    x = np.random.default_rng(0).standard_normal((2, seq_len, 3))
    parts = [context_split(x, group, **order) for group in groups]
    np.testing.assert_array_equal(context_join(parts, seq_len, **order), x)


def test_a_rank_has_whole_chunks_one_after_the_other():
    assert list(context_rows(40, ContextGroup(1, 2), zigzag=False, multiple=16)) == list(range(32, 64))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_causal_work_is_the_same_on_every_rank(size):
    """In chunk x chunk blocks that a rank computes; one that a mask cuts counts a half."""
    work = []
    for rank in range(size):
        found = [_relation(at, chunk, 64, 3, WIDE, WIDE) for at in ContextGroup(rank, size).chunks()
                 for chunk in range(2 * size)]  # fmt: skip
        work.append(sum({(): 0.0, 3: 0.5, 0: 1.0}[band and band[0]] for band in found))
        assert work[-1] == context_work(ContextGroup(rank, size))
    ratio = max(work) / (sum(work) / size)
    print(f"{size} ranks: {work} blocks, the longest {ratio:.2f} of the mean")
    assert sum(work) == sum(a + 0.5 for a in range(2 * size)) and ratio <= 1.15


@pytest.mark.parametrize(
    "query, key, part_bytes, expected",
    [
        ((2, 4, 8, 16), (2, 2, 8, 16), 1 << 20, [(0, 2, 0, 2)]),
        ((2, 4, 8, 16), (2, 2, 8, 16), 2 * 2 * 4 * 16 * 4, [(0, 1, 0, 2), (1, 1, 0, 2)]),
        ((2, 4, 8, 16), (2, 2, 8, 16), 1, [(0, 1, 0, 1), (0, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1)]),
        ((6, 3, 8, 16), (6, 3, 8, 16), 1, [(b, 1, 0, 3) for b in range(6)]),
        ((1, 12, 8, 16), (1, 12, 8, 16), 1, [(0, 1, 2 * i, 2) for i in range(6)]),
        ((1, 8, 8, 16), (1, 1, 8, 16), 1, [(0, 1, 0, 1)]),
    ],
    ids=["one", "batches", "heads", "at_most_8_by_batches", "at_most_8_by_heads", "one_key_head"],
)
def test_parts_of_the_heads(query, key, part_bytes, expected):
    assert list(_parts(query, key, part_bytes)) == expected


@pytest.mark.parametrize("seed", [0, 5 + (9 << 32), 2**64 - 1, 2**63, 2**32 - 1], ids=hex)
def test_a_part_continues_the_seeds_of_its_heads(seed):
    """The kernel's key of a head is a function of seed + (head + 1) * step, modulo 2**64."""
    words = np.array([seed % 2**32, seed >> 32, 0, 0, 0, 0, 0, 0], np.uint32).view(np.int32)
    rounds = Rounds(ContextGroup(), 1.0, 0.5, (3, WIDE, WIDE), False, False)
    for head in (0, 1, 3, 100):
        found = rounds.part_words(Tensor(words), head).asnumpy().view(np.uint32)
        assert int(found[0]) + (int(found[1]) << 32) == (seed + head * 0x9E3779B97F4A7C15) % 2**64


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
    with pytest.raises(OpArgumentError, match="context_rows: multiple is 1.5; accepted: an int of at least 1"):
        context_rows(4, ContextGroup(), multiple=1.5)


SSD = [Tensor(np.zeros(shape, np.float16)) for shape in ((1, 4, 2, 8), (1, 2, 4), (1, 4, 1, 8), (1, 4, 1, 8))]
REFUSED_SCANS = {
    "rank": ([SSD[1], *SSD[1:]], r"x is shape \(1, 2, 4\); accepted: \(B, S / n, H, P\)"),
    "states": ([*SSD, 64, Tensor(np.zeros((1, 2, 8, 4), np.float32))],
               r"initial_states is shape \(1, 2, 8, 4\); accepted: \(B, H, P, N\) = \(1, 2, 8, 8\), or None"),
}  # fmt: skip


@pytest.mark.parametrize("inputs, text", REFUSED_SCANS.values(), ids=REFUSED_SCANS.keys())
def test_refusals_of_scans(inputs, text):
    with pytest.raises(OpArgumentError, match=f"context_parallel_ssd_chunk_scan: .*{text}"):
        mco.ops.context_parallel_ssd_chunk_scan(*inputs, group=ALONE)


def test_decoding_is_refused_by_the_layer_of_several_ranks():
    layer = mco.nn.ContextParallelMamba2(8, 4, headdim=8, group=ContextGroup())
    for call in (lambda: layer.prefill(Tensor(np.zeros((1, 2, 8), np.float32))), lambda: layer.step(None, None, None)):
        with pytest.raises(OpArgumentError, match="called; accepted: construct; nn.Mamba2 of the same parameters"):
            call()


def test_alone_the_layer_is_flash_attention(mode):
    query, key, value = (
        Tensor(np.random.default_rng(i).standard_normal((1, 2, 18, 16)).astype(np.float16)) for i in range(3)
    )
    layer = ContextParallelAttention(ContextGroup())
    expected, _, _ = mco.ops.flash_attention(query, key, value, sparse_mode=3)
    np.testing.assert_allclose(layer(query, key, value).asnumpy(), expected.asnumpy(), atol=LIMIT)
