// SPDX-License-Identifier: Apache-2.0
// What cube and vector cores of a block agree on: tasks, which keys a query sees, what they hand to each other.
#ifndef ATTENTION_TASK_H
#define ATTENTION_TASK_H

#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t SLOTS = 2;       // of what cube and vector cores hand to each other: one is used, the next is made
constexpr int32_t GROUP = 2;       // blocks of keys whose rows get their maximum, and their product, together
constexpr int32_t TILES = SLOTS * GROUP;  // of scores
constexpr int32_t BLOCK_BYTES = 32;
constexpr int64_t WINDOW = 128;    // rows and columns of a block of the window
constexpr int64_t FRACTAL = 16;
enum Flag : uint16_t { SCORES_READY = 0, WEIGHTS_READY = 1, PRODUCT_READY = 2, JUDGED = 4, VERDICTS_KNOWN = 5 };

__aicore__ inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }
__aicore__ inline int64_t Align(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Of a task and a vector core a block of 32 bytes that begins with 0 where all results are finite.
struct Verdicts {
    static constexpr int64_t CORES = 2, VALUES = 8;

    __aicore__ inline void Init(GM_ADDR at, int64_t tasks)
    {
        words_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at), tasks * CORES * VALUES);
    }
    __aicore__ inline GlobalTensor<float> Of(int64_t task, int64_t core) const
    {
        return words_[(task * CORES + core) * VALUES];
    }
    // What other cores wrote is read by the scalar unit from here on.
    __aicore__ inline void Fetch() const
    {
        DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(words_);
    }
    __aicore__ inline bool Finite(int64_t task) const
    {
        bool finite = true;
        for (int64_t core = 0; core < CORES; ++core) {
            finite = finite && Of(task, core).GetValue(0) == 0.0f;
        }
        return finite;
    }

private:
    GlobalTensor<float> words_;
};

// Tiles in the workspace of a block. Those of tasks that are done again, isolated (isolation.h), step by step, have the
// places of the second slots and some more.
template <typename T>
struct Exchange {
    // A row of weights lies where that of its scores begins: the vector core has read it, and it is in the cache.
    static constexpr int64_t WIDTH = sizeof(float) / sizeof(T);

    __aicore__ inline void Init(GM_ADDR workspace, const FlashAttentionTilingData& t, int64_t block, int64_t blocks)
    {
        const int64_t scoreTile = t.queryBlock * t.keyBlock, productTile = t.queryBlock * t.headDim;
        GM_ADDR at = GetUserWorkspace(workspace);
        scores.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at) + block * TILES * scoreTile, TILES * scoreTile);
        weights.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(at) + block * TILES * scoreTile * WIDTH,
                                TILES * scoreTile * WIDTH);
        at += blocks * TILES * scoreTile * sizeof(float);
        product.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at) + block * SLOTS * productTile, SLOTS * productTile);
        at += blocks * SLOTS * productTile * sizeof(float);
        visible = weights[scoreTile * WIDTH], counts[0] = product[productTile];
        const int64_t valueTile = t.keyBlock * t.headDim;
        for (GlobalTensor<T>* values : {&clean, &marks[0], &marks[1]}) {
            values->SetGlobalBuffer(reinterpret_cast<__gm__ T*>(at) + block * valueTile, valueTile);
            at += blocks * valueTile * sizeof(T);
        }
        counts[1].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at) + block * productTile, productTile);
        at += blocks * productTile * sizeof(float);
        verdicts.Init(at, t.tasks);
    }
    GlobalTensor<float> scores, product;
    GlobalTensor<T> weights, visible, clean, marks[2];
    GlobalTensor<float> counts[2];
    Verdicts verdicts;
};

// A head of the queries: among those of all batches, its batch, its place there, its head of keys among all.
struct Head {
    int64_t flat, batch, index, key;
};

