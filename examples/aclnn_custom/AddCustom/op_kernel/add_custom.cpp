// SPDX-License-Identifier: Apache-2.0
// z = x + y: blocks take tiles in turn, through queues with two buffers each.
#include "kernel_operator.h"

using namespace AscendC;

class KernelAdd {
public:
    __aicore__ inline KernelAdd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total, uint32_t tile)
        : total(total), tile(tile)
    {
        xGm.SetGlobalBuffer((__gm__ DTYPE_X*)x, total);
        yGm.SetGlobalBuffer((__gm__ DTYPE_X*)y, total);
        zGm.SetGlobalBuffer((__gm__ DTYPE_X*)z, total);
        pipe.InitBuffer(in, 2, 2 * tile * sizeof(DTYPE_X));
        pipe.InitBuffer(out, 2, tile * sizeof(DTYPE_X));
    }

    __aicore__ inline void Process()
    {
        for (uint32_t at = GetBlockIdx() * tile; at < total; at += GetBlockNum() * tile) {
            const uint32_t count = total - at < tile ? total - at : tile;
            const DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(DTYPE_X)), 0, 0, 0};
            const DataCopyPadExtParams<DTYPE_X> pad{false, 0, 0, 0};
            LocalTensor<DTYPE_X> both = in.AllocTensor<DTYPE_X>();
            DataCopyPad(both, xGm[at], copy, pad);
            DataCopyPad(both[tile], yGm[at], copy, pad);
            in.EnQue(both);
            both = in.DeQue<DTYPE_X>();
            LocalTensor<DTYPE_X> sum = out.AllocTensor<DTYPE_X>();
            Add(sum, both, both[tile], count);
            in.FreeTensor(both);
            out.EnQue(sum);
            sum = out.DeQue<DTYPE_X>();
            DataCopyPad(zGm[at], sum, copy);
            out.FreeTensor(sum);
        }
    }

private:
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    GlobalTensor<DTYPE_X> xGm, yGm, zGm;
    uint32_t total, tile;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    KernelAdd op(x, y, z, data.total, data.tile);
    op.Process();
}
