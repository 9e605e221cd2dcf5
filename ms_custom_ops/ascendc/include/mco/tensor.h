// SPDX-License-Identifier: Apache-2.0
// Tensors: places in on-chip memory and in GM.
#pragma once

#include <utility>

#include "mco/types.h"

namespace mco_asc {

// An address in on-chip memory: a pointer of any type, or a number.
template <class T>
class Address {
 public:
  explicit Address(void* at) : at_(at) {}
  template <class U>
  operator U*() const {
    return static_cast<U*>(at_);
  }
  operator uint64_t() const { return reinterpret_cast<uint64_t>(at_); }
  T& operator*() const { return *static_cast<T*>(at_); }
  T& operator[](size_t i) const { return static_cast<T*>(at_)[i]; }
  T* operator+(size_t i) const { return static_cast<T*>(at_) + i; }

 private:
  void* at_;
};

// What reinterpret_cast stands for in sources that apply it to what GetPhyAddr gives: on the chip that is a number or a
// pointer, as the version of CANN has it, and both can be cast.
template <class T>
constexpr bool is_address = false;
template <class T>
constexpr bool is_address<Address<T>> = true;
template <class To, class From>
inline To reinterpret(From&& from) {
  if constexpr (!is_address<std::remove_cv_t<std::remove_reference_t<From>>>) {
    return reinterpret_cast<To>(std::forward<From>(from));
  } else if constexpr (std::is_pointer<To>::value) {
    return from;
  } else {
    return static_cast<To>(static_cast<uint64_t>(from));
  }
}

inline void* moved(void* at, int64_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) + uintptr_t(bytes));
}

// Element `bytes` into a tensor, checked.
template <class T>
inline T* element(void* tensor, const mco_asc_home* home, int64_t bytes, int how, const char* call, Where where) {
  uint8_t* at = static_cast<uint8_t*>(moved(tensor, bytes));
  if (home && tensor && uintptr_t(at) >= uintptr_t(home->lo) && uintptr_t(at) + sizeof(T) <= uintptr_t(home->hi)) {
    return reinterpret_cast<T*>(at);
  }
  const mco_asc_where here = where.of(call);
  return static_cast<T*>(mco_asc_touch(&here, at, tensor ? home : nullptr, int64_t(sizeof(T)), how));
}

}  // namespace mco_asc

namespace AscendC {

template <class T>
class LocalTensor {
  static_assert(!mco_asc::on_950<T>, MCO_ASC_NO_950);

 public:
  using PrimType = T;
  LocalTensor() = default;
  // A place of its own choice, without a TPipe.
  LocalTensor(TPosition position, uint32_t address, uint32_t elements, mco_asc::Where where = mco_asc::Where::here())
      : size_(elements) {
    const mco_asc_where here = where.of("LocalTensor");
    home_ = mco_asc_place(&here, int(position), address, mco_asc::bytes_for<T>(elements), &at_);
  }
  LocalTensor(void* at, const mco_asc_home* home, uint32_t elements) : at_(at), home_(home), size_(elements) {}

  T GetValue(uint32_t index, mco_asc::Where where = mco_asc::Where::here()) const {
    return *mco_asc::element<T>(at_, home_, int64_t(index) * int64_t(sizeof(T)), false, "GetValue", where);
  }
  template <class U>
  void SetValue(uint32_t index, U value, mco_asc::Where where = mco_asc::Where::here()) const {
    *mco_asc::element<T>(at_, home_, int64_t(index) * int64_t(sizeof(T)), true, "SetValue", where) = T(value);
  }
  T& operator()(uint32_t index) const {
    return *mco_asc::element<T>(at_, home_, int64_t(index) * int64_t(sizeof(T)), MCO_ASC_EITHER, "LocalTensor()",
                                mco_asc::Where::nowhere());
  }
  LocalTensor operator[](uint32_t offset) const {
    return LocalTensor(mco_asc::moved(at_, mco_asc::bytes_for<T>(offset)), home_, size_ > offset ? size_ - offset : 0);
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    const uint64_t bits = uint64_t(size_) * uint64_t(mco_asc::bits_of<T>);
    return LocalTensor<U>(at_, home_, uint32_t(bits / uint64_t(mco_asc::bits_of<U>)));
  }
  template <class U>
  void SetAddrWithOffset(LocalTensor<U>& source, uint32_t offset) {
    at_ = mco_asc::moved(source.mco_at(), mco_asc::bytes_for<U>(offset));
    home_ = source.mco_home();
  }
  void SetAddr(uint32_t offset) { at_ = mco_asc::moved(at_, mco_asc::bytes_for<T>(offset)); }

