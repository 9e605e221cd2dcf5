# SPDX-License-Identifier: Apache-2.0
"""Habits of public kernels, and order between cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

HERE = Path(__file__).parent
X = np.arange(64, dtype=np.int32)
IDIOMS = {
    "types of a build": (1, np.float32, np.full(64, 1.5)),
    "tiling keys": (2, np.int32, np.full(64, 7)),
    "the mask register": (3, np.int32, np.full(64, 6)),
    "reductions in place": (4, np.float32, np.arange(512).reshape(32, 16).sum(1)),
    "a tensor never set": (5, np.float16, np.array([3, 4, *[3] * 62])),
    "a pipe again and again": (6, np.float32, np.repeat(np.arange(8) + 2.5, 8)),
    "scratch, pointers, intrinsics": (7, np.int32, np.array([4, *[5] * 63])),
}


@pytest.fixture(scope="module")
def idioms():
    return ascendc.build(HERE / "idioms.cpp", entry="idioms", defines="DTYPE_X=float")


@pytest.mark.parametrize("name", IDIOMS)
def test_idioms(idioms, name):
    key, dtype, wanted = IDIOMS[name]
    out = np.zeros(64, dtype)
    tiling = np.array([3], np.uint32).tobytes() + np.array([1.5, 2.5, 3.5], np.float32).tobytes()
    idioms(1, X, out, tiling=tiling, tiling_key=key, workspace=64)
    assert (out[: len(wanted)] == wanted).all()


@pytest.mark.parametrize("name, dtype", [("half", np.float16), ("bfloat16_t", np.uint16)])
def test_kernels_that_a_macro_stamps_out(name, dtype):
    kernel = ascendc.build(HERE / "idioms.cpp", entry=f"stamped_{name}", defines="DTYPE_X=float")
    out = np.zeros(32, dtype)
    kernel(1, out, 32, 1.5)
    assert (out == (1.5 if name == "half" else 0x3FC0)).all()


@pytest.fixture(scope="module")
def synced():
    return ascendc.build(HERE / "sync.cpp", entry="synced")


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"threads": 1, "reverse": True}])
@pytest.mark.parametrize("which", range(6))
def test_order_between_cores(synced, which, options):
    n = 48
    out, flags = np.zeros((2 * n, 8), np.int32), np.zeros((n + 1) * 8, np.int32)
    synced(n, out, flags, which, **options)
    me = np.arange(n)
    wanted = {0: np.roll(me, 2) + 201, 1: np.roll(me, 2) + 201, 2: me + 1, 3: me[::-1] + 1, 4: me, 5: np.array([7])}[
        which
    ]
    assert (out[: len(wanted), 0] == wanted).all()
    assert which != 4 or (out[n:, 0] == me[::-1]).all()


@pytest.mark.parametrize("which", range(8))
def test_a_checked_run_knows_every_order_between_cores(synced, which):
    n = 6
    out, flags = np.zeros((2 * n, 8), np.int32), np.zeros(1024, np.int32)
    report = synced.check(n, out, flags, which)
    assert report.ok, str(report)


def test_atomic_adds_of_floats(synced):
    out = np.zeros(64, np.float32)
    synced(48, out, np.zeros(8, np.int32), 6)
    me = np.arange(48)
    np.testing.assert_allclose(out[:8], 3 * (1 + me * 1e-7 * 2.0 ** (me % 20)).sum(), rtol=1e-5)


def test_blocks_one_after_another(synced):
    out, flags = np.zeros((16, 8), np.int32), np.zeros(1024, np.int32)
    synced(16, out, flags, 7, reverse=True)
    assert (out[:, 0] == 2 * np.arange(1, 17)).all()


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2, "reverse": True}])
def test_cube_and_vector_cores_of_a_block(options):
    n = 24
    out = np.zeros(5 * n, np.int32)
    ascendc.build(HERE / "sync.cpp", entry="mixed")(n, out, **options)
    vector = np.arange(2 * n)
    assert (out[n : 3 * n] == 10 * vector + vector % 2).all()
    sums = (10 * vector + vector % 2).reshape(n, 2).sum(1)
    assert (out[:n] == sums).all() and (out[3 * n :] == np.repeat(sums, 2) + 4).all()


def line_of(text: str) -> int:
    """The first line of sync.cpp with ``text`` in it."""
    lines = (HERE / "sync.cpp").read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_a_wait_for_nobody_says_who_waits_for_what(synced):
    with pytest.raises(AscendcError) as caught:
        synced(2, np.zeros((4, 8), np.int32), np.full(32, 5, np.int32), 2)
    text = str(caught.value)
    assert text.startswith("synced: no core can go on: AIV core 0 waits in IBSet: for a word in GM to become 0 [")
    first, second = (f"sync.cpp:{line_of(call)}]" for call in ("IBSet(gm, u, me, 0)", "IBWait(gm, u, me - 1, 0)"))
    assert f"{first}; AIV core 1 waits in IBWait: for a word in GM to become 1 [" in text
    assert text.endswith(second)


def test_the_pipe_is_asked_for_without_its_namespace(tmp_path):
    source = tmp_path / "pipe.cpp"
    source.write_text("""
