// SPDX-License-Identifier: Apache-2.0
// Matmul: products that vector cores ask for and the cube core of their block computes.
#pragma once

#include <algorithm>
#include <tuple>

#include "mco/matmul_block.h"

namespace AscendC {

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const MatmulConfig& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<>, class POLICY = MatmulPolicy>
class Matmul {
 public:
  using AType = A_TYPE;
  using BType = B_TYPE;
  using CType = C_TYPE;
  using BiasType = BIAS_TYPE;
  using A = typename A_TYPE::T;
  using B = typename B_TYPE::T;
  using C = typename C_TYPE::T;
  using V = typename BIAS_TYPE::T;
  using L0cT = std::conditional_t<sizeof(A) == 1, int32_t, float>;
  static_assert(std::is_same<A, B>::value, "AscendC::Matmul: the types of A and B differ; accepted: one type");
  static_assert(mco_asc::one_of<A, half, bfloat16_t, float, int8_t>,
                "AscendC::Matmul: the type of A is not accepted; accepted: half, bfloat16_t, float, int8_t");
  static_assert((A_TYPE::pos != TPosition::TSCM || A_TYPE::format == CubeFormat::NZ) &&
                    (B_TYPE::pos != TPosition::TSCM || B_TYPE::format == CubeFormat::NZ),
                "AscendC::Matmul: the format of an operand in TSCM is not accepted; accepted: NZ");

  void Init(const TCubeTiling* tiling, TPipe* = nullptr, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::Init");
    tiling_ = *tiling;
    if (tiling_.baseM <= 0 || tiling_.baseN <= 0 || tiling_.baseK <= 0) {
      mco_asc_fault(&here, "baseM, baseN, baseK are %d, %d, %d; accepted: 1 or more", tiling_.baseM, tiling_.baseN,
                    tiling_.baseK);
    }
    const int64_t m = mco_asc::round_to(tiling_.baseM, 16), n = mco_asc::round_to(tiling_.baseN, 16), k = tiling_.baseK;
    Fits(here, "baseM x baseK", m * k * int64_t(sizeof(A)), TOTAL_L0A_SIZE, "L0A");
    Fits(here, "baseK x baseN", k * n * int64_t(sizeof(B)), TOTAL_L0B_SIZE, "L0B");
    Fits(here, "baseM x baseN", m * n * 4, TOTAL_L0C_SIZE, "L0C");
    SetOrgShape(tiling_.M, tiling_.N, tiling_.Ka, tiling_.Kb);
    SetSingleShape(tiling_.singleCoreM, tiling_.singleCoreN, tiling_.singleCoreK);
    ready_ = true;
  }

  // Operands: a matrix in GM or UB, or one number.
  void SetTensorA(const GlobalTensor<A>& a, bool transposed = A_TYPE::isTrans) { Set(a_, a, true, transposed); }
  void SetTensorA(const LocalTensor<A>& a, bool transposed = A_TYPE::isTrans) { Set(a_, a, false, transposed); }
  void SetTensorB(const GlobalTensor<B>& b, bool transposed = B_TYPE::isTrans) { Set(b_, b, true, transposed); }
  void SetTensorB(const LocalTensor<B>& b, bool transposed = B_TYPE::isTrans) { Set(b_, b, false, transposed); }
  void SetBias(const GlobalTensor<V>& bias) { Set(bias_, bias, true, false), has_bias_ = true; }
  void SetBias(const LocalTensor<V>& bias) { Set(bias_, bias, false, false), has_bias_ = true; }
  void DisableBias() { has_bias_ = false; }
  void ClearBias() { has_bias_ = false; }

