// SPDX-License-Identifier: Apache-2.0
// What the vector cores do with a tile of scores before the softmax: the bias, what is not seen, dropout.
#ifndef ATTENTION_MASK_H
#define ATTENTION_MASK_H

#include "attention_dropout.h"

constexpr float HIDDEN = -1e30f;  // a score that is not seen
constexpr int32_t LANES = 64;     // float32 of a repeat
constexpr int32_t FLOATS = 8;     // and of a block

template <typename T>
class AttentionMask {
public:
    static constexpr int32_t ROWS = AttentionDropout::ROWS;  // of a slice

    __aicore__ inline explicit AttentionMask(const FlashAttentionTilingData& tiling) : t_(tiling) {}

    __aicore__ inline void Init(TPipe* pipe, GM_ADDR mask, GM_ADDR shift, GM_ADDR drop, GM_ADDR seedWords)
    {
        mask_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(mask));
        shift_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(shift));
        drop_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(drop));
        hasDrop_ = drop != nullptr;
        columns_ = t_.keyBlock;
        pipe->InitBuffer(sliceIn_, 1, ROWS * columns_ * sizeof(half));
        pipe->InitBuffer(slice_, ROWS * columns_ * sizeof(float));
        pipe->InitBuffer(bits_, ROWS * columns_ / 8);
        if (t_.seeded) {
            dropout_.Init(pipe, t_, seedWords);
        }
    }
    __aicore__ inline void Select(const Head& head)
    {
        if (t_.seeded) {
            dropout_.Select(head.flat);
        }
    }

    // Adds the bias to scores [rows, keyBlock] of queries from `query` and keys from `key`, and hides what is not seen.
    __aicore__ inline void Hide(const LocalTensor<float>& scores, const Task& task, const Head& head, int64_t query,
                                int64_t rows, int64_t key)
    {
        for (int64_t r = 0; t_.shiftRows > 0 && r < rows; r += ROWS) {
            const bool one = t_.shiftRows == 1;
            const int64_t line = head.flat * t_.shiftRows + (one ? 0 : query + r);
            const LocalTensor<float> add = Wide(shift_, line, rows - r, key, one);
            Add(scores[r * columns_], scores[r * columns_], add, Min(ROWS, rows - r) * columns_);
        }
        HideUnseen(scores, task, head, query, rows, key);
    }
    __aicore__ inline void HideUnseen(const LocalTensor<float>& scores, const Task& task, const Head& head,
                                      int64_t query, int64_t rows, int64_t key)
    {
        for (int64_t r = 0; t_.maskBatches > 0 && r < rows; r += ROWS) {
            const int64_t plane = (t_.maskBatches > 1 ? head.batch : 0) * t_.maskHeads
                                  + (t_.maskHeads > 1 ? head.index : 0);
            const LocalTensor<half> in = Slice(mask_, plane * t_.queries + query + r, rows - r, key, false);
            const LocalTensor<uint8_t> kept = bits_.Get<uint8_t>();
            CompareScalar(kept, in, half(0.0f), CMPMODE::EQ, ROWS * columns_);
            sliceIn_.FreeTensor(in);
            const LocalTensor<float> part = scores[r * columns_];
            AscendC::Select(part, kept, part, HIDDEN, SELMODE::VSEL_TENSOR_SCALAR_MODE, Min(ROWS, rows - r) * columns_);
        }
        if (task.SeesAll(query, rows, key)) {
            return;
        }
        for (int64_t r = 0; r < rows; ++r) {
            HideRow(scores[r * columns_], task.Low(query + r) - key, task.High(query + r) - key);
        }
    }

    __aicore__ inline bool Drops() const { return hasDrop_ || t_.seeded; }
    // 1 where a weight stays, else 0: up to ROWS of `rows` rows from `query`, keys from `key`. `scratch` holds three
    // slices.
    __aicore__ inline LocalTensor<float> Keep(const LocalTensor<int32_t>& scratch, const Head& head, int64_t query,
                                              int64_t rows, int64_t key)
    {
        if (hasDrop_) {
            return Wide(drop_, head.flat * t_.queries + query, rows, key, false);
        }
        return dropout_.Keep(scratch, query, key, Min(ROWS, rows));
    }


    // `count` values of GM to GM, 0 for what is not finite; with a sign 1 where it is NaN or infinity of that sign,
    // else 0. `scratch` holds a slice.
    template <typename Q>
    __aicore__ inline void Sift(const GlobalTensor<T>& to, const GlobalTensor<T>& from, int64_t count, float sign,
                                const LocalTensor<float>& scratch, Q& queue)
    {
        constexpr float LARGEST = 3.4028234663852886e38f;
        const LocalTensor<uint8_t> finite = bits_.Get<uint8_t>();
        const LocalTensor<float> wide = slice_.Get<float>();
        const int64_t slice = ROWS * columns_;
        for (int64_t at = 0; at < count; at += slice) {
            const int64_t n = Min(slice, count - at), lanes = Align(n, LANES);
            LocalTensor<T> in = sliceIn_.template AllocTensor<T>();
            DataCopy(in, from[at], n);
            sliceIn_.EnQue(in);
            in = sliceIn_.template DeQue<T>();
            Cast(wide, in, RoundMode::CAST_NONE, n);
            sliceIn_.FreeTensor(in);
            Muls(scratch, wide, sign, n);
            if (sign == 0) {
                CompareScalar(finite, scratch, 0.0f, CMPMODE::EQ, lanes);
                AscendC::Select(wide, finite, wide, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);
            } else {
                CompareScalar(finite, scratch, LARGEST, CMPMODE::LE, lanes);
                Duplicate(wide, 0.0f, n);
                AscendC::Select(wide, finite, wide, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);
            }
            LocalTensor<T> out = queue.template AllocTensor<T>();
            Cast(out, wide, RoundMode::CAST_RINT, n);
            queue.EnQue(out);
            out = queue.template DeQue<T>();
            DataCopy(to[at], out, n);
            queue.FreeTensor(out);
        }
    }

