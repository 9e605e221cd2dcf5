// SPDX-License-Identifier: Apache-2.0
// Tiling of Matmul: how M, N and K are split over cores and into base blocks that fit L0A, L0B, L0C and L1.
//
// The choice is this project's own. It keeps the rules of the manual (a base block fits its buffers, two of A and B at
// a time; sizes are whole fractals), not the vendor's numbers.
#ifndef MCO_HOST_MATMUL_TILING_H_
#define MCO_HOST_MATMUL_TILING_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mco_host/platform_infos.h"
#include "mco_host/tiling_data.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(TCubeTiling)
#define MCO_CUBE_FIELD(name) TILING_DATA_FIELD_DEF(int32_t, name)
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
END_TILING_DATA_DEF

}  // namespace optiling

namespace matmul_tiling {

enum class TPosition : int32_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  MAX
};  // clang-format off
enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, VECTOR, SCALAR, ND_ALIGN, COLUMN_MAJOR };
enum class DataType : int32_t {
  DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7, DT_UINT32 = 8,
  DT_INT64 = 9, DT_UINT64 = 10, DT_DOUBLE = 11, DT_BOOL = 12, DT_BF16 = 27, DT_BFLOAT16 = DT_BF16, DT_INT4 = 29
};  // clang-format on
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class DequantType { SCALAR = 0, TENSOR = 1, DEFAULT };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT = 1 };
enum class BatchMode { NONE = 0, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
// Sizes of a chip's memories that a source gives itself, in place of a PlatformAscendC.
struct PlatformInfo {
  platform_ascendc::SocVersion socVersion = platform_ascendc::SocVersion::RESERVED_VERSION;
  uint64_t l1Size = 0, l0CSize = 0, ubSize = 0, l0ASize = 0, l0BSize = 0;
};
struct SysTilingTempBufSize {
  int32_t ubSize = 0, l1Size = 0, l0cSize = 0;
};

class MatmulApiTilingBase {
 public:
  // Without a platform: of the chip that the source is built for.
  MatmulApiTilingBase() : MatmulApiTilingBase(*platform_ascendc::PlatformAscendCManager::GetInstance()) {}
  explicit MatmulApiTilingBase(const platform_ascendc::PlatformAscendC& platform) {
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_A, l0a_);
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_B, l0b_);
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L0_C, l0c_);
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L1, l1_);
  }
  explicit MatmulApiTilingBase(const PlatformInfo& platform)
      : l0a_(platform.l0ASize), l0b_(platform.l0BSize), l0c_(platform.l0CSize), l1_(platform.l1Size) {}
  virtual ~MatmulApiTilingBase() = default;

  int32_t SetAType(TPosition, CubeFormat, DataType type, bool = false) { return a_type_ = type, 0; }
  int32_t SetBType(TPosition, CubeFormat, DataType type, bool = false) { return b_type_ = type, 0; }
  int32_t SetCType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetBiasType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetBias(bool bias) { return bias_ = bias, 0; }
  int32_t EnableBias(bool bias = false) { return SetBias(bias); }
  int32_t SetShape(int32_t m, int32_t n, int32_t k) { return m_ = m, n_ = n, k_ = k, 0; }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) { return SetOrgShape(m, n, k, k); }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb) {
    return org_m_ = m, org_n_ = n, org_ka_ = ka, org_kb_ = kb, 0;
  }
  int32_t SetFixSplit(int32_t m = -1, int32_t n = -1, int32_t k = -1) { return fix_m_ = m, fix_n_ = n, fix_k_ = k, 0; }
  // -1 stands for all of a buffer.
  int32_t SetBufferSpace(int32_t l1 = -1, int32_t l0c = -1, int32_t = -1, int32_t = -1) {
    if (l1 >= 0) l1_ = std::min<uint64_t>(l1_, static_cast<uint64_t>(l1));
    if (l0c >= 0) l0c_ = std::min<uint64_t>(l0c_, static_cast<uint64_t>(l0c));
    return 0;
  }
  int32_t SetTraverse(MatrixTraverse order) { return first_n_ = order == MatrixTraverse::FIRSTN, 0; }
  int32_t SetDequantType(DequantType) { return 0; }
  int32_t SetBatchNum(int32_t batches) { return batches_ = batches, 0; }
  int32_t GetBaseM() const { return plan_.baseM; }
  int32_t GetBaseN() const { return plan_.baseN; }
  int32_t GetBaseK() const { return plan_.baseK; }

  // 0, or -1 when no base block fits or the shape is not known.
  template <typename T>
  int64_t GetTiling(T& tiling) {
    if (!Plan()) return -1;
    if constexpr (std::is_base_of<optiling::TilingDef, T>::value) {
#define MCO_CUBE_FIELD(name) tiling.set_##name(plan_.name);
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
    } else {
#define MCO_CUBE_FIELD(name) tiling.name = plan_.name;
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
    }
    return 0;
  }

 protected:
  struct Values {
#define MCO_CUBE_FIELD(name) int32_t name = 0;
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
  };
  // Shares of M and N of one core.
  virtual void Split(int32_t m, int32_t n, int32_t k, Values* plan) = 0;

  static int32_t Up(int32_t value, int32_t unit) { return (value + unit - 1) / unit * unit; }
  static int32_t Pieces(int32_t whole, int32_t piece) { return (whole + piece - 1) / piece; }
  static constexpr int32_t kFractal = 16;
  static constexpr int32_t kWhole = 1 << 24;  // more than the elements of any base block
  int32_t fix_m_ = -1, fix_n_ = -1, fix_k_ = -1;

 private:
  static int32_t Bytes(DataType type) {
    const int size = ge::GetSizeByDataType(static_cast<ge::DataType>(type));
    return size > ge::kDataTypeSizeBitOffset ? 1 : size;
  }
  bool Plan() {
    const int32_t m = m_ > 0 ? m_ : org_m_, n = n_ > 0 ? n_ : org_n_, k = k_ > 0 ? k_ : org_ka_;
    if (m <= 0 || n <= 0 || k <= 0 || Bytes(a_type_) <= 0 || Bytes(b_type_) <= 0) return false;
    plan_ = Values();
    plan_.M = org_m_ > 0 ? org_m_ : m;
    plan_.N = org_n_ > 0 ? org_n_ : n;
    plan_.Ka = org_ka_ > 0 ? org_ka_ : k;
    plan_.Kb = org_kb_ > 0 ? org_kb_ : k;
    Split(m, n, k, &plan_);
    plan_.isBias = bias_;
    plan_.iterateOrder = first_n_;
    plan_.batchM = plan_.batchN = plan_.singleBatchM = plan_.singleBatchN = 1;
    plan_.BatchNum = batches_;
    plan_.stepM = plan_.stepN = 1;
    plan_.dbL0A = plan_.dbL0B = 2;
    plan_.dbL0C = 1;
    return Base() && Depth();
  }
  // The largest base block whose A and B fit half of L0A and L0B, so that the next ones can be loaded meanwhile.
  bool Base() {
    const int32_t a = Bytes(a_type_), b = Bytes(b_type_), c0 = 32 / std::max(a, b);
    const int32_t unit_k = std::max(kFractal, c0);
    const int32_t l0a = static_cast<int32_t>(l0a_ / 2), l0b = static_cast<int32_t>(l0b_ / 2);
    const int32_t m = Up(plan_.singleCoreM, kFractal), n = Up(plan_.singleCoreN, kFractal);
    int32_t best = 0;
    for (int32_t base_m = kFractal; base_m <= std::min(m, 256); base_m += kFractal) {
      if (fix_m_ > 0 && base_m != kFractal) break;
      const int32_t use_m = fix_m_ > 0 ? fix_m_ : base_m;
      const int64_t room = static_cast<int64_t>(l0c_) / (4 * use_m) / kFractal * kFractal;
      const int32_t limit_n = static_cast<int32_t>(std::min<int64_t>(std::min<int64_t>(room, 256), n));
      const int32_t use_n = fix_n_ > 0 ? fix_n_ : limit_n;
      if (use_n <= 0 || static_cast<int64_t>(use_m) * use_n * 4 > static_cast<int64_t>(l0c_)) continue;
      const int32_t fits = std::min(l0a / (use_m * a), l0b / (use_n * b)) / unit_k * unit_k;
      const int32_t base_k = fix_k_ > 0 ? fix_k_ : std::min(fits, Up(plan_.singleCoreK, unit_k));
      if (base_k <= 0 || static_cast<int64_t>(use_m) * base_k * a > l0a * 2LL) continue;
      if (static_cast<int64_t>(use_n) * base_k * b > l0b * 2LL) continue;
      // Blocks without tails first: kernels that copy whole blocks rely on them.
      const bool whole = plan_.singleCoreM % use_m == 0 && plan_.singleCoreN % use_n == 0;
      const int32_t rank = use_m * use_n + (whole ? kWhole : 0);
      if (rank < best) continue;
      best = rank;
      plan_.baseM = use_m, plan_.baseN = use_n, plan_.baseK = base_k;
    }
    return best > 0;
  }
  bool Depth() {
    const int64_t a = static_cast<int64_t>(plan_.baseM) * plan_.baseK * Bytes(a_type_);
    const int64_t b = static_cast<int64_t>(plan_.baseN) * plan_.baseK * Bytes(b_type_);
    const int64_t bias = bias_ ? plan_.baseN * 4LL : 0;
    const int64_t room = static_cast<int64_t>(l1_) - bias;
    if (room < a + b) return false;
    int32_t steps = std::min(Pieces(plan_.singleCoreK, plan_.baseK), 4);
    while (steps > 1 && steps * 2 * (a + b) > room) steps--;
    const int32_t copies = steps * 2 * (a + b) <= room ? 2 : 1;
    plan_.stepKa = plan_.stepKb = steps;
    plan_.depthA1 = plan_.depthB1 = steps * copies;
    plan_.shareL1Size = static_cast<int32_t>(plan_.depthA1 * (a + b) + bias);
    plan_.shareL0CSize = plan_.baseM * plan_.baseN * 4;
    return true;
  }

  uint64_t l0a_ = 0, l0b_ = 0, l0c_ = 0, l1_ = 0;
  DataType a_type_ = DataType::DT_FLOAT16, b_type_ = DataType::DT_FLOAT16;
  int32_t m_ = -1, n_ = -1, k_ = -1, org_m_ = -1, org_n_ = -1, org_ka_ = -1, org_kb_ = -1, batches_ = 0;
  bool bias_ = false, first_n_ = false;
  Values plan_;
};

