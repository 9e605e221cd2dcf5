// SPDX-License-Identifier: Apache-2.0
// Products on one cube core, by every way into L0 and out of it.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t kSide = 16;
__aicore__ inline uint32_t up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

enum Way { kLoad2D, kLoad3D, kTransposed, kSquare, kOld, kCopy };

// C [m, n] = A [m, k] @ B [k, n] (+ bias [n]); a way of loading.
template <class T, class C, class Out>
class Product {
 public:
  static constexpr uint32_t kBlock = 32 / sizeof(T);

  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR bias, GM_ADDR scales, uint32_t m, uint32_t k,
                              uint32_t n, uint32_t way, uint64_t word) {
    m_ = m, k_ = k, n_ = n, way_ = way, word_ = word;
    unit_ = sizeof(T) == 1 ? 32 : 16;
    mm_ = up(m, kSide), kk_ = up(k, unit_), nn_ = up(n, unit_);
    a_.SetGlobalBuffer((__gm__ T*)a, m * k);
    b_.SetGlobalBuffer((__gm__ T*)b, k * n);
    c_.SetGlobalBuffer((__gm__ Out*)c, m * n);
    bias_.SetGlobalBuffer((__gm__ C*)bias, bias ? n : 0);
    scales_.SetGlobalBuffer((__gm__ uint64_t*)scales, scales ? n : 0);
    has_bias_ = bias != nullptr, has_scales_ = scales != nullptr;
    pipe_.InitBuffer(a1_, 1, mm_ * kk_ * sizeof(T));
    pipe_.InitBuffer(b1_, 1, kk_ * nn_ * sizeof(T));
    pipe_.InitBuffer(a2_, 1, mm_ * kk_ * sizeof(T));
    pipe_.InitBuffer(b2_, 1, kk_ * nn_ * sizeof(T));
    pipe_.InitBuffer(co1_, 1, mm_ * nn_ * sizeof(C));
    pipe_.InitBuffer(c1_, 1024);
    pipe_.InitBuffer(c2_, 1, 1024);
    pipe_.InitBuffer(q1_, 2048);
  }

  __aicore__ inline void Process() {
    CopyIn();
    LoadA();
    LoadB();
    Compute();
    CopyOut();
  }

 private:
  // ND in GM to NZ in L1: columns of 32 bytes, rows rounded up.
  __aicore__ inline void Nd2Nz(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t rows, uint32_t columns,
                               uint32_t pitch) {
    DataCopy(to, from, Nd2NzParams(1, rows, columns, 0, columns, pitch, 1, 0));
  }
  __aicore__ inline void CopyIn() {
    LocalTensor<T> a = a1_.template AllocTensor<T>();
    LocalTensor<T> b = b1_.template AllocTensor<T>();
    InitConstValue(a, {1, uint16_t(mm_ * kk_ / kBlock), 0, T(0)});
    InitConstValue(b, {1, uint16_t(kk_ * nn_ / kBlock), 0, T(0)});
    Nd2Nz(a, a_, m_, k_, mm_);
    if (way_ == kTransposed) {
      Nd2Nz(b, b_, n_, k_, nn_);  // B is given as [n, k]
    } else if (Halves()) {
      DataCopy(b, b_, Nd2NzParams(k_ / kSide, kSide, n_, kSide * n_, n_, kSide, 1, kSide * nn_));
    } else {
      Nd2Nz(b, b_, k_, n_, kk_);
    }
    a1_.EnQue(a);
    b1_.EnQue(b);
  }
  __aicore__ inline void LoadA() {
    LocalTensor<T> from = a1_.template DeQue<T>();
    LocalTensor<T> to = a2_.template AllocTensor<T>();
    if (way_ == kLoad3D) {
      LoadData3DParamsV2<T> p;
      p.l1H = 1, p.l1W = mm_, p.channelSize = kk_, p.kExtension = kk_, p.mExtension = mm_;
      LoadData(to, from, p);
    } else {
      for (uint32_t i = 0; i < mm_ / kSide; ++i) {
        LoadData2DParams p;
        p.repeatTimes = kk_ / kBlock;
        p.srcStride = mm_ / kSide;
        LoadData(to[i * kSide * kk_], from[i * kSide * kBlock], p);
      }
    }
    a1_.FreeTensor(from);
    a2_.EnQue(to);
  }
  __aicore__ inline void LoadB() {
    LocalTensor<T> from = b1_.template DeQue<T>();
    LocalTensor<T> to = b2_.template AllocTensor<T>();
    if (way_ == kLoad3D) {
      LoadData3DParamsV2<T> p;
      p.l1H = 1, p.l1W = kk_, p.channelSize = nn_, p.kExtension = nn_, p.mExtension = kk_;
      LoadData(to, from, p);
    } else if (way_ == kTransposed) {
      LoadData2DParams p;
      p.repeatTimes = kk_ / kBlock * (nn_ / kSide);
      p.srcStride = 1;
      LoadData(to, from, p);
    } else if (sizeof(T) == 2 && way_ != kSquare) {
      for (uint32_t i = 0; i < kk_ / kSide; ++i) {
        LoadData2DParams p;
        p.repeatTimes = nn_ / kSide;
        p.srcStride = kk_ / kSide;
        p.ifTranspose = true;
        LoadData(to[i * kSide * nn_], from[i * kSide * kBlock], p);
      }
    } else {
      Squares(to, from);
    }
    b1_.FreeTensor(from);
    b2_.EnQue(to);
  }
  // The halves of a square block of 4 bytes follow each other: L1 holds 16 rows of B after the other.
  __aicore__ inline bool Halves() { return sizeof(T) == 4 && way_ != kLoad3D; }
  // Square blocks of L1, down a column of blocks in one call.
  __aicore__ inline void Squares(const LocalTensor<T>& to, const LocalTensor<T>& from) {
    const uint32_t fractals = nn_ / kSide, across = nn_ / unit_, down = kk_ / unit_;
    for (uint32_t i = 0; i < across; ++i) {
      LoadData2dTransposeParams p;
      p.startIndex = Halves() ? i : i * down;
      p.srcStride = Halves() ? across : 1;
      p.repeatTimes = down;
      p.dstGap = Halves() ? 2 * fractals - 1 : fractals - 1;
      p.dstFracGap = Halves() ? fractals - 1 : 0;
      LoadDataWithTranspose(to[i * (unit_ / kSide) * 512 / sizeof(T)], from, p);
    }
  }
  __aicore__ inline void Compute() {
    LocalTensor<T> a = a2_.template DeQue<T>();
    LocalTensor<T> b = b2_.template DeQue<T>();
    LocalTensor<C> c = co1_.template AllocTensor<C>();
    if (has_bias_) {
      LocalTensor<C> l1 = c1_.template Get<C>();
      LocalTensor<C> table = c2_.template AllocTensor<C>();
      DataCopy(l1, bias_, n_);
      DataCopy(table, l1, DataCopyParams(1, n_ * sizeof(C) / 64, 0, 0));
      MmadParams p;
      p.m = m_, p.n = n_, p.k = k_;
      p.cmatrixInitVal = false, p.cmatrixSource = true;
      Mmad(c, a, b, table, p);
      c2_.FreeTensor(table);
    } else if (way_ == kOld) {
      Mmad(c, a, b, {uint16_t(m_), uint16_t(n_), uint16_t(k_), false, 0, false, false, false});
      Mmad(c, a, b, {uint16_t(m_), uint16_t(n_), uint16_t(k_), true, 0, false, false, false});
    } else {
      MmadParams p;
      p.m = m_, p.n = n_, p.k = k_;
      SetMMLayoutTransform(way_ == kCopy);
      Mmad(c, a, b, p);
    }
    a2_.FreeTensor(a);
    b2_.FreeTensor(b);
    co1_.EnQue(c);
  }
  __aicore__ inline void CopyOut() {
    LocalTensor<C> c = co1_.template DeQue<C>();
    if constexpr (std::is_same<C, Out>::value) {
      if (way_ == kOld) {
        FixpipeParams<C> p;
        p.cburstNum = n_;
        p.burstLen = m_ * kSide * sizeof(C) / 32;
        p.dstStride = n_;
        p.nz2ndParams = {true, 1, 0, 0, uint16_t(n_)};
        Fixpipe(c_, c, p);
        co1_.FreeTensor(c);
        return;
      }
    }
    if (way_ == kCopy) return Copy(c);
    FixpipeParamsV220 p;
    p.nSize = n_, p.mSize = m_, p.srcStride = mm_, p.dstStride = n_;
    p.deqScalar = word_;
    p.reluEn = way_ == kLoad3D;
    p.quantPre = Quant();
    if (has_scales_) {
      LocalTensor<uint64_t> scales = q1_.template Get<uint64_t>();
      DataCopy(scales, scales_, n_);
      Fixpipe<Out, C, CFG_ROW_MAJOR>(c_, c, scales, p);
    } else {
      Fixpipe<Out, C, CFG_ROW_MAJOR>(c_, c, p);
    }
    co1_.FreeTensor(c);
  }
  // By DataCopy, with scales that were set before.
  __aicore__ inline void Copy(const LocalTensor<C>& c) {
    LocalTensor<uint64_t> scales = q1_.template Get<uint64_t>();
    if (has_scales_) {
      DataCopy(scales, scales_, n_);
      SetFixPipeConfig(scales);
    } else {
      SetFixpipePreQuantFlag(word_);
    }
    SetFixpipeNz2ndFlag(1, 0, 0);
    DataCopyCO12DstParams p;
    p.nSize = n_, p.mSize = m_, p.srcStride = mm_, p.dstStride = n_, p.quantPre = Quant(), p.nz2ndEn = true;
    DataCopy(c_, c, p);
    LocalTensor<C> made = c;
    co1_.FreeTensor(made);
  }
  __aicore__ inline QuantMode_t Quant() {
    if (std::is_same<C, Out>::value) return NoQuant;
    if (std::is_same<Out, half>::value && sizeof(T) > 1) return F322F16;
    if (std::is_same<Out, bfloat16_t>::value) return F322BF16;
    if (std::is_same<Out, half>::value) return has_scales_ ? VDEQF16 : DEQF16;
    if (std::is_same<C, float>::value) return has_scales_ ? VQF322B8_PRE : QF322B8_PRE;
    return has_scales_ ? VREQ8 : REQ8;
  }

  TPipe pipe_;
  TQue<TPosition::A1, 1> a1_;
  TQue<TPosition::B1, 1> b1_;
  TQue<TPosition::A2, 1> a2_;
  TQue<TPosition::B2, 1> b2_;
  TQue<TPosition::CO1, 1> co1_;
  TBuf<TPosition::C1> c1_;
  TQue<TPosition::C2, 1> c2_;
  TBuf<TPosition::A1> q1_;
  GlobalTensor<T> a_, b_;
  GlobalTensor<Out> c_;
  GlobalTensor<C> bias_;
  GlobalTensor<uint64_t> scales_;
  uint32_t m_, k_, n_, mm_, kk_, nn_, unit_, way_;
  uint64_t word_;
  bool has_bias_, has_scales_;
};

