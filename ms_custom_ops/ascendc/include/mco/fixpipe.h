// SPDX-License-Identifier: Apache-2.0
// What leaves L0C: Fixpipe, and the moves of the cube with a change of layout.
#pragma once

#include "mco/cube.h"

enum class pad_t : uint8_t {
  PAD_NONE,
  PAD_MODE1,
  PAD_MODE2,
  PAD_MODE3,
  PAD_MODE4,
  PAD_MODE5,
  PAD_MODE6,
  PAD_MODE7,
  PAD_MODE8
};

namespace AscendC {

enum class CO2Layout : uint8_t { NZ, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
  bool isToUB = false;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ, false};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR, false};

struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu)
      : nSize(n), mSize(m), srcStride(src), dstStride(dst), reluEn(relu) {}
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu, QuantMode_t mode, int64_t scale,
                    uint16_t matrices, uint16_t srcNd, uint16_t dstNd)
      : nSize(n),
        mSize(m),
        srcStride(src),
        dstStride(dst),
        quantPre(mode),
        deqScalar(uint64_t(scale)),
        ndNum(matrices),
        srcNdStride(srcNd),
        dstNdStride(dstNd),
        reluEn(relu) {}
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu, QuantMode_t mode, int64_t scale,
                    uint16_t matrices, uint16_t srcNd, uint16_t dstNd, uint8_t unit)
      : FixpipeParamsV220(n, m, src, dst, relu, mode, scale, matrices, srcNd, dstNd) {
    unitFlag = unit;
  }
  uint16_t nSize = 0, mSize = 0;
  uint16_t srcStride = 0;  // rows of 16 elements from one column of fractals to the next
  uint32_t dstStride = 0;  // row major: elements of a row; NZ: blocks of 32 bytes from one column to the next
  QuantMode_t quantPre = NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
};

struct Nz2NdParams {
  Nz2NdParams() = default;
  Nz2NdParams(bool enable, uint16_t matrices, uint16_t srcNd, uint16_t dstNd, uint16_t n)
      : nz2ndEn(enable), ndNum(matrices), srcNdStride(srcNd), dstNdStride(dstNd), originalNSize(n) {}
  bool nz2ndEn = false;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0, originalNSize = 0;
};
struct QuantParams {
  QuantParams() = default;
  QuantParams(QuantMode_t mode) : quantPre(mode) {}
  QuantParams(QuantMode_t mode, uint64_t scale) : quantPre(mode), deqScalar(scale) {}
  QuantMode_t quantPre = NoQuant;
  uint64_t deqScalar = 0;
};
// As kernels of 2023 say it; T is the type in L0C.
template <class T>
struct FixpipeParams {
  FixpipeParams() = default;
  FixpipeParams(uint16_t count, uint16_t len, uint16_t src, uint32_t dst)
      : cburstNum(count), burstLen(len), srcStride(src), dstStride(dst) {}
  uint16_t cburstNum = 1;  // columns of fractals; N with nz2ndEn
  uint16_t burstLen = 1;   // a column of fractals in blocks of 32 bytes
  uint16_t srcStride = 0;
  uint32_t dstStride = 0;
  QuantParams quantParams;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  Nz2NdParams nz2ndParams;
};

struct DataCopyCO12DstParams {
  DataCopyCO12DstParams() = default;
  DataCopyCO12DstParams(uint16_t n, uint16_t m, uint32_t dst, uint16_t src, QuantMode_t mode, uint8_t relu, bool split,
                        bool nz2nd)
      : nSize(n),
        mSize(m),
        dstStride(dst),
        srcStride(src),
        quantPre(mode),
        reluPre(relu),
        channelSplit(split),
        nz2ndEn(nz2nd) {}
  uint8_t sid = 0;
  uint16_t nSize = 0, mSize = 0;
  uint32_t dstStride = 0;
  uint16_t srcStride = 0;
  uint8_t unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
  QuantMode_t quantPre = NoQuant;
  uint8_t reluPre = 0;
  bool channelSplit = false, nz2ndEn = false;
};

