// SPDX-License-Identifier: Apache-2.0
// The cube core of a block of the gradient: query @ key^T and d_attention_out @ value^T one tile ahead of the vectors,
// then d_value += weights^T @ d_attention_out, d_key += gradients^T @ query, d_query += gradients @ key. d_key and
// d_value of a block of keys stay in L0C; d_query is added up in GM, where this core alone writes it.
#ifndef GRADIENT_CUBE_H
#define GRADIENT_CUBE_H

#include "cube_moves.h"
#include "gradient_walk.h"

template <typename T>
class GradientCube : CubeMoves<T> {
public:
    __aicore__ inline GradientCube(TPipe* pipe, const FlashAttentionTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(const GradientTensors& of, GM_ADDR workspace)
    {
        query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.query));
        key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.key));
        value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.value));
        dOut_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dOut));
        exchange_.Init(workspace, t_, GetBlockIdx(), GetBlockNum());
        depth_ = t_.headDim;
        const uint32_t rows = t_.queryBlock, columns = t_.keyBlock, tile = rows * columns;
        const uint32_t queries = rows * depth_, keys = columns * depth_;
        pipe_->InitBuffer(queryL1_, BUFFERS, queries * sizeof(T));
        pipe_->InitBuffer(dOutL1_, BUFFERS, queries * sizeof(T));
        pipe_->InitBuffer(keyL1_, BUFFERS, keys * sizeof(T));
        pipe_->InitBuffer(keyRowsL1_, BUFFERS, keys * sizeof(T));
        pipe_->InitBuffer(valueL1_, BUFFERS, keys * sizeof(T));
        pipe_->InitBuffer(cleanL1_, BUFFERS, (queries > keys ? queries : keys) * sizeof(T));
        pipe_->InitBuffer(tileL1_, BUFFERS, tile * sizeof(T));
        pipe_->InitBuffer(left_, BUFFERS, (queries > tile ? queries : tile) * sizeof(T));
        pipe_->InitBuffer(right_, BUFFERS, (queries > keys ? queries : keys) * sizeof(T));
        pipe_->InitBuffer(sum_, BUFFERS, rows * Max(columns, Min(depth_, CHUNK)) * sizeof(float));
        pipe_->InitBuffer(keySum_, 1, keys * sizeof(float));
        pipe_->InitBuffer(valueSum_, 1, keys * sizeof(float));
    }

    __aicore__ inline void Process(GradientWalk& walk)
    {
        Pass(walk);
        CrossCoreWaitFlag(JUDGED);
        CrossCoreSetFlag<2, PIPE_FIX>(VERDICTS_KNOWN);
        exchange_.verdicts.Fetch();
        isolated_ = true;
        Pass(walk);
    }

