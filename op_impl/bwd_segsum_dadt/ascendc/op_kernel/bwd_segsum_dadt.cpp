// SPDX-License-Identifier: Apache-2.0
// ddt[c, k] = ddt_out[c, k] + sum over j < k <= i of dSSdA[c, j, i] * exp(SSdA[c, i, j]).
//
// A matrix is walked from its last row up, in panels. With z[i, j] the product, the running sum over the rows i >= k,
// cut to its lanes j < k, is one row for each k, whose sum is the result: no difference of large sums is taken, and
// what is not below the diagonal is never added.
#include <type_traits>

#include "kernel_operator.h"

using namespace AscendC;

namespace {
constexpr int32_t BUFFERS = 2;
constexpr uint32_t BLOCK = 32;
constexpr uint32_t TURN = 16;   // rows that one transpose takes
constexpr uint32_t LANES = 64;  // floats of one repeat
constexpr uint32_t FLOATS = BLOCK / sizeof(float);

__aicore__ inline uint32_t Align(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

template <typename M, typename V>
class SegsumBackward {
public:
    __aicore__ inline SegsumBackward(TPipe* pipe, const BwdSegsumDadtTilingData& tiling) : pipe_(pipe), t_(tiling) {}

    __aicore__ inline void Init(GM_ADDR dSSdA, GM_ADDR SSdA, GM_ADDR ddtOut, GM_ADDR lengths, GM_ADDR ddt)
    {
        const uint64_t matrices = static_cast<uint64_t>(t_.chunks) * t_.chunk * t_.chunk;
        const uint64_t steps = static_cast<uint64_t>(t_.chunks) * t_.chunk;
        dGm_.SetGlobalBuffer(reinterpret_cast<__gm__ M*>(dSSdA), matrices);
        sGm_.SetGlobalBuffer(reinterpret_cast<__gm__ M*>(SSdA), matrices);
        addGm_.SetGlobalBuffer(reinterpret_cast<__gm__ V*>(ddtOut), steps);
        outGm_.SetGlobalBuffer(reinterpret_cast<__gm__ V*>(ddt), steps);

        const uint32_t area = t_.panel * t_.pitch;
        pipe_->InitBuffer(dQueue_, BUFFERS, area * sizeof(M));
        pipe_->InitBuffer(sQueue_, BUFFERS, area * sizeof(M));
        pipe_->InitBuffer(addQueue_, BUFFERS, t_.pitch * sizeof(V));
        pipe_->InitBuffer(outQueue_, BUFFERS, t_.pitch * sizeof(V));
        pipe_->InitBuffer(carry_, t_.pitch * sizeof(float));
        pipe_->InitBuffer(sums_, t_.pitch * sizeof(float));
        pipe_->InitBuffer(wide_, t_.pitch * sizeof(float));
        if (!t_.queryMajor) {
            pipe_->InitBuffer(turned_, area * sizeof(M));
        }
        if constexpr (!std::is_same<M, float>::value) {
            pipe_->InitBuffer(dWide_, area * sizeof(float));
            pipe_->InitBuffer(sWide_, area * sizeof(float));
        }
        if (t_.hasLengths) {
            LoadLengths(lengths);
        }
    }

    __aicore__ inline void Process()
    {
        const uint32_t core = GetBlockIdx();
        const uint32_t before = core < t_.longCores ? core : t_.longCores;
        const uint32_t first = core * t_.chunksOfCore + before;
        const uint32_t count = t_.chunksOfCore + (core < t_.longCores ? 1 : 0);
        for (uint32_t chunk = first; chunk < first + count; chunk++) {
            Chunk(chunk);
        }
    }

private:
    __aicore__ inline void LoadLengths(GM_ADDR lengths)
    {
        lengthsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lengths), t_.slots);
        pipe_->InitBuffer(lengths_, Align(t_.slots * sizeof(int32_t), BLOCK));
        DataCopyExtParams copy{1, static_cast<uint32_t>(t_.slots * sizeof(int32_t)), 0, 0, 0};
        DataCopyPad(lengths_.Get<int32_t>(), lengthsGm_, copy, DataCopyPadExtParams<int32_t>{false, 0, 0, 0});
        const event_t loaded = static_cast<event_t>(pipe_->FetchEventID(HardEvent::MTE2_S));
        SetFlag<HardEvent::MTE2_S>(loaded);
        WaitFlag<HardEvent::MTE2_S>(loaded);
    }

