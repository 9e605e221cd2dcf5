// SPDX-License-Identifier: Apache-2.0
// Tensors: places in on-chip memory and in GM.
#pragma once

#include <cstddef>
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

// A tensor of TensorTrait<T> is one of T here: what it lacks on the chip, room for shapes, is not counted.
template <class T, bool accepted>
struct TraitOf {
  static_assert(accepted, "AscendC::TensorTrait: a position or a layout is not there; accepted: TensorTrait<T>");
  using type = T;
};

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

template <class T, TPosition position = TPosition::GM, class... Layout>
using TensorTrait = typename mco_asc::TraitOf<T, position == TPosition::GM && sizeof...(Layout) == 0>::type;
template <class T>
using PrimT = T;

// Where a tensor lies, as kernels without a TPipe put it together themselves.
struct TBuffAddr {
  uint32_t dataLen = 0;
  uint64_t bufferAddr = 0;
  uint64_t bufferHandle = 0;
  uint8_t logicPos = 0;
};

}  // namespace AscendC

namespace mco_asc {

// A LocalTensor's address, with the fields by which kernels set it. bufferAddr is a number of bytes within the memory
// of logicPos, or what GetPhyAddr or another bufferAddr gave; the engine knows whose memory a pointer is, and takes
// small numbers for bytes of UB. A number of another memory becomes a pointer here, as soon as the position is known.
template <class T>
struct TensorAddress {
  struct Buffer {
    void* at = nullptr;
    const mco_asc_home* home = nullptr;
    operator uint64_t() const { return reinterpret_cast<uint64_t>(at); }
    Buffer& operator=(uint64_t address);
  };
  struct Length {
    uint32_t elements = 0;
    operator uint32_t() const { return uint32_t(bytes_for<T>(elements)); }
    Length& operator=(uint32_t bytes) {
      elements = uint32_t(uint64_t(bytes) * 8 / uint64_t(bits_of<T>));
      return *this;
    }
  };
  struct Position {
    uint8_t value = uint8_t(AscendC::TPosition::VECCALC);
    operator uint8_t() const { return value; }
    Position& operator=(uint8_t position);
  };
  Buffer bufferAddr;
  Length dataLen;
  Position logicPos;

