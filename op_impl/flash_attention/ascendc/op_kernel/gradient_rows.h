// SPDX-License-Identifier: Apache-2.0
// What a vector core of the gradient knows of its rows: maximum, 1 / sum, delta = <d_attention_out, attention_out> less
// d_sum * sum, and what the key of the maximum gets beside. They are made once for a head and kept in the workspace.
#ifndef GRADIENT_ROWS_H
#define GRADIENT_ROWS_H

#include "gradient_walk.h"
#include "isolation.h"

template <typename T>
class GradientRows {
public:
    enum Vector { MAXIMUM, INVERSE, DELTA, PEAK };

    __aicore__ inline explicit GradientRows(const FlashAttentionTilingData& tiling) : t_(tiling) {}

    __aicore__ inline void Init(TPipe* pipe, const GradientTensors& of)
    {
        pipe_ = pipe;
        out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.out));
        dOut_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dOut));
        GM_ADDR statistics[] = {of.maximum, of.sum, of.dMaximum, of.dSum};
        for (int32_t i = 0; i < STATISTICS; ++i) {
            statistics_[i].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(statistics[i]));
        }
        half_ = t_.queryBlock / 2, depth_ = t_.headDim;
        pipe->InitBuffer(rowsIn_, BUFFERS, half_ * depth_ * sizeof(T));
        pipe->InitBuffer(statisticsIn_, 1, STATISTICS * half_ * sizeof(float));
        pipe->InitBuffer(vectorsOut_, 1, VECTORS * half_ * FLOATS * sizeof(float));
        pipe->InitBuffer(scratch_, (SCRATCH * half_ + LANES) * sizeof(float));
        vectors_ = scratch_.Get<float>();
        size_ = vectors_[VECTORS * half_], bound_ = size_[half_], total_ = bound_[half_];
    }

    // Makes the vectors of all rows of this core of a group of heads. `a` and `b` hold rows as float32.
    __aicore__ inline void Prepare(const GradientWalk& walk, const GradientExchange<T>& exchange,
                                   const LocalTensor<float>& a, const LocalTensor<float>& b)
    {
        Duplicate(total_, 0.0f, LANES);
        for (int64_t member = 0; member < walk.group; ++member) {
            for (int64_t row = GetSubBlockIdx() * half_; row < t_.queries; row += t_.queryBlock) {
                Make(exchange, walk.firstHead + member, row, Min(half_, t_.queries - row), a, b);
            }
        }
        const TEventID counted = pipe_->FetchEventID(HardEvent::V_S);
        const TEventID stored = pipe_->FetchEventID(HardEvent::MTE3_MTE2);
        SetFlag<HardEvent::V_S>(counted);
        SetFlag<HardEvent::MTE3_MTE2>(stored);
        WaitFlag<HardEvent::V_S>(counted);
        WaitFlag<HardEvent::MTE3_MTE2>(stored);
        peaked = false;
        for (int64_t i = 0; i < half_; ++i) {
            peaked = peaked || total_.GetValue(i) != 0;
        }
    }
    bool peaked = false;  // whether some row of this core has a share of its maximum