enum class DeqScale : uint8_t { DEQ_NONE, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };
struct DataCopyEnhancedParams {
  DataCopyEnhancedParams() = default;
  DataCopyEnhancedParams(BlockMode mode, DeqScale scale, uint64_t value, uint8_t sid, bool relu, pad_t pad,
                         uint64_t padding)
      : blockMode(mode),
        deqScale(scale),
        deqValue(value),
        sidStoreMode(sid),
        isRelu(relu),
        padMode(pad),
        padValue(padding) {}
  BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
  DeqScale deqScale = DeqScale::DEQ_NONE;
  uint64_t deqValue = 0;
  uint8_t sidStoreMode = 0;
  bool isRelu = false;
  pad_t padMode = pad_t::PAD_NONE;
  uint64_t padValue = 0;
};

struct Nz2NdParamsFull {
  Nz2NdParamsFull() = default;
  Nz2NdParamsFull(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t srcMatrix, uint16_t srcColumn,
                  uint16_t dstRow, uint16_t dstMatrix)
      : ndNum(matrices),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(srcMatrix),
        srcNStride(srcColumn),
        dstDStride(dstRow),
        dstNdMatrixStride(dstMatrix) {}
  uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcNStride = 0, dstDStride = 0,
           dstNdMatrixStride = 0;
};

}  // namespace AscendC

