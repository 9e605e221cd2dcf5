// SPDX-License-Identifier: Apache-2.0
// A vector core of a block of the gradient: of its half of the queries of a tile the weights and the gradients of the
// scores; of its half of the keys, and of its queries, what leaves the sums of the cube.
#ifndef GRADIENT_VECTOR_H
#define GRADIENT_VECTOR_H

#include "gradient_rows.h"
#include "gradient_shift.h"

template <typename T>
class GradientVector {
public:
    __aicore__ inline GradientVector(TPipe* pipe, const FlashAttentionTilingData& tiling)
        : pipe_(pipe), t_(tiling), mask_(tiling), rowsOf_(tiling), shift_(tiling)
    {
    }

    __aicore__ inline void Init(const GradientTensors& of, GM_ADDR workspace)
    {
        query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.query));
        key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.key));
        dOut_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dOut));
        dQuery_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dQuery));
        dKey_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dKey));
        dValue_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dValue));
        exchange_.Init(workspace, t_, GetBlockIdx() / GetSubBlockNum(), GetBlockNum());
        half_ = t_.queryBlock / 2, keyHalf_ = t_.keyBlock / 2;
        columns_ = t_.keyBlock, depth_ = t_.headDim;
        start_ = GetSubBlockIdx() * half_, keyStart_ = GetSubBlockIdx() * keyHalf_;
        const uint32_t tile = half_ * columns_, rows = half_ * depth_, keys = keyHalf_ * depth_;
        const uint32_t sums = rows > keys ? rows : keys;
        pipe_->InitBuffer(scoresIn_, BUFFERS, tile * sizeof(float));
        pipe_->InitBuffer(productsIn_, BUFFERS, tile * sizeof(float));
        pipe_->InitBuffer(vectorsIn_, BUFFERS, GradientExchange<T>::ROW_VALUES * half_ * sizeof(float));
        pipe_->InitBuffer(sumsIn_, 1, sums * sizeof(float));
        pipe_->InitBuffer(castOut_, BUFFERS, tile * sizeof(T));
        pipe_->InitBuffer(gradientsOut_, 1, tile * sizeof(float));
        pipe_->InitBuffer(resultOut_, 1, sums * sizeof(T));
        pipe_->InitBuffer(spareBuffer_, (tile > rows ? tile : rows) * sizeof(float));
        pipe_->InitBuffer(scratch_, 3 * SLICE * columns_ * sizeof(int32_t));
        spare_ = spareBuffer_.Get<float>();
        pipe_->InitBuffer(bits_, tile / 8);
        watch_.Init(pipe_);
        shift_.Init(pipe_, of.dShift);
        rowsOf_.Init(pipe_, of);
        mask_.Init(pipe_, of.mask, of.shift, of.drop, of.seedWords);
    }

    __aicore__ inline void Process(GradientWalk& walk, Task& task)
    {
        Pass(walk, task);
        CrossCoreSetFlag<2, PIPE_MTE3>(JUDGED);
        CrossCoreWaitFlag(VERDICTS_KNOWN);
        exchange_.verdicts.Fetch();
        isolated_ = true;
        Pass(walk, task);
    }

