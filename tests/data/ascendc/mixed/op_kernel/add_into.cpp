// SPDX-License-Identifier: Apache-2.0
#include "add_into_tiling.h"
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void add_into(GM_ADDR acc, GM_ADDR x, GM_ADDR accOut, GM_ADDR workspace,
                                               GM_ADDR tiling)
{
    const __gm__ AddIntoTilingData* data = reinterpret_cast<__gm__ AddIntoTilingData*>(tiling);
    __gm__ float* out = reinterpret_cast<__gm__ float*>(accOut);
    for (uint32_t i = 0; i < data->count; i++) {
        out[i] = reinterpret_cast<__gm__ float*>(acc)[i] + reinterpret_cast<__gm__ float*>(x)[i];
    }
}
