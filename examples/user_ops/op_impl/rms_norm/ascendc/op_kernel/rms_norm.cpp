// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean(x * x) + eps) * weight for rows of x; rstd is that factor of each row, eight times.
#include <type_traits>

#include "kernel_operator.h"

using namespace AscendC;

namespace {
constexpr int32_t BUFFERS = 2;
constexpr uint32_t RSTD_COLUMNS = 8;
constexpr uint32_t LANES = 8;  // floats of a block, what a sum of one row takes

template <typename T>
class RmsNormKernel {
public:
    __aicore__ inline RmsNormKernel(TPipe* pipe, const RmsNormTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR y, GM_ADDR rstd)
    {
        const uint64_t elements = static_cast<uint64_t>(t_.rows) * t_.width;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), elements);
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), t_.width);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), static_cast<uint64_t>(t_.rows) * RSTD_COLUMNS);
        const uint32_t tile = t_.rowsOfTile * t_.width;
        pipe_->InitBuffer(xQueue_, BUFFERS, tile * sizeof(T));
        pipe_->InitBuffer(yQueue_, BUFFERS, tile * sizeof(T));
        pipe_->InitBuffer(rstdQueue_, BUFFERS, t_.rowsOfTile * RSTD_COLUMNS * sizeof(float));
        pipe_->InitBuffer(weight_, t_.width * sizeof(float));
        pipe_->InitBuffer(sum_, LANES * sizeof(float));
        if constexpr (!std::is_same<T, float>::value) {
            pipe_->InitBuffer(wide_, tile * sizeof(float));
            pipe_->InitBuffer(squares_, t_.width * sizeof(float));
        }
        LoadWeight();
    }

    __aicore__ inline void Process()
    {
        const uint32_t core = GetBlockIdx();
        const uint32_t first = core * t_.rowsOfCore + (core < t_.longCores ? core : t_.longCores);
        const uint32_t end = first + t_.rowsOfCore + (core < t_.longCores ? 1 : 0);
        for (uint32_t row = first; row < end; row += t_.rowsOfTile) {
            const uint32_t rows = end - row < t_.rowsOfTile ? end - row : t_.rowsOfTile;
            CopyIn(row, rows);
            Compute(rows);
            CopyOut(row, rows);
        }
    }

private:
    __aicore__ inline void LoadWeight()
    {
        LocalTensor<T> narrow = xQueue_.template AllocTensor<T>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(t_.width * sizeof(T)), 0, 0, 0};
        DataCopyPad(narrow, weightGm_, copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
        xQueue_.EnQue(narrow);
        narrow = xQueue_.template DeQue<T>();
        if constexpr (std::is_same<T, float>::value) {
            Adds(weight_.Get<float>(), narrow, 0.0f, t_.width);
        } else {
            Cast(weight_.Get<float>(), narrow, RoundMode::CAST_NONE, t_.width);
        }
        xQueue_.FreeTensor(narrow);
    }

    __aicore__ inline void CopyIn(uint32_t row, uint32_t rows)
    {
        LocalTensor<T> x = xQueue_.template AllocTensor<T>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(rows * t_.width * sizeof(T)), 0, 0, 0};
        DataCopyPad(x, xGm_[static_cast<uint64_t>(row) * t_.width], copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
        xQueue_.EnQue(x);
    }

    __aicore__ inline void Compute(uint32_t rows)
    {
        LocalTensor<T> x = xQueue_.template DeQue<T>();
        LocalTensor<T> y = yQueue_.template AllocTensor<T>();
        LocalTensor<float> rstd = rstdQueue_.template AllocTensor<float>();
        if constexpr (std::is_same<T, float>::value) {
            for (uint32_t r = 0; r < rows; r++) {
                Row(y[r * t_.width], x[r * t_.width], y[r * t_.width], rstd[r * RSTD_COLUMNS]);
            }
        } else {
            LocalTensor<float> wide = wide_.Get<float>();
            Cast(wide, x, RoundMode::CAST_NONE, rows * t_.width);
            for (uint32_t r = 0; r < rows; r++) {
                Row(wide[r * t_.width], wide[r * t_.width], squares_.Get<float>(), rstd[r * RSTD_COLUMNS]);
            }
            Cast(y, wide, RoundMode::CAST_RINT, rows * t_.width);
        }
        xQueue_.FreeTensor(x);
        yQueue_.EnQue(y);
        rstdQueue_.EnQue(rstd);
    }

    // One row; `squares` may be `y`.
    __aicore__ inline void Row(const LocalTensor<float>& y, const LocalTensor<float>& x,
                               const LocalTensor<float>& squares, const LocalTensor<float>& rstd)
    {
        LocalTensor<float> sum = sum_.Get<float>();
        Mul(squares, x, x, t_.width);
        ReduceSum<float>(sum, squares, squares, t_.width);
        Muls(sum, sum, 1.0f / t_.width, 1);
        Adds(sum, sum, t_.eps, 1);
        Sqrt(sum, sum, 1);
        const event_t summed = static_cast<event_t>(pipe_->FetchEventID(HardEvent::V_S));
        SetFlag<HardEvent::V_S>(summed);
        WaitFlag<HardEvent::V_S>(summed);
        const float factor = 1.0f / sum.GetValue(0);
        const event_t known = static_cast<event_t>(pipe_->FetchEventID(HardEvent::S_V));
        SetFlag<HardEvent::S_V>(known);
        WaitFlag<HardEvent::S_V>(known);
        Duplicate(rstd, factor, RSTD_COLUMNS);
        Muls(y, x, factor, t_.width);
        Mul(y, y, weight_.Get<float>(), t_.width);
    }

    __aicore__ inline void CopyOut(uint32_t row, uint32_t rows)
    {
        LocalTensor<T> y = yQueue_.template DeQue<T>();
        LocalTensor<float> rstd = rstdQueue_.template DeQue<float>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(rows * t_.width * sizeof(T)), 0, 0, 0};
        DataCopyPad(yGm_[static_cast<uint64_t>(row) * t_.width], y, copy);
        DataCopy(rstdGm_[static_cast<uint64_t>(row) * RSTD_COLUMNS], rstd, rows * RSTD_COLUMNS);
        yQueue_.FreeTensor(y);
        rstdQueue_.FreeTensor(rstd);
    }

    TPipe* pipe_;
    RmsNormTilingData t_;
    GlobalTensor<T> xGm_, yGm_, weightGm_;
    GlobalTensor<float> rstdGm_;
    TQue<TPosition::VECIN, BUFFERS> xQueue_;
    TQue<TPosition::VECOUT, BUFFERS> yQueue_, rstdQueue_;
    TBuf<TPosition::VECCALC> weight_, sum_, wide_, squares_;
};
}  // namespace

extern "C" __global__ __aicore__ void rms_norm(GM_ADDR x, GM_ADDR weight, GM_ADDR y, GM_ADDR rstd, GM_ADDR workspace,
                                               GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    TPipe pipe;
    RmsNormKernel<DTYPE_X> op(&pipe, data);
    op.Init(x, weight, y, rstd);
    op.Process();
}
