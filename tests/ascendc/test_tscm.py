# SPDX-License-Identifier: Apache-2.0
"""Operands of Matmul that vector cores put into L1 (TSCM), and a TPipe that is copied."""

from __future__ import annotations

import numpy as np
import pytest
from asc_cases import need_ascendc
from test_matmul import plan

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

SOURCE = """
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;
using namespace matmul;

template <typename T, typename C, bool BOTH>
class Scores {
  using A = MatmulType<TPosition::TSCM, CubeFormat::NZ, T>;
  using B = std::conditional_t<BOTH, MatmulType<TPosition::TSCM, CubeFormat::NZ, T, true>,
                               MatmulType<TPosition::GM, CubeFormat::ND, T, true>>;

 public:
  Matmul<A, B, MatmulType<TPosition::VECIN, CubeFormat::ND, C>> mm;

  __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR c, const TCubeTiling& t, TPipe* pipe) {
    pipe_ = *pipe;
    GlobalTensor<T> ga, gb;
    GlobalTensor<C> gc;
    ga.SetGlobalBuffer((__gm__ T*)a), gb.SetGlobalBuffer((__gm__ T*)b), gc.SetGlobalBuffer((__gm__ C*)c);
    pipe_.InitBuffer(left_, 1, (t.M + 15) / 16 * 16 * t.Ka * sizeof(T));
    pipe_.InitBuffer(out_, 1, t.M * t.N * sizeof(C));
    const uint64_t mine = GetBlockIdx() * t.N;  // rows of b, columns of c
    mm.SetTensorA(In(left_, ga, t.M, t.Ka));
    if constexpr (BOTH) {
      pipe_.InitBuffer(right_, 1, t.N * t.Ka * sizeof(T));
      mm.SetTensorB(In(right_, gb[mine * t.Ka], t.N, t.Ka), true);
    } else {
      mm.SetTensorB(gb[mine * t.Ka], true);
    }
    auto y = out_.template AllocTensor<C>();
    mm.IterateAll(y);
    out_.EnQue(y);
    y = out_.template DeQue<C>();
    DataCopyPad(gc[mine * t.M], y, {1, uint32_t(t.M * t.N * sizeof(C)), 0, 0, 0});
    out_.FreeTensor(y);
    mm.End();
  }

 private:
  __aicore__ inline LocalTensor<T> In(TSCM<TPosition::GM, 1>& queue, const GlobalTensor<T>& from, int rows, int k) {
    auto x = queue.AllocTensor<T>();
    DataCopy(x, from, Nd2NzParams(1, rows, k, 0, k, (rows + 15) / 16 * 16, 1, 0));
    queue.EnQue(x);
    return queue.DeQue<T>();
  }
  TPipe pipe_;
  TSCM<TPosition::GM, 1> left_, right_;
  TQue<TPosition::VECOUT, 1> out_;
};

template <typename T, typename C, bool BOTH>
__aicore__ inline void run(GM_ADDR a, GM_ADDR b, GM_ADDR c, const TCubeTiling& t) {
  TPipe pipe;
  Scores<T, C, BOTH> op;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.mm, &t);
  op.Run(a, b, c, t, &pipe);
}

extern "C" __global__ __aicore__ void scores(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
  const TCubeTiling t = *(__gm__ TCubeTiling*)tiling;
  if (TILING_KEY_IS(0)) run<half, float, false>(a, b, c, t);
  else if (TILING_KEY_IS(1)) run<half, float, true>(a, b, c, t);
  else if (TILING_KEY_IS(2)) run<int8_t, int32_t, false>(a, b, c, t);
  else run<int8_t, int32_t, true>(a, b, c, t);
}
"""


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    source = tmp_path_factory.mktemp("tscm") / "scores.cpp"
    source.write_text(SOURCE)
    return ascendc.build(source)


def given(key: int, m: int, n: int, k: int, blocks: int):
    rng = np.random.default_rng(m)
    dtype, out = ((np.float16, np.float32), (np.int8, np.int32))[key // 2]
    a, b = rng.integers(-5, 6, (m, k)).astype(dtype), rng.integers(-5, 6, (2 * blocks, n, k)).astype(dtype)
    wanted = np.einsum("mk,bnk->bmn", a.astype(np.int64), b.astype(np.int64))
    return a, b, np.zeros(wanted.shape, out), wanted


@pytest.mark.parametrize("key", range(4), ids=["half", "half, both", "int8", "int8, both"])
def test_operands_in_l1(scores, key):
    for m, n, k in ((16, 32, 64), (17, 64, 96)):
        a, b, c, wanted = given(key, m, n, k, 3)
        scores(3, a, b, c, tiling=plan(m, n, k), tiling_key=key)
        assert (c == wanted).all()


def test_operands_in_l1_checked_and_timed(scores):
    a, b, c, wanted = given(1, 17, 64, 96, 1)
    report = scores.check(1, a, b, c, tiling=plan(17, 64, 96), tiling_key=1, outputs=[c])
    assert report.ok, str(report)
    assert (c == wanted).all()
    assert scores.profile(1, a, b, c, tiling=plan(17, 64, 96), tiling_key=1).macs > 0


def test_l1_is_not_larger(scores):
    a, b, c, _ = given(0, 1024, 32, 512, 1)
    with pytest.raises(AscendcError, match=r"InitBuffer: 1 x 1048576 bytes of l1, .*scores\.cpp:\d+\]"):
        scores(1, a, b, c, tiling=plan(1024, 32, 512), tiling_key=0)


def test_rows_in_l1_are_refused(tmp_path):
    source = tmp_path / "rows.cpp"
    source.write_text(SOURCE.replace("TPosition::TSCM, CubeFormat::NZ, T>;", "TPosition::TSCM, CubeFormat::ND, T>;"))
    with pytest.raises(AscendcBuildError, match=r"rows\.cpp:\d+: .*in TSCM is not accepted; accepted: NZ"):
        ascendc.build(source)
