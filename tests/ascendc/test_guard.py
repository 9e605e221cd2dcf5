# SPDX-License-Identifier: Apache-2.0
"""What a checked run sees of writes through raw pointers beyond an argument."""

from __future__ import annotations

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc

need_ascendc()

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void raw(__gm__ float* x, __gm__ float* y, int32_t first, int32_t count) {
  for (int32_t i = 0; i < 17; ++i) y[i] = x[i] + 1;
  for (int32_t i = first; i < first + count; ++i) y[i] = 7;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 128);
  GlobalTensor<float> from;
  from.SetGlobalBuffer(x, 17);
  DataCopy(buffer.Get<float>(), from, 24);  // whole blocks
}
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    source = tmp_path_factory.mktemp("guard") / "raw.cpp"
    source.write_text(SOURCE)
    return ascendc.build(source)


@pytest.mark.parametrize(
    "first, count, told",
    [
        (0, 17, ""),
        (17, 3, "raw writes bytes [68, 80) of argument 1, which has 68, through a pointer of its own, behind"),
        (-2, 2, "raw writes bytes [-8, 0) of argument 1, which has 68, through a pointer of its own, before"),
    ],
    ids=["within", "behind", "before"],
)
def test_raw_writes(raw, first, count, told):
    x, y = np.arange(17, dtype=np.float32), np.zeros(17, np.float32)
    report = raw.check(1, x, y, first, count, outputs=[y])
    texts = [finding.text for finding in report.findings if finding.kind == "out_of_bounds"]
    assert len(texts) == bool(told) and all(told in text for text in texts), str(report)
    assert (y == (7 if first == 0 else x + 1)).all() and report.outputs[0] is y
    assert (x == np.arange(17)).all()


def test_arguments_of_one_memory_stay_one(raw):
    both = np.arange(40, dtype=np.float32)
    for other, first in ((both[20:], 20), (both, 0)):
        report = raw.check(1, both, other, 0, 0)
        assert all(finding.kind != "out_of_bounds" for finding in report.findings), str(report)
        assert (both[first : first + 17] == np.arange(17) + 1).all()
