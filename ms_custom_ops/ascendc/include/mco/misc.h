// SPDX-License-Identifier: Apache-2.0
// Printing, checks of kernels, lists of tensors, bits of scalars, what is accepted and has no effect here.
#pragma once

#include <cassert>
#include <cstdio>
#include <tuple>
#include <type_traits>

#include "mco/sort.h"

namespace mco_asc {

// What an assertion that holds is. On the chip ASSERT is nothing, and public kernels leave the semicolon before it out
// (`n = tiles ASSERT(tiles != 0);`): as a sum it may stand behind a value, or alone.
struct Held {};
inline Held operator+(Held held) { return held; }
template <class T>
inline T operator+(T value, Held) {
  return value;
}
inline Held hold(bool condition, const char* text, const char* file, int line) {
  if (!condition) {
    const mco_asc_where here = {"ASSERT", file, line};
    mco_asc_fault(&here, "%s does not hold", text);
  }
  return {};
}

}  // namespace mco_asc

#ifndef ASSERT
#define ASSERT(condition, ...) +::mco_asc::hold(bool(condition), #condition, __FILE__, __LINE__)
#endif
#define ascendc_assert(condition, ...) ASSERT(condition)
// With statements that say more, for when it does not hold. A build for the chip leaves it out, and so does one with
// the define "ASCENDC_ASSERT(...)=".
#ifndef ASCENDC_ASSERT
#define ASCENDC_ASSERT(condition, ...) \
  do {                                 \
    if (!(condition)) __VA_ARGS__;     \
    ASSERT(condition);                 \
  } while (0)
#endif
// A case that a kernel does not handle, with what it says of it.
#ifndef ASCENDC_REPORT_NOT_SUPPORT
#define ASCENDC_REPORT_NOT_SUPPORT(condition, what) \
  do {                                              \
    ASSERT(condition);                              \
  } while (0);
#endif
#ifndef KERNEL_LOG
#define KERNEL_LOG(...)
#endif
#ifndef KERNEL_LOG_DEBUG
#define KERNEL_LOG_DEBUG(...)
#endif
#define ENABLE_PRINTF()
#define ENABLE_DUMP()

namespace mco_asc {

template <class T>
inline void print_element(T value) {
  if constexpr (is_real<T>) {
    std::printf("%g ", double(float(value)));
  } else {
    std::printf("%lld ", static_cast<long long>(value));
  }
}

// As a variable argument list takes it.
template <class T>
inline auto printed(T value) {
  if constexpr (is_real<T> && !std::is_floating_point_v<T>) {
    return double(float(value));
  } else {
    return value;
  }
}

template <class Tensor>
inline void print(const char* what, const Tensor& t, uint32_t n, Where where) {
  std::printf("%s [", what);
  for (uint32_t i = 0; i < n; ++i) print_element(t.GetValue(i, where));
  std::printf("]\n");
}

}  // namespace mco_asc

