// SPDX-License-Identifier: Apache-2.0
// The cube core of a block: scores = query @ key^T, product = weights @ value, one block of keys ahead of the vectors.
#ifndef ATTENTION_CUBE_H
#define ATTENTION_CUBE_H

#include "cube_moves.h"
#include "held_blocks.h"

template <typename T>
class AttentionCube : CubeMoves<T> {
public:
    __aicore__ inline AttentionCube(TPipe* pipe, const FlashAttentionTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR workspace)
    {
        query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(query));
        key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(key));
        value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value));
        exchange_.Init(workspace, t_, GetBlockIdx(), GetBlockNum());
        const uint32_t rows = t_.queryBlock, columns = t_.keyBlock, depth = t_.headDim;
        const uint32_t widest = depth > columns ? depth : columns;
        pipe_->InitBuffer(queryL1_, 1, rows * depth * sizeof(T));
        pipe_->InitBuffer(keyL1_, BUFFERS, columns * depth * sizeof(T));
        held_.Init(pipe_, t_.heldBlocks, columns * depth);
        pipe_->InitBuffer(weightsL1_, 1, rows * columns * sizeof(T));  // in L0A before those of the next step come
        pipe_->InitBuffer(left_, BUFFERS, rows * widest * sizeof(T));
        pipe_->InitBuffer(right_, BUFFERS, columns * depth * sizeof(T));
        pipe_->InitBuffer(sum_, BUFFERS, rows * widest * sizeof(float));
    }

    __aicore__ inline void Process(Task& task)
    {
        Pass(task);
        CrossCoreWaitFlag(JUDGED);
        CrossCoreSetFlag<2, PIPE_FIX>(VERDICTS_KNOWN);
        exchange_.verdicts.Fetch();
        isolated_ = true;
        Pass(task);
    }

