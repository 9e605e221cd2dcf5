// SPDX-License-Identifier: Apache-2.0
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void scale_all(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    const float scale = *reinterpret_cast<__gm__ float*>(tiling);
    ListTensorDesc from(reinterpret_cast<__gm__ void*>(x));
    ListTensorDesc to(reinterpret_cast<__gm__ void*>(y));
    for (uint32_t i = GetBlockIdx(); i < from.GetSize(); i += GetBlockNum()) {
        uint64_t shape[8];
        TensorDesc<float> desc;
        desc.SetShapeAddr(shape);
        from.GetDesc(desc, i);
        for (uint64_t j = 0; j < desc.GetShape(0); j++) {
            to.GetDataPtr<float>(i)[j] = from.GetDataPtr<float>(i)[j] * scale;
        }
    }
}
