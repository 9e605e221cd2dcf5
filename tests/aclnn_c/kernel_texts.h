// SPDX-License-Identifier: Apache-2.0
// Kernels as texts, for compilation at run time.
#pragma once

// z = x + scale * y; z[i] = value + i, of numbers in memory; a loop without an end.
constexpr const char* kKernels = R"(
#include "kernel_operator.h"
#include "sizes.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, float scale, uint32_t total)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> memory;
    pipe.InitBuffer(memory, 2 * TILE * sizeof(float));
    GlobalTensor<float> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, total);
    yGm.SetGlobalBuffer((__gm__ float*)y, total);
    zGm.SetGlobalBuffer((__gm__ float*)z, total);
    LocalTensor<float> a = memory.Get<float>(), b = a[TILE];
    for (uint32_t at = GetBlockIdx() * TILE; at < total; at += GetBlockNum() * TILE) {
        const uint32_t count = total - at < TILE ? total - at : TILE;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
        const DataCopyPadExtParams<float> pad{false, 0, 0, 0};
        PipeBarrier<PIPE_ALL>();
        DataCopyPad(a, xGm[at], copy, pad);
        DataCopyPad(b, yGm[at], copy, pad);
#ifndef HASTY
        PipeBarrier<PIPE_ALL>();
#endif
        Muls(b, b, scale, count);
        PipeBarrier<PIPE_ALL>();
        Add(a, a, b, count);
        PipeBarrier<PIPE_ALL>();
        DataCopyPad(zGm[at], a, copy);
    }
}

extern "C" __global__ __aicore__ void fill(GM_ADDR z, GM_ADDR numbers)
{
    GlobalTensor<uint32_t> given, out;
    given.SetGlobalBuffer((__gm__ uint32_t*)numbers, 2);
    const uint32_t total = given.GetValue(0), value = given.GetValue(1);
    out.SetGlobalBuffer((__gm__ uint32_t*)z, total);
    for (uint32_t i = 0; i < total; i++) out.SetValue(i, value + i);
}

extern "C" __global__ __aicore__ void spin(GM_ADDR z)
{
    GlobalTensor<uint32_t> out;
    out.SetGlobalBuffer((__gm__ uint32_t*)z, 1);
    for (uint32_t i = 0; out.GetValue(0) != 0xFFFFFFFF; i = (i + 1) % 1000) out.SetValue(0, i);
}
)";

// The first number of z becomes COUNT * x.
constexpr const char* kTemplate = R"(
#include "kernel_operator.h"

namespace tools {
template <typename T, int COUNT>
__global__ __aicore__ void times(GM_ADDR x, GM_ADDR z)
{
    AscendC::GlobalTensor<T> from, to;
    from.SetGlobalBuffer((__gm__ T*)x, 1);
    to.SetGlobalBuffer((__gm__ T*)z, 1);
    to.SetValue(0, static_cast<T>(from.GetValue(0) * COUNT));
}
}  // namespace tools
)";

// Two libraries: cube cores write 100 + block, vector cores behind them 200 + block.
constexpr const char* kMixed = R"(
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void who(GM_ADDR z)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)z, 6);
    const int32_t block = AscendC::GetBlockIdx();
#ifdef __DAV_C220_CUBE__
    out.SetValue(block, 100 + block);
#endif
#ifdef __DAV_C220_VEC__
    out.SetValue(2 + block, 200 + block);
#endif
}
)";

constexpr const char* kSizes = "#pragma once\nconstexpr uint32_t TILE = 64;\n";