namespace AscendC {

template <class... A>
inline void printf(const char* format, A... values) {
  std::printf(format, mco_asc::printed(values)...);
}
template <class... A>
inline void PRINTF(const char* format, A... values) {
  AscendC::printf(format, values...);
}

template <class T>
inline void LocalTensor<T>::Print(mco_asc::Where where) const {
  mco_asc::print("LocalTensor", *this, GetSize(), where);
}
template <class T>
inline void LocalTensor<T>::Print(uint32_t elements, mco_asc::Where where) const {
  mco_asc::print("LocalTensor", *this, elements < GetSize() ? elements : GetSize(), where);
}

template <class T>
inline void DumpTensor(const LocalTensor<T>& tensor, uint32_t tag, uint32_t elements,
                       mco_asc::Where where = mco_asc::Where::here()) {
  std::printf("%s %lld, DumpTensor %u: ", mco_asc_this_core("DumpTensor")->is_cube ? "AIC" : "AIV",
              static_cast<long long>(mco_asc_this_core("DumpTensor")->block), tag);
  mco_asc::print("LocalTensor", tensor, elements, where);
}
template <class T>
inline void DumpTensor(const LocalTensor<T>& tensor, uint32_t tag, uint32_t elements, const ShapeInfo&,
                       mco_asc::Where where = mco_asc::Where::here()) {
  DumpTensor(tensor, tag, elements, where);
}
template <class T>
inline void DumpTensor(const GlobalTensor<T>& tensor, uint32_t tag, uint32_t elements,
                       mco_asc::Where where = mco_asc::Where::here()) {
  std::printf("%s %lld, DumpTensor %u: ", mco_asc_this_core("DumpTensor")->is_cube ? "AIC" : "AIV",
              static_cast<long long>(mco_asc_this_core("DumpTensor")->block), tag);
  mco_asc::print("GlobalTensor", tensor, elements, where);
}
template <class T>
inline void DumpTensor(const GlobalTensor<T>& tensor, uint32_t tag, uint32_t elements, const ShapeInfo&,
                       mco_asc::Where where = mco_asc::Where::here()) {
  DumpTensor(tensor, tag, elements, where);
}
template <class T>
inline void DumpAccChkPoint(const T&, uint32_t, uint32_t, uint32_t) {}
inline void PrintTimeStamp(uint32_t) {}
[[noreturn]] inline void Trap(mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("Trap");
  mco_asc_fault(&here, "called by the kernel");
}

// A list of tensors in GM: 64-bit words. The first is the offset in bytes of the addresses; before them stands for each
// tensor its number of axes (in the low half) and its axes.
template <class T>
class TensorDesc {
 public:
  TensorDesc() = default;
  void SetShapeAddr(uint64_t* shape) { shape_ = shape; }
  uint64_t GetDim() const { return dims_; }
  uint64_t GetIndex() const { return index_; }
  uint64_t GetShape(uint32_t axis) const { return shape_ ? shape_[axis] : 0; }
  T* GetDataPtr() const { return data_; }
  GlobalTensor<T> GetDataObj() const {
    GlobalTensor<T> out;
    out.SetGlobalBuffer(data_);
    return out;
  }
  void mco_fill(uint64_t index, uint64_t dims, const uint64_t* axes, T* data) {
    index_ = index;
    dims_ = dims;
    data_ = data;
    for (uint64_t i = 0; shape_ && i < dims; ++i) shape_[i] = axes[i];
  }

 private:
  uint64_t index_ = 0, dims_ = 0;
  uint64_t* shape_ = nullptr;
  T* data_ = nullptr;
};

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  explicit ListTensorDesc(__gm__ void* data, uint32_t = 0xFFFFFFFF, uint32_t = 0xFFFFFFFF) { Init(data); }
  void Init(__gm__ void* data, uint32_t = 0xFFFFFFFF, uint32_t = 0xFFFFFFFF) {
    words_ = static_cast<uint64_t*>(data);
    size_ = 0;
    for (uint64_t at = 1; at * 8 < words_[0]; at += 1 + (words_[at] & 0xFFFFFFFF)) ++size_;
  }
  uint32_t GetSize() const { return size_; }
  template <class T>
  __gm__ T* GetDataPtr(uint32_t index) const {
    return reinterpret_cast<T*>(words_[words_[0] / 8 + index]);
  }
  template <class T>
  void GetDesc(TensorDesc<T>& desc, uint32_t index) const {
    uint64_t at = 1;
    for (uint32_t i = 0; i < index; ++i) at += 1 + (words_[at] & 0xFFFFFFFF);
    desc.mco_fill(index, words_[at] & 0xFFFFFFFF, words_ + at + 1, GetDataPtr<T>(index));
  }

 private:
  uint64_t* words_ = nullptr;
  uint32_t size_ = 0;
};

// Scalars.
template <int value>
inline int64_t ScalarGetCountOfValue(uint64_t bits) {
  return value ? __builtin_popcountll(bits) : 64 - __builtin_popcountll(bits);
}
inline int64_t ScalarCountLeadingZero(uint64_t bits) { return bits ? __builtin_clzll(bits) : 64; }
inline int64_t CountBitsCntSameAsSignBit(int64_t bits) {
  const uint64_t same = uint64_t(bits < 0 ? ~bits : bits);
  return same ? __builtin_clzll(same) - 1 : 63;
}
template <int value>
inline int64_t ScalarGetSFFValue(uint64_t bits) {
  const uint64_t wanted = value ? bits : ~bits;
  return wanted ? __builtin_ctzll(wanted) : -1;
}
template <class From, class To, RoundMode mode>
inline To ScalarCast(From value) {
  const double v = double(value);
  if constexpr (mco_asc::is_real<To>) return To(float(value));
  const double r = mode == RoundMode::CAST_FLOOR   ? __builtin_floor(v)
                   : mode == RoundMode::CAST_CEIL  ? __builtin_ceil(v)
                   : mode == RoundMode::CAST_ROUND ? __builtin_round(v)
                   : mode == RoundMode::CAST_TRUNC ? __builtin_trunc(v)
                                                   : __builtin_nearbyint(v);
  return To(r);
}

