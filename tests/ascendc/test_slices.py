# SPDX-License-Identifier: Apache-2.0
"""DataCopy of slices: pieces of rows, and of planes of rows, into memory without gaps and back."""

from __future__ import annotations

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void slices(GM_ADDR x, GM_ADDR y, GM_ADDR info, uint32_t dims, bool out) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 1, 4096);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x);
  to.SetGlobalBuffer((__gm__ float*)y);
  SliceInfo gaps[9], whole[9];  // of the memory with gaps, and of that without
  const auto* words = (__gm__ uint32_t*)info;
  for (uint32_t d = 0; d < dims; ++d, words += 10) {
    gaps[d] = {words[0], words[1], words[2], words[3], words[4]};
    whole[d] = {words[5], words[6], words[7], words[8], words[9]};
  }
  auto t = queue.AllocTensor<float>();
  if (out) {
    DataCopy(t, from, 1024);
    DataCopy(to, t, gaps, whole, dims);
  } else {
    DataCopy(t, from, whole, gaps, dims);
    DataCopy(to, t, 1024);
  }
  queue.FreeTensor(t);
}
"""
LINE = next(n for n, line in enumerate(SOURCE.splitlines(), 1) if "whole, gaps" in line)


@pytest.fixture(scope="module")
def slices(tmp_path_factory):
    source = tmp_path_factory.mktemp("slices") / "slices.cpp"
    source.write_text(SOURCE)
    return ascendc.build(source)


def pieces(dims) -> list[np.ndarray]:
    """The elements of each piece, in order, as places in an array of the shape of ``dims``."""
    shape = [d[4] for d in dims[::-1]]
    ways = []
    for number, (start, end, gap, burst, _) in enumerate(dims):
        length = 1 if number else 8 * burst
        ways.append([slice(at, at + length) for at in range(start, end + 1, length + gap)])
    places = np.arange(int(np.prod(shape))).reshape(shape)
    grid = np.stack(np.meshgrid(*[range(len(w)) for w in ways[::-1]], indexing="ij"), -1).reshape(-1, len(ways))
    return [places[tuple(w[i] for w, i in zip(ways[::-1], row, strict=True))].ravel() for row in grid]


CASES = {
    "a row": [((3, 26, 0, 3, 30), (0, 23, 0, 3, 24))],
    "pieces of a row": [((16, 70, 7, 3, 87), (0, 47, 0, 3, 48))],
    "pieces of every second row": [((16, 70, 7, 3, 87), (0, 47, 0, 3, 48)), ((0, 2, 1, 1, 3), (0, 1, 0, 1, 2))],
    "rows of planes": [((1, 8, 0, 1, 17), (8, 15, 0, 1, 16)), ((1, 5, 2, 1, 7), (0, 1, 0, 1, 2)),
                       ((2, 3, 0, 1, 5), (0, 1, 0, 1, 2))],
}  # fmt: skip


@pytest.mark.parametrize("out", [False, True], ids=["in", "out"])
@pytest.mark.parametrize("name", CASES)
def test_slices(slices, name, out):
    info = np.array(CASES[name], np.uint32)
    gaps, whole = (pieces([pair[side] for pair in CASES[name]]) for side in (0, 1))
    x, y = np.random.default_rng(2).normal(size=1024).astype(np.float32), np.full(1024, 9, np.float32)
    slices(1, x, y, info, len(CASES[name]), out)
    source, target = (whole, gaps) if out else (gaps, whole)
    for to, at in zip(target, source, strict=True):
        assert (y[to] == x[at]).all()
    if out:
        left = np.setdiff1d(np.arange(1024), np.concatenate(target))
        assert (y[left] == 9).all()


@pytest.mark.parametrize(
    "info, dims, told",
    [
        ([((0, 47, 0, 3, 48), (0, 23, 0, 3, 24))], 1, "2 pieces of 3 blocks go to 1 pieces of 3"),
        ([((0, 7, 0, 1, 8), (5, 4, 0, 1, 8))], 1, "slice of dimension 0 of dst is {startIndex 5, endIndex 4,"),
        ([((0, 7, 0, 1, 7), (0, 7, 0, 1, 8))], 1, "slice of dimension 0 of src is {startIndex 0, endIndex 7,"),
        ([((0, 7, 0, 1, 8),) * 2, ((0, 1, 0, 2, 2),) * 2], 2, "slice of dimension 1 of dst"),
        ([((0, 7, 0, 1, 8),) * 2] * 9, 9, "dimValue is 9; accepted: 1 to 8"),
    ],
    ids=["pieces", "order", "beyond", "blocks of rows", "dimensions"],
)
def test_wrong_slices(slices, info, dims, told):
    x, y = np.zeros((2, 1024), np.float32)
    with pytest.raises(AscendcError) as caught:
        slices(1, x, y, np.array(info, np.uint32), dims, False)
    assert told in str(caught.value) and f"slices.cpp:{LINE}]" in str(caught.value)
