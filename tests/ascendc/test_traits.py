# SPDX-License-Identifier: Apache-2.0
"""Tensors by TensorTrait, repeats of LoadData, and classes that are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

TRAITS = """#include "kernel_operator.h"
#include "kernel_operator_tensor_trait.h"
using namespace AscendC;
using Trait = TensorTrait<half>;
template <class T>
__aicore__ inline PrimT<T> half_of(const LocalTensor<T>& t) { return PrimT<T>(float(t.GetValue(0)) / 2); }
extern "C" __global__ __aicore__ void traits(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 2, 256), pipe.InitBuffer(out, 1, 256);
  GlobalTensor<Trait> from, more, to;
  from.SetGlobalBuffer((__gm__ half*)x), more.SetGlobalBuffer((__gm__ half*)y), to.SetGlobalBuffer((__gm__ half*)z);
  LocalTensor<Trait> a = in.AllocTensor<Trait>(), b = in.AllocTensor<Trait>();
  DataCopy(a, from, 128), DataCopy(b, more, 128);
  in.EnQue(a), in.EnQue(b);
  a = in.DeQue<Trait>(), b = in.DeQue<Trait>();
  LocalTensor<Trait> c = out.AllocTensor<Trait>();
  Add(c, a, b, 111);
  c.SetValue(0, half_of(a));
  out.EnQue(c);
  c = out.DeQue<Trait>();
  DataCopy(to, c, 128);
  in.FreeTensor(a), in.FreeTensor(b), out.FreeTensor(c);
}
"""


def test_tensors_by_trait(tmp_path: Path) -> None:
    source = tmp_path / "traits.cpp"
    source.write_text(TRAITS)
    x, y = np.random.default_rng(37).normal(size=(2, 128)).astype(np.float16)
    z = np.zeros(128, np.float16)
    ascendc.build(source, entry="traits", soc="Ascend910B1")(1, x, y, z)
    np.testing.assert_array_equal(z[1:111], (x + y)[1:111])
    assert z[0] == x[0] / 2


REPEATS = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void repeats(GM_ADDR x, uint32_t times, uint32_t mode) {
  SetLoadDataRepeat({0, 1, 0});
  LoadDataRepeatParam once;
  SetLoadDataRepeat(once);
  once.repeatTime = times, once.repeatMode = mode;
  SetLoadDataRepeat(once);
}
"""


def test_repeats_of_load_data(tmp_path: Path) -> None:
    source = tmp_path / "repeats.cpp"
    source.write_text(REPEATS)
    repeats, x = ascendc.build(source, entry="repeats", soc="Ascend910B1"), np.zeros(16, np.float16)
    repeats(1, x, 1, 1)
    for times, mode, says in ((0, 0, "repeatTime is 0; accepted: 1"), (2, 1, "repeatTime is 2; accepted: 1"),
                              (1, 2, "repeatMode is 2; accepted: 0 and 1")):  # fmt: skip
        with pytest.raises(AscendcError, match=rf"core 0: SetLoadDataRepeat: {says}.*repeats\.cpp:8\]"):
            repeats(1, x, times, mode)


REFUSED = {
    "CubeResGroupHandle<int32_t> handle(x, 0, 1, 2, 0);": (
        "CubeResGroupHandle is not there: groups of cube cores with queues; accepted: Matmul, CrossCoreSetFlag"
    ),
    "GroupBarrier<PipeMode::MTE3_MODE> barrier(x, 2, 6);": (
        "GroupBarrier is not there: groups of cores; accepted: CrossCoreSetFlag, IBSet and IBWait, SyncAll"
    ),
    "LocalTensor<TensorTrait<half, TPosition::VECIN>> t;": (
        "TensorTrait: a position or a layout is not there; accepted: TensorTrait<T>"
    ),
}


@pytest.mark.parametrize("line", REFUSED)
def test_classes_that_are_refused(tmp_path: Path, line: str) -> None:
    source = tmp_path / "k.cpp"
    source.write_text(
        f'#include "kernel_operator.h"\nusing namespace AscendC;\n'
        f'extern "C" __global__ __aicore__ void k(GM_ADDR x) {{\n{line}\n}}\n'
    )
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(source, soc="Ascend910B1")
    assert f"{source}:4: AscendC::{REFUSED[line]}" in str(caught.value)
