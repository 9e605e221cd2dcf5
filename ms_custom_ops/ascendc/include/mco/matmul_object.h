// SPDX-License-Identifier: Apache-2.0
// Matmul: products that vector cores ask for and the cube core of their block computes.
#pragma once

#include <algorithm>
#include <tuple>

#include "mco/matmul_product.h"
#include "mco/matmul_static.h"

namespace AscendC {

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<>, class POLICY = MatmulPolicy>
class Matmul : public mco_asc::Product<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE> {
  using P = mco_asc::Product<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>;
  using P::a_, P::b_, P::bias_, P::tiling_, P::scale_, P::scales_, P::has_bias_, P::has_scale_, P::has_scales_;
  using P::m_, P::n_, P::ka_, P::kb_, P::nc_, P::single_m_, P::single_n_, P::single_k_, P::block_, P::sum_;
  using P::Place, P::BlocksM, P::BlocksN, P::Packed, P::Before;
  using typename P::Target, typename P::Tile, typename P::What;

 public:
  using typename P::A, typename P::B, typename P::C, typename P::V;

  static_assert(std::is_same<A, B>::value, "AscendC::Matmul: the types of A and B differ; accepted: one type");
  static_assert(mco_asc::one_of<A, half, bfloat16_t, float, int8_t>,
                "AscendC::Matmul: the type of A is not accepted; accepted: half, bfloat16_t, float, int8_t");
  static_assert((A_TYPE::pos != TPosition::TSCM || A_TYPE::format == CubeFormat::NZ) &&
                    (B_TYPE::pos != TPosition::TSCM || B_TYPE::format == CubeFormat::NZ),
                "AscendC::Matmul: the format of an operand in TSCM is not accepted; accepted: NZ");

