// SPDX-License-Identifier: Apache-2.0
// A vector core of a block of the gradient: of its half of the queries of a tile the weights and the gradients of the
// scores; of its half of the keys, and of its queries, what leaves the sums of the cube.
#ifndef GRADIENT_VECTOR_H
#define GRADIENT_VECTOR_H

#include "gradient_rows.h"

template <typename T>
class GradientVector {
public:
    __aicore__ inline GradientVector(TPipe* pipe, const FlashAttentionTilingData& tiling)
        : pipe_(pipe), t_(tiling), mask_(tiling), rowsOf_(tiling)
    {
    }

    __aicore__ inline void Init(const GradientTensors& of, GM_ADDR workspace)
    {
        dQuery_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dQuery));
        dKey_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dKey));
        dValue_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(of.dValue));
        dShift_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(of.dShift));
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
        pipe_->InitBuffer(lineBuffer_, columns_ * sizeof(float));
        pipe_->InitBuffer(scratch_, 3 * SLICE * columns_ * sizeof(int32_t));
        spare_ = spareBuffer_.Get<float>(), line_ = lineBuffer_.Get<float>();
        rowsOf_.Init(pipe_, of);
        mask_.Init(pipe_, of.mask, of.shift, of.drop, of.seedWords);
    }

    __aicore__ inline void Process(GradientWalk& walk, Task& task)
    {
        for (int64_t i = GetBlockIdx() / GetSubBlockNum(); i < t_.tasks; i += GetBlockNum()) {
            walk.Select(i);
            const LocalTensor<float> b = sumsIn_.template AllocTensor<float>();
            rowsOf_.Prepare(walk, exchange_, spare_, b);
            sumsIn_.FreeTensor(b);
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
            }
            if (pending) {
                StoreKeys(walk, last, stored);
            }
            ClearKeys(walk, stored, walk.keyBlocks);
            CrossCoreWaitFlag(QUERIES_READY);
            StoreQueries(walk);
        }
    }