// All of the product on one core.
class MatmulApiTiling : public MatmulApiTilingBase {
 public:
  using MatmulApiTilingBase::MatmulApiTilingBase;

 protected:
  void Split(int32_t m, int32_t n, int32_t k, Values* plan) override {
    plan->usedCoreNum = 1;
    plan->singleCoreM = m, plan->singleCoreN = n, plan->singleCoreK = k;
  }
};

// M and N over the cores of SetDim.
class MultiCoreMatmulTiling : public MatmulApiTilingBase {
 public:
  using MatmulApiTilingBase::MatmulApiTilingBase;
  int32_t SetDim(int32_t cores) { return cores_ = cores, 0; }
  int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    return single_m_ = m, single_n_ = n, single_k_ = k, 0;
  }
  int32_t SetAlignSplit(int32_t m, int32_t n, int32_t) { return align_m_ = m, align_n_ = n, 0; }
  int32_t GetSingleShape(int32_t& m, int32_t& n, int32_t& k) const {
    return m = split_.singleCoreM, n = split_.singleCoreN, k = split_.singleCoreK, 0;
  }
  int32_t GetCoreNum(int32_t& cores, int32_t& along_m, int32_t& along_n) const {
    along_m = parts_m_, along_n = parts_n_, cores = parts_m_ * parts_n_;
    return 0;
  }

 protected:
  void Split(int32_t m, int32_t n, int32_t k, Values* plan) override {
    plan->singleCoreK = single_k_ > 0 ? single_k_ : k;
    if (single_m_ > 0 && single_n_ > 0) {
      plan->singleCoreM = single_m_, plan->singleCoreN = single_n_;
    } else {
      Share(m, n, plan);
    }
    parts_m_ = Pieces(m, plan->singleCoreM), parts_n_ = Pieces(n, plan->singleCoreN);
    plan->usedCoreNum = parts_m_ * parts_n_;
    split_ = *plan;
  }

 private:
  // The shares with the least work for one core, and among those the ones that read least.
  void Share(int32_t m, int32_t n, Values* plan) {
    const int32_t unit_m = align_m_ > 0 ? align_m_ : kFractal, unit_n = align_n_ > 0 ? align_n_ : kFractal;
    int64_t least_work = -1, least_read = 0;
    for (int32_t parts = 1; parts <= std::max(cores_, 1); parts++) {
      const int32_t share_m = std::min(Up(Pieces(m, parts), unit_m), Up(m, unit_m));
      const int32_t others = std::max(cores_, 1) / Pieces(m, share_m);
      const int32_t share_n = Up(Pieces(n, std::max(others, 1)), unit_n);
      const int64_t work = static_cast<int64_t>(share_m) * share_n, read = share_m + share_n;
      if (least_work >= 0 && (work > least_work || (work == least_work && read >= least_read))) continue;
      least_work = work, least_read = read;
      plan->singleCoreM = std::min(share_m, m), plan->singleCoreN = std::min(share_n, n);
    }
    WholeShares(m, n, least_work, plan);
  }
  // Equal shares that base blocks divide, where a core has at most twice the work of the shares above.
  void WholeShares(int32_t m, int32_t n, int64_t least_work, Values* plan) {
    const int32_t unit_m = fix_m_ > 0 ? fix_m_ : align_m_ > 0 ? align_m_ : kFractal;
    const int32_t unit_n = fix_n_ > 0 ? fix_n_ : align_n_ > 0 ? align_n_ : kFractal;
    int64_t best = 2 * least_work + 1, best_read = 0;
    for (int32_t share_m = unit_m; share_m <= m; share_m += unit_m) {
      if (m % share_m) continue;
      for (int32_t share_n = unit_n; share_n <= n; share_n += unit_n) {
        if (n % share_n || (m / share_m) * (n / share_n) > std::max(cores_, 1)) continue;
        const int64_t work = static_cast<int64_t>(share_m) * share_n, read = share_m + share_n;
        if (work > best || (work == best && read >= best_read)) continue;
        best = work, best_read = read;
        plan->singleCoreM = share_m, plan->singleCoreN = share_n;
      }
    }
  }
  int32_t cores_ = 1, single_m_ = -1, single_n_ = -1, single_k_ = -1, align_m_ = -1, align_n_ = -1;
  int32_t parts_m_ = 0, parts_n_ = 0;
  Values split_;
};

}  // namespace matmul_tiling

#endif  // MCO_HOST_MATMUL_TILING_H_