template <class T, class C, class Out>
__aicore__ inline void product(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR bias, GM_ADDR scales, uint32_t m, uint32_t k,
                               uint32_t n, uint32_t way, uint64_t word) {
  Product<T, C, Out> op;
  op.Init(a, b, c, bias, scales, m, k, n, way, word);
  op.Process();
}

// Each type in and out.
extern "C" __global__ __aicore__ void cube(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR bias, GM_ADDR scales, uint32_t m,
                                           uint32_t k, uint32_t n, uint32_t types, uint32_t way, uint64_t word) {
  switch (types) {
    case 0:
      return product<half, float, float>(a, b, c, bias, scales, m, k, n, way, word);
    case 1:
      return product<half, float, half>(a, b, c, bias, scales, m, k, n, way, word);
    case 2:
      return product<bfloat16_t, float, bfloat16_t>(a, b, c, bias, scales, m, k, n, way, word);
    case 3:
      return product<float, float, float>(a, b, c, bias, scales, m, k, n, way, word);
    case 4:
      return product<int8_t, int32_t, int32_t>(a, b, c, bias, scales, m, k, n, way, word);
    case 5:
      return product<int8_t, int32_t, half>(a, b, c, bias, scales, m, k, n, way, word);
    case 6:
      return product<int8_t, int32_t, int8_t>(a, b, c, bias, scales, m, k, n, way, word);
    default:
      return product<half, float, int8_t>(a, b, c, bias, scales, m, k, n, way, word);
  }
}