private:
    using Rows = GradientRows<T>;
    static constexpr int32_t BUFFERS = 2, SLICE = AttentionMask<T>::ROWS;
    static constexpr float NEAR = 1.0f / (1 << 22);  // of a weight to 1 / sum: the key holds the maximum
    static constexpr float STEEP = 1e30f;            // what is above 0 becomes at least 1

    __aicore__ inline void Tile(const GradientTile& tile, const Task& task)
    {
        CrossCoreWaitFlag(TILE_READY);
        rows_ = Max(0, Min(half_, tile.height - start_));
        if (rows_ > 0) {
            const int64_t at = tiles_ % SLOTS * t_.queryBlock * columns_ + start_ * columns_;
            const LocalTensor<float> vectors = Load(vectorsIn_, exchange_.RowVectors(tile.head.flat, tile.row + start_),
                                                    GradientExchange<T>::ROW_VALUES * half_);
            const LocalTensor<float> scores = Load(scoresIn_, exchange_.scores[at], rows_ * columns_);
            const LocalTensor<float> products = Load(productsIn_, exchange_.products[at], rows_ * columns_);
            mask_.Select(tile.head);
            Weights(scores, vectors, tile, task);
            Store(exchange_.weights[at], mask_.Drops() ? Drop(scores, products, tile) : scores);
            Gradients(scores, products, vectors, tile, exchange_.gradients[at]);
            vectorsIn_.FreeTensor(vectors);
            scoresIn_.FreeTensor(scores);
            productsIn_.FreeTensor(products);
        }
        if (tile.lastOfHead) {
            StoreShiftSum(tile);
        }
        CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_DONE);
        ++tiles_;
    }
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
        Store(to, gradients);
        if (t_.shiftRows > 0) {
            gradientsOut_.EnQue(gradients);
            gradients = gradientsOut_.template DeQue<float>();
            StoreShift(gradients, tile);
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

    // d_real_shift: rows of a tile, or their sum, to which both vector cores add once.
    __aicore__ inline void StoreShift(const LocalTensor<float>& gradients, const GradientTile& tile)
    {
        const int64_t pitch = Align(t_.keys, FRACTAL);
        const uint32_t bytes = tile.width * sizeof(float);
        const uint32_t gap = (columns_ - Align(tile.width, FLOATS)) / FLOATS;
        if (t_.shiftRows > 1) {
            const int64_t line = tile.head.flat * t_.queries + tile.row + start_;
            const DataCopyExtParams rows(rows_, bytes, gap, pitch * sizeof(float) - bytes, 0);
            DataCopyPad(dShift_[line * pitch + tile.key], gradients, rows);
            return;
        }
        for (int64_t left = rows_; left > 1; left -= left / 2) {
            const int64_t half = left / 2;
            Add(gradients, gradients, gradients[(left - half) * columns_], half * columns_);
        }
        if (summed_) {
            Add(line_, line_, gradients, columns_);
        } else {
            Adds(line_, gradients, 0.0f, columns_);
        }
        summed_ = true;
    }
    __aicore__ inline void StoreShiftSum(const GradientTile& tile)
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
        DataCopyPad(dShift_[tile.head.flat * Align(t_.keys, FRACTAL) + tile.key], line_, line);
        SetAtomicNone();
        const TEventID back = pipe_->FetchEventID(HardEvent::MTE3_V);
        SetFlag<HardEvent::MTE3_V>(back);
        WaitFlag<HardEvent::MTE3_V>(back);
    }

    // d_key and d_value of this core's half of a block of keys; zeros for those before it that no query sees.
    __aicore__ inline void StoreKeys(const GradientWalk& walk, const GradientTile& tile, int64_t& stored)
    {
        ClearKeys(walk, stored, tile.block);
        stored = tile.block + 1;
        CrossCoreWaitFlag(KEYS_READY);
        const int64_t rows = Max(0, Min(keyHalf_, tile.width - keyStart_));
        if (rows > 0) {
            const int64_t from = keys_ % SLOTS * columns_ * depth_ + keyStart_ * depth_;
            const int64_t to = (walk.keyHead * t_.keys + tile.key + keyStart_) * depth_;
            StoreSum(dValue_[to], exchange_.valueSums[from], rows * depth_, 1.0f);
            StoreSum(dKey_[to], exchange_.keySums[from], rows * depth_, t_.scale);
        }
        ++keys_;
    }
    __aicore__ inline void StoreSum(const GlobalTensor<T>& to, const GlobalTensor<float>& from, int64_t count,
                                    float factor)
    {
        const LocalTensor<float> sums = Load(sumsIn_, from, count);
        if (factor != 1.0f) {
            Muls(sums, sums, factor, count);
        }
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
                    StoreSum(to, exchange_.QuerySums(head, row), rows * depth_, t_.scale);
                }
            }
        }
    }

    TPipe* pipe_;
    const FlashAttentionTilingData& t_;
    TQue<TPosition::VECIN, 1> scoresIn_, productsIn_, vectorsIn_, sumsIn_;
    TQue<TPosition::VECOUT, 1> castOut_, gradientsOut_, resultOut_;
    TBuf<> spareBuffer_, lineBuffer_, scratch_;
    LocalTensor<float> spare_, line_;
    GlobalTensor<T> dQuery_, dKey_, dValue_;
    GlobalTensor<float> dShift_;
    GradientExchange<T> exchange_;
    AttentionMask<T> mask_;
    GradientRows<T> rowsOf_;
    bool summed_ = false;
    int64_t half_ = 0, keyHalf_ = 0, columns_ = 0, depth_ = 0, start_ = 0, keyStart_ = 0;
    int64_t rows_ = 0, tiles_ = 0, keys_ = 0;
};

#endif  // GRADIENT_VECTOR_H