private:
    using CubeMoves<T>::ToL0;
    using CubeMoves<T>::ToL1;
    using CubeMoves<T>::ToL1ByRows;
    static constexpr int64_t BUFFERS = 2, CHUNK = 128;  // columns of d_query at a time

    // Of a tile, in L1: query, d_attention_out and keyRows by rows of fractals, key and value by columns.
    struct Operands {
        LocalTensor<T> query, dOut, key, keyRows, value;
    };

    __aicore__ inline void Pass(GradientWalk& walk)
    {
        for (int64_t i = GetBlockIdx(); i < t_.tasks; i += GetBlockNum()) {
            if (isolated_ && exchange_.verdicts.Finite(i)) {
                continue;
            }
            walk.Select(i);
            Tiles(walk);
            CrossCoreSetFlag<2, PIPE_FIX>(QUERIES_READY);
        }
    }

    // Products are a tile ahead of sums but where the vectors need the second slots.
    __aicore__ inline void Tiles(GradientWalk& walk)
    {
        bool more = walk.Next();
        if (more) {
            Scores(walk.now);
        }
        while (more) {
            const GradientTile tile = walk.now;
            const Operands operands = ahead_;
            more = walk.Next();
            if (more && !isolated_) {
                Scores(walk.now);
            }
            Gradients(tile, operands);
            if (more && isolated_) {
                Scores(walk.now);
            }
        }
    }
    __aicore__ inline int64_t Slot(int64_t count) const { return isolated_ ? 0 : count % SLOTS; }

    template <typename Q>
    __aicore__ inline LocalTensor<T> Load(Q& queue, const GlobalTensor<T>& from, int64_t rows, bool byRows)
    {
        LocalTensor<T> l1 = queue.template AllocTensor<T>();
        if (byRows) {
            ToL1ByRows(l1, from, rows, depth_, depth_);
        } else {
            ToL1(l1, from, rows, depth_, depth_);
        }
        queue.EnQue(l1);
        return queue.template DeQue<T>();
    }

    __aicore__ inline void Scores(const GradientTile& tile)
    {
        if (tile.firstOfKeys) {
            const int64_t at = (tile.head.key * t_.keys + tile.key) * depth_;
            ahead_.key = Load(keyL1_, key_[at], tile.width, false);
            ahead_.keyRows = Load(keyRowsL1_, key_[at], tile.width, true);
            ahead_.value = Load(valueL1_, value_[at], tile.width, false);
        }
        const int64_t at = (tile.head.flat * t_.queries + tile.row) * depth_;
        ahead_.query = Load(queryL1_, query_[at], tile.height, true);
        ahead_.dOut = Load(dOutL1_, dOut_[at], tile.height, true);
        const int64_t slot = Slot(scored_) * t_.queryBlock * t_.keyBlock;
        Multiply(tile, exchange_.scores[slot], ahead_.query, ahead_.key);
        Multiply(tile, exchange_.products[slot], ahead_.dOut, ahead_.value);
        CrossCoreSetFlag<2, PIPE_FIX>(TILE_READY);
        ++scored_;
    }
    // rows @ keys^T, of which both lie in L1.
    __aicore__ inline void Multiply(const GradientTile& tile, const GlobalTensor<float>& to, const LocalTensor<T>& rows,
                                    const LocalTensor<T>& keys)
    {
        const int64_t height = Align(tile.height, FRACTAL), width = Align(tile.width, FRACTAL);
        LocalTensor<T> left = left_.template AllocTensor<T>();
        ToL0(left, rows, height, depth_, false);
        left_.EnQue(left);
        LocalTensor<T> right = right_.template AllocTensor<T>();
        ToL0(right, keys, width, depth_, false);
        right_.EnQue(right);
        left = left_.template DeQue<T>();
        right = right_.template DeQue<T>();
        LocalTensor<float> sum = sum_.template AllocTensor<float>();
        Product(sum, left, right, height, depth_, tile.width, true);
        left_.FreeTensor(left);
        right_.FreeTensor(right);
        sum_.EnQue(sum);
        sum = sum_.template DeQue<float>();
        Leave(to, sum, tile.height, tile.width, t_.keyBlock);
        sum_.FreeTensor(sum);
    }
    __aicore__ inline void Product(const LocalTensor<float>& sum, const LocalTensor<T>& left,
                                   const LocalTensor<T>& right, int64_t m, int64_t k, int64_t n, bool start)
    {
        MmadParams p;
        p.m = m;
        p.n = n;
        p.k = k;
        p.cmatrixInitVal = start;
        Mmad(sum, left, right, p);
    }
    // Rows of a sum in L0C, with a pitch in GM.
    __aicore__ inline void Leave(const GlobalTensor<float>& to, const LocalTensor<float>& sum, int64_t height,
                                 int64_t width, int64_t pitch)
    {
        FixpipeParamsV220 out;
        out.nSize = width;
        out.mSize = height;
        out.srcStride = Align(height, FRACTAL);
        out.dstStride = pitch;
        Fixpipe<float, float, CFG_ROW_MAJOR>(to, sum, out);
    }

    __aicore__ inline void Gradients(const GradientTile& tile, const Operands& of)
    {
        CrossCoreWaitFlag(WEIGHTS_DONE);
        if (tile.firstOfKeys) {
            valueSums_ = valueSum_.template AllocTensor<float>();
            keySums_ = keySum_.template AllocTensor<float>();
        }
        const int64_t slot = Slot(added_) * t_.queryBlock * t_.keyBlock;
        if (isolated_) {
            AddIsolated(tile, slot);
        } else {
            LocalTensor<T> l1 = LoadTile(tile, exchange_.weights[slot]);
            AddToKeys(tile, valueSums_, l1, of.dOut, tile.firstOfKeys);
            tileL1_.FreeTensor(l1);
            l1 = LoadTile(tile, exchange_.gradients[slot]);
            AddToKeys(tile, keySums_, l1, of.query, tile.firstOfKeys);
            AddToQueries(tile, l1, of.keyRows);
            tileL1_.FreeTensor(l1);
        }
        queryL1_.FreeTensor(of.query);
        dOutL1_.FreeTensor(of.dOut);
        if (tile.lastOfKeys) {
            keyL1_.FreeTensor(of.key);
            keyRowsL1_.FreeTensor(of.keyRows);
            valueL1_.FreeTensor(of.value);
            const int64_t sums = Slot(stored_) * t_.keyBlock * depth_;
            Store(tile, valueSum_, valueSums_, exchange_.valueSums[sums]);
            Store(tile, keySum_, keySums_, exchange_.keySums[sums]);
            CrossCoreSetFlag<2, PIPE_FIX>(KEYS_READY);
            ++stored_;
        }
        ++added_;
    }
    __aicore__ inline LocalTensor<T> LoadTile(const GradientTile& tile, const GlobalTensor<T>& from)
    {
        LocalTensor<T> l1 = tileL1_.template AllocTensor<T>();
        ToL1(l1, from, tile.height, tile.width, t_.keyBlock);
        tileL1_.EnQue(l1);
        return tileL1_.template DeQue<T>();
    }

    // The same with operands of the workspace, and the counts of marks of d_attention_out that each key is seen with.
    __aicore__ inline void AddIsolated(const GradientTile& tile, int64_t slot)
    {
        LocalTensor<T> l1 = LoadTile(tile, exchange_.weights[slot]);
        LocalTensor<T> clean = Load(cleanL1_, exchange_.cleanDOut, tile.height, true);
        AddToKeys(tile, valueSums_, l1, clean, tile.firstOfKeys);
        cleanL1_.FreeTensor(clean);
        tileL1_.FreeTensor(l1);
        l1 = LoadTile(tile, exchange_.gradients[slot]);
        clean = Load(cleanL1_, exchange_.cleanQuery, tile.height, true);
        AddToKeys(tile, keySums_, l1, clean, tile.firstOfKeys);
        cleanL1_.FreeTensor(clean);
        clean = Load(cleanL1_, exchange_.cleanKey, tile.width, true);
        AddToQueries(tile, l1, clean);
        cleanL1_.FreeTensor(clean);
        tileL1_.FreeTensor(l1);
        l1 = LoadTile(tile, exchange_.visible);
        for (int32_t i = 0; i < 2; ++i) {
            clean = Load(cleanL1_, exchange_.marks[i], tile.height, true);
            CountMarks(tile, exchange_.counts[i], l1, clean);
            cleanL1_.FreeTensor(clean);
        }
        tileL1_.FreeTensor(l1);
    }
    __aicore__ inline void CountMarks(const GradientTile& tile, const GlobalTensor<float>& to, const LocalTensor<T>& l1,
                                      const LocalTensor<T>& rows)
    {
        LocalTensor<float> sum = sum_.template AllocTensor<float>();
        AddToKeys(tile, sum, l1, rows, true);
        sum_.EnQue(sum);
        sum = sum_.template DeQue<float>();
        if (!tile.firstOfKeys) {
            SetAtomicAdd<float>();
        }
        Leave(to, sum, tile.width, depth_, depth_);
        SetAtomicNone();
        sum_.FreeTensor(sum);
    }

    // sums += tile^T @ rows. Columns of fractals of the tile are the rows of fractals of its transpose.
    __aicore__ inline void AddToKeys(const GradientTile& tile, const LocalTensor<float>& sums, const LocalTensor<T>& l1,
                                     const LocalTensor<T>& rows, bool start)
    {
        const int64_t height = Align(tile.height, FRACTAL), width = Align(tile.width, FRACTAL);
        LocalTensor<T> left = left_.template AllocTensor<T>();
        ToL0(left, l1, height, width, true);
        left_.EnQue(left);
        LocalTensor<T> right = right_.template AllocTensor<T>();
        ToL0(right, rows, height, depth_, true);
        right_.EnQue(right);
        left = left_.template DeQue<T>();
        right = right_.template DeQue<T>();
        Product(sums, left, right, width, tile.height, depth_, start);
        left_.FreeTensor(left);
        right_.FreeTensor(right);
    }

    // d_query += tile @ key, some columns at a time.
    __aicore__ inline void AddToQueries(const GradientTile& tile, const LocalTensor<T>& l1,
                                        const LocalTensor<T>& keyRows)
    {
        const int64_t height = Align(tile.height, FRACTAL), width = Align(tile.width, FRACTAL);
        LocalTensor<T> left = left_.template AllocTensor<T>();
        Pick(left, l1, height, width, 1, height / FRACTAL, false);
        left_.EnQue(left);
        left = left_.template DeQue<T>();
        const GlobalTensor<float> to = exchange_.QuerySums(tile.head.flat, tile.row);
        if (!tile.firstOfQueries) {
            SetAtomicAdd<float>();
        }
        for (int64_t column = 0; column < depth_; column += CHUNK) {
            const int64_t count = Min(CHUNK, depth_ - column);
            LocalTensor<T> right = right_.template AllocTensor<T>();
            Pick(right, keyRows[column * FRACTAL], width, count, depth_ / FRACTAL, 1, true);
            right_.EnQue(right);
            right = right_.template DeQue<T>();
            LocalTensor<float> sum = sum_.template AllocTensor<float>();
            Product(sum, left, right, height, tile.width, count, true);
            right_.FreeTensor(right);
            sum_.EnQue(sum);
            sum = sum_.template DeQue<float>();
            Leave(to[column], sum, tile.height, count, depth_);
            sum_.FreeTensor(sum);
        }
        SetAtomicNone();
        left_.FreeTensor(left);
    }
    // Rows of fractals for L0, of which the first lie `step` apart in L1 and those of a row `stride`.
    __aicore__ inline void Pick(const LocalTensor<T>& to, const LocalTensor<T>& from, int64_t rows, int64_t columns,
                                int64_t step, int64_t stride, bool transposed)
    {
        const int64_t down = rows / FRACTAL, across = columns / FRACTAL, fractal = FRACTAL * FRACTAL;
        if (stride == 1 && step == across) {
            ToL0(to, from, rows, columns, transposed);
            return;
        }
        LoadData2DParams p;
        p.repeatTimes = across;
        p.srcStride = stride;
        p.ifTranspose = transposed;
        for (int64_t i = 0; i < down; ++i) {
            LoadData(to[i * across * fractal], from[i * step * fractal], p);
        }
    }

    template <typename Q>
    __aicore__ inline void Store(const GradientTile& tile, Q& queue, LocalTensor<float>& sums,
                                 const GlobalTensor<float>& to)
    {
        queue.EnQue(sums);
        sums = queue.template DeQue<float>();
        Leave(to, sums, tile.width, depth_, depth_);
        queue.FreeTensor(sums);
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::A1, 1> queryL1_, dOutL1_, cleanL1_, tileL1_;
    TQue<TPosition::B1, 1> keyL1_, keyRowsL1_, valueL1_;
    TQue<TPosition::A2, 1> left_;
    TQue<TPosition::B2, 1> right_;
    TQue<TPosition::CO1, 1> sum_, keySum_, valueSum_;
    GlobalTensor<T> query_, key_, value_, dOut_;
    GradientExchange<T> exchange_;
    Operands ahead_;
    LocalTensor<float> keySums_, valueSums_;
    bool isolated_ = false;
    int64_t depth_ = 0, scored_ = 0, added_ = 0, stored_ = 0;
};

#endif  // GRADIENT_CUBE_H
