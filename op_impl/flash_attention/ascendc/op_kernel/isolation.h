// SPDX-License-Identifier: Apache-2.0
// Rows keep to what they see. A product multiplies what is hidden by 0, and 0 times NaN is NaN. Finite operands need
// nothing against that: the vector cores watch their results, and tasks whose results are not finite are done again at
// the end, isolated: operands of sums over keys or queries take 0 for what is not finite, and what is seen of it comes
// back as products of visibility (0 or 1) with marks (1 where an operand is not finite), driven to infinity.
#ifndef ISOLATION_H
#define ISOLATION_H

#include "attention_mask.h"

constexpr float SIGNS[2] = {1.0f, -1.0f};  // of the two kinds of marks; NaN has both

// Whether float32 numbers are finite: 0 times each is added up, which is 0 only if all are.
class FiniteWatch {
public:
    __aicore__ inline void Init(TPipe* pipe)
    {
        pipe->InitBuffer(lanes_, LANES * sizeof(float));
        pipe->InitBuffer(out_, 1, FLOATS * sizeof(float));
    }
    __aicore__ inline void Start() { Duplicate(lanes_.Get<float>(), 0.0f, LANES); }
    __aicore__ inline void Look(const LocalTensor<float>& tile, int64_t count)
    {
        const int64_t whole = count / LANES * LANES;
        if (whole > 0) {
            Axpy(lanes_.Get<float>(), tile, 0.0f, LANES, whole / LANES, {1, 1, 0, FLOATS});
        }
        if (count > whole) {
            Axpy(lanes_.Get<float>(), tile[whole], 0.0f, count - whole, 1, {1, 1, 0, FLOATS});
        }
    }
    // Rows of `width` columns of a tile whose rows lie `pitch` apart.
    __aicore__ inline void LookAtRows(const LocalTensor<float>& tile, int64_t rows, int64_t width, int64_t pitch)
    {
        for (int64_t c = 0; c < width; c += LANES) {
            const uint8_t blocks = pitch / FLOATS;
            Axpy(lanes_.Get<float>(), tile[c], 0.0f, Min(LANES, width - c), rows, {1, 1, 0, blocks});
        }
    }
    __aicore__ inline void Report(const GlobalTensor<float>& to)
    {
        LocalTensor<float> out = out_.AllocTensor<float>();
        Duplicate(out, 0.0f, FLOATS);
        WholeReduceSum(out, lanes_.Get<float>(), LANES, 1, 1, 1, FLOATS);
        out_.EnQue(out);
        out = out_.DeQue<float>();
        DataCopy(to, out, FLOATS);
        out_.FreeTensor(out);
    }

private:
    TBuf<> lanes_;
    TQue<TPosition::VECOUT, 1> out_;
};

// 1 where a tile, made of zeros by HideUnseen, is seen, else 0.
__aicore__ inline void ToFlags(const LocalTensor<float>& tile, int64_t count)
{
    Maxs(tile, tile, -1.0f, count);
    Adds(tile, tile, 1.0f, count);
}

// Counts become infinity of a sign, 0 stays; they are added to sums.
__aicore__ inline void AddInfinities(const LocalTensor<float>& sums, const LocalTensor<float>& counts, float sign,
                                     int64_t count)
{
    constexpr float BIG = 1e38f;  // twice a factor of a count: infinity
    for (float factor : {BIG, BIG, sign}) {
        Muls(counts, counts, factor, count);
    }
    Add(sums, sums, counts, count);
}

#endif  // ISOLATION_H
