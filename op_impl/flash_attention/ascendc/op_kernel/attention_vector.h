// SPDX-License-Identifier: Apache-2.0
// A vector core of a block: the softmax of its half of the queries, step by step, and the sum of the products.
#ifndef ATTENTION_VECTOR_H
#define ATTENTION_VECTOR_H

#include "attention_dropout.h"

template <typename T>
class AttentionVector {
public:
    __aicore__ inline AttentionVector(TPipe* pipe, const FlashAttentionTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(GM_ADDR mask, GM_ADDR shift, GM_ADDR drop, GM_ADDR out, GM_ADDR maximum, GM_ADDR sum,
                                GM_ADDR seedWords, GM_ADDR workspace)
    {
        out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(out));
        maximumOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(maximum));
        sumOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sum));
        mask_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(mask));
        shift_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(shift));
        drop_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(drop));
        hasDrop_ = drop != nullptr;
        exchange_.Init(workspace, t_, GetBlockIdx() / GetSubBlockNum(), GetBlockNum());
        half_ = t_.queryBlock / 2;
        columns_ = t_.keyBlock, depth_ = t_.headDim;
        const uint32_t widest = depth_ > columns_ ? depth_ : columns_;
        pipe_->InitBuffer(scoresIn_, BUFFERS, half_ * columns_ * sizeof(float));
        pipe_->InitBuffer(productIn_, t_.productBuffers, half_ * depth_ * sizeof(float));
        pipe_->InitBuffer(castOut_, BUFFERS, half_ * widest * sizeof(T));
        pipe_->InitBuffer(sliceIn_, 1, SLICE * columns_ * sizeof(half));
        pipe_->InitBuffer(output_, half_ * depth_ * sizeof(float));
        pipe_->InitBuffer(folded_, half_ * LANES * sizeof(float));
        pipe_->InitBuffer(slice_, SLICE * columns_ * sizeof(float));
        pipe_->InitBuffer(wide_, half_ * FLOATS * sizeof(float));
        pipe_->InitBuffer(rowBuffer_, ROWS * half_ * sizeof(float));
        maximum_ = rowBuffer_.Get<float>();
        sum_ = maximum_[half_], peak_ = maximum_[2 * half_];
        factors_[0] = maximum_[3 * half_], factors_[1] = maximum_[4 * half_];
        all_ = output_.Get<float>();
        if (t_.seeded) {
            dropout_.Init(pipe_, t_, seedWords);
        }
    }

    __aicore__ inline void Process(Task& task)
    {
        for (int64_t i = GetBlockIdx() / GetSubBlockNum(); i < t_.tasks; i += GetBlockNum()) {
            task.Select(i);
            start_ = GetSubBlockIdx() * half_;
            if (t_.seeded) {
                dropout_.Select(task.head);
            }
            rows_ = Max(0, Min(half_, task.height - start_));
            Duplicate(maximum_, FLOOR, half_);
            Duplicate(sum_, 0.0f, half_);
            Duplicate(all_, 0.0f, half_ * depth_);
            for (int64_t j = task.first; j < task.last; ++j) {
                Softmax(task, j);
                if (j > task.first) {
                    Accumulate();
                }
            }
            if (task.first < task.last) {
                Accumulate();
            }
            Finish(task);
        }
    }

