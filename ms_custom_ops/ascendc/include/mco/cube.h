// SPDX-License-Identifier: Apache-2.0
// The cube: LoadData, Mmad, fills of L1 and L0.
#pragma once

#include <new>

#include "mco/copy.h"

namespace AscendC {

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeat, uint16_t src, uint8_t sid, uint16_t gap, bool transpose,
                   uint8_t mode)
      : startIndex(start),
        repeatTimes(repeat),
        srcStride(src),
        sid(sid),
        dstGap(gap),
        ifTranspose(transpose),
        addrMode(mode) {}
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;  // 1: source fractals go backwards
};
using LoadData2dParams = LoadData2DParams;

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(uint16_t start, uint8_t repeat, uint16_t src, uint16_t gap, uint16_t fracGap,
                            uint8_t mode = 0)
      : startIndex(start), repeatTimes(repeat), srcStride(src), dstGap(gap), dstFracGap(fracGap), addrMode(mode) {}
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint16_t dstGap = 0;
  uint16_t dstFracGap = 0;
  uint8_t addrMode = 0;
};

template <class T>
struct LoadData3DParamsV1 {
  LoadData3DParamsV1() = default;
  LoadData3DParamsV1(const uint8_t pads[4], uint16_t h, uint16_t w, uint16_t c1, uint8_t fetchW, uint8_t fetchH,
                     int16_t left, int16_t top, uint8_t strideW, uint8_t strideH, uint8_t filterW, uint8_t filterH,
                     uint8_t dilationW, uint8_t dilationH, uint8_t jump, uint8_t mode, uint8_t repeat, uint8_t c,
                     T value)
      : l1H(h),
        l1W(w),
        c1Index(c1),
        fetchFilterW(fetchW),
        fetchFilterH(fetchH),
        leftTopW(left),
        leftTopH(top),
        strideW(strideW),
        strideH(strideH),
        filterW(filterW),
        filterH(filterH),
        dilationFilterW(dilationW),
        dilationFilterH(dilationH),
        jumpStride(jump),
        repeatMode(mode),
        repeatTime(repeat),
        cSize(c),
        padValue(value) {
    for (int i = 0; i < 4; ++i) padList[i] = pads[i];
  }
  uint8_t padList[4] = {};
  uint16_t l1H = 0, l1W = 0, c1Index = 0;
  uint8_t fetchFilterW = 0, fetchFilterH = 0;
  int16_t leftTopW = 0, leftTopH = 0;
  uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
  uint8_t jumpStride = 1, repeatMode = 0, repeatTime = 0, cSize = 0;
  T padValue{};
};

template <class T>
struct LoadData3DParamsV2 {
  LoadData3DParamsV2() = default;
  LoadData3DParamsV2(const uint8_t pads[4], uint16_t h, uint16_t w, uint16_t channels, uint16_t k, uint16_t m,
                     uint16_t kStart, uint16_t mStart, uint8_t strideW, uint8_t strideH, uint8_t filterW,
                     uint8_t filterH, uint8_t dilationW, uint8_t dilationH, bool transpose, bool smallK, T value,
                     bool sizeW = false, bool sizeH = false, bool fMatrix = false)
      : l1H(h),
        l1W(w),
        channelSize(channels),
        kExtension(k),
        mExtension(m),
        kStartPt(kStart),
        mStartPt(mStart),
        strideW(strideW),
        strideH(strideH),
        filterW(filterW),
        filterH(filterH),
        dilationFilterW(dilationW),
        dilationFilterH(dilationH),
        enTranspose(transpose),
        enSmallK(smallK),
        padValue(value),
        filterSizeW(sizeW),
        filterSizeH(sizeH),
        fMatrixCtrl(fMatrix) {
    for (int i = 0; i < 4; ++i) padList[i] = pads[i];
  }
  uint8_t padList[4] = {};  // left, right, top, bottom
  uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
  uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
  bool enTranspose = false, enSmallK = false;
  T padValue{};
  bool filterSizeW = false, filterSizeH = false;  // 256 more
  bool fMatrixCtrl = false;
};

struct IsResetLoad3dConfig {
  bool isSetFMatrix = true;
  bool isSetPadding = true;
};
inline constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};
enum class FmatrixMode : uint8_t { FMATRIX_LEFT, FMATRIX_RIGHT };

