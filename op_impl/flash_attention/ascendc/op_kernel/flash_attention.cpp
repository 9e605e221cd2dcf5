// SPDX-License-Identifier: Apache-2.0
// Attention by tiles of 128 queries and 128 keys, one cube core and two vector cores together.
//
// The cube core multiplies query and key, the vector cores, half of the rows each, turn scores into weights with a running
// maximum and sum, the cube core multiplies these with value, the vector cores add that up. The scores of the next tile
// are computed while the weights of this one are made. What they hand each other stands in GM, each twice.
#include "kernel_operator.h"

using namespace AscendC;

namespace {
constexpr uint32_t TILE = 128;
constexpr uint32_t HALF_TILE = TILE / 2;
constexpr uint32_t TURN = 16;
constexpr uint32_t FRACTAL = TURN * TURN;
constexpr uint32_t LANES = 64;  // floats of one repeat
constexpr uint32_t FLOATS = 8;  // of a block
constexpr uint32_t PART = 4096;  // elements of the output that are added at a time
constexpr float MASKED = -3.0e38f;
constexpr uint16_t SCORES_READY = 1, WEIGHTS_READY = 2, OUTPUT_READY = 3;

__aicore__ inline uint32_t Align(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// A tile of queries of one head, and how many tiles of keys it sees.
struct Task {
    uint32_t head, row, rows, tiles;
    __aicore__ inline Task(const FlashAttentionTilingData& t, uint32_t index)
    {
        head = index / t.tiles;
        row = index % t.tiles * TILE;
        rows = Least(TILE, t.queries - row);
        int64_t seen = t.keys;
        if (t.causal) {
            const int64_t limit = static_cast<int64_t>(row) + rows + t.keys - t.queries;
            seen = limit < seen ? limit : seen;
        }
        tiles = seen <= 0 ? 1 : (seen + TILE - 1) / TILE;
    }
};

template <typename T>
struct Handed {
    GlobalTensor<float> scores, output;
    GlobalTensor<T> weights;
    __aicore__ inline Handed(GM_ADDR workspace, uint32_t block, uint32_t width)
    {
        constexpr uint64_t area = TILE * TILE;
        const uint64_t bytes = 2 * (area * (sizeof(float) + sizeof(T)) + TILE * width * sizeof(float));
        GM_ADDR at = GetUserWorkspace(workspace) + block * bytes;
        scores.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at), 2 * area);
        weights.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(at + 2 * area * sizeof(float)), 2 * area);
        output.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(at + 2 * area * (sizeof(float) + sizeof(T))),
                               2 * TILE * width);
    }
};

template <typename T>
class CubeSide {
public:
    __aicore__ inline CubeSide(TPipe* pipe, const FlashAttentionTilingData& t, const Handed<T>& handed)
        : t_(t), handed_(handed)
    {
        const uint32_t area = TILE * t.width * sizeof(T);
        pipe->InitBuffer(query_, 1, area);
        pipe->InitBuffer(weights_, 1, TILE * TILE * sizeof(T));
        pipe->InitBuffer(keys_, 2, area);
        pipe->InitBuffer(left_, 1, TILE * (t.width > TILE ? t.width : TILE) * sizeof(T));
        pipe->InitBuffer(right_, 1, area);
        pipe->InitBuffer(product_, 1, TILE * (t.width > TILE ? t.width : TILE) * sizeof(float));
    }

