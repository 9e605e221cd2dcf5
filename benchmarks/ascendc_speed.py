# SPDX-License-Identifier: Apache-2.0
"""Speed of Ascend C: builds, calls on 16 lanes; an addition of 16 Mi float16 and flash attention beside those in TIK.

python benchmarks/ascendc_speed.py

Processor time of this process (its threads together), least of several runs that alternate.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn
from timing import machine_line

import ms_custom_ops as mco
from ms_custom_ops import engine, tik

SOC = "Ascend910B1"
ELEMENTS, BLOCKS, TILE = 16 << 20, 8, 8192
CALLS, ROUNDS = 1_000_000, 7

ADD = """
#include "kernel_operator.h"
using namespace AscendC;
constexpr uint32_t TILE = %d;

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 2> in0, in1;
  TQue<QuePosition::VECOUT, 2> out;
  pipe.InitBuffer(in0, 2, TILE * sizeof(half));
  pipe.InitBuffer(in1, 2, TILE * sizeof(half));
  pipe.InitBuffer(out, 2, TILE * sizeof(half));
  const uint32_t each = count / GetBlockNum(), first = each * GetBlockIdx();
  GlobalTensor<half> a, b, c;
  a.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x) + first, each);
  b.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y) + first, each);
  c.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(z) + first, each);
  for (uint32_t at = 0; at < each; at += TILE) {
    LocalTensor<half> l = in0.AllocTensor<half>(), r = in1.AllocTensor<half>();
    DataCopy(l, a[at], TILE);
    DataCopy(r, b[at], TILE);
    in0.EnQue(l);
    in1.EnQue(r);
    l = in0.DeQue<half>();
    r = in1.DeQue<half>();
    LocalTensor<half> s = out.AllocTensor<half>();
    Add(s, l, r, TILE);
    out.EnQue(s);
    in0.FreeTensor(l);
    in1.FreeTensor(r);
    s = out.DeQue<half>();
    DataCopy(c[at], s, TILE);
    out.FreeTensor(s);
  }
}
"""
CALL = """
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void calls(GM_ADDR x, int32_t count) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 1024);
  LocalTensor<half> a = buffer.Get<half>(), b = a[64], c = a[128];
  Duplicate(a, half(1), 128);
  for (int32_t i = 0; i < count; i++) {
    Add(c, a, b, 16);
  }
}
"""


def add_in_tik() -> tik.Tik:
    """The same addition, tile by tile, two tiles in flight."""
    t = tik.Tik()
    x, y, z = (t.Tensor("float16", (ELEMENTS,), tik.scope_gm, name) for name in "xyz")
    bursts = TILE * 2 // 32
    with (
        t.for_range(0, BLOCKS, block_num=BLOCKS) as block,
        t.for_range(0, ELEMENTS // BLOCKS // TILE, thread_num=2) as i,
    ):
        at = block * (ELEMENTS // BLOCKS) + i * TILE
        left, right = (t.Tensor("float16", (TILE,), tik.scope_ubuf, name) for name in ("left", "right"))
        t.data_move(left, x[at], 0, 1, bursts, 0, 0)
        t.data_move(right, y[at], 0, 1, bursts, 0, 0)
        t.vec_add(128, left, left, right, TILE // 128, 8, 8, 8)
        t.data_move(z[at], left, 0, 1, bursts, 0, 0)
    t.BuildCCE("add", [x, y], [z])
    return t


def least(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least seconds of processor time of each."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            before = time.process_time()
            run()
            found[name] = min(found[name], time.process_time() - before)
    return found


class Attention(nn.Cell):
    """flash_attention forward, on the kernel of the language in force when it is compiled."""

    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value)[0]


def attention() -> dict[str, Callable[[], object]]:
    """Calls of compiled graphs on (1, 8, 1024, 64) float16, by the kernels of both languages."""
    ms.set_context(mode=ms.GRAPH_MODE)
    mco.set_soc(SOC)
    rng = np.random.default_rng(0)
    inputs = [ms.Tensor(rng.standard_normal((1, 8, 1024, 64)).astype(np.float16)) for _ in range(3)]
    runs = {}
    for name, impl in (("Ascend C", "ascendc"), ("TIK", "tik")):
        with mco.use_impl(impl):
            graph = Attention()
            graph(*inputs).asnumpy()
        runs[name] = lambda graph=graph: graph(*inputs).asnumpy()
    return runs


def main() -> int:
    """Print the figures; 1 where the two additions differ."""
    print(machine_line())
    with tempfile.TemporaryDirectory() as folder:
        kernels = {}
        for name, text in (("add", ADD % TILE), ("calls", CALL)):
            source = Path(folder) / f"{name}.cpp"
            source.write_text(text)
            spent = sum(os.times()[:4])
            kernels[name] = mco.ascendc.build(source, soc=SOC)
            spent = sum(os.times()[:4]) - spent
            again = mco.ascendc.build(source, soc=SOC)
            print(f"{name}: built in {kernels[name].seconds:.2f} s (processor time {spent:.2f} s), "
                  f"found in {again.seconds * 1e3:.0f} ms")  # fmt: skip
    x, y = np.random.default_rng(0).standard_normal((2, ELEMENTS)).astype(np.float16)
    z, one = np.empty_like(x), np.zeros(64, np.float16)
    program = mco.trace(add_in_tik, soc=SOC)
    same = [np.empty(0)]
    took = least(
        {
            "Ascend C": lambda: kernels["add"](BLOCKS, x, y, z, ELEMENTS, threads=1),
            "TIK": lambda: same.__setitem__(0, engine.run(program, [x, y], threads=1)[0]),
            "calls": lambda: kernels["calls"](1, one, CALLS, threads=1),
        }
    )
    ratio = took["Ascend C"] / took["TIK"]
    print(f"addition of {ELEMENTS >> 20} Mi float16: Ascend C {took['Ascend C'] * 1e3:.1f} ms, "
          f"TIK {took['TIK'] * 1e3:.1f} ms, {ratio:.2f}x")  # fmt: skip
    print(f"a call on 16 lanes: {took['calls'] / CALLS * 1e9:.0f} ns")
    engine.set_num_threads(1)
    took = least(attention())
    ours, theirs = took["Ascend C"] * 1e3, took["TIK"] * 1e3
    print(f"flash attention (1, 8, 1024, 64): Ascend C {ours:.1f} ms, TIK {theirs:.1f} ms, {ours / theirs:.2f}x")
    return int(not np.array_equal(z.view(np.uint16), same[0].view(np.uint16)))


if __name__ == "__main__":
    sys.exit(main())
