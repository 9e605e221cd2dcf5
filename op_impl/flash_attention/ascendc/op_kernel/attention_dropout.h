// SPDX-License-Identifier: Apache-2.0
// Dropout from a counter: which weights stay is a function of seed, head, row and column. README.md has the definition.
#ifndef ATTENTION_DROPOUT_H
#define ATTENTION_DROPOUT_H

#include "attention_task.h"

class AttentionDropout {
public:
    static constexpr int32_t ROWS = 8;  // of a slice

    __aicore__ inline void Init(TPipe* pipe, const FlashAttentionTilingData& t, GM_ADDR seedWords)
    {
        seed_ = static_cast<uint64_t>(t.seed);
        if (seedWords != nullptr) {
            GlobalTensor<uint32_t> words;
            words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(seedWords), 8);
            seed_ = words.GetValue(0) | static_cast<uint64_t>(words.GetValue(1)) << 32;
            corner_ = words.GetValue(2) * ROW + words.GetValue(3) * COLUMN;
        }
        threshold_ = t.keepThreshold;
        columns_ = t.keyBlock;
        pipe->InitBuffer(counterBuffer_, ROWS * columns_ * sizeof(int32_t));
        counters_ = counterBuffer_.Get<int32_t>();
        for (uint32_t i = 0; i < ROWS * columns_; ++i) {
            counters_.SetValue(i, static_cast<int32_t>(i / columns_ * ROW + i % columns_ * COLUMN));
        }
        const TEventID ready = pipe->FetchEventID(HardEvent::S_V);
        SetFlag<HardEvent::S_V>(ready);
        WaitFlag<HardEvent::S_V>(ready);
    }

    // The keys of a head: both words of SplitMix64.
    __aicore__ inline void Select(int64_t head)
    {
        uint64_t z = seed_ + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(head + 1);
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        start_ = static_cast<uint32_t>(z) + corner_;
        key_ = static_cast<int32_t>(z >> 32 | 1);
    }

    // 1 or 0 for `rows` rows from `row`, and the columns of a block from `column`; `scratch` holds three slices.
    __aicore__ inline LocalTensor<float> Keep(const LocalTensor<int32_t>& scratch, int64_t row, int64_t column,
                                              int64_t rows)
    {
        const int32_t slice = ROWS * columns_, count = rows * columns_;
        const LocalTensor<int32_t> x = scratch, other = scratch[slice];
        const LocalTensor<float> wide = scratch[2 * slice].ReinterpretCast<float>();
        const uint32_t first = start_ + static_cast<uint32_t>(row) * ROW + static_cast<uint32_t>(column) * COLUMN;
        Adds(x, counters_, static_cast<int32_t>(first), count);
        Adds(other, x, key_, count);
        Mul(x, x, other, count);
        Cast(wide, x, RoundMode::CAST_RINT, count);
        Muls(wide, wide, 1.0f / 65536, count);
        Cast(other, wide, RoundMode::CAST_FLOOR, count);
        Add(x, x, other, count);
        Adds(other, x, key_, count);
        Mul(x, x, other, count);
        Cast(wide, x, RoundMode::CAST_RINT, count);
        Muls(wide, wide, -1.0f, count);
        Adds(wide, wide, threshold_, count);
        Muls(wide, wide, STEEP, count);
        Maxs(wide, wide, 0.0f, count);
        Mins(wide, wide, 1.0f, count);
        return wide;
    }

private:
    static constexpr uint32_t ROW = 0xC2B2AE35, COLUMN = 0x27D4EB2F;
    static constexpr float STEEP = 1e20f;  // what is above 0 becomes at least 1

    TBuf<> counterBuffer_;
    LocalTensor<int32_t> counters_;
    uint64_t seed_ = 0;
    uint32_t corner_ = 0;  // counter of the first row and column of a part of a longer sequence
    uint32_t start_ = 0, columns_ = 0;
    int32_t key_ = 0;
    float threshold_ = 0;
};

#endif  // ATTENTION_DROPOUT_H