// One block of queries of one head, and its keys.
class Task {
public:
    __aicore__ inline void Init(const FlashAttentionTilingData& t, GM_ADDR queryLengths, GM_ADDR keyLengths,
                                GM_ADDR bounds)
    {
        t_ = &t;
        hasQueryLengths_ = queryLengths != nullptr, hasKeyLengths_ = keyLengths != nullptr;
        hasBounds_ = bounds != nullptr;
        if (hasQueryLengths_) {
            queryLengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(queryLengths));
        }
        if (hasKeyLengths_) {
            keyLengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(keyLengths));
        }
        if (hasBounds_) {
            bounds_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(bounds));
        }
    }

    // The task of a block of cores in a round, or t.tasks: one behind the other where keys stay in L1.
    __aicore__ inline int64_t Index(int64_t block, int64_t blocks, int64_t round) const
    {
        return Min(t_->heldBlocks > 0 ? block * t_->rounds + round : block + round * blocks, t_->tasks);
    }
    __aicore__ inline void Select(int64_t index)
    {
        const int64_t blocks = (t_->queries + t_->queryBlock - 1) / t_->queryBlock;
        SelectHead(index / blocks);
        SelectRows(index % blocks);
    }
    __aicore__ inline void SelectHead(int64_t flat)
    {
        head.flat = flat;
        head.batch = flat / t_->queryHeads, head.index = flat % t_->queryHeads;
        head.key = head.batch * t_->keyHeads + head.index / (t_->queryHeads / t_->keyHeads);
        queryLength_ = hasQueryLengths_ ? Max(0, Min(queryLengths_.GetValue(head.batch), t_->queries)) : t_->queries;
        keyLength_ = hasKeyLengths_ ? Max(0, Min(keyLengths_.GetValue(head.batch), t_->keys)) : t_->keys;
    }
    // A block of queries; of the blocks of keys those in [first, last) have keys that it may see.
    __aicore__ inline void SelectRows(int64_t block)
    {
        row = block * t_->queryBlock;
        height = Min(t_->queryBlock, t_->queries - row);
        first = last = 0;
        if (row < queryLength_) {
            const int64_t end = Min(row + height, queryLength_) - 1;
            const int64_t low = Low(row), high = High(end);
            first = low / t_->keyBlock;
            last = high > low ? (high + t_->keyBlock - 1) / t_->keyBlock : first;
        }
    }

    // Keys [Low, High) are what a query sees; both never fall from one query to the next.
    __aicore__ inline int64_t Low(int64_t query) const
    {
        if (hasBounds_) {
            return Max(0, bounds_.GetValue(query));
        }
        int64_t low = t_->hasLower ? query + keyLength_ - queryLength_ - t_->lower : 0;
        if (t_->hasWindow) {
            low = Max(low, (query / WINDOW - t_->previousBlocks) * WINDOW);
        }
        return Max(low, 0);
    }
    __aicore__ inline int64_t High(int64_t query) const
    {
        if (query >= queryLength_) {
            return 0;
        }
        int64_t high = keyLength_;
        if (hasBounds_) {
            high = Min(high, bounds_.GetValue(Align(t_->queries, FRACTAL) + query));
        }
        if (t_->hasUpper) {
            high = Min(high, query + keyLength_ - queryLength_ + t_->upper + 1);
        }
        if (t_->hasWindow) {
            high = Min(high, (query / WINDOW + t_->nextBlocks + 1) * WINDOW);
        }
        return Max(high, 0);
    }
    // Whether queries [from, from + count) see all of a block of keys.
    __aicore__ inline bool SeesAll(int64_t from, int64_t count, int64_t key) const
    {
        const int64_t end = from + count - 1;
        return end < queryLength_ && Low(end) <= key && High(from) >= key + t_->keyBlock;
    }
    __aicore__ inline int64_t Width(int64_t block) const { return Min(t_->keyBlock, t_->keys - block * t_->keyBlock); }

    Head head;
    int64_t row, height;   // queries
    int64_t first, last;   // blocks of keys

private:
    const FlashAttentionTilingData* t_;
    GlobalTensor<int32_t> queryLengths_, keyLengths_, bounds_;
    bool hasQueryLengths_, hasKeyLengths_, hasBounds_;
    int64_t queryLength_, keyLength_;
};

#endif  // ATTENTION_TASK_H