  static constexpr bool kComplete = mco_asc::complete(MM_CFG);  // without a tiling at run time
  void Init(const TCubeTiling* tiling, TPipe* = nullptr, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::Init");
    if (!tiling && !mco_asc::complete(MM_CFG)) {
      mco_asc_fault(&here,
                    "the tiling is null; accepted: one of the host, or constants of GetMatmulApiTiling that have "
                    "base blocks and this core's part");
    }
    tiling_ = tiling ? *tiling : TCubeTiling();
    mco_asc::set_constants(tiling_, tiling, MM_CFG);
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
  template <class T>
  void SetWorkspace(GlobalTensor<T>& workspace) {
    workspace_.mco_set(static_cast<C*>(workspace.mco_at()), workspace.mco_home(),
                       workspace.GetSize() * sizeof(T) / sizeof(C));
  }
  template <class T>
  void SetWorkspace(__gm__ const T* workspace, int size) {
    workspace_.SetGlobalBuffer((__gm__ C*)workspace, uint64_t(size) * sizeof(T) / sizeof(C));
  }
  void SetQuantScalar(uint64_t scale) { scale_ = scale, has_scale_ = true, has_scales_ = false; }
  void SetQuantVector(const GlobalTensor<uint64_t>& scales) {
    scales_ = scales, has_scales_ = true, has_scale_ = false;
  }

  // What changes how the product is computed and not what it is.
  void SetSubBlockIdx(uint8_t) {}
  void SetHF32(bool, int32_t = 0) {}
  template <class T>
  void SetLocalWorkspace(const LocalTensor<T>&) {}
  template <class T>
  void SetUserDefInfo(const T) {}
  template <class T>
  void SetSelfDefineData(const T) {}
  template <class... T>
  void SetSparseIndex(const T&...) {
    static_assert(sizeof...(T) == 99, "AscendC::Matmul: sparse products are not accepted; accepted: dense A and B");
  }
  template <class... T>
  void SetAntiQuantScalar(T...) {
    static_assert(sizeof...(T) == 99, "AscendC::Matmul: anti-quantization is not accepted; accepted: equal types");
  }

  // The next base block. Without sync the first call stands for all of them. A part that is one block is computed at
  // once: what it gives stays until GetTensorC takes it, and a partial sum adds to it.
  template <bool sync = true>
  bool Iterate(bool partial = false, mco_asc::Where where = mco_asc::Where::here()) {
    static_assert(mco_asc::config_of(MM_CFG).scheduleType == ScheduleType::INNER_PRODUCT,
                  "AscendC::Matmul::Iterate: ScheduleType::OUTER_PRODUCT is not accepted; accepted: INNER_PRODUCT, or "
                  "IterateAll");
    const mco_asc_where here = where.of("Matmul::Iterate");
    if (partial) CheckPartial(here, sync);
    if (!sync) {
      Restart();
      return true;
    }
    if (!Advance(here)) return false;
    if (BlocksM() * BlocksN() == 1) {
      Hand(here, Target(), partial ? What::more : What::sum);
      summed_ = true;
    }
    return true;
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
  // Into the workspace, one block behind the other.
  template <bool sync = true>
  GlobalTensor<C> GetTensorC(uint8_t enAtomic = 0, bool = false, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::GetTensorC");
    NeedWorkspace(here);
    OutBlock<sync>(here, Out(workspace_, enAtomic, true));
    return workspace_[uint64_t(C_TYPE::format == CubeFormat::NZ ? Before(block_) : Packed(block_))];
  }
  void AsyncGetTensorC(const LocalTensor<C>& c, mco_asc::Where where = mco_asc::Where::here()) {
    OutBlock<false>(where.of("Matmul::AsyncGetTensorC"), Out(c, 0, false));
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
    Batch(where.of("Matmul::IterateBatch"), Out(c, enAtomic, sequential), batchA, batchB, strideA, strideB, strideC);
  }
  // Several batches, into the workspace; GetBatchTensorC gives one after another.
  template <bool sync = true, bool waitIterateBatch = false>
  void IterateNBatch(uint32_t batchLoop, uint32_t batchA, uint32_t batchB, bool sequential, uint32_t strideA = 0,
                     uint32_t strideB = 0, uint32_t strideC = 0, mco_asc::Where where = mco_asc::Where::here()) {
    static_assert(Plain(A_TYPE::layout) && Plain(B_TYPE::layout) && Plain(C_TYPE::layout),
                  "AscendC::Matmul::IterateNBatch: the layout is not accepted; accepted: NONE, NORMAL");
    static_assert(C_TYPE::format == CubeFormat::ND || C_TYPE::format == CubeFormat::ND_ALIGN,
                  "AscendC::Matmul::IterateNBatch: the format of C is not accepted; accepted: ND, ND_ALIGN");
    const mco_asc_where here = where.of("Matmul::IterateNBatch");
    NeedWorkspace(here);
    const mco_asc::Source a = a_, b = b_;
    batches_ = 0;
    for (uint32_t i = 0; i < batchLoop; ++i) {
      a_.at = mco_asc::moved(a.at, i * NextA(strideA) * batchA * int64_t(sizeof(A)));
      b_.at = mco_asc::moved(b.at, i * NextB(strideB) * batchB * int64_t(sizeof(B)));
      const int64_t at = i * NextC(strideC) * std::max(batchA, batchB);
      Batch(here, Out(workspace_[uint64_t(at)], 0, sequential), batchA, batchB, strideA, strideB, strideC);
    }
    a_ = a, b_ = b;
  }
  template <bool sync = true>
  GlobalTensor<C> GetBatchTensorC(uint32_t batchA, uint32_t batchB, bool = false,
                                  mco_asc::Where where = mco_asc::Where::here()) {
    NeedWorkspace(where.of("Matmul::GetBatchTensorC"));
    return workspace_[uint64_t(batches_++ * NextC(0) * std::max(batchA, batchB))];
  }
  template <bool sync = true>
  GlobalTensor<C> GetBatchC(uint32_t batchA, uint32_t batchB, bool sequential = false,
                            mco_asc::Where where = mco_asc::Where::here()) {
    return GetBatchTensorC<sync>(batchA, batchB, sequential, where);
  }
  template <bool sync = true>
  void GetBatchTensorC(const LocalTensor<C>& c, uint32_t batchA, uint32_t batchB, bool = false,
                       mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Matmul::GetBatchTensorC");
    const int64_t bytes = int64_t(nc_) * int64_t(sizeof(C)), rows = int64_t(m_) * std::max(batchA, batchB);
    if (bytes % 32 && C_TYPE::format != CubeFormat::ND_ALIGN) {
      mco_asc_fault(&here,
                    "a row of C has %lld bytes in UB; accepted: whole blocks of 32 bytes, or CubeFormat::ND_ALIGN",
                    (long long)bytes);
    }
    DataCopyPad(c, GetBatchTensorC(batchA, batchB, false, where),
                DataCopyExtParams(uint16_t(rows), uint32_t(bytes), 0, 0, 0), DataCopyPadExtParams<C>());
  }
  template <bool sync = true>
  void GetBatchC(const LocalTensor<C>& c, uint32_t batchA, uint32_t batchB, bool sequential = false,
                 mco_asc::Where where = mco_asc::Where::here()) {
    GetBatchTensorC<sync>(c, batchA, batchB, sequential, where);
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
  void End() { Restart(), summed_ = false; }

 private:
  struct Job {
    Matmul* self;
    const mco_asc_where* where;
    const Target* out;
    What what;
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
    Hand(where, out, sync && summed_ && BlocksM() * BlocksN() == 1 ? What::kept : What::block);
  }
  void All(const mco_asc_where& where, const Target& out) {
    Check(where);
    Hand(where, out, What::all);
    Restart();
  }
  void Hand(const mco_asc_where& where, const Target& out, What what) {
    Job job = {this, &where, &out, what};
    mco_asc_hand(
        &where,
        [](void* at) {
          Job& j = *static_cast<Job*>(at);
          j.self->Run(*j.where, *j.out, j.what);
        },
        &job);
  }

  void CheckPartial(const mco_asc_where& where, bool sync) const {
    if (!sync) mco_asc_fault(&where, "enPartialSum is true without sync; accepted: Iterate<true>");
    if (BlocksM() * BlocksN() != 1) {
      mco_asc_fault(&where,
                    "enPartialSum is true, this core's part is %d x %d and a base block %d x %d; accepted: a part that "
                    "is one base block",
                    single_m_, single_n_, tiling_.baseM, tiling_.baseN);
    }
    if (!summed_) mco_asc_fault(&where, "enPartialSum is true and there is no sum; accepted: after an Iterate(false)");
    if (has_bias_) mco_asc_fault(&where, "enPartialSum is true and a bias is set; accepted: ClearBias before");
    if (single_m_ != sum_.m || single_n_ != sum_.n || Place(0).mm != sum_.mm) {
      mco_asc_fault(&where, "enPartialSum is true for a block of %d x %d, the sum has %lld x %lld; accepted: one shape",
                    single_m_, single_n_, (long long)sum_.m, (long long)sum_.n);
    }
  }
  void NeedWorkspace(const mco_asc_where& where) const {
    if (!workspace_.mco_at()) mco_asc_fault(&where, "there is no workspace; accepted: SetWorkspace before");
  }

  // Elements from one matrix of a batch to the next.
  int64_t NextA(uint32_t stride) const { return stride ? stride : int64_t(m_) * ka_; }
  int64_t NextB(uint32_t stride) const { return stride ? stride : int64_t(kb_) * n_; }
  int64_t NextC(uint32_t stride) const { return stride ? stride : int64_t(m_) * nc_; }
  void Batch(const mco_asc_where& where, Target out, uint32_t batchA, uint32_t batchB, uint32_t strideA,
             uint32_t strideB, uint32_t strideC) {
    if (batch_a_) batchA = uint32_t(batch_a_), batchB = uint32_t(batch_b_);
    if (!batchA || !batchB || std::max(batchA, batchB) % std::min(batchA, batchB)) {
      mco_asc_fault(&where, "batches of A and B are %u and %u; accepted: one a multiple of the other", batchA, batchB);
    }
    const mco_asc::Source a = a_, b = b_;
    void* const c = out.place.at;
    const uint32_t count = std::max(batchA, batchB);
    for (uint32_t i = 0; i < count; ++i) {
      a_.at = mco_asc::moved(a.at, i / (count / batchA) * NextA(strideA) * int64_t(sizeof(A)));
      b_.at = mco_asc::moved(b.at, i / (count / batchB) * NextB(strideB) * int64_t(sizeof(B)));
      out.place.at = mco_asc::moved(c, i * NextC(strideC) * int64_t(sizeof(C)));
      Restart();
      All(where, out);
    }
    a_ = a, b_ = b;
  }

  GlobalTensor<C> workspace_;
  bool ready_ = false, summed_ = false;
  int32_t batch_a_ = 0, batch_b_ = 0;  // of SetBatchNum
  int64_t batches_ = 0;                // that GetBatchTensorC gave
};

}  // namespace AscendC
