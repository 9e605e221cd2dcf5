// SPDX-License-Identifier: Apache-2.0
// Gradients of flash_attention. A block is one cube core and two vector cores and takes heads of keys, each with its
// group of heads of queries: every sum has one owner and one order. README.md has the formulas.
#include "gradient_cube.h"
#include "gradient_vector.h"

extern "C" __global__ __aicore__ void flash_attention_grad(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR attentionOut, GM_ADDR dAttentionOut, GM_ADDR softmaxMax,
    GM_ADDR softmaxSum, GM_ADDR dSoftmaxMax, GM_ADDR dSoftmaxSum, GM_ADDR attnMask, GM_ADDR realShift, GM_ADDR dropMask,
    GM_ADDR queryLengths, GM_ADDR keyLengths, GM_ADDR seedWords, GM_ADDR rowBounds, GM_ADDR dQuery, GM_ADDR dKey,
    GM_ADDR dValue, GM_ADDR dRealShift, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA(t, tiling);
    TPipe pipe;
    Task task;
    task.Init(t, queryLengths, keyLengths, rowBounds);
    GradientWalk walk;
    walk.Init(t, task);
    const GradientTensors tensors = {query,       key,         value,        attentionOut, dAttentionOut,
                                     softmaxMax,  softmaxSum,  dSoftmaxMax,  dSoftmaxSum,  attnMask,
                                     realShift,   dropMask,    queryLengths, keyLengths,   seedWords,
                                     rowBounds,   dQuery,      dKey,         dValue,       dRealShift};
    if ASCEND_IS_AIC {
        GradientCube<DTYPE_QUERY> cube(&pipe, t);
        cube.Init(tensors, workspace);
        cube.Process(walk);
    }
    if ASCEND_IS_AIV {
        GradientVector<DTYPE_QUERY> vector(&pipe, t);
        vector.Init(tensors, workspace);
        vector.Process(walk, task);
    }
}