struct MmadParams {
  MmadParams() = default;
  MmadParams(uint16_t m, uint16_t n, uint16_t k, bool bias, int32_t offset, bool sparse, bool winogradA, bool winogradB)
      : m(m),
        n(n),
        k(k),
        isBias(bias),
        fmOffset(offset),
        enSsparse(sparse),
        enWinogradA(winogradA),
        enWinogradB(winogradB) {}
  MmadParams(uint16_t m, uint16_t n, uint16_t k, uint8_t unit, bool source, bool init)
      : m(m), n(n), k(k), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(init) {}
  uint16_t m = 0, n = 0, k = 0;
  bool isBias = false;  // C += A @ B, as kernels of 2023 say it
  int32_t fmOffset = 0;
  bool enSsparse = false, enWinogradA = false, enWinogradB = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;  // without a zero start: C begins as the bias table, not as L0C
  bool cmatrixInitVal = true;  // C begins as zeros
};

template <class T>
struct InitConstValueParams {
  InitConstValueParams() = default;
  InitConstValueParams(uint16_t repeat, uint16_t blocks, uint16_t gap, T value)
      : repeatTimes(repeat), blockNum(blocks), dstGap(gap), initValue(value) {}
  uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
  T initValue{};
};

}  // namespace AscendC

namespace mco_asc {

// What LoadData takes from registers where it is told not to set them.
struct Image {
  uint16_t h = 0, w = 0;
  uint8_t pads[4] = {};
};
struct CubeState {
  Image left, right;
  double padding = 0;
  int64_t matrices = 1, src_next = 0, dst_next = 0;  // of SetFixpipeNz2ndFlag
  uint64_t scale = 0;
  void* words = nullptr;  // scales of columns, of SetFixPipeConfig
  const mco_asc_home* words_home = nullptr;
  uint32_t words_size = 0;
};
inline CubeState& cube_state() {
  void*& at = mco_asc_this_core("LoadData")->user[1];
  if (!at) at = new (mco_asc_keep(sizeof(CubeState))) CubeState();
  return *static_cast<CubeState*>(at);
}

// Starts of matrices in L0A and L0B are fractals, in L0C 64 bytes.
template <class T>
inline mco_asc_operand cube_operand(const AscendC::LocalTensor<T>& t) {
  using P = AscendC::TPosition;
  const P p = P(t.GetPosition());
  return operand(t, p == P::A2 || p == P::B2 ? 512 : p == P::CO1 || p == P::C2 ? 64 : 32);
}
template <class T>
inline mco_asc_operand cube_operand(const AscendC::GlobalTensor<T>& t) {
  return operand(t);
}

template <class T, class S>
inline void load2d(const mco_asc_where& where, const AscendC::LocalTensor<T>& dst, const S& src,
                   const AscendC::LoadData2DParams& p) {
  note<USES_CUBE>();
  static_assert(sizeof(T) <= 4, "AscendC::LoadData: the type is not accepted; accepted: types of 1, 2 and 4 bytes");
  if (p.ifTranspose && sizeof(T) != 2) {
    mco_asc_fault(&where, "ifTranspose with elements of %d bytes; accepted: 2 bytes, or LoadDataWithTranspose",
                  int(sizeof(T)));
  }
  constexpr bool from_gm = std::is_same<S, AscendC::GlobalTensor<T>>::value;
  need_place(where, "dst", dst.mco_home(), IN_L0A | IN_L0B | (from_gm ? IN_L1 : 0),
             from_gm ? "a tensor of A1, B1, A2 or B2" : "a tensor of A2 or B2");
  if constexpr (!from_gm) need_place(where, "src", src.mco_home(), IN_L1, "a tensor of A1 or B1");
  const auto go = [&](int64_t index, int64_t repeat, int64_t to) {
    issue(Op::load2d, where, {cube_operand(dst[uint32_t(to * (512 / sizeof(T)))]), cube_operand(src)},
          {integer(index), integer(repeat), integer(p.srcStride), integer(p.dstGap)}, {p.ifTranspose});
  };
  if (!p.addrMode) return go(p.startIndex, p.repeatTimes, 0);
  for (int64_t r = 0; r < p.repeatTimes; ++r) {
    const int64_t index = p.startIndex - r * p.srcStride;
    if (index < 0) mco_asc_fault(&where, "addrMode 1 reads before the tensor; accepted: a startIndex that suffices");
    go(index, 1, r * (1 + p.dstGap));
  }
}

template <class T>
inline void load3d(const mco_asc_where& where, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                   const AscendC::LoadData3DParamsV2<T>& p, const AscendC::IsResetLoad3dConfig& config) {
  note<USES_CUBE>();
  CubeState& state = cube_state();
  Image image = p.fMatrixCtrl ? state.right : state.left;
  if (config.isSetFMatrix) image = {p.l1H, p.l1W, {p.padList[0], p.padList[1], p.padList[2], p.padList[3]}};
  const double padding = config.isSetPadding ? double(p.padValue) : state.padding;
  const auto position = AscendC::TPosition(dst.GetPosition());
  const bool b = position == AscendC::TPosition::B2;
  if (!b && position != AscendC::TPosition::A2) {
    mco_asc_fault(&where, "dst is not in A2 or B2; accepted: a tensor of L0A or L0B");
  }
  need_place(where, "src", src.mco_home(), IN_L1, "a tensor of A1 or B1");
  issue(Op::load3dv2, where, {cube_operand(dst), cube_operand(src)},
        {integer(p.channelSize), integer(p.kExtension), integer(p.mExtension), integer(p.kStartPt), integer(p.mStartPt),
         integer(image.pads[0]), integer(image.pads[1]), integer(image.pads[2]), integer(image.pads[3]),
         integer(image.h), integer(image.w), integer(p.strideW), integer(p.strideH),
         integer(p.filterW + 256 * p.filterSizeW), integer(p.filterH + 256 * p.filterSizeH), integer(p.dilationFilterW),
         integer(p.dilationFilterH), is_real<T> ? real(padding) : integer(int64_t(padding))},
        {b               ? 1
         : p.enTranspose ? 2
                         : 0},
        is_real<T> ? uint32_t(1u << 17) : 0u);
}

template <class C, class A, class B>
constexpr bool cube_types =
    (std::is_same<C, int32_t>::value && one_of<A, int8_t, uint8_t> && one_of<B, int8_t, uint8_t>) ||
    (std::is_same<C, float>::value && std::is_same<A, B>::value && one_of<A, half, bfloat16_t, float>) ||
    (std::is_same<C, half>::value && std::is_same<A, half>::value && std::is_same<B, half>::value);

template <class C, class A, class B>
inline void mmad(const mco_asc_where& where, const AscendC::LocalTensor<C>& c, const AscendC::LocalTensor<A>& a,
                 const AscendC::LocalTensor<B>& b, const AscendC::MmadParams& p, bool accumulate) {
  note<USES_CUBE>();
  static_assert(cube_types<C, A, B>,
                "AscendC::Mmad: the types of the tensors are not accepted; accepted: half, bfloat16_t or float into "
                "float, int8_t into int32_t, half into half");
  need_place(where, "the result", c.mco_home(), IN_L0C, "a tensor of CO1");
  need_place(where, "the left matrix", a.mco_home(), IN_L0A, "a tensor of A2");
  need_place(where, "the right matrix", b.mco_home(), IN_L0B, "a tensor of B2");
  if (p.m > 4095 || p.n > 4095 || p.k > 4095) {
    mco_asc_fault(&where, "m, n, k are %d, %d, %d; accepted: 0 to 4095", p.m, p.n, p.k);
  }
  if (p.enSsparse || p.enWinogradA || p.enWinogradB) {
    mco_asc_fault(&where, "a sparse or Winograd product; accepted: enSsparse, enWinogradA, enWinogradB false");
  }
  if (sizeof(A) == 4 && p.kDirectionAlign && (p.k + 7) / 8 % 2) {
    mco_asc_fault(&where, "kDirectionAlign with k %d; accepted: k whose fractals of 8 are even in number", p.k);
  }
  issue(Op::mmad, where, {cube_operand(c), cube_operand(a), cube_operand(b)},
        {integer(p.m), integer(p.k), integer(p.n)}, {accumulate});
}

// C begins as the bias, one value for each column.
template <class C, class V>
inline void bias_in(const mco_asc_where& where, const AscendC::LocalTensor<C>& c, const AscendC::LocalTensor<V>& bias,
                    const AscendC::MmadParams& p) {
  if (AscendC::TPosition(bias.GetPosition()) != AscendC::TPosition::C2) {
    mco_asc_fault(&where, "bias is not in C2; accepted: a tensor of the bias table");
  }
  issue(Op::broadcast_l0c, where, {cube_operand(c), operand(bias)},
        {integer(1), integer((p.n + 15) / 16), integer((p.m + 15) / 16), integer(0), integer(0)});
}

}  // namespace mco_asc

