// SPDX-License-Identifier: Apache-2.0
// Gives 8 numbers of a buffer, and 8 of the workspace, and then writes 1 to both.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t COUNT = 8;

extern "C" __global__ __aicore__ void leftover(GM_ADDR x, GM_ADDR ofUb, GM_ADDR ofWorkspace, GM_ADDR workspace,
                                               GM_ADDR tiling)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
    pipe.InitBuffer(buffer, COUNT * sizeof(float));
    pipe.InitBuffer(through, 1, COUNT * sizeof(float));
    GlobalTensor<float> first, second, memory;
    first.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(ofUb), COUNT);
    second.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(ofWorkspace), COUNT);
    memory.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(GetUserWorkspace(workspace)), COUNT);
    LocalTensor<float> held = buffer.Get<float>();
    DataCopy(first, held, COUNT);
    LocalTensor<float> tile = through.AllocTensor<float>();
    DataCopy(tile, memory, COUNT);
    through.EnQue(tile);
    tile = through.DeQue<float>();
    DataCopy(second, tile, COUNT);
    through.FreeTensor(tile);
    PipeBarrier<PIPE_ALL>();
    Duplicate(held, 1.0f, COUNT);
    PipeBarrier<PIPE_ALL>();
    DataCopy(memory, held, COUNT);
}