private:
    using CubeMoves<T>::ToL0;
    using CubeMoves<T>::ToL1;
    using CubeMoves<T>::ToL1ByRows;
    static constexpr int32_t BUFFERS = 2;

    __aicore__ inline void Pass(Task& task)
    {
        for (int64_t round = 0; round < t_.rounds; ++round) {
            const int64_t i = task.Index(GetBlockIdx(), GetBlockNum(), round);
            if (i == t_.tasks || (isolated_ && exchange_.verdicts.Finite(i))) {
                continue;
            }
            task.Select(i);
            if (task.first >= task.last) {
                continue;
            }
            rows_ = Align(task.height, FRACTAL);
            held_.Select(task.head.key);
            LoadQuery(task);
            Steps(task);
            left_.FreeTensor(queryL0_);
        }
    }

    // Scores are a group ahead of products but where the vectors need the other slots. They come into a slot when the
    // weights of the tile before have left it for L1.
    __aicore__ inline void Steps(const Task& task)
    {
        const int64_t group = isolated_ ? 1 : GROUP, ahead = isolated_ ? 1 : TILES;
        for (int64_t j = task.first; j < Min(task.first + ahead, task.last); ++j) {
            Scores(task, j);
        }
        for (int64_t j = task.first; j < task.last; ++j) {
            const int64_t tile = (j - task.first) % group;
            Product(task, j, tile == 0, tile == group - 1 || j == task.last - 1);
            if (j + ahead < task.last) {
                Scores(task, j + ahead);
            }
        }
    }
    // Where a tile of scores, and of weights, lies.
    __aicore__ inline int64_t Tile(int64_t number) const
    {
        return (isolated_ ? 0 : number % TILES) * t_.queryBlock * t_.keyBlock;
    }

    __aicore__ inline void LoadQuery(const Task& task)
    {
        LocalTensor<T> l1 = queryL1_.template AllocTensor<T>();
        const int64_t at = (task.head.flat * t_.queries + task.row) * t_.headDim;
        ToL1ByRows(l1, query_[at], task.height, t_.headDim, t_.headDim);
        queryL1_.EnQue(l1);
        l1 = queryL1_.template DeQue<T>();
        queryL0_ = left_.template AllocTensor<T>();
        ToL0(queryL0_, l1, rows_, t_.headDim, false);
        left_.EnQue(queryL0_);
        queryL0_ = left_.template DeQue<T>();
        queryL1_.FreeTensor(l1);
    }

    // The right side of the scores is key^T: fractals of key lie in L1 as L0B wants those of its transpose.
    __aicore__ inline void Scores(const Task& task, int64_t j)
    {
        const int64_t width = task.Width(j);
        LoadRight(Blocks::KEYS, key_[(task.head.key * t_.keys + j * t_.keyBlock) * t_.headDim], j, width);
        LocalTensor<T> right = right_.template DeQue<T>();
        LocalTensor<float> sum = sum_.template AllocTensor<float>();
        Multiply(sum, queryL0_, right, t_.headDim, width, true);
        right_.FreeTensor(right);
        FromL0(exchange_.scores[Tile(scored_)], sum, task.height, width, t_.keyBlock);
        CrossCoreSetFlag<2, PIPE_FIX>(SCORES_READY);
        ++scored_;
    }

    // weights @ value of a block of keys, added up in L0C over those of a group.
    __aicore__ inline void Product(const Task& task, int64_t j, bool first, bool last)
    {
        if (!isolated_) {
            const GlobalTensor<T> from = value_[(task.head.key * t_.keys + j * t_.keyBlock) * t_.headDim];
            LoadRight(Blocks::VALUES, from, j, task.Width(j));
        }
        CrossCoreWaitFlag(WEIGHTS_READY);
        if (isolated_) {
            LoadRight(Blocks::PASSING, exchange_.clean, j, task.Width(j));
        }
        if (first) {
            product_ = sum_.template AllocTensor<float>();
        }
        MultiplyValues(product_, exchange_.weights[Tile(weighed_) * exchange_.WIDTH], task, j, first);
        ++weighed_;
        if (!last) {
            return;
        }
        const int64_t slot = isolated_ ? 0 : multiplied_ % SLOTS;
        FromL0(exchange_.product[slot * t_.queryBlock * t_.headDim], product_, task.height, t_.headDim, t_.headDim);
        for (int32_t i = 0; isolated_ && i < 2; ++i) {
            LoadRight(Blocks::PASSING, exchange_.marks[i], j, task.Width(j));
            LocalTensor<float> counts = sum_.template AllocTensor<float>();
            MultiplyValues(counts, exchange_.visible, task, j, true);
            FromL0(exchange_.counts[i], counts, task.height, t_.headDim, t_.headDim);
        }
        CrossCoreSetFlag<2, PIPE_FIX>(PRODUCT_READY);
        ++multiplied_;
    }
    // A block of keys or values into L0B, by L1 where it is not there yet.
    __aicore__ inline void LoadRight(Blocks kind, const GlobalTensor<T>& from, int64_t j, int64_t width)
    {
        const bool held = held_.Holds(kind);
        LocalTensor<T> l1 = held ? held_.Place(kind, j) : keyL1_.template AllocTensor<T>();
        if (!held || held_.Lacks(kind, j)) {
            if (kind == Blocks::KEYS) {
                ToL1(l1, from, width, t_.headDim, t_.headDim);
            } else {
                ToL1ByRows(l1, from, width, t_.headDim, t_.headDim);
            }
            if (held) {
                held_.Loaded();
            } else {
                keyL1_.EnQue(l1);
                l1 = keyL1_.template DeQue<T>();
            }
        }
        LocalTensor<T> right = right_.template AllocTensor<T>();
        ToL0(right, l1, Align(width, FRACTAL), t_.headDim, kind != Blocks::KEYS);
        right_.EnQue(right);
        if (!held) {
            keyL1_.FreeTensor(l1);
        }
    }
    // weights @ the values that were loaded.
    __aicore__ inline void MultiplyValues(const LocalTensor<float>& sum, const GlobalTensor<T>& from, const Task& task,
                                          int64_t j, bool first)
    {
        const int64_t width = task.Width(j);
        LocalTensor<T> weights = weightsL1_.template AllocTensor<T>();
        ToL1ByRows(weights, from, task.height, width, t_.keyBlock * exchange_.WIDTH);
        weightsL1_.EnQue(weights);
        weights = weightsL1_.template DeQue<T>();
        LocalTensor<T> left = left_.template AllocTensor<T>();
        ToL0(left, weights, rows_, width, false);
        left_.EnQue(left);
        weightsL1_.FreeTensor(weights);
        left = left_.template DeQue<T>();
        LocalTensor<T> right = right_.template DeQue<T>();
        Multiply(sum, left, right, width, t_.headDim, first);
        left_.FreeTensor(left);
        right_.FreeTensor(right);
    }

    // sum = left @ right, or that is added to it.
    __aicore__ inline void Multiply(const LocalTensor<float>& sum, const LocalTensor<T>& left,
                                    const LocalTensor<T>& right, int64_t depth, int64_t width, bool first)
    {
        MmadParams p;
        p.m = rows_;
        p.n = width;
        p.k = depth;
        p.cmatrixInitVal = first;
        if (!first) {
            PipeBarrier<PIPE_M>();  // the sum so far
        }
        Mmad(sum, left, right, p);
    }
    __aicore__ inline void FromL0(const GlobalTensor<float>& to, LocalTensor<float>& sum, int64_t height, int64_t width,
                                  int64_t pitch)
    {
        sum_.EnQue(sum);
        sum = sum_.template DeQue<float>();
        FixpipeParamsV220 out;
        out.nSize = width;
        out.mSize = height;
        out.srcStride = rows_;
        out.dstStride = pitch;
        Fixpipe<float, float, CFG_ROW_MAJOR>(to, sum, out);
        sum_.FreeTensor(sum);
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::A1, 1> queryL1_, weightsL1_;
    TQue<TPosition::B1, 1> keyL1_;
    TQue<TPosition::A2, 1> left_;
    TQue<TPosition::B2, 1> right_;
    TQue<TPosition::CO1, 1> sum_;
    GlobalTensor<T> query_, key_, value_;
    Exchange<T> exchange_;
    HeldBlocks<T> held_;
    LocalTensor<T> queryL0_;
    LocalTensor<float> product_;
    bool isolated_ = false;
    int64_t rows_ = 0, scored_ = 0, weighed_ = 0, multiplied_ = 0;
};

#endif  // ATTENTION_CUBE_H
