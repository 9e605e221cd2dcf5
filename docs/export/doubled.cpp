// Doubled for Ascend910B1, exported from the TIK kernel export_kernels.py:doubled.
// Comments name the line of the kernel that a statement comes from. One function for each traced case; the
// tiling key chooses.
#include "kernel_operator.h"

using namespace AscendC;

__aicore__ inline void TracedVector(TPipe& pipe, GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<half> xGm; xGm.SetGlobalBuffer((__gm__ half*)x, 1024);
    GlobalTensor<half> yGm; yGm.SetGlobalBuffer((__gm__ half*)y, 1024);
    TBuf<TPosition::VECCALC> ubBuf; pipe.InitBuffer(ubBuf, 256);
    const int32_t core = GetBlockIdx();  // export_kernels.py:14 with t.for_range(0, 2, block_num=2) as core...
    for (int32_t j = 0; j < 4; ++j) {  // export_kernels.py:14 with t.for_range(0, 2, block_num=2) as core...
        LocalTensor<half> tile = ubBuf.GetWithOffset<half>(128, 0);  // export_kernels.py:15 tile = t.Tensor("float16", (128,), tik.scop...
        SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0); WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
        DataCopy(tile, xGm[core * 512 + j * 128], DataCopyParams(1, 8, 0, 0));  // export_kernels.py:17 t.data_move(tile, x[start], 0, 1, 8, 0, 0)
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0); WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        Muls(tile, tile, half(2.0f), 128, 1, UnaryRepeatParams(1, 1, 8, 8));  // export_kernels.py:18 t.vec_muls(128, tile, tile, 2.0, 1, 8, 8)
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0); WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        DataCopy(yGm[core * 512 + j * 128], tile, DataCopyParams(1, 8, 0, 0));  // export_kernels.py:19 t.data_move(y[start], tile, 0, 1, 8, 0, 0)
    }
}

extern "C" __global__ __aicore__ void doubled(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GM_ADDR user = GetUserWorkspace(workspace);
    TPipe pipe;
    if (TILING_KEY_IS(1)) {
        TracedVector(pipe, x, y);
    }
}