namespace mco_asc {

// How T follows from U on the way: 0 as it is or a cast, 1 by a scale word, 2 by one word for each column.
template <class T, class U>
inline int quant_of(const mco_asc_where& where, QuantMode_t mode) {
  const bool same = std::is_same<T, U>::value, wide = std::is_same<U, float>::value;
  const bool word = std::is_same<U, int32_t>::value, byte = sizeof(T) == 1;
  const struct {
    QuantMode_t mode;
    bool right;
    int how;
  } modes[] = {{NoQuant, same, 0},
               {F322F16, wide && std::is_same<T, half>::value, 0},
               {F322BF16, wide && std::is_same<T, bfloat16_t>::value, 0},
               {DEQF16, word && std::is_same<T, half>::value, 1},
               {VDEQF16, word && std::is_same<T, half>::value, 2},
               {QF322B8_PRE, wide && byte, 1},
               {VQF322B8_PRE, wide && byte, 2},
               {REQ8, word && byte, 1},
               {VREQ8, word && byte, 2}};
  for (const auto& m : modes) {
    if (m.mode == mode && m.right) return m.how;
  }
  mco_asc_fault(&where,
                "quantPre is %d for these types; accepted: NoQuant for equal types, F322F16, F322BF16, QF322B8_PRE, "
                "VQF322B8_PRE from float, DEQF16, VDEQF16, REQ8, VREQ8 from int32_t",
                int(mode));
}

struct Panels {
  int64_t matrices, m, n;
  int64_t src_stride, src_next;  // bytes
  int64_t dst_stride, dst_next;
  bool rows, split, relu;
};

template <class D, class T, class U>
inline void l0c_out(const mco_asc_where& where, const D& dst, const AscendC::LocalTensor<U>& src, const Panels& p,
                    QuantMode_t mode, uint64_t word, const AscendC::LocalTensor<uint64_t>* words) {
  note<USES_CUBE>();
  static_assert(one_of<U, float, int32_t>,
                "AscendC::Fixpipe: the type of the source is not accepted; accepted: float, int32_t");
  need_place(where, "src", src.mco_home(), IN_L0C, "a tensor of CO1");
  if (!p.n || !p.m) return;
  const int how = quant_of<T, U>(where, mode);
  if (how == 2 && !words)
    mco_asc_fault(&where, "a scale for each column without their tensor; accepted: one of uint64_t");
  const int64_t width = p.rows ? 0 : sizeof(T) == 1 ? 32 : p.split ? 8 : 16;
  if (!p.rows && p.n % 16) mco_asc_fault(&where, "nSize is %lld; accepted: a multiple of 16", (long long)p.n);
  if (p.split && sizeof(T) != 4) mco_asc_fault(&where, "channel split of %d bytes; accepted: float", int(sizeof(T)));
  const mco_asc_operand scale = how == 2 ? operand(*words) : mco_asc_operand{cube_operand(src)};
  issue(Op::l0c_matrix, where, {cube_operand(dst), cube_operand(src), scale},
        {integer(p.matrices), integer(p.m), integer(p.n), integer(p.src_stride), integer(p.src_next),
         integer(p.dst_stride), integer(p.dst_next), integer(int64_t(word))},
        {width, how != 0, p.relu, how == 2});
}

template <class D, class T, class U>
inline void fixpipe(const mco_asc_where& where, const D& dst, const AscendC::LocalTensor<U>& src,
                    const AscendC::FixpipeParamsV220& p, bool rows, const AscendC::LocalTensor<uint64_t>* words) {
  if (p.nSize && p.mSize && !p.dstStride) mco_asc_fault(&where, "dstStride is 0; accepted: 1 or more");
  if (rows && p.mSize > 8192) mco_asc_fault(&where, "mSize is %d row by row; accepted: 0 to 8192", p.mSize);
  const int64_t unit = rows ? int64_t(sizeof(T)) : 32;
  l0c_out<D, T, U>(
      where, dst, src,
      {rows ? p.ndNum : 1, p.mSize, p.nSize, 16 * int64_t(sizeof(U)) * p.srcStride, 1024 * int64_t(p.srcNdStride),
       unit * p.dstStride, int64_t(sizeof(T)) * p.dstNdStride, rows, p.isChannelSplit, p.reluEn},
      p.quantPre, p.deqScalar, words);
}

constexpr bool row_major(const AscendC::FixpipeConfig& config) {
  return config.format == AscendC::CO2Layout::ROW_MAJOR;
}

template <class D, class T, class U>
inline void fixpipe_2023(const mco_asc_where& where, const D& dst, const AscendC::LocalTensor<U>& src,
                         const AscendC::FixpipeParams<U>& p, const AscendC::LocalTensor<uint64_t>* words) {
  const int64_t size = int64_t(sizeof(U)), burst = 32 * int64_t(p.burstLen), m = burst / (16 * size);
  const bool rows = p.nz2ndParams.nz2ndEn;
  const int64_t stride = (burst + 256 * size - 1) / (256 * size) * 256 * size + 256 * size * p.srcStride;
  const int64_t n = rows ? p.nz2ndParams.originalNSize : 16 * int64_t(p.cburstNum);
  const int64_t pitch =
      rows ? int64_t(sizeof(T)) * p.dstStride : 16 * m * int64_t(sizeof(T)) + 32 * int64_t(p.dstStride);
  l0c_out<D, T, U>(where, dst, src,
                   {rows ? p.nz2ndParams.ndNum : 1, m, n, stride, 1024 * int64_t(p.nz2ndParams.srcNdStride), pitch,
                    int64_t(sizeof(T)) * p.nz2ndParams.dstNdStride, rows, false, p.reluEn},
                   p.quantParams.quantPre, p.quantParams.deqScalar, words);
}

template <class D, class T, class U>
inline void co12dst(const mco_asc_where& where, const D& dst, const AscendC::LocalTensor<U>& src,
                    const AscendC::DataCopyCO12DstParams& p) {
  const CubeState& state = cube_state();
  const bool rows = p.nz2ndEn;
  const AscendC::LocalTensor<uint64_t> words(state.words, state.words_home, state.words_size);
  if (p.clipReluPre || p.eltWiseOp) mco_asc_fault(&where, "clipReluPre or eltWiseOp is set; accepted: 0");
  if (p.reluPre > 1) mco_asc_fault(&where, "reluPre is %d; accepted: 0 none, 1 relu", p.reluPre);
  l0c_out<D, T, U>(where, dst, src,
                   {rows ? state.matrices : 1, p.mSize, p.nSize, 16 * int64_t(sizeof(U)) * p.srcStride, state.src_next,
                    (rows ? int64_t(sizeof(T)) : 32) * p.dstStride, int64_t(sizeof(T)) * state.dst_next, rows,
                    p.channelSplit, p.reluPre == 1},
                   p.quantPre, state.scale, state.words_home ? &words : nullptr);
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_FIXPIPE(TENSOR)                                                                                    \
  template <class T, class U, const FixpipeConfig& config = CFG_ROW_MAJOR>                                         \
  inline void Fixpipe(const TENSOR<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p,                 \
                      mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::fixpipe<TENSOR<T>, T, U>(where.of("Fixpipe"), dst, src, p, mco_asc::row_major(config), nullptr);      \
  }                                                                                                                \
  template <class T, class U, const FixpipeConfig& config = CFG_ROW_MAJOR>                                         \
  inline void Fixpipe(const TENSOR<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& scales,        \
                      const FixpipeParamsV220& p, mco_asc::Where where = mco_asc::Where::here()) {                 \
    mco_asc::fixpipe<TENSOR<T>, T, U>(where.of("Fixpipe"), dst, src, p, mco_asc::row_major(config), &scales);      \
  }                                                                                                                \
  template <class T, class U>                                                                                      \
  inline void Fixpipe(const TENSOR<T>& dst, const LocalTensor<U>& src, const FixpipeParams<mco_asc::same_t<U>>& p, \
                      mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::fixpipe_2023<TENSOR<T>, T, U>(where.of("Fixpipe"), dst, src, p, nullptr);                             \
  }                                                                                                                \
  template <class T, class U>                                                                                      \
  inline void Fixpipe(const TENSOR<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& scales,        \
                      const FixpipeParams<mco_asc::same_t<U>>& p, mco_asc::Where where = mco_asc::Where::here()) { \
    mco_asc::fixpipe_2023<TENSOR<T>, T, U>(where.of("Fixpipe"), dst, src, p, &scales);                             \
  }                                                                                                                \
  template <class T, class U>                                                                                      \
  inline void DataCopy(const TENSOR<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& p,            \
                       mco_asc::Where where = mco_asc::Where::here()) {                                            \
    mco_asc::co12dst<TENSOR<T>, T, U>(where.of("DataCopy"), dst, src, p);                                          \
  }
MCO_ASC_FIXPIPE(GlobalTensor)
MCO_ASC_FIXPIPE(LocalTensor)
#undef MCO_ASC_FIXPIPE

inline void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint16_t dstNdStride) {
  auto& state = mco_asc::cube_state();
  state.matrices = ndNum;
  state.src_next = 1024 * int64_t(srcNdStride);
  state.dst_next = dstNdStride;
}
// Scales of DataCopy out of CO1 for each column. Relu by a table is refused there, so that its tensor has no effect.
template <class T>
inline void SetFixPipeConfig(const LocalTensor<T>& reluPre, const LocalTensor<T>& quantPre, bool isUnitFlag = false) {
  static_assert(mco_asc::one_of<T, uint64_t, unsigned long long>,
                "AscendC::SetFixPipeConfig: the type of the tensor is not accepted; accepted: uint64_t");
  (void)reluPre, (void)isUnitFlag;
  auto& state = mco_asc::cube_state();
  state.words = quantPre.mco_at(), state.words_home = quantPre.mco_home(), state.words_size = quantPre.GetSize();
}
template <class T, bool setRelu = false>
inline void SetFixPipeConfig(const LocalTensor<T>& preTensor, bool isUnitFlag = false) {
  static_assert(!setRelu, "AscendC::SetFixPipeConfig: setRelu is not there; accepted: scales for each column");
  SetFixPipeConfig(LocalTensor<T>(), preTensor, isUnitFlag);
}
inline void SetFixpipePreQuantFlag(uint64_t config) { mco_asc::cube_state().scale = config; }

// Columns of 16 elements to rows in GM.
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Nz2NdParamsFull& p,
                     mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  const mco_asc_where here = where.of("DataCopy");
  if (p.dValue % 16) mco_asc_fault(&here, "dValue is %d; accepted: a multiple of 16", p.dValue);
  const int64_t size = int64_t(sizeof(T)), unit = 16 * size;
  if constexpr (mco_asc::one_of<T, float, int32_t>) {
    if (TPosition(src.GetPosition()) == TPosition::CO1) {
      mco_asc::l0c_out<GlobalTensor<T>, T, T>(
          here, dst, src,
          {p.ndNum, p.nValue, p.dValue, unit * p.srcNStride, 256 * size * p.srcNdMatrixStride, size * p.dstDStride,
           size * p.dstNdMatrixStride, true, false, false},
          NoQuant, 0, nullptr);
      return;
    }
  }
  if (p.dstDStride < 16) mco_asc_fault(&here, "dstDStride is %d; accepted: dValue or more", p.dstDStride);
  for (int64_t i = 0; i < p.ndNum; ++i) {
    for (int64_t c = 0; c < p.dValue / 16; ++c) {
      const auto from = src[uint32_t(i * p.srcNdMatrixStride * 256 + c * p.srcNStride * 16)];
      const auto to = dst[uint64_t(i * p.dstNdMatrixStride + c * 16)];
      mco_asc::issue(mco_asc::Op::data_move, here, {mco_asc::operand(to), mco_asc::operand(from)},
                     {integer(p.nValue), integer(unit), integer(0), integer((p.dstDStride - 16) * size)});
    }
  }
}