  void look_up() {
    const auto position = AscendC::TPosition(logicPos.value);
    const bool vector = position >= AscendC::TPosition::VECIN && position <= AscendC::TPosition::VECCALC;
    const uint64_t number = bufferAddr;
    if (bufferAddr.home || vector || position == AscendC::TPosition::GM || number >> 32) return;
    const mco_asc_where here = Where::nowhere().of("LocalTensor");
    mco_asc_place(&here, int(position), 0, 0, &bufferAddr.at);
    bufferAddr.at = moved(bufferAddr.at, int64_t(number));
  }
};
template <class T>
typename TensorAddress<T>::Buffer& TensorAddress<T>::Buffer::operator=(uint64_t address) {
  at = reinterpret_cast<void*>(address), home = nullptr;
  reinterpret_cast<TensorAddress*>(moved(this, -int64_t(offsetof(TensorAddress, bufferAddr))))->look_up();
  return *this;
}
template <class T>
typename TensorAddress<T>::Position& TensorAddress<T>::Position::operator=(uint8_t position) {
  value = position;
  reinterpret_cast<TensorAddress*>(moved(this, -int64_t(offsetof(TensorAddress, logicPos))))->look_up();
  return *this;
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
      : LocalTensor(nullptr, nullptr, elements) {
    const mco_asc_where here = where.of("LocalTensor");
    home() = mco_asc_place(&here, int(position), address, mco_asc::bytes_for<T>(elements), &at());
  }
  LocalTensor(void* at, const mco_asc_home* home, uint32_t elements) : address_{{at, home}, {elements}, {}} {}

  T GetValue(uint32_t index, mco_asc::Where where = mco_asc::Where::here()) const {
    return *mco_asc::element<T>(at(), home(), int64_t(index) * int64_t(sizeof(T)), false, "GetValue", where);
  }
  template <class U>
  void SetValue(uint32_t index, U value, mco_asc::Where where = mco_asc::Where::here()) const {
    *mco_asc::element<T>(at(), home(), int64_t(index) * int64_t(sizeof(T)), true, "SetValue", where) = T(value);
  }
  T& operator()(uint32_t index) const {
    return *mco_asc::element<T>(at(), home(), int64_t(index) * int64_t(sizeof(T)), MCO_ASC_EITHER, "LocalTensor()",
                                mco_asc::Where::nowhere());
  }
  LocalTensor operator[](uint32_t offset) const {
    return LocalTensor(mco_asc::moved(at(), mco_asc::bytes_for<T>(offset)), home(),
                       address_.dataLen.elements > offset ? address_.dataLen.elements - offset : 0);
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    const uint64_t bits = uint64_t(address_.dataLen.elements) * uint64_t(mco_asc::bits_of<T>);
    return LocalTensor<U>(at(), home(), uint32_t(bits / uint64_t(mco_asc::bits_of<U>)));
  }
  template <class U>
  void SetAddrWithOffset(LocalTensor<U>& source, uint32_t offset) {
    at() = mco_asc::moved(source.mco_at(), mco_asc::bytes_for<U>(offset));
    home() = source.mco_home();
  }
  void SetAddr(const TBuffAddr& address) {
    address_.logicPos = address.logicPos, address_.bufferAddr = address.bufferAddr, address_.dataLen = address.dataLen;
  }
  void SetAddr(uint32_t offset) { at() = mco_asc::moved(at(), mco_asc::bytes_for<T>(offset)); }

  uint32_t GetSize() const { return address_.dataLen.elements; }
  void SetSize(uint32_t elements) { address_.dataLen.elements = elements; }
  void SetBufferLen(uint32_t elements) { address_.dataLen.elements = elements; }
  uint32_t GetLength() const { return uint32_t(mco_asc::bytes_for<T>(address_.dataLen.elements)); }
  int32_t GetPosition() const { return home() ? home()->position : int32_t(address_.logicPos.value); }
  mco_asc::Address<T> GetPhyAddr(uint32_t offset = 0) const {
    if (home() && !home()->lo) mco_asc_expose(at(), home());
    return mco_asc::Address<T>(mco_asc::moved(at(), mco_asc::bytes_for<T>(offset)));
  }
  uint64_t GetBufferHandle() const { return reinterpret_cast<uint64_t>(home()); }
  void SetUserTag(int32_t tag) { Notes(GetShapeInfo(), tag); }
  int32_t GetUserTag() const { return notes_ ? notes_->tag : 0; }
  void SetShapeInfo(const ShapeInfo& shape) { Notes(shape, GetUserTag()); }
  ShapeInfo GetShapeInfo() const { return notes_ ? notes_->shape : ShapeInfo(); }
  void Print(mco_asc::Where where = mco_asc::Where::here()) const;
  void Print(uint32_t elements, mco_asc::Where where = mco_asc::Where::here()) const;

  template <class E, std::enable_if_t<std::is_same<typename E::Result, T>::value, int> = 0>
  LocalTensor& operator=(const E& expression) {
    expression.compute(*this);
    return *this;
  }

  void* mco_at() const { return at(); }
  const mco_asc_home* mco_home() const { return home(); }

  mco_asc::TensorAddress<T> address_;

 private:
  struct Noted {
    ShapeInfo shape;
    int32_t tag;
  };
  void Notes(const ShapeInfo& shape, int32_t tag) {
    notes_ = static_cast<Noted*>(mco_asc_keep(sizeof(Noted)));
    *notes_ = {shape, tag};
  }
  void*& at() { return address_.bufferAddr.at; }
  void* at() const { return address_.bufferAddr.at; }
  const mco_asc_home*& home() { return address_.bufferAddr.home; }
  const mco_asc_home* home() const { return address_.bufferAddr.home; }

  Noted* notes_ = nullptr;
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
