// SPDX-License-Identifier: Apache-2.0
// softmax(scale * query @ key^T + real_shift, masked) @ value. A block is one cube core and two vector cores, which
// hand tiles to each other through GM: the cube is one block of keys ahead, so that both kinds of cores work at once.
#include "attention_cube.h"
#include "attention_vector.h"

extern "C" __global__ __aicore__ void flash_attention(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR attnMask,
                                                      GM_ADDR realShift, GM_ADDR dropMask, GM_ADDR queryLengths,
                                                      GM_ADDR keyLengths, GM_ADDR seedWords, GM_ADDR rowBounds,
                                                      GM_ADDR attentionOut, GM_ADDR softmaxMax, GM_ADDR softmaxSum,
                                                      GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA(t, tiling);
    TPipe pipe;
    Task task;
    task.Init(t, queryLengths, keyLengths, rowBounds);
    if ASCEND_IS_AIC {
        AttentionCube<DTYPE_QUERY> cube(&pipe, t);
        cube.Init(query, key, value, workspace);
        cube.Process(task);
    }
    if ASCEND_IS_AIV {
        AttentionVector<DTYPE_QUERY> vector(&pipe, t);
        vector.Init(value, attnMask, realShift, dropMask, attentionOut, softmaxMax, softmaxSum, seedWords, workspace);
        vector.Process(task);
    }
}
