// SPDX-License-Identifier: Apache-2.0
// A vector core of a block: the softmax of its half of the queries, step by step, and the sum of the products.
#ifndef ATTENTION_VECTOR_H
#define ATTENTION_VECTOR_H

#include "isolation.h"

template <typename T>
class AttentionVector {
public:
    __aicore__ inline AttentionVector(TPipe* pipe, const FlashAttentionTilingData& tiling)
        : pipe_(pipe), t_(tiling), mask_(tiling)
    {
    }

    __aicore__ inline void Init(GM_ADDR value, GM_ADDR mask, GM_ADDR shift, GM_ADDR drop, GM_ADDR out, GM_ADDR maximum,
                                GM_ADDR sum, GM_ADDR seedWords, GM_ADDR workspace)
    {
        value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value));
        out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(out));
        maximumOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(maximum));
        sumOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sum));
        exchange_.Init(workspace, t_, GetBlockIdx() / GetSubBlockNum(), GetBlockNum());
        half_ = t_.queryBlock / 2;
        columns_ = t_.keyBlock, depth_ = t_.headDim;
        const uint32_t widest = depth_ > columns_ ? depth_ : columns_;
        pipe_->InitBuffer(scoresIn_, BUFFERS, half_ * columns_ * sizeof(float));
        // One each: by the next time, a step later, the vector pipe and the move have long been through with the last.
        pipe_->InitBuffer(productIn_, 1, half_ * depth_ * sizeof(float));
        pipe_->InitBuffer(castOut_, 1, half_ * widest * sizeof(T));
        pipe_->InitBuffer(output_, half_ * depth_ * sizeof(float));
        pipe_->InitBuffer(folded_, half_ * LANES * sizeof(float));
        pipe_->InitBuffer(wide_, half_ * FLOATS * sizeof(float));
        pipe_->InitBuffer(rowBuffer_, ROWS * half_ * sizeof(float));
        maximum_ = rowBuffer_.Get<float>();
        sum_ = maximum_[half_], peak_ = maximum_[2 * half_];
        factors_[0] = maximum_[3 * half_], factors_[1] = maximum_[4 * half_];
        all_ = output_.Get<float>();
        watch_.Init(pipe_);
        mask_.Init(pipe_, mask, shift, drop, seedWords);
    }

    __aicore__ inline void Process(Task& task)
    {
        Pass(task);
        CrossCoreSetFlag<2, PIPE_MTE3>(JUDGED);
        CrossCoreWaitFlag(VERDICTS_KNOWN);
        exchange_.verdicts.Fetch();
        isolated_ = true;
        Pass(task);
    }