private:
    using Rows = GradientRows<T>;
    static constexpr int32_t BUFFERS = 2, SLICE = AttentionMask<T>::ROWS;
    static constexpr float NEAR = 1.0f / (1 << 22);  // of a weight to 1 / sum: the key holds the maximum
    static constexpr float STEEP = 1e30f;            // what is above 0 becomes at least 1

    __aicore__ inline void Pass(GradientWalk& walk, Task& task)
    {
        for (int64_t i = GetBlockIdx() / GetSubBlockNum(); i < t_.tasks; i += GetBlockNum()) {
            if (isolated_ && exchange_.verdicts.Finite(i)) {
                continue;
            }
            walk.Select(i);
            const LocalTensor<float> b = sumsIn_.template AllocTensor<float>();
            rowsOf_.Prepare(walk, exchange_, spare_, b);
            sumsIn_.FreeTensor(b);
            watch_.Start();
            if (isolated_ && t_.shiftRows == 1) {
                shift_.Clear(walk, gradientsOut_);
            }
            int64_t stored = 0;  // blocks of keys
            GradientTile last;
            bool pending = false;
            while (walk.Next()) {
                Tile(walk.now, task);
                if (pending) {
                    StoreKeys(walk, last, stored);
                }
                last = walk.now;
                pending = last.lastOfKeys;
                if (pending && isolated_) {
                    StoreKeys(walk, last, stored);
                    pending = false;
                }
            }
            if (pending) {
                StoreKeys(walk, last, stored);
            }
            ClearKeys(walk, stored, walk.keyBlocks);
            CrossCoreWaitFlag(QUERIES_READY);
            StoreQueries(walk);
            if (!isolated_) {
                watch_.Report(exchange_.verdicts.Of(i, GetSubBlockIdx()));
            }
        }
    }

    __aicore__ inline void Tile(const GradientTile& tile, const Task& task)
    {
        CrossCoreWaitFlag(TILE_READY);
        rows_ = Max(0, Min(half_, tile.height - start_));
        if (rows_ > 0) {
            const int64_t at = Slot(tiles_) * t_.queryBlock * columns_ + start_ * columns_;
            const LocalTensor<float> vectors = Load(vectorsIn_, exchange_.RowVectors(tile.head.flat, tile.row + start_),
                                                    GradientExchange<T>::ROW_VALUES * half_);
            const LocalTensor<float> scores = Load(scoresIn_, exchange_.scores[at], rows_ * columns_);
            const LocalTensor<float> products = Load(productsIn_, exchange_.products[at], rows_ * columns_);
            mask_.Select(tile.head);
            if (isolated_) {
                See(tile, task, exchange_.visible[start_ * columns_]);
            }
            Weights(scores, vectors, tile, task);
            Store(exchange_.weights[at], mask_.Drops() ? Drop(scores, products, tile) : scores);
            Gradients(scores, products, vectors, tile, exchange_.gradients[at]);
            vectorsIn_.FreeTensor(vectors);
            scoresIn_.FreeTensor(scores);
            productsIn_.FreeTensor(products);
        }
        if (tile.lastOfHead) {
            shift_.StoreSum(tile);
        }
        if (isolated_) {
            Isolate(tile);
        }
        CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_DONE);
        ++tiles_;
    }
    __aicore__ inline int64_t Slot(int64_t count) const { return isolated_ ? 0 : count % SLOTS; }

    template <typename Q>
    __aicore__ inline LocalTensor<float> Load(Q& queue, const GlobalTensor<float>& from, int64_t count)
    {
        LocalTensor<float> in = queue.template AllocTensor<float>();
        DataCopy(in, from, count);
        queue.EnQue(in);
        return queue.template DeQue<float>();
    }
    __aicore__ inline void Store(const GlobalTensor<T>& to, const LocalTensor<float>& tile)
    {
        LocalTensor<T> out = castOut_.template AllocTensor<T>();
        Cast(out, tile, RoundMode::CAST_RINT, rows_ * columns_);
        castOut_.EnQue(out);
        out = castOut_.template DeQue<T>();
        DataCopy(to, out, rows_ * columns_);
        castOut_.FreeTensor(out);
    }

    // scores become exp(scale * scores + bias - maximum) / sum, 0 where they are not seen.
    __aicore__ inline void Weights(const LocalTensor<float>& scores, const LocalTensor<float>& vectors,
                                   const GradientTile& tile, const Task& task)
    {
        const int32_t count = rows_ * columns_;
        Muls(scores, scores, t_.scale, count);
        mask_.Hide(scores, task, tile.head, tile.row + start_, rows_, tile.key);
        SubRows(scores, vectors[Rows::MAXIMUM * half_ * FLOATS]);
        Exp(scores, scores, count);
        MulRows(scores, vectors[Rows::INVERSE * half_ * FLOATS]);
        HideIsolated(scores);
    }

    // The bits of what is seen of a tile, and 1 and 0 for the cube. `spare_` is used up.
    __aicore__ inline void See(const GradientTile& tile, const Task& task, const GlobalTensor<T>& to)
    {
        const int32_t count = half_ * columns_;
        Duplicate(spare_, 0.0f, count);
        mask_.HideUnseen(spare_, task, tile.head, tile.row + start_, rows_, tile.key);
        ToFlags(spare_, count);
        CompareScalar(bits_.Get<uint8_t>(), spare_, 0.5f, CMPMODE::GT, count);
        Store(to, spare_);
    }
    // 0 where a tile is not seen, whatever stands there.
    __aicore__ inline void HideIsolated(const LocalTensor<float>& tile)
    {
        if (isolated_) {
            const LocalTensor<uint8_t> seen = bits_.Get<uint8_t>();
            Select(tile, seen, tile, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, rows_ * columns_);
        }
    }
    // What the cube takes for operands that are not finite: of this core's rows and half of the keys.
    __aicore__ inline void Isolate(const GradientTile& tile)
    {
        const int64_t rows = rows_ * depth_;
        const int64_t at = (tile.head.flat * t_.queries + tile.row + start_) * depth_;
        const int64_t to = start_ * depth_;
        const LocalTensor<float> scratch = scratch_.Get<float>();
        mask_.Sift(exchange_.cleanQuery[to], query_[at], rows, 0.0f, scratch, castOut_);
        mask_.Sift(exchange_.cleanDOut[to], dOut_[at], rows, 0.0f, scratch, castOut_);
        for (int32_t i = 0; i < 2; ++i) {
            mask_.Sift(exchange_.marks[i][to], dOut_[at], rows, SIGNS[i], scratch, castOut_);
        }
        const int64_t keys = Max(0, Min(keyHalf_, tile.width - keyStart_)) * depth_;
        const int64_t key = (tile.head.key * t_.keys + tile.key + keyStart_) * depth_;
        mask_.Sift(exchange_.cleanKey[keyStart_ * depth_], key_[key], keys, 0.0f, scratch,
                   castOut_);
    }
    // x -= values and x *= values, of which each row has a block.
    __aicore__ inline void SubRows(const LocalTensor<float>& x, const LocalTensor<float>& values)
    {
        const uint8_t pitch = columns_ / FLOATS;
        for (int64_t c = 0; c < columns_; c += LANES) {
            Sub(x[c], x[c], values, Min(LANES, columns_ - c), rows_, {1, 1, 0, pitch, pitch, 1});
        }
    }
    __aicore__ inline void MulRows(const LocalTensor<float>& x, const LocalTensor<float>& values)
    {
        const uint8_t pitch = columns_ / FLOATS;
        for (int64_t c = 0; c < columns_; c += LANES) {
            Mul(x[c], x[c], values, Min(LANES, columns_ - c), rows_, {1, 1, 0, pitch, pitch, 1});
        }
    }

    // The weights after dropout, in `spare_`; products get the same factors.
    __aicore__ inline LocalTensor<float> Drop(const LocalTensor<float>& weights, const LocalTensor<float>& products,
                                              const GradientTile& tile)
    {
        for (int64_t r = 0; r < rows_; r += SLICE) {
            const int64_t at = r * columns_, count = Min(SLICE, rows_ - r) * columns_;
            const LocalTensor<float> keep =
                mask_.Keep(scratch_.Get<int32_t>(), tile.head, tile.row + start_ + r, rows_ - r, tile.key);
            Muls(keep, keep, t_.keepScale, count);
            Mul(spare_[at], weights[at], keep, count);
            Mul(products[at], products[at], keep, count);
        }
        return spare_;
    }

    // weights * (products - delta), what the key of the maximum gets beside included.
    __aicore__ inline void Gradients(const LocalTensor<float>& weights, const LocalTensor<float>& products,
                                     const LocalTensor<float>& vectors, const GradientTile& tile,
                                     const GlobalTensor<T>& to)
    {
        SubRows(products, vectors[Rows::DELTA * half_ * FLOATS]);
        if (rowsOf_.peaked) {
            AddPeaks(weights, products, vectors);
        }
        LocalTensor<float> gradients = gradientsOut_.template AllocTensor<float>();
        Mul(gradients, weights, products, rows_ * columns_);
        HideIsolated(gradients);
        Store(to, gradients);
        if (t_.shiftRows > 0) {
            gradientsOut_.EnQue(gradients);
            gradients = gradientsOut_.template DeQue<float>();
            watch_.LookAtRows(gradients, rows_, tile.width, columns_);
            shift_.Store(gradients, tile, rows_);
        }
        gradientsOut_.FreeTensor(gradients);
    }
    __aicore__ inline void AddPeaks(const LocalTensor<float>& weights, const LocalTensor<float>& products,
                                    const LocalTensor<float>& vectors)
    {
        const int32_t count = rows_ * columns_;
        const LocalTensor<float> inverse = vectors[Rows::INVERSE * half_ * FLOATS];
        Muls(inverse, inverse, 1.0f - NEAR, rows_ * FLOATS);
        Adds(spare_, weights, 0.0f, count);
        SubRows(spare_, inverse);
        Muls(spare_, spare_, STEEP, count);
        Maxs(spare_, spare_, 0.0f, count);
        Mins(spare_, spare_, 1.0f, count);
        MulRows(spare_, vectors[Rows::PEAK * half_ * FLOATS]);
        Add(products, products, spare_, count);
    }

    // d_key and d_value of this core's half of a block of keys; zeros for those before it that no query sees.
    __aicore__ inline void StoreKeys(const GradientWalk& walk, const GradientTile& tile, int64_t& stored)
    {
        ClearKeys(walk, stored, tile.block);
        stored = tile.block + 1;
        CrossCoreWaitFlag(KEYS_READY);
        const int64_t rows = Max(0, Min(keyHalf_, tile.width - keyStart_));
        if (rows > 0) {
            const int64_t from = Slot(keys_) * columns_ * depth_ + keyStart_ * depth_;
            const int64_t to = (walk.keyHead * t_.keys + tile.key + keyStart_) * depth_;
            LocalTensor<float> sums = Load(sumsIn_, exchange_.valueSums[from], rows * depth_);
            if (isolated_) {
                AddCounts(sums, from, rows * depth_);
            }
            StoreSum(dValue_[to], sums, rows * depth_);
            sums = Load(sumsIn_, exchange_.keySums[from], rows * depth_);
            Muls(sums, sums, t_.scale, rows * depth_);
            StoreSum(dKey_[to], sums, rows * depth_);
        }
        ++keys_;
    }
    // What keys are seen with of d_attention_out that is not finite.
    __aicore__ inline void AddCounts(const LocalTensor<float>& sums, int64_t from, int64_t count)
    {
        const int64_t piece = half_ * columns_;
        for (int64_t at = 0; at < count; at += piece) {
            for (int32_t i = 0; i < 2; ++i) {
                const int64_t n = Min(piece, count - at);
                const LocalTensor<float> counts = Load(productsIn_, exchange_.counts[i][from + at], n);
                AddInfinities(sums[at], counts, SIGNS[i], n);
                productsIn_.FreeTensor(counts);
            }
        }
    }
    __aicore__ inline void StoreSum(const GlobalTensor<T>& to, const LocalTensor<float>& sums, int64_t count)
    {
        watch_.Look(sums, count);
        LocalTensor<T> out = resultOut_.template AllocTensor<T>();
        Cast(out, sums, RoundMode::CAST_RINT, count);
        sumsIn_.FreeTensor(sums);
        resultOut_.EnQue(out);
        out = resultOut_.template DeQue<T>();
        DataCopy(to, out, count);
        resultOut_.FreeTensor(out);
    }
    __aicore__ inline void ClearKeys(const GradientWalk& walk, int64_t from, int64_t to)
    {
        for (int64_t block = from; block < to; ++block) {
            const int64_t key = block * columns_ + keyStart_, rows = Max(0, Min(keyHalf_, t_.keys - key));
            Clear(dValue_[(walk.keyHead * t_.keys + key) * depth_], rows * depth_);
            Clear(dKey_[(walk.keyHead * t_.keys + key) * depth_], rows * depth_);
        }
    }
    __aicore__ inline void Clear(const GlobalTensor<T>& to, int64_t count)
    {
        if (count == 0) {
            return;
        }
        LocalTensor<T> out = resultOut_.template AllocTensor<T>();
        Duplicate(out.template ReinterpretCast<int16_t>(), int16_t(0), count);
        resultOut_.EnQue(out);
        out = resultOut_.template DeQue<T>();
        DataCopy(to, out, count);
        resultOut_.FreeTensor(out);
    }
    __aicore__ inline void StoreQueries(GradientWalk& walk)
    {
        for (int64_t head = walk.firstHead; head < walk.firstHead + walk.group; ++head) {
            for (int64_t block = 0; block < walk.queryBlocks; ++block) {
                const int64_t row = block * t_.queryBlock + start_, rows = Max(0, Min(half_, t_.queries - row));
                const GlobalTensor<T> to = dQuery_[(head * t_.queries + row) * depth_];
                if (!walk.Sees(head, block)) {
                    Clear(to, rows * depth_);
                } else if (rows > 0) {
                    const LocalTensor<float> sums = Load(sumsIn_, exchange_.QuerySums(head, row), rows * depth_);
                    Muls(sums, sums, t_.scale, rows * depth_);
                    StoreSum(to, sums, rows * depth_);
                }
            }
        }
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::VECIN, 1> scoresIn_, productsIn_, vectorsIn_, sumsIn_;
    TQue<TPosition::VECOUT, 1> castOut_, gradientsOut_, resultOut_;
    TBuf<> spareBuffer_, scratch_, bits_;
    LocalTensor<float> spare_;
    GlobalTensor<T> query_, key_, dOut_, dQuery_, dKey_, dValue_;
    GradientExchange<T> exchange_;
    AttentionMask<T> mask_;
    GradientRows<T> rowsOf_;
    GradientShift shift_;
    FiniteWatch watch_;
    bool isolated_ = false;
    int64_t half_ = 0, keyHalf_ = 0, columns_ = 0, depth_ = 0, start_ = 0, keyStart_ = 0;
    int64_t rows_ = 0, tiles_ = 0, keys_ = 0;
};

#endif  // GRADIENT_VECTOR_H