    __aicore__ inline void Init(GM_ADDR query, GM_ADDR key, GM_ADDR value)
    {
        const uint64_t head = static_cast<uint64_t>(t_.queries) * t_.width;
        const uint64_t keyHead = static_cast<uint64_t>(t_.keys) * t_.width;
        queryGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(query), t_.heads * head);
        keyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(key), t_.heads / t_.group * keyHead);
        valueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value), t_.heads / t_.group * keyHead);
    }

    __aicore__ inline void Run(const Task& task)
    {
        LocalTensor<T> query = query_.template AllocTensor<T>();
        const uint64_t at = (static_cast<uint64_t>(task.head) * t_.queries + task.row) * t_.width;
        Load(query, queryGm_[at], task.rows, t_.width, t_.width);
        query_.EnQue(query);
        query = query_.template DeQue<T>();
        for (uint32_t tile = 0; tile <= task.tiles; tile++) {
            if (tile < task.tiles) {
                Scores(task, tile, query);
            }
            if (tile > 0) {
                Output(task, tile - 1);
            }
        }
        query_.FreeTensor(query);
    }

private:
    // Rows in GM to fractals in L1; rows that fill the last fractal up are zeros.
    __aicore__ inline void Load(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t rows, uint32_t columns,
                                uint32_t pitch)
    {
        const uint32_t whole = Align(rows, TURN);
        if (whole != rows) {
            InitConstValue(to, {1, static_cast<uint16_t>(whole * columns / TURN), 0, T(0.0f)});
        }
        DataCopy(to, from, Nd2NzParams(1, rows, columns, 0, pitch, whole, 1, 0));
    }

    __aicore__ inline GlobalTensor<T> Keys(const GlobalTensor<T>& gm, const Task& task, uint32_t tile)
    {
        const uint64_t head = task.head / t_.headsOfBatch * (t_.headsOfBatch / t_.group) +
                              task.head % t_.headsOfBatch / t_.group;
        return gm[(head * t_.keys + static_cast<uint64_t>(tile) * TILE) * t_.width];
    }

    // The left operand of a product: rows of fractals, one after the other.
    __aicore__ inline void Left(const LocalTensor<T>& from, uint32_t rows, uint32_t columns)
    {
        LocalTensor<T> to = left_.template AllocTensor<T>();
        const uint32_t down = Align(rows, TURN) / TURN, across = columns / TURN;
        for (uint32_t i = 0; i < down; i++) {
            LoadData2DParams p;
            p.repeatTimes = across;
            p.srcStride = down;
            LoadData(to[i * across * FRACTAL], from[i * FRACTAL], p);
        }
        left_.EnQue(to);
    }

    __aicore__ inline void Multiply(const GlobalTensor<float>& to, uint32_t m, uint32_t n, uint32_t k, uint32_t pitch)
    {
        LocalTensor<T> left = left_.template DeQue<T>();
        LocalTensor<T> right = right_.template DeQue<T>();
        LocalTensor<float> product = product_.template AllocTensor<float>();
        MmadParams p;
        p.m = Align(m, TURN), p.n = n, p.k = k;  // one row alone would be taken as a vector
        Mmad(product, left, right, p);
        left_.FreeTensor(left);
        right_.FreeTensor(right);
        product_.EnQue(product);
        product = product_.template DeQue<float>();
        FixpipeParamsV220 f;
        f.nSize = n, f.mSize = m, f.srcStride = Align(m, TURN), f.dstStride = pitch;
        Fixpipe<float, float, CFG_ROW_MAJOR>(to, product, f);
        product_.FreeTensor(product);
    }

    __aicore__ inline void Scores(const Task& task, uint32_t tile, const LocalTensor<T>& query)
    {
        const uint32_t count = Least(TILE, t_.keys - tile * TILE), whole = Align(count, TURN);
        LocalTensor<T> keys = keys_.template AllocTensor<T>();
        Load(keys, Keys(keyGm_, task, tile), count, t_.width, t_.width);
        keys_.EnQue(keys);
        Left(query, task.rows, t_.width);
        keys = keys_.template DeQue<T>();
        LocalTensor<T> right = right_.template AllocTensor<T>();
        LoadData2DParams p;  // fractals of the keys are those of their transpose, as L0B wants them
        p.repeatTimes = t_.width / TURN * (whole / TURN);
        p.srcStride = 1;
        LoadData(right, keys, p);
        keys_.FreeTensor(keys);
        right_.EnQue(right);
        Multiply(handed_.scores[tile % 2 * TILE * TILE], task.rows, whole, t_.width, TILE);
        CrossCoreSetFlag<2, PIPE_FIX>(SCORES_READY);
    }

    __aicore__ inline void Output(const Task& task, uint32_t tile)
    {
        const uint32_t count = Least(TILE, t_.keys - tile * TILE), whole = Align(count, TURN);
        LocalTensor<T> values = keys_.template AllocTensor<T>();
        Load(values, Keys(valueGm_, task, tile), count, t_.width, t_.width);
        keys_.EnQue(values);
        CrossCoreWaitFlag(WEIGHTS_READY);
        LocalTensor<T> weights = weights_.template AllocTensor<T>();
        Load(weights, handed_.weights[tile % 2 * TILE * TILE], task.rows, whole, TILE);
        weights_.EnQue(weights);
        weights = weights_.template DeQue<T>();
        Left(weights, task.rows, whole);
        weights_.FreeTensor(weights);
        values = keys_.template DeQue<T>();
        LocalTensor<T> right = right_.template AllocTensor<T>();
        for (uint32_t i = 0; i < whole / TURN; i++) {
            LoadData2DParams p;
            p.repeatTimes = t_.width / TURN;
            p.srcStride = whole / TURN;
            p.ifTranspose = true;
            LoadData(right[i * t_.width / TURN * FRACTAL], values[i * FRACTAL], p);
        }
        keys_.FreeTensor(values);
        right_.EnQue(right);
        Multiply(handed_.output[tile % 2 * TILE * t_.width], task.rows, t_.width, whole, t_.width);
        CrossCoreSetFlag<2, PIPE_FIX>(OUTPUT_READY);
    }

    const FlashAttentionTilingData& t_;
    Handed<T> handed_;
    GlobalTensor<T> queryGm_, keyGm_, valueGm_;
    TQue<TPosition::A1, 1> query_, weights_;
    TQue<TPosition::B1, 2> keys_;
    TQue<TPosition::A2, 1> left_;
    TQue<TPosition::B2, 1> right_;
    TQue<TPosition::CO1, 1> product_;
};