private:
    static constexpr int32_t BUFFERS = 2, ROWS = 5, SLICE = AttentionMask<T>::ROWS;
    static constexpr float FLOOR = -1e20f;  // the maximum of no scores: the exponential of HIDDEN is 0 even then
    static constexpr float TINY = 1e-30f;

    __aicore__ inline void Pass(Task& task)
    {
        for (int64_t round = 0; round < t_.rounds; ++round) {
            const int64_t i = task.Index(GetBlockIdx() / GetSubBlockNum(), GetBlockNum(), round);
            if (i == t_.tasks || (isolated_ && exchange_.verdicts.Finite(i))) {
                continue;
            }
            task.Select(i);
            start_ = GetSubBlockIdx() * half_;
            mask_.Select(task.head);
            rows_ = Max(0, Min(half_, task.height - start_));
            Duplicate(maximum_, FLOOR, half_);
            Duplicate(sum_, 0.0f, half_);
            begins_ = true;
            if (task.first >= task.last) {
                Duplicate(all_, 0.0f, half_ * depth_);
            }
            const int64_t group = isolated_ ? 1 : GROUP;
            for (int64_t j = task.first; j < task.last; j += group) {
                Softmax(task, j, Min(group, task.last - j));
                if (j > task.first || isolated_) {
                    Accumulate();
                }
            }
            if (task.first < task.last && !isolated_) {
                Accumulate();
            }
            if (!isolated_) {
                watch_.Start();
                watch_.Look(all_, rows_ * depth_);
                watch_.Report(exchange_.verdicts.Of(i, GetSubBlockIdx()));
            }
            Finish(task);
        }
    }

    // Of `count` blocks of keys from j on: all of them know the maximum before the first becomes weights.
    __aicore__ inline void Softmax(const Task& task, int64_t j, int64_t count)
    {
        LocalTensor<float> scores[GROUP];
        for (int64_t i = 0; i < count; ++i) {
            CrossCoreWaitFlag(SCORES_READY);
            if (rows_ > 0) {
                scores[i] = Load(Tile(tiles_ + i));
                Muls(scores[i], scores[i], t_.scale, rows_ * columns_);
                mask_.Hide(scores[i], task, task.head, task.row + start_, rows_, (j + i) * columns_);
                Raise(scores[i], i == 0);
            }
        }
        if (rows_ > 0) {
            Maximum();
        }
        for (int64_t i = 0; i < count; ++i) {
            if (rows_ > 0) {
                Exponentials(scores[i], i == 0);
                Drop(scores[i], task, (j + i) * columns_);
                Store(Tile(tiles_ + i), scores[i]);
            }
            if (isolated_) {
                Isolate(task, j + i);
            }
            CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
        }
        tiles_ += count;
        ++softmaxes_;
    }

    // Where this core's rows of a tile lie in the workspace.
    __aicore__ inline int64_t Tile(int64_t number) const
    {
        return ((isolated_ ? 0 : number % TILES) * t_.queryBlock + start_) * columns_;
    }
    __aicore__ inline LocalTensor<float> Load(int64_t tile)
    {
        LocalTensor<float> scores = scoresIn_.template AllocTensor<float>();
        DataCopy(scores, exchange_.scores[tile], rows_ * columns_);
        scoresIn_.EnQue(scores);
        return scoresIn_.template DeQue<float>();
    }
    __aicore__ inline void Drop(const LocalTensor<float>& weights, const Task& task, int64_t key)
    {
        for (int64_t r = 0; mask_.Drops() && r < rows_; r += SLICE) {
            const LocalTensor<float> keep =
                mask_.Keep(folded_.Get<int32_t>(), task.head, task.row + start_ + r, rows_ - r, key);
            Mul(weights[r * columns_], weights[r * columns_], keep, Min(SLICE, rows_ - r) * columns_);
        }
    }
    __aicore__ inline void Store(int64_t tile, LocalTensor<float>& from)
    {
        LocalTensor<T> weights = castOut_.template AllocTensor<T>();
        Cast(weights, from, RoundMode::CAST_RINT, rows_ * columns_);
        scoresIn_.FreeTensor(from);
        castOut_.EnQue(weights);
        weights = castOut_.template DeQue<T>();
        StoreRows(exchange_.weights[tile * exchange_.WIDTH], weights);
        castOut_.FreeTensor(weights);
    }

    // Rows of a tile of weights to where those of its scores lie.
    __aicore__ inline void StoreRows(const GlobalTensor<T>& to, const LocalTensor<T>& tile)
    {
        const uint16_t blocks = columns_ * sizeof(T) / BLOCK_BYTES;
        DataCopyParams rows;
        rows.blockCount = rows_;
        rows.blockLen = blocks;
        rows.srcStride = 0;
        rows.dstStride = (exchange_.WIDTH - 1) * blocks;
        DataCopy(to, tile, rows);
    }

    // What the cube takes for values that are not finite: which keys the rows see; of this core's half of the keys the
    // values without them, and marks.
    __aicore__ inline void Isolate(const Task& task, int64_t j)
    {
        const int64_t keyHalf = columns_ / 2, first = GetSubBlockIdx() * keyHalf;
        if (rows_ > 0) {
            const int32_t count = rows_ * columns_;
            LocalTensor<float> seen = scoresIn_.template AllocTensor<float>();
            Duplicate(seen, 0.0f, count);
            mask_.HideUnseen(seen, task, task.head, task.row + start_, rows_, j * columns_);
            ToFlags(seen, count);
            LocalTensor<T> flags = castOut_.template AllocTensor<T>();
            Cast(flags, seen, RoundMode::CAST_RINT, count);
            scoresIn_.FreeTensor(seen);
            castOut_.EnQue(flags);
            flags = castOut_.template DeQue<T>();
            StoreRows(exchange_.visible[start_ * columns_ * exchange_.WIDTH], flags);
            castOut_.FreeTensor(flags);
        }
        const int64_t count = Max(0, Min(keyHalf, task.Width(j) - first)) * depth_;
        const GlobalTensor<T> from = value_[(task.head.key * t_.keys + j * columns_ + first) * depth_];
        const int64_t to = first * depth_;
        const LocalTensor<float> scratch = folded_.Get<float>();
        mask_.Sift(exchange_.clean[to], from, count, 0.0f, scratch, castOut_);
        for (int32_t i = 0; i < 2; ++i) {
            mask_.Sift(exchange_.marks[i][to], from, count, SIGNS[i], scratch, castOut_);
        }
    }

    // Rows of 64 lanes, of which each has the largest of its columns in all tiles so far.
    __aicore__ inline void Raise(const LocalTensor<float>& scores, bool first)
    {
        const LocalTensor<float> folded = folded_.Get<float>();
        const uint8_t pitch = columns_ / FLOATS;
        uint8_t highestPitch = first ? pitch : FLOATS;
        if (first) {
            highest_ = scores;
        }
        for (int32_t c = first ? LANES : 0; c < columns_; c += LANES) {
            Max(folded, scores[c], highest_, LANES, rows_, {1, 1, 1, FLOATS, pitch, highestPitch});
            highest_ = folded, highestPitch = FLOATS;
        }
    }
    // The maximum so far, and the factor of what came before it.
    __aicore__ inline void Maximum()
    {
        const LocalTensor<float> factor = factors_[softmaxes_ % SLOTS];
        const int32_t groups = (rows_ + FLOATS - 1) / FLOATS;
        const LocalTensor<float> blocks = wide_.Get<float>();
        BlockReduceMax(blocks, highest_, rows_, LANES, 1, 1, FLOATS);
        BlockReduceMax(peak_, blocks, groups, LANES, 1, 1, FLOATS);
        Max(peak_, peak_, maximum_, rows_);
        Sub(factor, maximum_, peak_, rows_);
        Exp(factor, factor, rows_);
        Adds(maximum_, peak_, 0.0f, rows_);
        Wide(maximum_);
    }
    // scores become exp(scores - maximum), with the maximum of a row in a block of `wide_`; the sum follows.
    __aicore__ inline void Exponentials(const LocalTensor<float>& scores, bool first)
    {
        const LocalTensor<float> wide = wide_.Get<float>();
        const uint8_t pitch = columns_ / FLOATS;
        for (int32_t c = 0; c < columns_; c += LANES) {
            Sub(scores[c], scores[c], wide, LANES, rows_, {1, 1, 0, pitch, pitch, 1});
        }
        Exp(scores, scores, rows_ * columns_);
        WholeReduceSum(peak_, Fold(scores), LANES, rows_, 1, 1, FLOATS);
        if (first) {
            FusedMulAdd(sum_, factors_[softmaxes_ % SLOTS], peak_, rows_);
        } else {
            Add(sum_, sum_, peak_, rows_);
        }
    }
    // Rows of 64 lanes, of which each has the sum of its columns.
    __aicore__ inline LocalTensor<float> Fold(const LocalTensor<float>& scores)
    {
        const LocalTensor<float> folded = folded_.Get<float>();
        const uint8_t pitch = columns_ / FLOATS;
        if (columns_ == LANES) {
            return scores;
        }
        Add(folded, scores[LANES], scores, LANES, rows_, {1, 1, 1, FLOATS, pitch, pitch});
        for (int32_t c = 2 * LANES; c < columns_; c += LANES) {
            Add(folded, scores[c], folded, LANES, rows_, {1, 1, 1, FLOATS, pitch, FLOATS});
        }
        return folded;
    }
    __aicore__ inline LocalTensor<float> Wide(const LocalTensor<float>& values)
    {
        const LocalTensor<float> wide = wide_.Get<float>();
        Spread(wide, values, rows_);
        return wide;
    }

    // output = output * factor + product, of the group before the last one; of the first one the product alone.
    __aicore__ inline void Accumulate()
    {
        CrossCoreWaitFlag(PRODUCT_READY);
        if (rows_ > 0) {
            LocalTensor<float> product = productIn_.template AllocTensor<float>();
            const int64_t slot = isolated_ ? 0 : products_ % SLOTS;
            DataCopy(product, exchange_.product[(slot * t_.queryBlock + start_) * depth_], rows_ * depth_);
            productIn_.EnQue(product);
            product = productIn_.template DeQue<float>();
            if (begins_) {
                Adds(all_, product, 0.0f, rows_ * depth_);
            } else {
                const LocalTensor<float> wide = Wide(factors_[products_ % SLOTS]);
                const uint8_t pitch = depth_ / FLOATS;
                for (int32_t c = 0; c < depth_; c += LANES) {
                    FusedMulAdd(all_[c], wide, product[c], Min(LANES, depth_ - c), rows_, {1, 0, 1, pitch, 1, pitch});
                }
            }
            productIn_.FreeTensor(product);
            for (int32_t i = 0; isolated_ && i < 2; ++i) {
                AddCounts(i);
            }
        }
        begins_ = false;
        ++products_;
    }
    __aicore__ inline void AddCounts(int32_t i)
    {
        LocalTensor<float> counts = productIn_.template AllocTensor<float>();
        DataCopy(counts, exchange_.counts[i][start_ * depth_], rows_ * depth_);
        productIn_.EnQue(counts);
        counts = productIn_.template DeQue<float>();
        AddInfinities(all_, counts, SIGNS[i], rows_ * depth_);
        productIn_.FreeTensor(counts);
    }
    __aicore__ inline void ScaleRows(const LocalTensor<float>& factors)
    {
        const LocalTensor<float> wide = Wide(factors);
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
        const int64_t at = task.head.flat * Align(t_.queries, FRACTAL) + task.row + start_;
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
        DataCopy(out_[(task.head.flat * t_.queries + task.row + start_) * depth_], result, rows_ * depth_);
        castOut_.FreeTensor(result);
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::VECIN, 1> scoresIn_, productIn_;
    TQue<TPosition::VECOUT, 1> castOut_;
    TBuf<> output_, folded_, wide_, rowBuffer_;
    LocalTensor<float> maximum_, sum_, peak_, all_, highest_, factors_[SLOTS];
    GlobalTensor<T> value_, out_;
    GlobalTensor<float> maximumOut_, sumOut_;
    Exchange<T> exchange_;
    AttentionMask<T> mask_;
    FiniteWatch watch_;
    bool isolated_ = false;
    bool begins_ = true;  // there is no product of the task yet
    int64_t half_, columns_, depth_;
    int64_t start_ = 0, rows_ = 0, tiles_ = 0, softmaxes_ = 0, products_ = 0;
};

#endif  // ATTENTION_VECTOR_H
