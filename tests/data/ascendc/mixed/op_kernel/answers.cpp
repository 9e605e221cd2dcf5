// SPDX-License-Identifier: Apache-2.0
#include "answers_tiling.h"
#include "kernel_operator.h"

using namespace AscendC;

// Enumerations of a kernel's own, under names that libraries use too.
enum class QuantMode : uint32_t { NONE, STATIC };

// The numbers of the tiling, then the first element of each tensor of the list.
template <QuantMode mode>
__aicore__ inline void Answer(GM_ADDR x, GM_ADDR y, GM_ADDR tiling)
{
    const __gm__ float* numbers = reinterpret_cast<__gm__ AnswersTilingData*>(tiling)->numbers;
    __gm__ float* out = reinterpret_cast<__gm__ float*>(y);
    for (uint32_t i = 0; i < 9; i++) {
        out[i] = numbers[i];
    }
    ListTensorDesc list(reinterpret_cast<__gm__ void*>(x));
    for (uint32_t i = 0; i < list.GetSize(); i++) {
        out[9 + i] = list.GetDataPtr<float>(i)[0];
    }
}

extern "C" __global__ __aicore__ void answers(GM_ADDR x, GM_ADDR shift, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    Answer<QuantMode::STATIC>(x, y, tiling);
}