    __aicore__ inline uint32_t StepsOf(uint32_t chunk)
    {
        if (!t_.hasLengths) {
            return t_.chunk;
        }
        const int32_t steps = lengths_.Get<int32_t>().GetValue(chunk % t_.slots);
        return steps < 0 ? 0 : (static_cast<uint32_t>(steps) < t_.chunk ? steps : t_.chunk);
    }

    __aicore__ inline void Chunk(uint32_t chunk)
    {
        const uint32_t steps = StepsOf(chunk);
        LocalTensor<float> sums = sums_.Get<float>();
        LocalTensor<float> carry = carry_.Get<float>();
        Duplicate(carry, 0.0f, t_.pitch);
        Duplicate(sums, 0.0f, t_.pitch);
        const uint32_t panels = (steps + t_.panel - 1) / t_.panel;
        for (uint32_t panel = panels; panel > 0; panel--) {
            const uint32_t row = (panel - 1) * t_.panel;
            const uint32_t rows = steps - row < t_.panel ? steps - row : t_.panel;
            CopyIn(chunk, row, rows);
            Compute(row, rows);
        }
        Finish(chunk);
    }

    // Rows `row`.. of exp's argument, and the same part of its factor: rows, or, where keys are its rows, columns.
    __aicore__ inline void CopyIn(uint32_t chunk, uint32_t row, uint32_t rows)
    {
        const uint64_t matrix = static_cast<uint64_t>(chunk) * t_.chunk * t_.chunk;
        LocalTensor<M> s = sQueue_.template AllocTensor<M>();
        LocalTensor<M> d = dQueue_.template AllocTensor<M>();
        Rectangle(s, sGm_[matrix + row * t_.chunk], rows, row + rows, t_.pitch);
        if (t_.queryMajor) {
            Rectangle(d, dGm_[matrix + row * t_.chunk], rows, row + rows, t_.pitch);
        } else {
            Rectangle(d, dGm_[matrix + row], row + rows, rows, t_.panel);
        }
        sQueue_.EnQue(s);
        dQueue_.EnQue(d);
    }

    __aicore__ inline void Rectangle(const LocalTensor<M>& to, const GlobalTensor<M>& from, uint32_t rows,
                                     uint32_t columns, uint32_t pitch)
    {
        const uint32_t bytes = columns * sizeof(M);
        const uint32_t gap = (pitch * sizeof(M) - Align(bytes, BLOCK)) / BLOCK;
        const uint32_t skip = (t_.chunk - columns) * sizeof(M);
        DataCopyExtParams copy{static_cast<uint16_t>(rows), bytes, skip, gap, 0};
        DataCopyPad(to, from, copy, DataCopyPadExtParams<M>{false, 0, 0, 0});
    }

    __aicore__ inline void Compute(uint32_t row, uint32_t rows)
    {
        LocalTensor<M> s = sQueue_.template DeQue<M>();
        LocalTensor<M> d = dQueue_.template DeQue<M>();
        const LocalTensor<M> factor = t_.queryMajor ? d : Turn(d, row + rows);
        const uint32_t area = rows * t_.pitch;
        if constexpr (std::is_same<M, float>::value) {
            Exp(s, s, area);
            Mul(s, s, factor, area);
            Sum(s, factor, row, rows);
        } else {
            LocalTensor<float> sWide = sWide_.Get<float>();
            LocalTensor<float> dWide = dWide_.Get<float>();
            Cast(sWide, s, RoundMode::CAST_NONE, area);
            Cast(dWide, factor, RoundMode::CAST_NONE, area);
            Exp(sWide, sWide, area);
            Mul(sWide, sWide, dWide, area);
            Sum(sWide, dWide, row, rows);
        }
        sQueue_.FreeTensor(s);
        dQueue_.FreeTensor(d);
    }