private:
    static constexpr int32_t BUFFERS = 2, STATISTICS = 4, VECTORS = 4, SCRATCH = VECTORS + 2;
    static constexpr float TINY = 1e-30f;
    static constexpr float ROUNDING = 1e-5f;  // share of d_sum * sum up to which d_maximum - d_sum * sum is rounding
    static constexpr float STEEP = 1e30f;     // what is above 0 becomes at least 1

    __aicore__ inline LocalTensor<T> Load(const GlobalTensor<T>& from, int64_t at, int64_t rows)
    {
        LocalTensor<T> in = rowsIn_.template AllocTensor<T>();
        DataCopy(in, from[at], rows * depth_);
        rowsIn_.EnQue(in);
        return rowsIn_.template DeQue<T>();
    }

    __aicore__ inline void Make(const GradientExchange<T>& exchange, int64_t head, int64_t row, int64_t rows,
                                const LocalTensor<float>& a, const LocalTensor<float>& b)
    {
        const int64_t at = (head * t_.queries + row) * depth_, padded = Align(t_.queries, FRACTAL);
        const LocalTensor<T> out = Load(out_, at, rows), dOut = Load(dOut_, at, rows);
        LocalTensor<float> statistics = statisticsIn_.template AllocTensor<float>();
        for (int32_t i = 0; i < STATISTICS; ++i) {
            DataCopy(statistics[i * half_], statistics_[i][head * padded + row], Align(rows, FRACTAL));
        }
        statisticsIn_.EnQue(statistics);
        Cast(a, out, RoundMode::CAST_NONE, rows * depth_);
        Cast(b, dOut, RoundMode::CAST_NONE, rows * depth_);
        rowsIn_.FreeTensor(out);
        rowsIn_.FreeTensor(dOut);
        Mul(a, a, b, rows * depth_);
        const LocalTensor<float> delta = vectors_[DELTA * half_];
        SumRows(delta, a, rows);
        statistics = statisticsIn_.template DeQue<float>();
        const LocalTensor<float> sum = statistics[half_], share = statistics[3 * half_];
        Adds(vectors_[MAXIMUM * half_], statistics, 0.0f, rows);
        Mul(share, share, sum, rows);
        Sub(delta, delta, share, rows);
        Peaks(vectors_[PEAK * half_], statistics[2 * half_], share, sum, rows);
        const LocalTensor<float> inverse = vectors_[INVERSE * half_];
        Adds(sum, sum, TINY, rows);
        Duplicate(inverse, 1.0f, rows);
        Div(inverse, inverse, sum, rows);
        statisticsIn_.FreeTensor(statistics);
        LocalTensor<float> vectors = vectorsOut_.template AllocTensor<float>();
        Spread(vectors, vectors_, VECTORS * half_);
        vectorsOut_.EnQue(vectors);
        vectors = vectorsOut_.template DeQue<float>();
        DataCopy(exchange.RowVectors(head, row), vectors, VECTORS * half_ * FLOATS);
        vectorsOut_.FreeTensor(vectors);
    }
    // Rows of `a` are used up.
    __aicore__ inline void SumRows(const LocalTensor<float>& sums, const LocalTensor<float>& a, int64_t rows)
    {
        const uint8_t pitch = depth_ / FLOATS;
        for (int64_t c = LANES; c < depth_; c += LANES) {
            Add(a, a, a[c], Min(LANES, depth_ - c), rows, {1, 1, 1, pitch, pitch, pitch});
        }
        WholeReduceSum(sums, a, Min(LANES, depth_), rows, 1, 1, pitch);
    }
    // (d_maximum - share) * sum where the difference is more than rounding, else 0. share = d_sum * sum.
    __aicore__ inline void Peaks(const LocalTensor<float>& peak, const LocalTensor<float>& dMaximum,
                                 const LocalTensor<float>& share, const LocalTensor<float>& sum, int64_t rows)
    {
        Sub(peak, dMaximum, share, rows);
        Abs(size_, peak, rows);
        Abs(bound_, share, rows);
        Axpy(size_, bound_, -ROUNDING, rows);
        Muls(size_, size_, STEEP, rows);
        Maxs(size_, size_, 0.0f, rows);
        Mins(size_, size_, 1.0f, rows);
        Add(total_, total_, size_, rows);
        Mul(peak, peak, size_, rows);
        Mul(peak, peak, sum, rows);
    }

    const FlashAttentionTilingData& t_;
    TPipe* pipe_ = nullptr;
    TQue<TPosition::VECIN, 1> rowsIn_, statisticsIn_;
    TQue<TPosition::VECOUT, 1> vectorsOut_;
    TBuf<> scratch_;
    LocalTensor<float> vectors_, size_, bound_, total_;
    GlobalTensor<T> out_, dOut_;
    GlobalTensor<float> statistics_[STATISTICS];
    int64_t half_ = 0, depth_ = 0;
};

#endif  // GRADIENT_ROWS_H