namespace Std {
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <class A, class B>
using is_same = std::is_same<A, B>;
template <class A, class B>
using is_base_of = std::is_base_of<A, B>;
template <class A, class B>
using is_convertible = std::is_convertible<A, B>;
template <bool B, class T = void>
using enable_if = std::enable_if<B, T>;
template <bool B, class X, class Y>
using conditional = std::conditional<B, X, Y>;
template <class... T>
using tuple = std::tuple<T...>;
template <class A, class B>
constexpr bool is_same_v = std::is_same_v<A, B>;
template <class A, class B>
constexpr bool is_base_of_v = std::is_base_of_v<A, B>;
template <class A, class B>
constexpr bool is_convertible_v = std::is_convertible_v<A, B>;
template <bool B, class T = void>
using enable_if_t = std::enable_if_t<B, T>;
template <bool B, class X, class Y>
using conditional_t = std::conditional_t<B, X, Y>;
template <class T, T value>
using integral_constant = std::integral_constant<T, value>;
using std::false_type;
using std::get;
using std::index_sequence;
using std::make_index_sequence;
using std::make_tuple;
using std::true_type;
using std::tuple_size;
template <int n>
using Int = std::integral_constant<int, n>;
}  // namespace Std

// What becomes of results beyond the range: infinities and NaN of half (FLOAT), and integers that Cast makes (CAST).
enum class SaturationMode { FLOAT, INT, CAST };

}  // namespace AscendC

namespace mco_asc {

constexpr int kSaturation = 2;  // of mco_asc_core::user: bits of the modes that are not as a core begins
template <AscendC::SaturationMode mode>
inline bool saturates(const mco_asc_core* core) {
  using AscendC::SaturationMode;
  static_assert(mode != SaturationMode::INT,
                "AscendC::SetSaturationFlag: INT is not there; accepted: SaturationMode::FLOAT, SaturationMode::CAST");
  const bool first = mode == SaturationMode::CAST || !core->split;  // of 910B half has infinities
  return first != bool(uintptr_t(core->user[kSaturation]) >> int(mode) & 1);
}

}  // namespace mco_asc

namespace AscendC {

template <SaturationMode mode>
inline bool GetSaturationFlag() {
  return mco_asc::saturates<mode>(mco_asc_this_core("GetSaturationFlag"));
}
template <SaturationMode mode>
inline void SetSaturationFlag(bool enable, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc_core* core = mco_asc_this_core("SetSaturationFlag");
  if (mco_asc::saturates<mode>(core) == enable) return;
  void*& kept = core->user[mco_asc::kSaturation];
  kept = reinterpret_cast<void*>(uintptr_t(kept) ^ uintptr_t(1) << int(mode));
  mco_asc::issue(mco_asc::Op::set_mode, where.of("SetSaturationFlag"), {}, {}, {mode == SaturationMode::CAST, !enable});
}

// Registers that change nothing here.
inline void SetHF32Mode(bool) {}
inline void SetHF32TransMode(bool) {}
template <int64_t high = 0, int64_t low = 0>
inline void SetCtrlSpr(int64_t) {}
template <int64_t high = 0, int64_t low = 0>
inline int64_t GetCtrlSpr() {
  return 0;
}
template <int64_t high = 0, int64_t low = 0>
inline void ResetCtrlSpr() {}
template <int64_t bit = 0>
inline void ClearSpr() {}
inline int64_t GetProgramCounter() { return 0; }
inline void SetNextTaskStart() {}
inline void WaitPreTaskEnd() {}

}  // namespace AscendC

// Masks as intrinsics.
inline void set_mask_norm() { AscendC::SetMaskNorm(); }
inline void set_mask_count() { AscendC::SetMaskCount(); }
inline void set_vector_mask(uint64_t high, uint64_t low) { mco_asc_set_mask(low, high); }
inline void dcci(...) { mco_asc_pause(); }
using AscendC::PRINTF;  // kernels of before the namespace
