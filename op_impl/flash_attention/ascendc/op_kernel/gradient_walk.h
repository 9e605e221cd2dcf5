// SPDX-License-Identifier: Apache-2.0
// What cube and vector cores of a block of the gradient agree on: the order of the tiles, what they hand to each other.
#ifndef GRADIENT_WALK_H
#define GRADIENT_WALK_H

#include "attention_task.h"

enum GradientFlag : uint16_t { TILE_READY = 0, WEIGHTS_DONE = 1, KEYS_READY = 2, QUERIES_READY = 3, SHIFT_CLEARED = 6 };

// Tensors of the op, in its order.
struct GradientTensors {
    using Address = __gm__ uint8_t*;
    Address query, key, value, out, dOut, maximum, sum, dMaximum, dSum;
    Address mask, shift, drop, queryLengths, keyLengths, seedWords, rowBounds;
    Address dQuery, dKey, dValue, dShift;
};

// A block of queries of a head, and a block of keys that it sees.
struct GradientTile {
    Head head;
    int64_t row, height;      // queries
    int64_t block;            // of keys
    int64_t key, width;       // keys
    bool firstOfQueries;      // no block of keys before it adds to d_query of these queries
    bool firstOfKeys;         // no tile before it adds to d_key and d_value of these keys
    bool lastOfKeys;
    bool lastOfHead;          // among the tiles of these keys
};

// The tiles of a head of keys: blocks of keys outside, in each the heads of the group and their blocks of queries.
class GradientWalk {
public:
    __aicore__ inline void Init(const FlashAttentionTilingData& t, Task& task)
    {
        t_ = &t, task_ = &task;
        group = t.queryHeads / t.keyHeads;
        queryBlocks = (t.queries + t.queryBlock - 1) / t.queryBlock;
        keyBlocks = (t.keys + t.keyBlock - 1) / t.keyBlock;
    }

    __aicore__ inline void Select(int64_t keyHead)
    {
        this->keyHead = keyHead;
        firstHead = keyHead / t_->keyHeads * t_->queryHeads + keyHead % t_->keyHeads * group;
        task_->SelectHead(firstHead);
        block_ = 0, member_ = 0, rows_ = -1;
        started_ = false;
        Find();
    }
    // Whether there was another tile; it is `now` then.
    __aicore__ inline bool Next()
    {
        if (!found_) {
            return false;
        }
        const bool first = !started_ || now.block != next_.block;
        now = next_;
        now.firstOfKeys = first;
        started_ = true;
        Find();
        now.lastOfKeys = !found_ || next_.block != now.block;
        now.lastOfHead = now.lastOfKeys || next_.head.flat != now.head.flat;
        return true;
    }
    // Whether a block of queries adds to any d_key, and so has a d_query.
    __aicore__ inline bool Sees(int64_t head, int64_t block)
    {
        task_->SelectHead(head);
        task_->SelectRows(block);
        return task_->first < task_->last;
    }

    GradientTile now;
    int64_t keyHead = 0, firstHead = 0, group = 0, queryBlocks = 0, keyBlocks = 0;

private:
    __aicore__ inline void Find()
    {
        found_ = false;
        while (!found_ && Advance()) {
            task_->SelectHead(firstHead + member_);
            task_->SelectRows(rows_);
            found_ = task_->first <= block_ && block_ < task_->last;
        }
        if (found_) {
            next_ = {task_->head, task_->row, task_->height, block_, block_ * t_->keyBlock, task_->Width(block_),
                     task_->first == block_, false, false, false};
        }
    }
    __aicore__ inline bool Advance()
    {
        if (++rows_ < queryBlocks) {
            return true;
        }
        rows_ = 0;
        if (++member_ < group) {
            return true;
        }
        member_ = 0;
        return ++block_ < keyBlocks;
    }

    const FlashAttentionTilingData* t_;
    Task* task_;
    GradientTile next_;
    int64_t block_ = 0, member_ = 0, rows_ = 0;
    bool found_ = false, started_ = false;
};

// Places in the workspace: tiles of a block, sums of d_query, what the vectors know of a row.
template <typename T>
struct GradientExchange {
    static constexpr int32_t ROW_VALUES = 4 * 8;  // of a row: four, each in a block of 32 bytes of its own

    __aicore__ inline void Init(GM_ADDR workspace, const FlashAttentionTilingData& t, int64_t block, int64_t blocks)
    {
        const int64_t tile = t.queryBlock * t.keyBlock, sums = t.keyBlock * t.headDim;
        GM_ADDR start = GetUserWorkspace(workspace);
        GM_ADDR at = start + block * t.blockBytes;
        Place(scores, at, SLOTS * tile);
        Place(products, at, SLOTS * tile);
        Place(keySums, at, SLOTS * sums);
        Place(valueSums, at, SLOTS * sums);
        Place(weights, at, SLOTS * tile);
        Place(gradients, at, SLOTS * tile);
        for (GlobalTensor<T>* rows : {&cleanQuery, &cleanDOut, &marks[0], &marks[1]}) {
            Place(*rows, at, t.queryBlock * t.headDim);
        }
        Place(cleanKey, at, sums);
        visible = weights[tile], counts[0] = keySums[sums], counts[1] = valueSums[sums];
        const int64_t lines = (t.queries + t.queryBlock - 1) / t.queryBlock * t.queryBlock;
        const int64_t rows = t.tasks * (t.queryHeads / t.keyHeads) * lines;
        at = start + blocks * t.blockBytes;
        Place(querySums, at, rows * t.headDim);
        Place(rowVectors, at, rows * ROW_VALUES);
        verdicts.Init(at, t.tasks);
        lines_ = lines, depth_ = t.headDim;
    }
    // Of a head from a row on.
    __aicore__ inline GlobalTensor<float> QuerySums(int64_t head, int64_t row) const
    {
        return querySums[(head * lines_ + row) * depth_];
    }
    // What the vectors know of the rows of a vector core from `row` on: one vector of blocks after the other.
    __aicore__ inline GlobalTensor<float> RowVectors(int64_t head, int64_t row) const
    {
        return rowVectors[(head * lines_ + row) * ROW_VALUES];
    }

    GlobalTensor<float> scores, products;      // query @ key^T, d_attention_out @ value^T
    GlobalTensor<T> weights, gradients;        // of the scores
    GlobalTensor<float> keySums, valueSums;    // d_key and d_value of a block of keys
    GlobalTensor<float> querySums, rowVectors;
    // Of tasks that are done again, isolated (isolation.h), tile by tile; some have the places of second slots.
    GlobalTensor<T> visible, cleanQuery, cleanDOut, cleanKey;
    GlobalTensor<T> marks[2];                  // of d_attention_out
    GlobalTensor<float> counts[2];             // of them that each key is seen with
    Verdicts verdicts;

private:
    template <typename E>
    __aicore__ inline static void Place(GlobalTensor<E>& tensor, GM_ADDR& at, int64_t count)
    {
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ E*>(at), count);
        at += count * sizeof(E);
    }
    int64_t lines_ = 0, depth_ = 0;
};

#endif  // GRADIENT_WALK_H