template <typename T>
class VectorSide {
public:
    __aicore__ inline VectorSide(TPipe* pipe, const FlashAttentionTilingData& t, const Handed<T>& handed)
        : t_(t), handed_(handed)
    {
        constexpr uint32_t area = HALF_TILE * TILE;
        pipe->InitBuffer(scores_, 1, area * sizeof(float));
        pipe->InitBuffer(mask_, 1, t.maskPitch ? area * sizeof(half) : FLOATS * sizeof(float));
        pipe->InitBuffer(weights_, 1, area * sizeof(T));
        pipe->InitBuffer(part_, 1, PART * sizeof(float));
        pipe->InitBuffer(wide_, area * sizeof(float));
        pipe->InitBuffer(sum_, HALF_TILE * t.width * sizeof(float));
        pipe->InitBuffer(rows_, ROWS * HALF_TILE * sizeof(float));
        pipe->InitBuffer(blocks_, HALF_TILE * FLOATS * sizeof(float));
        pipe->InitBuffer(stats_, 1, 2 * HALF_TILE * sizeof(float));
    }

    __aicore__ inline void Init(GM_ADDR mask, GM_ADDR out, GM_ADDR max, GM_ADDR sum)
    {
        const uint64_t stats = static_cast<uint64_t>(t_.heads) * t_.statsPitch;
        const uint64_t masks = static_cast<uint64_t>(t_.maskBatches) * t_.maskHeads * t_.queries * t_.maskPitch;
        maskGm_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(mask), masks);
        outGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(out),
                               static_cast<uint64_t>(t_.heads) * t_.queries * t_.width);
        maxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(max), stats);
        sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sum), stats);
    }

    __aicore__ inline void Run(const Task& task)
    {
        first_ = GetSubBlockIdx() * HALF_TILE;
        count_ = task.rows > first_ ? Least(HALF_TILE, task.rows - first_) : 0;
        if (count_ > 0) {
            Duplicate(Row(MAX), MASKED, HALF_TILE);
            Duplicate(Row(SUM), 0.0f, HALF_TILE);
            Duplicate(sum_.Get<float>(), 0.0f, count_ * t_.width);
        }
        for (uint32_t tile = 0; tile < task.tiles; tile++) {
            CrossCoreWaitFlag(SCORES_READY);
            if (count_ > 0) {
                Weights(task, tile);
            }
            CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
            CrossCoreWaitFlag(OUTPUT_READY);
            if (count_ > 0) {
                AddOutput(tile);
            }
        }
        if (count_ > 0) {
            Finish(task);
        }
    }