  // Shapes: of the whole matrices, of this core's part.
  void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k); }
  void SetOrgShape(int m, int n, int ka, int kb, int nc = 0) { m_ = m, n_ = n, ka_ = ka, kb_ = kb, nc_ = nc ? nc : n; }
  void SetSingleShape(int m, int n, int k) { single_m_ = m, single_n_ = n, single_k_ = k, Restart(); }
  void SetTail(int m = -1, int n = -1, int k = -1) {
    if (m != -1) single_m_ = m;
    if (n != -1) single_n_ = n;
    if (k != -1) single_k_ = k;
    Restart();
  }
  void SetQuantScalar(uint64_t scale) { scale_ = scale, has_scale_ = true, has_scales_ = false; }
  void SetQuantVector(const GlobalTensor<uint64_t>& scales) {
    scales_ = scales, has_scales_ = true, has_scale_ = false;
  }

  // What changes how the product is computed and not what it is.
  void SetSubBlockIdx(uint8_t) {}
  void SetHF32(bool, int32_t = 0) {}
  template <class T>
  void SetWorkspace(GlobalTensor<T>&) {}
  template <class T>
  void SetWorkspace(__gm__ const T*, int) {}
  template <class T>
  void SetLocalWorkspace(const LocalTensor<T>&) {}
  template <class T>
  void SetUserDefInfo(const T) {}
  template <class T>
  void SetSelfDefineData(const T) {}
  template <class... T>
  void SetAntiQuantScalar(T...) {
    static_assert(sizeof...(T) == 99, "AscendC::Matmul: anti-quantization is not accepted; accepted: equal types");
  }

  // The next base block. Without sync the first call stands for all of them.
  template <bool sync = true>
  bool Iterate(bool partial = false, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::Iterate");
    if (partial) mco_asc_fault(&here, "enPartialSum is true; accepted: false, or all of K in one call");
    if (!sync) {
      Restart();
      return true;
    }
    return Advance(here);
  }
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<C>& c, uint8_t enAtomic = 0, bool sequential = false,
                  mco_asc::Where where = mco_asc::Where::here()) {
    OutBlock<sync>(where.of("Matmul::GetTensorC"), Out(c, enAtomic, sequential));
  }
  template <bool sync = true>
  void GetTensorC(const LocalTensor<C>& c, uint8_t enAtomic = 0, bool sequential = false,
                  mco_asc::Where where = mco_asc::Where::here()) {
    OutBlock<sync>(where.of("Matmul::GetTensorC"), Out(c, enAtomic, sequential));
  }
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<C>& gm, const LocalTensor<C>& ub, uint8_t enAtomic = 0, bool sequential = false,
                  mco_asc::Where where = mco_asc::Where::here()) {
    OutBlock<sync>(where.of("Matmul::GetTensorC"), Out(gm, enAtomic, sequential));
    OutBlock<true>(where.of("Matmul::GetTensorC"), Out(ub, enAtomic, sequential));
  }
  template <bool sync = true>
  void IterateAll(const GlobalTensor<C>& c, uint8_t enAtomic = 0, bool sequential = false, bool = false, bool = false,
                  mco_asc::Where where = mco_asc::Where::here()) {
    All(where.of("Matmul::IterateAll"), Out(c, enAtomic, sequential));
  }
  template <bool sync = true>
  void IterateAll(const LocalTensor<C>& c, uint8_t enAtomic = 0, mco_asc::Where where = mco_asc::Where::here()) {
    Target out = Out(c, enAtomic, false);
    out.whole = true;
    All(where.of("Matmul::IterateAll"), out);
  }
  // Products that lie one behind the other: as many as the larger of both numbers, the other repeats.
  template <bool sync = true>
  void IterateBatch(const GlobalTensor<C>& c, uint32_t batchA, uint32_t batchB, bool sequential = false,
                    uint32_t strideA = 0, uint32_t strideB = 0, uint32_t strideC = 0, bool = false,
                    uint8_t enAtomic = 0, bool = false, mco_asc::Where where = mco_asc::Where::here()) {
    static_assert(Plain(A_TYPE::layout) && Plain(B_TYPE::layout) && Plain(C_TYPE::layout),
                  "AscendC::Matmul::IterateBatch: the layout is not accepted; accepted: NONE, NORMAL");
    const mco_asc_where here = where.of("Matmul::IterateBatch");
    if (batch_a_) batchA = uint32_t(batch_a_), batchB = uint32_t(batch_b_);
    if (!batchA || !batchB || std::max(batchA, batchB) % std::min(batchA, batchB)) {
      mco_asc_fault(&here, "batches of A and B are %u and %u; accepted: one a multiple of the other", batchA, batchB);
    }
    const mco_asc::Source a = a_, b = b_, bias = bias_;
    const uint32_t count = std::max(batchA, batchB);
    const int64_t next_a = strideA ? strideA : int64_t(m_) * ka_, next_b = strideB ? strideB : int64_t(kb_) * n_,
                  next_c = strideC ? strideC : int64_t(m_) * nc_;
    for (uint32_t i = 0; i < count; ++i) {
      a_.at = mco_asc::moved(a.at, i / (count / batchA) * next_a * int64_t(sizeof(A)));
      b_.at = mco_asc::moved(b.at, i / (count / batchB) * next_b * int64_t(sizeof(B)));
      Restart();
      All(here, Out(c[uint64_t(i * next_c)], enAtomic, sequential));
    }
    a_ = a, b_ = b, bias_ = bias;
  }
  // Numbers of matrices of IterateBatch, instead of its arguments.
  void SetBatchNum(int32_t batchA, int32_t batchB, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::SetBatchNum");
    if (batchA < 1 || batchB < 1) mco_asc_fault(&here, "batches are %d and %d; accepted: 1 or more", batchA, batchB);
    batch_a_ = batchA, batch_b_ = batchB;
  }
  void WaitIterateAll() {}
  void WaitIterateBatch() {}
  void WaitGetTensorC() {}
  void End() { Restart(); }

 private:
  struct Target {
    mco_asc::Source place;
    uint8_t atomic;
    bool sequential;
    bool whole = false;  // all of this core's part, in UB
  };
  struct Job {
    Matmul* self;
    const mco_asc_where* where;
    const Target* out;
    bool all;
  };
  static constexpr bool Plain(LayoutMode layout) { return layout == LayoutMode::NONE || layout == LayoutMode::NORMAL; }
  static void Fits(const mco_asc_where& where, const char* what, int64_t bytes, int64_t room, const char* memory) {
    if (bytes <= room) return;
    mco_asc_fault(&where, "%s takes %lld bytes of %s; accepted: at most %lld", what, (long long)bytes, memory,
                  (long long)room);
  }
  template <class T>
  void Set(mco_asc::Source& to, const T& tensor, bool gm, bool transposed) {
    to.at = tensor.mco_at(), to.home = tensor.mco_home(), to.gm = gm, to.transposed = transposed;
    Restart();
  }
  template <class T>
  static Target Out(const T& tensor, uint8_t atomic, bool sequential) {
    Target out{};
    out.place.at = tensor.mco_at(), out.place.home = tensor.mco_home();
    out.place.gm = std::is_same<T, GlobalTensor<C>>::value;
    out.atomic = atomic, out.sequential = sequential;
    return out;
  }
  void Restart() { block_ = -1; }

  int64_t BlocksM() const { return (single_m_ + tiling_.baseM - 1) / tiling_.baseM; }
  int64_t BlocksN() const { return (single_n_ + tiling_.baseN - 1) / tiling_.baseN; }
  bool Advance(const mco_asc_where& where) {
    Check(where);
    if (++block_ < BlocksM() * BlocksN()) return true;
    Restart();
    return false;
  }
  void Check(const mco_asc_where& where) const {
    if (!ready_) mco_asc_fault(&where, "the object has no tiling; accepted: one given to REGIST_MATMUL_OBJ or Init");
    if (!a_.at || !b_.at) mco_asc_fault(&where, "A or B is not set; accepted: SetTensorA and SetTensorB before");
    if (single_m_ < 0 || single_n_ < 0 || single_k_ <= 0) {
      mco_asc_fault(&where, "M, N, K of this core are %d, %d, %d; accepted: 0 or more, and 1 or more of K", single_m_,
                    single_n_, single_k_);
    }
  }
  template <bool sync>
  void OutBlock(const mco_asc_where& where, const Target& out) {
    if (!sync && !Advance(where)) mco_asc_fault(&where, "no block is left; accepted: one call for each base block");
    if (block_ < 0) mco_asc_fault(&where, "there is no block; accepted: after an Iterate that was true");
    Hand(where, out, false);
  }
  void All(const mco_asc_where& where, const Target& out) {
    Check(where);
    Hand(where, out, true);
    Restart();
  }
  void Hand(const mco_asc_where& where, const Target& out, bool all) {
    Job job = {this, &where, &out, all};
    mco_asc_hand(
        &where,
        [](void* at) {
          Job& j = *static_cast<Job*>(at);
          j.self->Run(*j.where, *j.out, j.all);
        },
        &job);
  }

  // On the cube core.
  void Run(const mco_asc_where& where, const Target& out, bool all) {
    // As they are stored: the whole matrix in GM, in UB this core's part.
    Stored(a_, A_TYPE::format, m_, ka_, single_m_, single_k_);
    Stored(b_, B_TYPE::format, kb_, n_, single_k_, single_n_);
    if (out.atomic) mco_asc_atomic(&where, out.atomic, mco_asc::dtype_of<C>::value);
    if (all) {
      for (int64_t i = 0; i < BlocksM() * BlocksN(); ++i) Block(where, i, out);
    } else {
      Block(where, block_, out);
    }
    if (out.atomic) mco_asc_atomic(&where, 0, 0);
  }
  static void Stored(mco_asc::Source& s, CubeFormat format, int64_t rows, int64_t columns, int64_t part_rows,
                     int64_t part_columns) {
    s.nz = format == CubeFormat::NZ;
    s.rows = s.gm ? rows : part_rows, s.columns = s.gm ? columns : part_columns;
    if (s.transposed) std::swap(s.rows, s.columns);
    if (format == CubeFormat::ND_ALIGN || (!s.gm && !s.nz)) {
      s.columns = mco_asc::round_to(s.columns, format == CubeFormat::ND_ALIGN ? 32 / int64_t(sizeof(A)) : 1);
    }
  }

  // A tile of an operand in TSCM lies in L1 already, as load2d takes it, where whole fractals of it are there.
  static int64_t Height(const mco_asc::Source& s) { return mco_asc::round_to(s.rows, 16); }
  static bool InPlace(TPosition position, const mco_asc::Source& s, int64_t r, int64_t k, int64_t rows) {
    return position == TPosition::TSCM && r + rows <= Height(s) && r % 16 == 0 && k % (32 / int64_t(sizeof(A))) == 0;
  }
  template <class T>
  static LocalTensor<T> Within(const mco_asc::Source& s, int64_t r, int64_t k) {
    const int64_t from = (k / (32 / int64_t(sizeof(T))) * Height(s) + r) * 32;
    void* at = mco_asc::moved(s.at, from);
    return LocalTensor<T>(at, s.home, uint32_t(s.home ? s.home->bytes / sizeof(T) : 0));
  }

  void Block(const mco_asc_where& where, int64_t number, const Target& out) {
    using mco_asc::CubeMemory;
    using mco_asc::integer;
    using mco_asc::issue;
    using mco_asc::Op;
    using mco_asc::operand;
    using mco_asc::round_to;
    using mco_asc::square_side;
    using mco_asc::straight;
    using mco_asc::tile_in;
    using mco_asc::turned;
    const bool first_n = tiling_.iterateOrder == 1;
    const int64_t bm = first_n ? number / BlocksN() : number % BlocksM(),
                  bn = first_n ? number % BlocksN() : number / BlocksM();
    const int64_t r = bm * tiling_.baseM, c = bn * tiling_.baseN;
    const int64_t m = std::min<int64_t>(tiling_.baseM, single_m_ - r),
                  n = std::min<int64_t>(tiling_.baseN, single_n_ - c);
    constexpr int64_t side = square_side<A>, c0 = 32 / int64_t(sizeof(A));
    const int64_t mm = round_to(m, a_.transposed ? side : 16), nn = round_to(n, b_.transposed ? 16 : side);
    CubeMemory<A> memory;
    LocalTensor<L0cT> sum(TPosition::CO1, 0, TOTAL_L0C_SIZE / 4);
    for (int64_t k = 0; k < single_k_; k += tiling_.baseK) {
      const int64_t kk = std::min<int64_t>(tiling_.baseK, single_k_ - k), pitch = round_to(kk, side);
      if (a_.transposed) {
        tile_in(where, memory.a1, a_, k, r, kk, m, pitch, sizeof(A) == 4);
        turned(where, memory.a2, memory.a1, kk, mm, true);
      } else if (InPlace(A_TYPE::pos, a_, r, k, mm)) {
        straight(where, memory.a2, Within<A>(a_, r, k), mm / 16, (kk + c0 - 1) / c0, Height(a_), false);
      } else {
        tile_in(where, memory.a1, a_, r, k, m, kk, mm, false);
        straight(where, memory.a2, memory.a1, mm / 16, (kk + c0 - 1) / c0, mm, false);
      }
      if (b_.transposed && InPlace(B_TYPE::pos, b_, c, k, nn)) {
        straight(where, memory.b2, Within<B>(b_, c, k), (kk + c0 - 1) / c0, nn / 16, Height(b_), true);
      } else if (b_.transposed) {
        tile_in(where, memory.b1, b_, c, k, n, kk, nn, false);
        straight(where, memory.b2, memory.b1, (kk + c0 - 1) / c0, nn / 16, nn, true);
      } else {
        tile_in(where, memory.b1, b_, k, c, kk, n, pitch, sizeof(A) == 4);
        turned(where, memory.b2, memory.b1, kk, nn, false);
      }
      if (!k && has_bias_) BiasIn(where, sum, c, n, mm, nn);
      issue(Op::mmad, where, {operand(sum, 64), operand(memory.a2, 512), operand(memory.b2, 512)},
            {integer(mm), integer(kk), integer(nn)}, {k || has_bias_});
    }
    BlockOut(where, sum, out, number, r, c, m, n, mm);
  }

  void BiasIn(const mco_asc_where& where, const LocalTensor<L0cT>& sum, int64_t c, int64_t n, int64_t mm, int64_t nn) {
    using mco_asc::dtype_of;
    using mco_asc::integer;
    using mco_asc::issue;
    using mco_asc::Op;
    using mco_asc::operand;
    using mco_asc::round_to;
    if constexpr (std::is_same<V, L0cT>::value || (std::is_same<V, half>::value && std::is_same<L0cT, float>::value)) {
      const int64_t bytes = n * int64_t(sizeof(V));
      const LocalTensor<V> l1(TPosition::C1, TOTAL_L1_SIZE - 2048, 2048 / sizeof(V)),
          table(TPosition::C2, 0, 1024 / sizeof(V));
      issue(Op::data_move, where,
            {operand(l1), bias_.from(c * int64_t(sizeof(V)), dtype_of<V>::value, int32_t(sizeof(V)))},
            {integer(1), integer(bytes), integer(0), integer(0)});
      issue(Op::data_move, where, {operand(table), operand(l1)},
            {integer(1), integer(round_to(bytes, 64)), integer(0), integer(0)});
      issue(Op::broadcast_l0c, where, {operand(sum, 64), operand(table)},
            {integer(1), integer(nn / 16), integer(mm / 16), integer(0), integer(0)});
    } else {
      mco_asc_fault(&where, "the type of the bias; accepted: that of the sum (float, int32_t), or half");
    }
  }

  static constexpr bool kWord = !std::is_same<C, L0cT>::value && (std::is_same<L0cT, int32_t>::value || sizeof(C) == 1);

  void BlockOut(const mco_asc_where& where, const LocalTensor<L0cT>& sum, const Target& out, int64_t number, int64_t r,
                int64_t c, int64_t m, int64_t n, int64_t mm) {
    using mco_asc::dtype_of;
    using mco_asc::integer;
    using mco_asc::issue;
    using mco_asc::Op;
    using mco_asc::operand;
    using mco_asc::round_to;
    constexpr int64_t size = sizeof(C), block = 32 / size, width = size == 1 ? 32 : 16;
    const bool nz = C_TYPE::format == CubeFormat::NZ;
    int64_t at, stride, across = n;
    if (nz) {
      const bool part = !out.place.gm && !out.whole;
      const int64_t height = out.sequential || part ? round_to(m, 16) : round_to(out.whole ? single_m_ : m_, 16);
      stride = height * width * size;
      at = out.sequential ? Before(number) : part ? 0 : c / width * height * width + r * width;
      across = round_to(n, 16);
    } else {
      const int64_t pitch = out.sequential ? tiling_.baseN : out.whole ? single_n_ : out.place.gm ? nc_ : n;
      stride = (C_TYPE::format == CubeFormat::ND_ALIGN || !out.place.gm ? round_to(pitch, block) : pitch) * size;
      at = out.sequential              ? int64_t(number) * tiling_.baseM * tiling_.baseN
           : out.place.gm || out.whole ? r * stride / size + c
                                       : 0;
      if (!out.place.gm && out.sequential) at = 0;
    }
    if (kWord && !has_scale_ && !has_scales_) {
      mco_asc_fault(&where, "C needs a scale; accepted: SetQuantScalar or SetQuantVector before");
    }
    LocalTensor<uint64_t> words;
    if (kWord && has_scales_) {
      words = LocalTensor<uint64_t>(TPosition::A1, TOTAL_L1_SIZE - 8192, 512);
      issue(Op::data_move, where, {operand(words), operand(scales_[uint64_t(c)])},
            {integer(1), integer(n * 8), integer(0), integer(0)});
    }
    const bool vector = kWord && has_scales_;
    issue(Op::l0c_matrix, where,
          {out.place.from(at * size, dtype_of<C>::value, out.place.gm ? int32_t(size) : 32), operand(sum, 64),
           vector ? operand(words) : operand(sum, 64)},
          {integer(1), integer(m), integer(across), integer(mm * 16 * 4), integer(0), integer(stride), integer(0),
           integer(int64_t(scale_))},
          {nz ? width : 0, kWord, 0, vector});
  }
  // Elements of the blocks before one, written one behind the other.
  int64_t Before(int64_t number) const {
    return number * mco_asc::round_to(tiling_.baseM, 16) * mco_asc::round_to(tiling_.baseN, 16);
  }

  TCubeTiling tiling_{};
  mco_asc::Source a_, b_, bias_;
  GlobalTensor<uint64_t> scales_;
  uint64_t scale_ = 0;
  bool ready_ = false, has_bias_ = false, has_scale_ = false, has_scales_ = false;
  int32_t m_ = 0, n_ = 0, ka_ = 0, kb_ = 0, nc_ = 0, single_m_ = 0, single_n_ = 0, single_k_ = 0;
  int32_t batch_a_ = 0, batch_b_ = 0;  // of SetBatchNum
  int64_t block_ = -1;
};

}  // namespace AscendC