private:
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
            const uint64_t lanes[2] = {~uint64_t(0) << (high - at) & Lanes(columns_ - at), 0};
            if (lanes[0] != 0) {
                Duplicate(row[at], HIDDEN, lanes, 1, 1, FLOATS);
            }
            at += LANES;
        }
        if (at < columns_) {
            Duplicate(row[at], HIDDEN, columns_ - at);
        }
    }
    __aicore__ inline static uint64_t Lanes(int64_t count)
    {
        return count >= LANES ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
    }

    // Up to ROWS rows of a matrix in GM whose rows are padded to 16, from a line and a key on; 0 beyond it.
    template <typename M>
    __aicore__ inline LocalTensor<M> Slice(const GlobalTensor<M>& from, int64_t line, int64_t rows, int64_t key,
                                           bool sameLine)
    {
        const int64_t pitch = Align(t_.keys, FRACTAL), width = Min(columns_, pitch - key), count = Min(ROWS, rows);
        const uint16_t blocks = width / FRACTAL, gap = (pitch - width) / FRACTAL, rest = (columns_ - width) / FRACTAL;
        LocalTensor<M> in = sliceIn_.template AllocTensor<M>();
        if (rest > 0 || count < ROWS) {
            Duplicate(in.template ReinterpretCast<int16_t>(), int16_t(0), ROWS * columns_);
            const TEventID cleared = GetTPipePtr()->FetchEventID(HardEvent::V_MTE2);  // the rows come after the zeros
            SetFlag<HardEvent::V_MTE2>(cleared);
            WaitFlag<HardEvent::V_MTE2>(cleared);
        }
        if (sameLine) {
            for (int64_t i = 0; i < count; ++i) {
                DataCopy(in[i * columns_], from[line * pitch + key], DataCopyParams(1, blocks, 0, 0));
            }
        } else {
            DataCopy(in, from[line * pitch + key], DataCopyParams(count, blocks, gap, rest));
        }
        sliceIn_.EnQue(in);
        return sliceIn_.template DeQue<M>();
    }
    template <typename M>
    __aicore__ inline LocalTensor<float> Wide(const GlobalTensor<M>& from, int64_t line, int64_t rows, int64_t key,
                                              bool sameLine)
    {
        const LocalTensor<M> in = Slice(from, line, rows, key, sameLine);
        const LocalTensor<float> wide = slice_.Get<float>();
        Cast(wide, in, RoundMode::CAST_NONE, Min(ROWS, rows) * columns_);
        sliceIn_.FreeTensor(in);
        return wide;
    }

    const FlashAttentionTilingData& t_;
    TQue<TPosition::VECIN, 1> sliceIn_;
    TBuf<> slice_, bits_;
    GlobalTensor<T> shift_;
    GlobalTensor<half> mask_, drop_;
    AttentionDropout dropout_;
    bool hasDrop_ = false;
    int64_t columns_ = 0;
};

// A block of 32 bytes for each of `rows` values.
__aicore__ inline void Spread(const LocalTensor<float>& wide, const LocalTensor<float>& values, int64_t rows)
{
    Brcb(wide, values, (rows + FLOATS - 1) / FLOATS, {1, FLOATS});
}

#endif  // ATTENTION_MASK_H