private:
    static constexpr uint32_t MAX = 0, SUM = 1, NEW = 2, KEEP = 3, TEMP = 4, ROWS = 5;

    __aicore__ inline LocalTensor<float> Row(uint32_t index)
    {
        return rows_.Get<float>()[index * HALF_TILE];
    }

    // One number of each row as a block of equal ones.
    __aicore__ inline LocalTensor<float> Blocks(const LocalTensor<float>& row)
    {
        LocalTensor<float> blocks = blocks_.Get<float>();
        Brcb(blocks, row, HALF_TILE / FLOATS, {1, FLOATS});
        return blocks;
    }

    __aicore__ inline void LoadMask(const Task& task, uint32_t tile, uint32_t columns)
    {
        const uint32_t batch = t_.maskBatches > 1 ? task.head / t_.headsOfBatch : 0;
        const uint32_t head = t_.maskHeads > 1 ? task.head % t_.headsOfBatch : 0;
        const uint64_t row = (static_cast<uint64_t>(batch) * t_.maskHeads + head) * t_.queries + task.row + first_;
        const uint32_t bytes = columns * sizeof(half);
        const uint32_t skip = t_.maskPitch * sizeof(half) - bytes;
        LocalTensor<half> mask = mask_.AllocTensor<half>();
        DataCopyExtParams copy{static_cast<uint16_t>(count_), bytes, skip,
                               static_cast<uint32_t>((TILE - Align(columns, TURN)) / TURN), 0};
        DataCopyPad(mask, maskGm_[row * t_.maskPitch + tile * TILE], copy, DataCopyPadExtParams<half>{false, 0, 0, 0});
        mask_.EnQue(mask);
    }

    // What a row must not see becomes a number below all scores.
    __aicore__ inline void Hide(const Task& task, uint32_t tile, const LocalTensor<float>& scores)
    {
        const int64_t before = static_cast<int64_t>(tile) * TILE;
        for (uint32_t row = 0; row < count_; row++) {
            int64_t seen = t_.keys - before;
            if (t_.causal) {
                const int64_t limit = static_cast<int64_t>(task.row) + first_ + row + 1 + t_.keys - t_.queries - before;
                seen = limit < seen ? limit : seen;
            }
            if (seen >= TILE) {
                continue;
            }
            const uint32_t from = seen < 0 ? 0 : seen;
            for (uint32_t lane = 0; lane < TILE; lane += LANES) {
                if (from >= lane + LANES) {
                    continue;
                }
                const uint32_t shift = from > lane ? from - lane : 0;
                uint64_t lanes[2] = {~0ULL << shift, 0};
                Duplicate(scores[row * TILE + lane], MASKED, lanes, 1, 1, FLOATS);
            }
        }
    }

    __aicore__ inline void Weights(const Task& task, uint32_t tile)
    {
        const uint32_t columns = Least(TILE, t_.keys - tile * TILE);
        const uint32_t area = count_ * TILE;
        LocalTensor<float> scores = scores_.AllocTensor<float>();
        DataCopy(scores, handed_.scores[tile % 2 * TILE * TILE + first_ * TILE], area);
        scores_.EnQue(scores);
        if (t_.maskPitch) {
            LoadMask(task, tile, columns);
        }
        scores = scores_.DeQue<float>();
        Muls(scores, scores, t_.scale, area);
        LocalTensor<float> wide = wide_.Get<float>();
        if (t_.maskPitch) {
            LocalTensor<half> mask = mask_.DeQue<half>();
            Cast(wide, mask, RoundMode::CAST_NONE, area);
            mask_.FreeTensor(mask);
            Muls(wide, wide, MASKED, area);
            Add(scores, scores, wide, area);
        }
        Hide(task, tile, scores);

        const uint8_t repeats = count_;
        Max(wide, scores, scores[LANES], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, 8, 16, 16});
        WholeReduceMax<float>(Row(TEMP), wide, LANES, repeats, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        Max(Row(NEW), Row(MAX), Row(TEMP), count_);
        Sub(Row(KEEP), Row(MAX), Row(NEW), count_);
        Exp(Row(KEEP), Row(KEEP), count_);
        Adds(Row(MAX), Row(NEW), 0.0f, count_);

        const LocalTensor<float> most = Blocks(Row(NEW));
        for (uint32_t lane = 0; lane < TILE; lane += LANES) {
            Sub(scores[lane], scores[lane], most, static_cast<uint64_t>(LANES), repeats, {1, 1, 0, 16, 16, 1});
        }
        Exp(scores, scores, area);
        Add(wide, scores, scores[LANES], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, 8, 16, 16});
        WholeReduceSum<float>(Row(TEMP), wide, LANES, repeats, 1, 1, 8);
        Mul(Row(SUM), Row(SUM), Row(KEEP), count_);
        Add(Row(SUM), Row(SUM), Row(TEMP), count_);

        LocalTensor<T> weights = weights_.template AllocTensor<T>();
        Cast(weights, scores, RoundMode::CAST_RINT, area);
        scores_.FreeTensor(scores);
        weights_.EnQue(weights);
        weights = weights_.template DeQue<T>();
        DataCopy(handed_.weights[tile % 2 * TILE * TILE + first_ * TILE], weights, area);
        weights_.FreeTensor(weights);
        ScaleRows(sum_.Get<float>(), Row(KEEP), false);
    }

    // Rows of the output times, or divided by, one number each.
    __aicore__ inline void ScaleRows(const LocalTensor<float>& rows, const LocalTensor<float>& numbers, bool divide)
    {
        const LocalTensor<float> blocks = Blocks(numbers);
        const uint8_t pitch = t_.width / FLOATS;
        for (uint32_t lane = 0; lane < t_.width; lane += LANES) {
            const uint64_t lanes = Least(LANES, t_.width - lane);
            if (divide) {
                Div(rows[lane], rows[lane], blocks, lanes, static_cast<uint8_t>(count_), {1, 1, 0, pitch, pitch, 1});
            } else {
                Mul(rows[lane], rows[lane], blocks, lanes, static_cast<uint8_t>(count_), {1, 1, 0, pitch, pitch, 1});
            }
        }
    }

    __aicore__ inline void AddOutput(uint32_t tile)
    {
        LocalTensor<float> sum = sum_.Get<float>();
        const uint32_t rows = PART / t_.width;
        for (uint32_t row = 0; row < count_; row += rows) {
            const uint32_t area = Least(rows, count_ - row) * t_.width;
            LocalTensor<float> part = part_.AllocTensor<float>();
            DataCopy(part, handed_.output[(tile % 2 * TILE + first_ + row) * t_.width], area);
            part_.EnQue(part);
            part = part_.DeQue<float>();
            Add(sum[row * t_.width], sum[row * t_.width], part, area);
            part_.FreeTensor(part);
        }
    }

    __aicore__ inline void Finish(const Task& task)
    {
        LocalTensor<float> sum = sum_.Get<float>();
        ScaleRows(sum, Row(SUM), true);
        // 1 for rows that saw a key, 0 for others, whose maximum is below all scores.
        Adds(Row(TEMP), Row(MAX), 2.0e38f, count_);
        Maxs(Row(TEMP), Row(TEMP), 0.0f, count_);
        Mins(Row(TEMP), Row(TEMP), 1.0f, count_);
        ScaleRows(sum, Row(TEMP), false);
        LocalTensor<float> stats = stats_.AllocTensor<float>();
        Mul(stats, Row(MAX), Row(TEMP), count_);
        Mul(stats[HALF_TILE], Row(SUM), Row(TEMP), count_);
        stats_.EnQue(stats);
        stats = stats_.DeQue<float>();
        const uint64_t at = static_cast<uint64_t>(task.head) * t_.statsPitch + task.row + first_;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(count_ * sizeof(float)), 0, 0, 0};
        DataCopyPad(maxGm_[at], stats, copy);
        DataCopyPad(sumGm_[at], stats[HALF_TILE], copy);
        stats_.FreeTensor(stats);

        // The weights' buffer holds a tile of 128 columns: wider rows go out in two parts.
        const uint32_t rows = t_.width > TILE ? HALF_TILE / 2 : HALF_TILE;
        for (uint32_t row = 0; row < count_; row += rows) {
            const uint32_t area = Least(rows, count_ - row) * t_.width;
            LocalTensor<T> out = weights_.template AllocTensor<T>();
            Cast(out, sum[row * t_.width], RoundMode::CAST_RINT, area);
            weights_.EnQue(out);
            out = weights_.template DeQue<T>();
            const uint64_t to = (static_cast<uint64_t>(task.head) * t_.queries + task.row + first_ + row) * t_.width;
            DataCopy(outGm_[to], out, area);
            weights_.FreeTensor(out);
        }
    }

    const FlashAttentionTilingData& t_;
    Handed<T> handed_;
    GlobalTensor<half> maskGm_;
    GlobalTensor<T> outGm_;
    GlobalTensor<float> maxGm_, sumGm_;
    TQue<TPosition::VECIN, 1> scores_, mask_, part_;
    TQue<TPosition::VECOUT, 1> weights_, stats_;
    TBuf<TPosition::VECCALC> wide_, sum_, rows_, blocks_;
    uint32_t first_ = 0, count_ = 0;
};
}  // namespace