#include "kernel_operator.h"
template <typename T>
class Filled {
 public:
  __aicore__ inline void Run(GM_ADDR o) {
    pipe_.InitBuffer(buffer_, 256);
    AscendC::Duplicate(buffer_.Get<T>(), T(3), 64);
    const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(AscendC::HardEvent::V_MTE3));
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(id);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(id);
    AscendC::GlobalTensor<T> out;
    out.SetGlobalBuffer((__gm__ T*)o);
    AscendC::DataCopy(out, buffer_.Get<T>(), 64);
  }

 private:
  AscendC::TPipe pipe_;
  AscendC::TBuf<> buffer_;
};
extern "C" __global__ __aicore__ void filled(GM_ADDR o) {
  Filled<float> op;
  op.Run(o);
}
""")
    out = np.zeros(64, np.float32)
    ascendc.build(source)(1, out)
    assert (out == 3).all()


def test_a_launch_without_a_workspace_has_a_system_part_that_nobody_writes(tmp_path):
    source = tmp_path / "system.cpp"
    source.write_text("""
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void system_part(GM_ADDR o, int32_t how) {
  if (GetSysWorkSpacePtr() == nullptr) return;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 64);
  Duplicate(buffer.Get<float>(), 3.0f, 8);
  GlobalTensor<float> to;
  to.SetGlobalBuffer((__gm__ float*)(how ? GetSysWorkSpacePtr() : o));
  if (how == 2) to.SetValue(0, 3.0f);
  else DataCopy(to, buffer.Get<float>(), 8);
}
""")
    kernel, out = ascendc.build(source), np.zeros(8, np.float32)
    kernel(1, out, 0)
    assert (out == 3).all()
    for how in (1, 2):
        with pytest.raises(AscendcError, match=r"system\.cpp:1[23]"):
            kernel(1, out, how)


def test_names_of_the_compiler_and_of_2023(tmp_path):
    source = tmp_path / "names.cpp"
    source.write_text("""
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void names(__gm__ int32_t* o, int32_t deq) {
  AscendC::DataCopyEnhancedParams how({AscendC::BlockMode::BLOCK_MODE_MATRIX,
      deq ? AscendC::DeqScale::DEQ16 : AscendC::DeqScale::DEQ_NONE, 0, 0, true, pad_t::PAD_NONE, 0});
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::CO1> sums;
  AscendC::TBuf<AscendC::TPosition::CO2> out;
  pipe.InitBuffer(sums, 1024);
  pipe.InitBuffer(out, 1024);
  o[block_idx] = block_idx * 2 + int32_t(how.isRelu);
  if (deq) AscendC::DataCopy(out.Get<float>(), sums.Get<float>(), AscendC::DataCopyParams(1, 1, 0, 0), how);
}
""")
    kernel, out = ascendc.build(source, soc="Ascend310P3"), np.zeros(3, np.int32)
    kernel(3, out, 0)
    assert (out == [1, 3, 5]).all()
    with pytest.raises(AscendcError, match=r"deqScale is 5, padMode is 0; accepted: DEQ_NONE and PAD_NONE.*names\.cpp"):
        kernel(1, out, 1)


def test_a_deep_queue_keeps_its_order(tmp_path):
    source = tmp_path / "deep.cpp"
    source.write_text("""
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void deep(GM_ADDR x, GM_ADDR y) {
  constexpr int32_t DEPTH = 5, TILE = 16, ROUNDS = 5, AHEAD[ROUNDS] = {5, 2, 3, 1, 0};
  TPipe pipe;
  TQue<TPosition::VECIN, DEPTH> queue;
  pipe.InitBuffer(queue, DEPTH, TILE * sizeof(half));
  GlobalTensor<half> from, to;
  from.SetGlobalBuffer((__gm__ half*)x);
  to.SetGlobalBuffer((__gm__ half*)y);
  int32_t in = 0, out = 0;
  for (int32_t wanted : AHEAD) {
    while (in - out < DEPTH && in < 12) {
      LocalTensor<half> tile = queue.AllocTensor<half>();
      DataCopy(tile, from[in++ * TILE], TILE);
      queue.EnQue(tile);
    }
    while (in - out > wanted) {
      LocalTensor<half> tile = queue.DeQue<half>();
      DataCopy(to[out++ * TILE], tile, TILE);
      queue.FreeTensor(tile);
    }
  }
}
""")
    x, y = np.arange(192, dtype=np.float16), np.zeros(192, np.float16)
    ascendc.build(source)(1, x, y)
    np.testing.assert_array_equal(y, x)