    // The panel with queries as rows, of one with the first `keys` keys as rows.
    __aicore__ inline LocalTensor<M> Turn(const LocalTensor<M>& d, uint32_t keys)
    {
        LocalTensor<M> turned = turned_.Get<M>();
        constexpr uint32_t columns = BLOCK / sizeof(M);  // of one repeat
        const uint32_t repeats = t_.panel / columns;
        TransDataTo5HDParams params;
        params.repeatTimes = repeats;
        params.srcRepStride = repeats == 1 ? 0 : 1;
        params.dstRepStride = repeats == 1 ? 0 : columns * t_.pitch * sizeof(M) / BLOCK;
        for (uint32_t key = 0; key < keys; key += TURN) {
            LocalTensor<half> from[TURN];
            LocalTensor<half> to[TURN];
            LocalTensor<float> fromWide[TURN];
            LocalTensor<float> toWide[TURN];
            for (uint32_t i = 0; i < TURN; i++) {
                if constexpr (std::is_same<M, float>::value) {
                    fromWide[i] = d[(key + i) * t_.panel];
                    toWide[i] = turned[i / 2 * t_.pitch + key + i % 2 * FLOATS];
                } else {
                    from[i] = d[(key + i) * t_.panel].template ReinterpretCast<half>();
                    to[i] = turned[i * t_.pitch + key].template ReinterpretCast<half>();
                }
            }
            if constexpr (std::is_same<M, float>::value) {
                TransDataTo5HD<float>(toWide, fromWide, params);
            } else {
                TransDataTo5HD<half>(to, from, params);
            }
        }
        return turned;
    }

    // Sums of the panel's rows, from products z; `rest` is memory of the same size that is free.
    __aicore__ inline void Sum(const LocalTensor<float>& z, const LocalTensor<float>& rest, uint32_t row, uint32_t rows)
    {
        LocalTensor<float> carry = carry_.Get<float>();
        Duplicate(rest, 0.0f, rows * t_.pitch);
        for (uint32_t r = rows; r > 0; r--) {
            const uint32_t at = (r - 1) * t_.pitch;
            Add(rest[at], z[at], r == rows ? carry : rest[at + t_.pitch], row + r - 1);
        }
        Adds(carry, rest, 0.0f, t_.pitch);
        const uint8_t step = t_.pitch / FLOATS;
        for (uint32_t lane = LANES; lane < t_.pitch; lane += LANES) {
            const uint64_t lanes = t_.pitch - lane < LANES ? t_.pitch - lane : LANES;
            Add(rest, rest, rest[lane], lanes, static_cast<uint8_t>(rows), {1, 1, 1, step, step, step});
        }
        const int32_t lanes = t_.pitch < LANES ? t_.pitch : LANES;
        WholeReduceSum<float>(sums_.Get<float>()[row], rest, lanes, static_cast<int32_t>(rows), 1, 1, step);
    }

    __aicore__ inline void Finish(uint32_t chunk)
    {
        const uint64_t at = static_cast<uint64_t>(chunk) * t_.chunk;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(t_.chunk * sizeof(V)), 0, 0, 0};
        LocalTensor<V> add = addQueue_.template AllocTensor<V>();
        DataCopyPad(add, addGm_[at], copy, DataCopyPadExtParams<V>{false, 0, 0, 0});
        addQueue_.EnQue(add);
        add = addQueue_.template DeQue<V>();
        LocalTensor<V> out = outQueue_.template AllocTensor<V>();
        LocalTensor<float> sums = sums_.Get<float>();
        if constexpr (std::is_same<V, float>::value) {
            Add(out, sums, add, t_.chunk);
        } else {
            LocalTensor<float> wide = wide_.Get<float>();
            Cast(wide, add, RoundMode::CAST_NONE, t_.chunk);
            Add(wide, sums, wide, t_.chunk);
            Cast(out, wide, RoundMode::CAST_RINT, t_.chunk);
        }
        addQueue_.FreeTensor(add);
        outQueue_.EnQue(out);
        out = outQueue_.template DeQue<V>();
        DataCopyPad(outGm_[at], out, copy);
        outQueue_.FreeTensor(out);
    }

    TPipe* pipe_;
    BwdSegsumDadtTilingData t_;
    GlobalTensor<M> dGm_, sGm_;
    GlobalTensor<V> addGm_, outGm_;
    GlobalTensor<int32_t> lengthsGm_;
    TQue<TPosition::VECIN, BUFFERS> dQueue_, sQueue_, addQueue_;
    TQue<TPosition::VECOUT, BUFFERS> outQueue_;
    TBuf<TPosition::VECCALC> carry_, sums_, wide_, turned_, dWide_, sWide_, lengths_;
};
}  // namespace

extern "C" __global__ __aicore__ void bwd_segsum_dadt(GM_ADDR dSSdA, GM_ADDR SSdA, GM_ADDR ddt_out, GM_ADDR lengths,
                                                      GM_ADDR ddt, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    TPipe pipe;
    SegsumBackward<DTYPE_DSSDA, DTYPE_DDT_OUT> op(&pipe, data);
    op.Init(dSSdA, SSdA, ddt_out, lengths, ddt);
    op.Process();
}