  uint32_t GetSize() const { return size_; }
  void SetSize(uint32_t elements) { size_ = elements; }
  void SetBufferLen(uint32_t elements) { size_ = elements; }
  uint32_t GetLength() const { return uint32_t(mco_asc::bytes_for<T>(size_)); }
  int32_t GetPosition() const { return home_ ? home_->position : int32_t(TPosition::VECCALC); }
  mco_asc::Address<T> GetPhyAddr(uint32_t offset = 0) const {
    if (home_ && !home_->lo) mco_asc_expose(at_, home_);
    return mco_asc::Address<T>(mco_asc::moved(at_, mco_asc::bytes_for<T>(offset)));
  }
  uint64_t GetBufferHandle() const { return reinterpret_cast<uint64_t>(home_); }
  void SetUserTag(int32_t tag) { tag_ = tag; }
  int32_t GetUserTag() const { return tag_; }
  void SetShapeInfo(const ShapeInfo& shape) {
    shape_ = static_cast<ShapeInfo*>(mco_asc_keep(sizeof shape));
    *shape_ = shape;
  }
  ShapeInfo GetShapeInfo() const { return shape_ ? *shape_ : ShapeInfo(); }
  void Print(mco_asc::Where where = mco_asc::Where::here()) const;
  void Print(uint32_t elements, mco_asc::Where where = mco_asc::Where::here()) const;

  template <class E, std::enable_if_t<std::is_same<typename E::Result, T>::value, int> = 0>
  LocalTensor& operator=(const E& expression) {
    expression.compute(*this);
    return *this;
  }

  void* mco_at() const { return at_; }
  const mco_asc_home* mco_home() const { return home_; }

 private:
  void* at_ = nullptr;
  const mco_asc_home* home_ = nullptr;
  uint32_t size_ = 0;
  int32_t tag_ = 0;
  ShapeInfo* shape_ = nullptr;
};

template <class T>
class GlobalTensor {
  static_assert(!mco_asc::on_950<T>, MCO_ASC_NO_950);

 public:
  using PrimType = T;
  GlobalTensor() = default;

  void SetGlobalBuffer(T* address, uint64_t elements = 0) {
    address_ = address;
    size_ = elements;
    home_ = mco_asc_find_gm(address);
  }
  T GetValue(uint64_t index, mco_asc::Where where = mco_asc::Where::here()) const {
    return *mco_asc::element<T>(address_, home_, int64_t(index * sizeof(T)), MCO_ASC_GM, "GetValue", where);
  }
  template <class U>
  void SetValue(uint64_t index, U value, mco_asc::Where where = mco_asc::Where::here()) const {
    *mco_asc::element<T>(address_, home_, int64_t(index * sizeof(T)), MCO_ASC_GM | MCO_ASC_WRITE, "SetValue", where) =
        T(value);
  }
  T& operator()(uint64_t index) const {
    return *mco_asc::element<T>(address_, home_, int64_t(index * sizeof(T)), MCO_ASC_GM | MCO_ASC_EITHER,
                                "GlobalTensor()", mco_asc::Where::nowhere());
  }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor out = *this;
    out.address_ = static_cast<T*>(mco_asc::moved(address_, mco_asc::bytes_for<T>(int64_t(offset))));
    out.size_ = size_ > offset ? size_ - offset : 0;
    return out;
  }
  template <class U>
  GlobalTensor<U> ReinterpretCast() const {
    GlobalTensor<U> out;
    out.mco_set(reinterpret_cast<U*>(address_), home_,
                size_ * uint64_t(mco_asc::bits_of<T>) / uint64_t(mco_asc::bits_of<U>));
    return out;
  }
  uint64_t GetSize() const { return size_; }
  T* GetPhyAddr() const { return address_; }
  T* GetPhyAddr(uint64_t offset) const {
    return static_cast<T*>(mco_asc::moved(address_, mco_asc::bytes_for<T>(int64_t(offset))));
  }
  template <CacheRwMode mode = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}
  void SetShapeInfo(const ShapeInfo& shape) {
    shape_ = static_cast<ShapeInfo*>(mco_asc_keep(sizeof shape));
    *shape_ = shape;
  }
  ShapeInfo GetShapeInfo() const { return shape_ ? *shape_ : ShapeInfo(); }

  void* mco_at() const { return address_; }
  const mco_asc_home* mco_home() const { return home_; }
  void mco_set(T* address, const mco_asc_home* home, uint64_t elements) {
    address_ = address;
    home_ = home;
    size_ = elements;
  }

 private:
  T* address_ = nullptr;
  const mco_asc_home* home_ = nullptr;
  uint64_t size_ = 0;
  ShapeInfo* shape_ = nullptr;
};

}  // namespace AscendC
