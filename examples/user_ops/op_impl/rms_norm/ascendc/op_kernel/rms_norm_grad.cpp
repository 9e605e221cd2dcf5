// SPDX-License-Identifier: Apache-2.0
// Gradients of rms_norm. With normal = x * rstd and g = dy * weight: dx = (g - normal * mean(g * normal)) * rstd, and
// dweight = the sum over rows of dy * normal. Every core sums its rows; the sums are added up in the order of the cores.
#include <type_traits>

#include "kernel_operator.h"

using namespace AscendC;

namespace {
constexpr uint32_t RSTD_COLUMNS = 8;
constexpr uint32_t FLOATS = 8;  // of a block

template <typename T>
class RmsNormGradKernel {
public:
    __aicore__ inline RmsNormGradKernel(TPipe* pipe, const RmsNormGradTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR dy, GM_ADDR rstd, GM_ADDR dx, GM_ADDR dweight,
                                GM_ADDR workspace)
    {
        const uint64_t elements = static_cast<uint64_t>(t_.rows) * t_.width;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements);
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), elements);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), elements);
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), t_.width);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), static_cast<uint64_t>(t_.rows) * RSTD_COLUMNS);
        dweightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dweight), t_.width);
        sumsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(GetUserWorkspace(workspace)),
                                static_cast<uint64_t>(GetBlockNum()) * t_.width);
        const uint32_t tile = t_.rowsOfTile * t_.width;
        pipe_->InitBuffer(xQueue_, t_.buffers, tile * sizeof(T));
        pipe_->InitBuffer(dyQueue_, t_.buffers, tile * sizeof(T));
        pipe_->InitBuffer(dxQueue_, t_.buffers, tile * sizeof(T));
        pipe_->InitBuffer(rstdQueue_, t_.buffers, t_.rowsOfTile * RSTD_COLUMNS * sizeof(float));
        pipe_->InitBuffer(weight_, t_.width * sizeof(float));
        pipe_->InitBuffer(dweight_, t_.width * sizeof(float));
        pipe_->InitBuffer(product_, t_.piece * sizeof(float));
        pipe_->InitBuffer(partQueue_, PARTS, t_.part * sizeof(float));
        pipe_->InitBuffer(sum_, 2 * FLOATS * sizeof(float));
        if constexpr (!std::is_same<T, float>::value) {
            pipe_->InitBuffer(wideX_, tile * sizeof(float));
            pipe_->InitBuffer(wideDy_, tile * sizeof(float));
        }
        LoadWeight();
        Duplicate(dweight_.Get<float>(), 0.0f, t_.width);
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
        StoreSum();
        SyncAll();
        AddSums();
    }