namespace AscendC {

template <class T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::load2d(where.of("LoadData"), dst, src, params);
}
template <class T>
inline void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::load2d(where.of("LoadData"), dst, src, params);
}
template <class T, const IsResetLoad3dConfig& config = IS_RESER_LOAD3D_DEFAULT_CONFIG>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const LoadData3DParamsV2<mco_asc::same_t<T>>& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::load3d(where.of("LoadData"), dst, src, params, config);
}
template <class T, const IsResetLoad3dConfig& config = IS_RESER_LOAD3D_DEFAULT_CONFIG>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const LoadData3DParamsV1<mco_asc::same_t<T>>& p, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(config.isSetFMatrix && config.isSetPadding, "AscendC::LoadData: of LoadData3DParamsV1 it sets both");
  using mco_asc::integer;
  mco_asc::note<mco_asc::USES_CUBE>();
  const mco_asc_where here = where.of("LoadData");
  const int x = p.leftTopW + p.padList[0], y = p.leftTopH + p.padList[2];
  if (x < 0 || y < 0) {
    mco_asc_fault(&here, "leftTopW, leftTopH are %d, %d; accepted: from -%d, -%d", p.leftTopW, p.leftTopH, p.padList[0],
                  p.padList[2]);
  }
  mco_asc::issue(mco_asc::Op::load3dv1, here, {mco_asc::cube_operand(dst), mco_asc::cube_operand(src)},
                 {integer(p.c1Index),
                  integer(p.fetchFilterW),
                  integer(p.fetchFilterH),
                  integer(x),
                  integer(y),
                  integer(p.padList[0]),
                  integer(p.padList[1]),
                  integer(p.padList[2]),
                  integer(p.padList[3]),
                  integer(p.l1H),
                  integer(p.l1W),
                  integer(p.strideW),
                  integer(p.strideH),
                  integer(p.filterW),
                  integer(p.filterH),
                  integer(p.dilationFilterW),
                  integer(p.dilationFilterH),
                  integer(p.jumpStride),
                  integer(p.repeatTime),
                  mco_asc::scalar(p.padValue)},
                 {p.repeatMode}, mco_asc::is_real<T> ? 1u << 19 : 0u);
}

