# SPDX-License-Identifier: Apache-2.0
"""Comparisons of the lanes of a mask whose operands end before the repeat does; gathers by default parameters."""

from __future__ import annotations

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y, GM_ADDR out, uint32_t count, uint32_t mask,
                                        uint8_t repeat, int32_t which) {
  TPipe pipe;
  TBuf<> a, b, bits;
  pipe.InitBuffer(a, count * sizeof(DTYPE_X));
  pipe.InitBuffer(b, count * sizeof(DTYPE_X));
  pipe.InitBuffer(bits, 64);
  LocalTensor<DTYPE_X> s = a.Get<DTYPE_X>(), t = b.Get<DTYPE_X>();
  LocalTensor<uint8_t> d = bits.Get<uint8_t>();
  GlobalTensor<DTYPE_X> from;
  from.SetGlobalBuffer((__gm__ DTYPE_X*)x);
  DataCopy(s, from, count);
  from.SetGlobalBuffer((__gm__ DTYPE_X*)y);
  DataCopy(t, from, count);
  Duplicate(d.ReinterpretCast<int16_t>(), (int16_t)0, 32);
  PipeBarrier<PIPE_ALL>();
  if (which == 0) Compare(d, s, t, CMPMODE::LT, mask, repeat, {1, 1, 1, 8, 8, 8});
  if (which == 1) CompareScalar(d, s, (DTYPE_X)0, CMPMODE::GT, mask, repeat, {1, 1, 8, 8});
  if (which == 2) Compares(d, s, (DTYPE_X)0, CMPMODE::GT, mask, repeat, {1, 1, 8, 8});
  PipeBarrier<PIPE_ALL>();
  GlobalTensor<uint8_t> to;
  to.SetGlobalBuffer((__gm__ uint8_t*)out);
  DataCopy(to, d, 64);
}
"""
KINDS = {"float": np.float32, "half": np.float16}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    source = tmp_path_factory.mktemp("compare") / "k.cpp"
    source.write_text(SOURCE)
    return {name: ascendc.build(source, entry="k", defines=f"DTYPE_X={name}") for name in KINDS}


def compared(kernel, dtype, which: int, count: int, mask: int, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.random.default_rng(5).normal(size=(2, count)).astype(dtype)
    out = np.zeros(64, np.uint8)
    kernel(1, x, y, out, count, mask, repeat, which)
    return np.unpackbits(out, bitorder="little"), (x < y if which == 0 else x > 0)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("name", KINDS)
def test_lanes_of_the_mask_are_compared(kernels, name, which):
    lanes = 256 // np.dtype(KINDS[name]).itemsize
    for count, mask, repeat in ((16, 16, 1), (16, 9, 1), (lanes + 16, 16, 2), (2 * lanes + 32, 1, 3), (lanes, 5, 1)):
        bits, wanted = compared(kernels[name], KINDS[name], which, count, mask, repeat)
        valid = (repeat - 1) * lanes + mask
        whole = (repeat - 1) * lanes  # earlier repeats are compared as a whole
        assert (bits[:whole] == wanted[:whole]).all()
        assert (bits[whole:valid] == wanted[whole:valid]).all()


@pytest.mark.parametrize("which", range(3))
def test_lanes_that_are_asked_for_and_are_not_there(kernels, which):
    with pytest.raises(AscendcError, match="needs bytes .*of the VECCALC buffer"):
        compared(kernels["float"], np.float32, which, 16, 24, 1)
    with pytest.raises(AscendcError, match="needs bytes .*of the VECCALC buffer"):
        compared(kernels["float"], np.float32, which, 16, 64, 1)


GATHERED = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR out, uint32_t repeats) {
  TPipe pipe;
  TBuf<> a, b;
  pipe.InitBuffer(a, 1024);
  pipe.InitBuffer(b, 512);
  LocalTensor<float> s = a.Get<float>(), d = b.Get<float>();
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x);
  to.SetGlobalBuffer((__gm__ float*)out);
  DataCopy(s, from, 256);
  PipeBarrier<PIPE_ALL>();
  GatherMaskParams params;
  params.repeatTimes = repeats;
  uint64_t kept = 0;
  GatherMask(d, s, (uint8_t)2, false, MASK_PLACEHOLDER, params, kept);
  PipeBarrier<PIPE_ALL>();
  DataCopy(to, d, kept);
}
"""


@pytest.mark.parametrize("repeats", [1, 3, 4])
def test_a_gather_of_which_the_repeats_alone_are_set(tmp_path, repeats):
    source = tmp_path / "k.cpp"
    source.write_text(GATHERED)
    x, out = np.arange(256, dtype=np.float32), np.zeros(128, np.float32)
    ascendc.build(source, entry="k")(1, x, out, repeats)
    assert (out[: 32 * repeats] == x[1 : 64 * repeats : 2]).all()
    assert not out[32 * repeats :].any()