private:
    static constexpr int32_t BUFFERS = 2, ROWS = 5, SLICE = AttentionDropout::ROWS, FLOATS = 8, LANES = 64;
    static constexpr float HIDDEN = -1e30f;  // a score that is not seen
    static constexpr float FLOOR = -1e20f;   // the maximum of no scores: the exponential of HIDDEN is 0 even then
    static constexpr float TINY = 1e-30f;

    __aicore__ inline void Softmax(const Task& task, int64_t j)
    {
        CrossCoreWaitFlag(SCORES_READY);
        if (rows_ > 0) {
            const int64_t tile = softmaxes_ % SLOTS * t_.queryBlock * columns_ + start_ * columns_;
            const int32_t count = rows_ * columns_;
            LocalTensor<float> scores = scoresIn_.template AllocTensor<float>();
            DataCopy(scores, exchange_.scores[tile], count);
            scoresIn_.EnQue(scores);
            scores = scoresIn_.template DeQue<float>();
            Muls(scores, scores, t_.scale, count);
            Hide(scores, task, j);
            Exponentials(scores);
            if (hasDrop_ || t_.seeded) {
                Drop(scores, task, j);
            }
            LocalTensor<T> weights = castOut_.template AllocTensor<T>();
            Cast(weights, scores, RoundMode::CAST_RINT, count);
            scoresIn_.FreeTensor(scores);
            castOut_.EnQue(weights);
            weights = castOut_.template DeQue<T>();
            DataCopy(exchange_.weights[tile], weights, count);
            castOut_.FreeTensor(weights);
        }
        CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
        ++softmaxes_;
    }

    // scores become exp(scores - maximum); the maximum, the sum and the factor of what came before follow.
    __aicore__ inline void Exponentials(const LocalTensor<float>& scores)
    {
        const LocalTensor<float> factor = factors_[softmaxes_ % SLOTS];
        const int32_t groups = (rows_ + FLOATS - 1) / FLOATS;
        LocalTensor<float> blocks = wide_.Get<float>();
        BlockReduceMax(blocks, Fold(scores, true), rows_, LANES, 1, 1, FLOATS);
        BlockReduceMax(peak_, blocks, groups, LANES, 1, 1, FLOATS);
        Max(peak_, peak_, maximum_, rows_);
        Sub(factor, maximum_, peak_, rows_);
        Exp(factor, factor, rows_);
        Adds(maximum_, peak_, 0.0f, rows_);
        const LocalTensor<float> wide = Spread(maximum_);
        const uint8_t pitch = columns_ / FLOATS;
        for (int32_t c = 0; c < columns_; c += LANES) {
            Sub(scores[c], scores[c], wide, LANES, rows_, {1, 1, 0, pitch, pitch, 1});
        }
        Exp(scores, scores, rows_ * columns_);
        BlockReduceSum(blocks, Fold(scores, false), rows_, LANES, 1, 1, FLOATS);
        BlockReduceSum(peak_, blocks, groups, LANES, 1, 1, FLOATS);
        Mul(sum_, sum_, factor, rows_);
        Add(sum_, sum_, peak_, rows_);
    }
    // Rows of 64 lanes, of which each has the maximum or the sum of its columns.
    __aicore__ inline LocalTensor<float> Fold(const LocalTensor<float>& scores, bool maximum)
    {
        LocalTensor<float> folded = folded_.Get<float>();
        const uint8_t pitch = columns_ / FLOATS;
        if (columns_ == LANES) {
            return scores;
        }
        for (int32_t c = LANES; c < columns_; c += LANES) {
            const LocalTensor<float> other = c == LANES ? scores : folded;
            const uint8_t otherPitch = c == LANES ? pitch : FLOATS;
            if (maximum) {
                Max(folded, scores[c], other, LANES, rows_, {1, 1, 1, FLOATS, pitch, otherPitch});
            } else {
                Add(folded, scores[c], other, LANES, rows_, {1, 1, 1, FLOATS, pitch, otherPitch});
            }
        }
        return folded;
    }
    // A block of 32 bytes for each row.
    __aicore__ inline LocalTensor<float> Spread(const LocalTensor<float>& values)
    {
        LocalTensor<float> wide = wide_.Get<float>();
        Brcb(wide, values, (rows_ + FLOATS - 1) / FLOATS, {1, FLOATS});
        return wide;
    }

    __aicore__ inline void Hide(const LocalTensor<float>& scores, const Task& task, int64_t j)
    {
        const int64_t query = task.row + start_, key = j * columns_;
        if (t_.shiftRows > 0) {
            for (int64_t r = 0; r < rows_; r += SLICE) {
                const int64_t line = t_.shiftRows == 1 ? 0 : query + r;
                const LocalTensor<float> add = Slice(shift_, task.head * t_.shiftRows + line, r, key, t_.shiftRows == 1);
                Add(scores[r * columns_], scores[r * columns_], add, Min(SLICE, rows_ - r) * columns_);
            }
        }
        if (t_.maskBatches > 0) {
            const int64_t plane = (t_.maskBatches > 1 ? task.batch : 0) * t_.maskHeads
                                  + (t_.maskHeads > 1 ? task.headOfBatch : 0);
            for (int64_t r = 0; r < rows_; r += SLICE) {
                const LocalTensor<float> add = Slice(mask_, plane * t_.queries + query + r, r, key, false);
                const int32_t count = Min(SLICE, rows_ - r) * columns_;
                Muls(add, add, HIDDEN, count);
                Add(scores[r * columns_], scores[r * columns_], add, count);
            }
        }
        if (task.SeesAll(query, rows_, key)) {
            return;
        }
        for (int64_t r = 0; r < rows_; ++r) {
            HideRow(scores[r * columns_], task.Low(query + r) - key, task.High(query + r) - key);
        }
    }
    // All but columns [low, high).
    __aicore__ inline void HideRow(const LocalTensor<float>& row, int64_t low, int64_t high)
    {
        low = Max(0, Min(low, columns_)), high = Max(0, Min(high, columns_));
        if (low >= high) {
            Duplicate(row, HIDDEN, columns_);
            return;
        }
        if (low > 0) {
            Duplicate(row, HIDDEN, low);
        }
        int64_t at = high / LANES * LANES;
        if (at < high) {
            const uint64_t lanes[2] = {~uint64_t(0) << (high - at), 0};
            Duplicate(row[at], HIDDEN, lanes, 1, 1, FLOATS);
            at += LANES;
        }
        if (at < columns_) {
            Duplicate(row[at], HIDDEN, columns_ - at);
        }
    }
    __aicore__ inline void Drop(const LocalTensor<float>& weights, const Task& task, int64_t j)
    {
        for (int64_t r = 0; r < rows_; r += SLICE) {
            const int64_t query = task.row + start_ + r, key = j * columns_;
            const LocalTensor<float> keep =
                hasDrop_ ? Slice(drop_, task.head * t_.queries + query, r, key, false)
                         : dropout_.Keep(folded_.Get<int32_t>(), query, key, Min(SLICE, rows_ - r));
            Mul(weights[r * columns_], weights[r * columns_], keep, Min(SLICE, rows_ - r) * columns_);
        }
    }
    // Up to 8 rows of a matrix in GM whose rows are padded to 16, from a line and a key on, as float; 0 beyond it.
    template <typename M>
    __aicore__ inline LocalTensor<float> Slice(const GlobalTensor<M>& from, int64_t line, int64_t r, int64_t key,
                                               bool sameLine)
    {
        const int64_t pitch = Align(t_.keys, FRACTAL), width = Min(columns_, pitch - key), count = Min(SLICE, rows_ - r);
        const uint16_t blocks = width / FRACTAL, gap = (pitch - width) / FRACTAL, rest = (columns_ - width) / FRACTAL;
        LocalTensor<M> in = sliceIn_.template AllocTensor<M>();
        if (rest > 0) {
            Duplicate(in.template ReinterpretCast<int16_t>(), int16_t(0), SLICE * columns_);
        }
        if (sameLine) {
            for (int64_t i = 0; i < count; ++i) {
                DataCopy(in[i * columns_], from[line * pitch + key], DataCopyParams(1, blocks, 0, 0));
            }
        } else {
            DataCopy(in, from[line * pitch + key], DataCopyParams(count, blocks, gap, rest));
        }
        sliceIn_.EnQue(in);
        in = sliceIn_.template DeQue<M>();
        LocalTensor<float> wide = slice_.Get<float>();
        Cast(wide, in, RoundMode::CAST_NONE, count * columns_);
        sliceIn_.FreeTensor(in);
        return wide;
    }

    // output = output * factor + product, of the step before the last one.
    __aicore__ inline void Accumulate()
    {
        CrossCoreWaitFlag(PRODUCT_READY);
        if (rows_ > 0) {
            LocalTensor<float> product = productIn_.template AllocTensor<float>();
            DataCopy(product, exchange_.product[products_ % SLOTS * t_.queryBlock * depth_ + start_ * depth_],
                     rows_ * depth_);
            productIn_.EnQue(product);
            ScaleRows(factors_[products_ % SLOTS]);
            product = productIn_.template DeQue<float>();
            Add(all_, all_, product, rows_ * depth_);
            productIn_.FreeTensor(product);
        }
        ++products_;
    }
    __aicore__ inline void ScaleRows(const LocalTensor<float>& factors)
    {
        const LocalTensor<float> wide = Spread(factors);
        const uint8_t pitch = depth_ / FLOATS;
        for (int32_t c = 0; c < depth_; c += LANES) {
            Mul(all_[c], all_[c], wide, Min(LANES, depth_ - c), rows_, {1, 1, 0, pitch, pitch, 1});
        }
    }

    __aicore__ inline void Finish(const Task& task)
    {
        const int64_t lines = Max(0, Min(half_, Align(task.height, FRACTAL) - start_));
        if (lines == 0) {
            return;
        }
        Mins(peak_, sum_, 1.0f, lines);  // 1 where some key was seen, else 0
        Mul(maximum_, maximum_, peak_, lines);
        Adds(maximum_, maximum_, 0.0f, lines);
        const int64_t at = task.head * Align(t_.queries, FRACTAL) + task.row + start_;
        const TEventID out = pipe_->FetchEventID(HardEvent::V_MTE3);
        SetFlag<HardEvent::V_MTE3>(out);
        WaitFlag<HardEvent::V_MTE3>(out);
        DataCopy(maximumOut_[at], maximum_, lines);
        DataCopy(sumOut_[at], sum_, lines);
        const TEventID back = pipe_->FetchEventID(HardEvent::MTE3_V);
        SetFlag<HardEvent::MTE3_V>(back);
        WaitFlag<HardEvent::MTE3_V>(back);
        Adds(sum_, sum_, TINY, lines);
        Duplicate(peak_, t_.keepScale, lines);
        Div(peak_, peak_, sum_, lines);
        if (rows_ == 0) {
            return;
        }
        ScaleRows(peak_);
        LocalTensor<T> result = castOut_.template AllocTensor<T>();
        Cast(result, all_, RoundMode::CAST_RINT, rows_ * depth_);
        castOut_.EnQue(result);
        result = castOut_.template DeQue<T>();
        DataCopy(out_[(task.head * t_.queries + task.row + start_) * depth_], result, rows_ * depth_);
        castOut_.FreeTensor(result);
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::VECIN, 1> scoresIn_, productIn_, sliceIn_;
    TQue<TPosition::VECOUT, 1> castOut_;
    TBuf<> output_, folded_, slice_, wide_, rowBuffer_;
    LocalTensor<float> maximum_, sum_, peak_, all_, factors_[SLOTS];
    GlobalTensor<T> out_, shift_;
    GlobalTensor<float> maximumOut_, sumOut_;
    GlobalTensor<half> mask_, drop_;
    Exchange<T> exchange_;
    AttentionDropout dropout_;
    bool hasDrop_ = false;
    int64_t half_, columns_, depth_;
    int64_t start_ = 0, rows_ = 0, softmaxes_ = 0, products_ = 0;
};

#endif  // ATTENTION_VECTOR_H
