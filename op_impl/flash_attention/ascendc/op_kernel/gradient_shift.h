// SPDX-License-Identifier: Apache-2.0
// d_real_shift: the gradients of the scores, or their sums over the queries where one row of the bias serves all.
#ifndef GRADIENT_SHIFT_H
#define GRADIENT_SHIFT_H

#include "attention_mask.h"
#include "gradient_walk.h"

class GradientShift {
public:
    __aicore__ inline explicit GradientShift(const FlashAttentionTilingData& tiling) : t_(tiling) {}

    __aicore__ inline void Init(TPipe* pipe, GM_ADDR dShift)
    {
        pipe_ = pipe;
        dShift_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dShift));
        half_ = t_.queryBlock / 2, columns_ = t_.keyBlock, pitch_ = Align(t_.keys, FRACTAL);
        pipe->InitBuffer(line_, columns_ * sizeof(float));
    }

    // Of a tile [rows, keyBlock] of this vector core, ready to leave. Where rows are added up it is used up.
    __aicore__ inline void Store(const LocalTensor<float>& gradients, const GradientTile& tile, int64_t rows)
    {
        if (t_.shiftRows > 1) {
            const uint32_t bytes = tile.width * sizeof(float);
            const uint32_t gap = (columns_ - Align(tile.width, FLOATS)) / FLOATS;
            const int64_t line = tile.head.flat * t_.queries + tile.row + GetSubBlockIdx() * half_;
            const DataCopyExtParams of(rows, bytes, gap, pitch_ * sizeof(float) - bytes, 0);
            DataCopyPad(dShift_[line * pitch_ + tile.key], gradients, of);
            return;
        }
        for (int64_t left = rows; left > 1; left -= left / 2) {
            const int64_t half = left / 2;
            Add(gradients, gradients, gradients[(left - half) * columns_], half * columns_);
        }
        const LocalTensor<float> line = line_.Get<float>();
        if (summed_) {
            Add(line, line, gradients, columns_);
        } else {
            Adds(line, gradients, 0.0f, columns_);
        }
        summed_ = true;
    }

    // Behind the last tile of a head and a block of keys: adds the sum to what was 0. Both vector cores do so once, and
    // the sum of two does not depend on their order.
    __aicore__ inline void StoreSum(const GradientTile& tile)
    {
        if (!summed_) {
            return;
        }
        summed_ = false;
        const TEventID out = pipe_->FetchEventID(HardEvent::V_MTE3);
        SetFlag<HardEvent::V_MTE3>(out);
        WaitFlag<HardEvent::V_MTE3>(out);
        SetAtomicAdd<float>();
        const DataCopyExtParams line(1, tile.width * sizeof(float), 0, 0, 0);
        DataCopyPad(dShift_[tile.head.flat * pitch_ + tile.key], line_.Get<float>(), line);
        SetAtomicNone();
        const TEventID back = pipe_->FetchEventID(HardEvent::MTE3_V);
        SetFlag<HardEvent::MTE3_V>(back);
        WaitFlag<HardEvent::MTE3_V>(back);
    }

    // Sums begin as zeros again. `queue` holds tiles.
    template <typename Q>
    __aicore__ inline void Clear(const GradientWalk& walk, Q& queue)
    {
        const int64_t piece = half_ * columns_;
        for (int64_t head = walk.firstHead; GetSubBlockIdx() == 0 && head < walk.firstHead + walk.group; ++head) {
            for (int64_t key = 0; key < pitch_; key += piece) {
                LocalTensor<float> zeros = queue.template AllocTensor<float>();
                Duplicate(zeros, 0.0f, piece);
                queue.EnQue(zeros);
                zeros = queue.template DeQue<float>();
                DataCopy(dShift_[head * pitch_ + key], zeros, Min(piece, pitch_ - key));
                queue.FreeTensor(zeros);
            }
        }
        CrossCoreSetFlag<1, PIPE_MTE3>(SHIFT_CLEARED);
        CrossCoreWaitFlag(SHIFT_CLEARED);
    }

private:
    const FlashAttentionTilingData& t_;
    TPipe* pipe_ = nullptr;
    TBuf<> line_;
    GlobalTensor<float> dShift_;
    bool summed_ = false;
    int64_t half_ = 0, columns_ = 0, pitch_ = 0;
};

#endif  // GRADIENT_SHIFT_H