// L1 to the bias table, where half becomes float; on fused cores, L0C to UB in fractals.
template <class T, class U, std::enable_if_t<!std::is_same<T, U>::value, int> = 0>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& p,
                     mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  const mco_asc_where here = where.of("DataCopy");
  if (TPosition(dst.GetPosition()) != TPosition::C2) {
    mco_asc_fault(&here, "the types differ; accepted: half to float from L1 to C2");
  }
  mco_asc::issue(mco_asc::Op::data_move_l0c, here, {mco_asc::cube_operand(dst), mco_asc::cube_operand(src)},
                 {integer(p.blockCount), integer(int64_t(p.blockLen) * 64 / int64_t(16 * sizeof(T))),
                  integer(32 * int64_t(p.srcGap)), integer(64 * int64_t(p.dstGap)), mco_asc::real(1.0)},
                 {1, 0}, 1u << 4);
}
template <class T, class U>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& p,
                     const DataCopyEnhancedParams& e, mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  const mco_asc_where here = where.of("DataCopy");
  const bool from_l0c = TPosition(src.GetPosition()) == TPosition::CO1;
  const bool to_l0c = TPosition(dst.GetPosition()) == TPosition::CO1;
  if (!from_l0c && !to_l0c) {
    if constexpr (std::is_same<T, U>::value) {
      if (e.blockMode == BlockMode::BLOCK_MODE_NORMAL) return DataCopy(dst, src, p, where);
    }
    mco_asc_fault(&here, "enhanced parameters between these tensors; accepted: CO1 to CO2, CO2 to CO1");
  }
  const bool vector = e.blockMode == BlockMode::BLOCK_MODE_VECTOR;
  if (!vector && e.blockMode != BlockMode::BLOCK_MODE_MATRIX) {
    mco_asc_fault(&here, "blockMode is %d; accepted: BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR", int(e.blockMode));
  }
  if (e.deqScale != DeqScale::DEQ_NONE || e.padMode != pad_t::PAD_NONE) {
    mco_asc_fault(&here, "deqScale is %d, padMode is %d; accepted: DEQ_NONE and PAD_NONE", int(e.deqScale),
                  int(e.padMode));
  }
  const int64_t l0c_unit = (vector ? 16 : 256) * int64_t(sizeof(T));
  mco_asc::issue(mco_asc::Op::data_move_l0c, here, {mco_asc::operand(dst), mco_asc::operand(src)},
                 {integer(p.blockCount), integer(p.blockLen), integer((from_l0c ? l0c_unit : 32) * p.srcGap),
                  integer((to_l0c ? l0c_unit : 32) * p.dstGap), mco_asc::real(1.0)},
                 {vector, e.isRelu}, 1u << 4);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                     const DataCopyEnhancedParams&, mco_asc::Where where = mco_asc::Where::here()) {
  DataCopy(dst, src, p, where);
}

}  // namespace AscendC
