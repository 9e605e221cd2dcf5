// SPDX-License-Identifier: Apache-2.0
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t UNIT = 16;

template <typename T, bool HAS_BIAS>
__aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR bias, GM_ADDR z, const ScaleAddTilingData& t)
{
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, 3 * UNIT * sizeof(T));
    pipe.InitBuffer(out, 2, UNIT * sizeof(T));
    GlobalTensor<T> gm[4];
    GM_ADDR places[4] = {x, y, bias, z};
    for (int i = 0; i < 4; i++) {
        if (places[i] != nullptr) {
            gm[i].SetGlobalBuffer(reinterpret_cast<__gm__ T*>(places[i]), t.dims[0]);
        }
    }
    const uint32_t core = GetBlockIdx();
    const uint32_t first = core * t.share.ofCore + (core < t.share.longCores ? core : t.share.longCores);
    const uint32_t count = t.share.ofCore + (core < t.share.longCores ? 1 : 0);
    for (uint32_t block = first; block < first + count; block++) {
        const uint32_t at = block * UNIT;
        const uint32_t n = t.dims[0] - at < UNIT ? t.dims[0] - at : UNIT;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0};
        LocalTensor<T> a = in.AllocTensor<T>();
        for (int i = 0; i < (HAS_BIAS ? 3 : 2); i++) {
            DataCopyPad(a[i * UNIT], gm[i][at], copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
        }
        in.EnQue(a);
        a = in.DeQue<T>();
        LocalTensor<T> c = out.AllocTensor<T>();
        Muls(c, a, static_cast<T>(t.scale), n);
        Add(c, c, a[UNIT], n);
        if (HAS_BIAS) {
            Add(c, c, a[2 * UNIT], n);
        }
        in.FreeTensor(a);
        out.EnQue(c);
        c = out.DeQue<T>();
        DataCopyPad(gm[3][at], c, copy);
        out.FreeTensor(c);
    }
}

extern "C" __global__ __aicore__ void scale_add(GM_ADDR x, GM_ADDR y, GM_ADDR bias, GM_ADDR z, GM_ADDR workspace,
                                                GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1)) {
        Run<DTYPE_X, false>(x, y, bias, z, data);
    } else if (TILING_KEY_IS(2)) {
        Run<DTYPE_X, true>(x, y, bias, z, data);
    }
}