// Square blocks, transposed on the way.
template <class T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  mco_asc::note<mco_asc::USES_CUBE>();
  const mco_asc_where here = where.of("LoadDataWithTranspose");
  if (p.addrMode) mco_asc_fault(&here, "addrMode is %d; accepted: 0", p.addrMode);
  mco_asc::need_place(here, "dst", dst.mco_home(), mco_asc::IN_L0A | mco_asc::IN_L0B, "a tensor of A2 or B2");
  mco_asc::need_place(here, "src", src.mco_home(), mco_asc::IN_L1, "a tensor of A1 or B1");
  mco_asc::issue(
      mco_asc::Op::load2d_square, here, {mco_asc::cube_operand(dst), mco_asc::cube_operand(src)},
      {integer(p.startIndex), integer(p.repeatTimes), integer(p.srcStride), integer(p.dstGap), integer(p.dstFracGap)});
}

inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4],
                       const FmatrixMode& mode = FmatrixMode::FMATRIX_LEFT) {
  auto& state = mco_asc::cube_state();
  (mode == FmatrixMode::FMATRIX_LEFT ? state.left : state.right) = {
      l1H, l1W, {padList[0], padList[1], padList[2], padList[3]}};
}
// Whether Mmad walks over n before m; the results are the same.
inline void SetMMLayoutTransform(bool) {}
template <class T>
inline void SetLoadDataPaddingValue(const T value) {
  mco_asc::cube_state().padding = double(value);
}
inline void SetLoadDataBoundary(uint32_t boundary, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SetLoadDataBoundary");
  if (boundary) mco_asc_fault(&here, "boundary is %u; accepted: 0, L1 does not wrap around", boundary);
}

template <class C, class A, class B>
inline void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const MmadParams& p,
                 mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("Mmad");
  if (!p.isBias && !p.cmatrixInitVal && p.cmatrixSource) {
    mco_asc_fault(&here, "cmatrixSource true without a bias; accepted: the form Mmad(c, a, b, bias, params)");
  }
  mco_asc::mmad(here, c, a, b, p, p.isBias || !p.cmatrixInitVal);
}
template <class C, class A, class B, class V>
inline void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const LocalTensor<V>& bias,
                 const MmadParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("Mmad");
  const bool from_l0c = !p.cmatrixInitVal && !p.cmatrixSource;
  if (!from_l0c) mco_asc::bias_in(here, c, bias, p);
  mco_asc::mmad(here, c, a, b, p, true);
}

// Blocks of 32 bytes in L1, of 512 in L0A and L0B.
template <class T>
inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<mco_asc::same_t<T>>& p,
                           mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  mco_asc::note<mco_asc::USES_CUBE>();
  const auto position = TPosition(dst.GetPosition());
  const int64_t unit = position == TPosition::A2 || position == TPosition::B2 ? 16 : 1;
  mco_asc::issue(
      mco_asc::Op::fill_blocks, where.of("InitConstValue"), {mco_asc::cube_operand(dst)},
      {integer(p.repeatTimes), integer(p.blockNum * unit), integer(p.dstGap * unit), mco_asc::scalar(p.initValue)}, {},
      mco_asc::is_real<T> ? 1u << 3 : 0u);
}
template <class T>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<mco_asc::same_t<T>>& p,
                 mco_asc::Where where = mco_asc::Where::here()) {
  InitConstValue(dst, p, where);
}

}  // namespace AscendC