private:
    __aicore__ inline void Load(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
    {
        DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
        DataCopyPad(to, from, copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
    }
    __aicore__ inline void LoadWeight()
    {
        LocalTensor<T> narrow = xQueue_.template AllocTensor<T>();
        Load(narrow, weightGm_, t_.width);
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
        const uint64_t at = static_cast<uint64_t>(row) * t_.width;
        LocalTensor<T> x = xQueue_.template AllocTensor<T>(), dy = dyQueue_.template AllocTensor<T>();
        LocalTensor<float> rstd = rstdQueue_.template AllocTensor<float>();
        Load(x, xGm_[at], rows * t_.width);
        Load(dy, dyGm_[at], rows * t_.width);
        DataCopy(rstd, rstdGm_[static_cast<uint64_t>(row) * RSTD_COLUMNS], rows * RSTD_COLUMNS);
        xQueue_.EnQue(x);
        dyQueue_.EnQue(dy);
        rstdQueue_.EnQue(rstd);
    }

    __aicore__ inline void Compute(uint32_t rows)
    {
        LocalTensor<T> x = xQueue_.template DeQue<T>(), dy = dyQueue_.template DeQue<T>();
        LocalTensor<T> dx = dxQueue_.template AllocTensor<T>();
        LocalTensor<float> rstd = rstdQueue_.template DeQue<float>();
        const event_t loaded = static_cast<event_t>(pipe_->FetchEventID(HardEvent::MTE2_S));
        SetFlag<HardEvent::MTE2_S>(loaded);
        WaitFlag<HardEvent::MTE2_S>(loaded);
        const uint32_t count = rows * t_.width;
        if constexpr (std::is_same<T, float>::value) {
            for (uint32_t r = 0; r < rows; r++) {
                Row(x[r * t_.width], dy[r * t_.width], rstd.GetValue(r * RSTD_COLUMNS));
            }
            Adds(dx, x, 0.0f, count);
        } else {
            const LocalTensor<float> wideX = wideX_.Get<float>(), wideDy = wideDy_.Get<float>();
            Cast(wideX, x, RoundMode::CAST_NONE, count);
            Cast(wideDy, dy, RoundMode::CAST_NONE, count);
            for (uint32_t r = 0; r < rows; r++) {
                Row(wideX[r * t_.width], wideDy[r * t_.width], rstd.GetValue(r * RSTD_COLUMNS));
            }
            Cast(dx, wideX, RoundMode::CAST_RINT, count);
        }
        xQueue_.FreeTensor(x);
        dyQueue_.FreeTensor(dy);
        rstdQueue_.FreeTensor(rstd);
        dxQueue_.EnQue(dx);
    }

    // x becomes dx; dy is used up.
    __aicore__ inline void Row(const LocalTensor<float>& x, const LocalTensor<float>& dy, float rstd)
    {
        Muls(x, x, rstd, t_.width);
        MulAddDst(dweight_.Get<float>(), dy, x, t_.width);
        Mul(dy, dy, weight_.Get<float>(), t_.width);
        const float mean = Mean(x, dy);
        Muls(x, x, mean, t_.width);
        Sub(x, dy, x, t_.width);
        Muls(x, x, rstd, t_.width);
    }
    // Of x * y over a row, piece by piece.
    __aicore__ inline float Mean(const LocalTensor<float>& x, const LocalTensor<float>& y)
    {
        const LocalTensor<float> product = product_.Get<float>(), sum = sum_.Get<float>(), more = sum[FLOATS];
        Duplicate(sum, 0.0f, FLOATS);
        for (uint32_t c = 0; c < t_.width; c += t_.piece) {
            const uint32_t count = t_.width - c < t_.piece ? t_.width - c : t_.piece;
            Mul(product, x[c], y[c], count);
            ReduceSum<float>(more, product, product, count);
            Add(sum, sum, more, 1);
        }
        Muls(sum, sum, 1.0f / t_.width, 1);
        const event_t summed = static_cast<event_t>(pipe_->FetchEventID(HardEvent::V_S));
        SetFlag<HardEvent::V_S>(summed);
        WaitFlag<HardEvent::V_S>(summed);
        const float mean = sum.GetValue(0);
        const event_t known = static_cast<event_t>(pipe_->FetchEventID(HardEvent::S_V));
        SetFlag<HardEvent::S_V>(known);
        WaitFlag<HardEvent::S_V>(known);
        return mean;
    }

    __aicore__ inline void CopyOut(uint32_t row, uint32_t rows)
    {
        LocalTensor<T> dx = dxQueue_.template DeQue<T>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(rows * t_.width * sizeof(T)), 0, 0, 0};
        DataCopyPad(dxGm_[static_cast<uint64_t>(row) * t_.width], dx, copy);
        dxQueue_.FreeTensor(dx);
    }

    __aicore__ inline void StoreSum()
    {
        const event_t summed = static_cast<event_t>(pipe_->FetchEventID(HardEvent::V_MTE3));
        SetFlag<HardEvent::V_MTE3>(summed);
        WaitFlag<HardEvent::V_MTE3>(summed);
        DataCopy(sumsGm_[static_cast<uint64_t>(GetBlockIdx()) * t_.width], dweight_.Get<float>(), t_.width);
    }
    // Parts of dweight go around the cores.
    __aicore__ inline void AddSums()
    {
        const LocalTensor<float> total = dweight_.Get<float>();
        const event_t stored = static_cast<event_t>(pipe_->FetchEventID(HardEvent::MTE3_MTE2));
        for (uint32_t c = GetBlockIdx() * t_.part; c < t_.width; c += GetBlockNum() * t_.part) {
            const uint32_t count = t_.width - c < t_.part ? t_.width - c : t_.part;
            SetFlag<HardEvent::MTE3_MTE2>(stored);
            WaitFlag<HardEvent::MTE3_MTE2>(stored);
            for (uint32_t core = 0; core < GetBlockNum(); core++) {
                AddSum(total, sumsGm_[static_cast<uint64_t>(core) * t_.width + c], count, core == 0);
            }
            const event_t summed = static_cast<event_t>(pipe_->FetchEventID(HardEvent::V_MTE3));
            SetFlag<HardEvent::V_MTE3>(summed);
            WaitFlag<HardEvent::V_MTE3>(summed);
            DataCopy(dweightGm_[c], total, count);
            const event_t copied = static_cast<event_t>(pipe_->FetchEventID(HardEvent::MTE3_V));
            SetFlag<HardEvent::MTE3_V>(copied);
            WaitFlag<HardEvent::MTE3_V>(copied);
        }
    }
    __aicore__ inline void AddSum(const LocalTensor<float>& total, const GlobalTensor<float>& from, uint32_t count,
                                  bool first)
    {
        LocalTensor<float> sum = partQueue_.template AllocTensor<float>();
        DataCopy(sum, from, count);
        partQueue_.EnQue(sum);
        sum = partQueue_.template DeQue<float>();
        if (first) {
            Adds(total, sum, 0.0f, count);
        } else {
            Add(total, total, sum, count);
        }
        partQueue_.FreeTensor(sum);
    }

    static constexpr uint32_t PARTS = 2;  // of other cores' sums in UB

    TPipe* pipe_;
    RmsNormGradTilingData t_;
    GlobalTensor<T> xGm_, dyGm_, dxGm_, weightGm_;
    GlobalTensor<float> rstdGm_, dweightGm_, sumsGm_;
    TQue<TPosition::VECIN, 1> xQueue_, dyQueue_, rstdQueue_, partQueue_;
    TQue<TPosition::VECOUT, 1> dxQueue_;
    TBuf<TPosition::VECCALC> weight_, dweight_, product_, sum_, wideX_, wideDy_;
};
}  // namespace

extern "C" __global__ __aicore__ void rms_norm_grad(GM_ADDR x, GM_ADDR weight, GM_ADDR dy, GM_ADDR rstd, GM_ADDR dx,
                                                    GM_ADDR dweight, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    TPipe pipe;
    RmsNormGradKernel<DTYPE_X> op(&pipe, data);
    op.Init(x, weight, dy, rstd, dx, dweight, workspace);
    op.Process();
}