extern "C" __global__ __aicore__ void flash_attention(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR attn_mask,
                                                      GM_ADDR real_shift, GM_ADDR drop_mask, GM_ADDR actual_seq_qlen,
                                                      GM_ADDR actual_seq_kvlen, GM_ADDR seed_words, GM_ADDR row_bounds,
                                                      GM_ADDR attention_out, GM_ADDR softmax_max, GM_ADDR softmax_sum,
                                                      GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA(t, tiling);
    TPipe pipe;
    const uint32_t tasks = t.heads * t.tiles;
    if ASCEND_IS_AIC {
        const uint32_t block = GetBlockIdx();
        CubeSide<DTYPE_QUERY> cube(&pipe, t, Handed<DTYPE_QUERY>(workspace, block, t.width));
        cube.Init(query, key, value);
        for (uint32_t task = block; task < tasks; task += GetBlockNum()) {
            cube.Run(Task(t, task));
        }
    }
    if ASCEND_IS_AIV {
        const uint32_t block = GetBlockIdx() / GetTaskRatio();
        VectorSide<DTYPE_QUERY> vector(&pipe, t, Handed<DTYPE_QUERY>(workspace, block, t.width));
        vector.Init(attn_mask, attention_out, softmax_max, softmax_sum);
        for (uint32_t task = block; task < tasks; task += GetBlockNum()) {
            vector.Run(Task(t, task));
        }
    }
}
