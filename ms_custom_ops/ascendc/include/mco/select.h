// SPDX-License-Identifier: Apache-2.0
// Compare and select. Bits are packed little endian, one for each element.
#pragma once

#include "mco/reduce.h"

namespace mco_asc {

using AscendC::CMPMODE;
using AscendC::SELMODE;

inline int64_t compare_number(CMPMODE mode) {
  switch (mode) {
    case CMPMODE::LT:
      return 0;
    case CMPMODE::GT:
      return 1;
    case CMPMODE::GE:
      return 2;
    case CMPMODE::EQ:
      return 3;
    case CMPMODE::NE:
      return 4;
    default:
      return 5;
  }
}

template <class T>
inline void check_compare(const mco_asc_where& where, CMPMODE mode) {
  static_assert(one_of<T, half, float, int32_t>,
                "AscendC::Compare: the type of the sources is not accepted; accepted: half, float, int32_t");
  if (std::is_same<T, int32_t>::value && mode != CMPMODE::EQ) {
    mco_asc_refuse(&where, "mode of int32_t", "not EQ", "CMPMODE::EQ");
  }
}

template <class T>
constexpr int64_t whole_repeats(int64_t count) {
  return count * int64_t(sizeof(T)) / 256;
}
template <class T>
constexpr int64_t lanes_left(int64_t count) {
  return count % (256 / int64_t(sizeof(T)));
}

template <class D, class T>
inline void compare(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& a,
                    const LocalTensor<T>& b, CMPMODE mode, int64_t repeat, const BinaryRepeatParams& p) {
  check_compare<T>(where.of(name), mode);
  issue(Op::vcmpv, where.of(name), {operand(dst), operand(a), operand(b)},
        {integer(repeat), integer(32 * p.src0BlkStride), integer(32 * p.src0RepStride), integer(32 * p.src1BlkStride),
         integer(32 * p.src1RepStride)},
        {compare_number(mode)});
}

template <class D, class T>
inline void compare_scalar(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& src, T value,
                           CMPMODE mode, int64_t repeat, const UnaryRepeatParams& p) {
  check_compare<T>(where.of(name), mode);
  issue(Op::vcmpvs, where.of(name), {operand(dst), operand(src)},
        {integer(repeat), scalar(value), integer(32 * p.srcBlkStride), integer(32 * p.srcRepStride)},
        {compare_number(mode)}, is_real<T> ? 2 : 0);
}

// A count of elements: whole repeats, then the lanes that are left. The manual asks for whole repeats; kernels do not
// always keep to that.
template <class D, class T>
inline void compare_count(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& a,
                          const LocalTensor<T>& b, CMPMODE mode, int64_t count) {
  const int64_t whole = whole_repeats<T>(count), left = lanes_left<T>(count), done = count - left;
  if (whole) compare(name, where, dst, a, b, mode, whole, BinaryRepeatParams());
  if (!left) return;
  check_compare<T>(where.of(name), mode);
  const LocalTensor<uint8_t> bits = dst.template ReinterpretCast<uint8_t>()[uint32_t(done / 8)];
  issue(Op::vcmp, where.of(name), lanes_of<true>(uint64_t(left), 1),
        {operand(bits, 1), operand(a[uint32_t(done)]), operand(b[uint32_t(done)])},
        {integer(32), integer(256), integer(32), integer(256)}, {compare_number(mode)});
  mco_asc_set_mask(~uint64_t(0), ~uint64_t(0));
}

template <class D, class T>
inline void compare_scalar_count(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& src,
                                 T value, CMPMODE mode, int64_t count) {
  const int64_t whole = whole_repeats<T>(count), left = lanes_left<T>(count), done = count - left;
  if (whole) compare_scalar(name, where, dst, src, value, mode, whole, UnaryRepeatParams());
  if (!left) return;
  const LocalTensor<T> lanes = scratch<T>(0, 256 / sizeof(T));
  const LocalTensor<uint8_t> bits = scratch<uint8_t>(512, 32);
  deliver(name, where, lanes, src[uint32_t(done)], left);
  compare_scalar(name, where, bits, lanes, value, mode, 1, UnaryRepeatParams());
  deliver(name, where, dst.template ReinterpretCast<uint8_t>()[uint32_t(done / 8)], bits, (left + 7) / 8);
  mco_asc_set_mask(~uint64_t(0), ~uint64_t(0));
}

// A mask does not keep a chip from comparing whole repeats. Where the lanes that are not asked for lie behind the block
// of an operand they are left out here: their bits hold nothing that a kernel could use.
template <class T>
inline bool ends_before(const LocalTensor<T>& tensor, int64_t bytes) {
  const mco_asc_home* home = tensor.mco_home();
  const int64_t left = home ? home->bytes - (static_cast<uint8_t*>(tensor.mco_at()) - home->base) : bytes;
  return left < bytes;
}
constexpr int64_t last_repeat(int64_t repeat, int64_t stride) { return 32 * stride * (repeat - 1); }

template <class D, class T>
inline void compare_masked(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& a,
                           const LocalTensor<T>& b, CMPMODE mode, uint64_t mask, int64_t repeat,
                           const BinaryRepeatParams& p) {
  constexpr int64_t lanes = 256 / int64_t(sizeof(T));
  const int64_t a_at = last_repeat(repeat, p.src0RepStride), b_at = last_repeat(repeat, p.src1RepStride);
  const bool short_of = ends_before(a, a_at + 256) || ends_before(b, b_at + 256);
  if (!repeat || mask >= uint64_t(lanes) || p.src0BlkStride != 1 || p.src1BlkStride != 1 || !short_of) {
    return compare(name, where, dst, a, b, mode, repeat, p);
  }
  if (repeat > 1) compare(name, where, dst, a, b, mode, repeat - 1, p);
  const LocalTensor<uint8_t> bits = dst.template ReinterpretCast<uint8_t>()[uint32_t((repeat - 1) * lanes / 8)];
  compare_count(name, where, bits, a[uint32_t(a_at / int64_t(sizeof(T)))], b[uint32_t(b_at / int64_t(sizeof(T)))], mode,
                int64_t(mask));
}

template <class D, class T>
inline void compare_scalar_masked(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<T>& src,
                                  T value, CMPMODE mode, uint64_t mask, int64_t repeat, const UnaryRepeatParams& p) {
  constexpr int64_t lanes = 256 / int64_t(sizeof(T));
  const int64_t at = last_repeat(repeat, p.srcRepStride);
  if (!repeat || mask >= uint64_t(lanes) || p.srcBlkStride != 1 || !ends_before(src, at + 256)) {
    return compare_scalar(name, where, dst, src, value, mode, repeat, p);
  }
  if (repeat > 1) compare_scalar(name, where, dst, src, value, mode, repeat - 1, p);
  const LocalTensor<uint8_t> bits = dst.template ReinterpretCast<uint8_t>()[uint32_t((repeat - 1) * lanes / 8)];
  compare_scalar_count(name, where, bits, src[uint32_t(at / int64_t(sizeof(T)))], value, mode, int64_t(mask));
}

// The register of compare masks: 16 bytes of the scratch.
constexpr int64_t kCompareMask = 12 << 10;
inline LocalTensor<uint8_t> compare_mask() { return scratch<uint8_t>(kCompareMask, 16); }
template <class T>
inline T in_compare_mask(const char* name, Where where) {
  const LocalTensor<uint8_t> mask = compare_mask();
  tell(name, where, mask, int64_t(sizeof(T)), 0);
  T value;
  std::memcpy(&value, mask.mco_at(), sizeof value);
  return value;
}

}  // namespace mco_asc

namespace AscendC {

template <class T, class D>
inline void Compare(const LocalTensor<D>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::compare_count("Compare", where, dst, src0, src1, mode, count);
}
template <class T, class D, bool isSetMask = true>
inline void Compare(const LocalTensor<D>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    const uint64_t mask, uint8_t repeat, const BinaryRepeatParams& params,
                    mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::compare_masked("Compare", where, dst, src0, src1, mode, isSetMask ? mask : ~uint64_t(0), repeat, params);
}
template <class T, class D, bool isSetMask = true>
inline void Compare(const LocalTensor<D>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                    const uint64_t[], uint8_t repeat, const BinaryRepeatParams& params,
                    mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::compare("Compare", where, dst, src0, src1, mode, repeat, params);
}

#define MCO_ASC_COMPARE_TO_REGISTER(MASK)                                                                        \
  template <class T, bool isSetMask = true>                                                                      \
  inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, MASK,                \
                      const BinaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {              \
    using mco_asc::integer;                                                                                      \
    mco_asc::check_compare<T>(where.of("Compare"), mode);                                                        \
    mco_asc::issue(mco_asc::Op::vcmp, where.of("Compare"), mco_asc::lanes_of<isSetMask>(mask, 1),                \
                   {mco_asc::operand(mco_asc::compare_mask()), mco_asc::operand(src0), mco_asc::operand(src1)},  \
                   {integer(32 * p.src0BlkStride), integer(32 * p.src0RepStride), integer(32 * p.src1BlkStride), \
                    integer(32 * p.src1RepStride)},                                                              \
                   {mco_asc::compare_number(mode)});                                                             \
  }
MCO_ASC_COMPARE_TO_REGISTER(const uint64_t mask)
MCO_ASC_COMPARE_TO_REGISTER(const uint64_t mask[])
#undef MCO_ASC_COMPARE_TO_REGISTER

#define MCO_ASC_COMPARE_SCALAR(NAME)                                                                            \
  template <class T, class D, bool isSetMask = true>                                                            \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<T>& src, const mco_asc::same_t<T> scalar,       \
                   CMPMODE mode, uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {               \
    mco_asc::compare_scalar_count<D, T>(#NAME, where, dst, src, scalar, mode, count);                           \
  }                                                                                                             \
  template <class T, class D, bool isSetMask = true>                                                            \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<T>& src, const mco_asc::same_t<T> scalar,       \
                   CMPMODE mode, const uint64_t mask, uint8_t repeat, const UnaryRepeatParams& params,          \
                   mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::compare_scalar_masked<D, T>(#NAME, where, dst, src, scalar, mode, isSetMask ? mask : ~uint64_t(0), \
                                         repeat, params);                                                       \
  }                                                                                                             \
  template <class T, class D, bool isSetMask = true>                                                            \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<T>& src, const mco_asc::same_t<T> scalar,       \
                   CMPMODE mode, const uint64_t[], uint8_t repeat, const UnaryRepeatParams& params,             \
                   mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::compare_scalar(#NAME, where, dst, src, scalar, mode, repeat, params);                              \
  }
MCO_ASC_COMPARE_SCALAR(CompareScalar)
MCO_ASC_COMPARE_SCALAR(Compares)
#undef MCO_ASC_COMPARE_SCALAR

template <class T>
inline void GetCmpMask(const LocalTensor<T>& dst, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::deliver("GetCmpMask", where, dst.template ReinterpretCast<uint16_t>(),
                   mco_asc::compare_mask().ReinterpretCast<uint16_t>(), 8);
}
template <class T>
inline void SetCmpMask(const LocalTensor<T>& src, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::deliver("SetCmpMask", where, mco_asc::compare_mask().ReinterpretCast<uint16_t>(),
                   src.template ReinterpretCast<uint16_t>(), 8, 16);
}

}  // namespace AscendC

namespace mco_asc {

template <class T, class U>
inline void select(Where where, const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& a,
                   const LocalTensor<T>& b, SELMODE mode, const Lanes& lanes, const BinaryRepeatParams& p) {
  static_assert(one_of<T, half, float>, "AscendC::Select: the type is not accepted; accepted: half, float");
  const mco_asc_where here = where.of("Select");
  if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) {
    mco_asc_refuse(&here, "mode", "VSEL_TENSOR_SCALAR_MODE with two tensors", "a scalar, or VSEL_TENSOR_TENSOR_MODE");
  }
  issue(Op::vsel, here, lanes, {operand(dst), operand(sel), operand(a), operand(b)},
        {integer(32 * p.dstBlkStride), integer(32 * p.dstRepStride), integer(32 * p.src0BlkStride),
         integer(32 * p.src0RepStride), integer(32 * p.src1BlkStride), integer(32 * p.src1RepStride)},
        {mode == SELMODE::VSEL_CMPMASK_SPR ? 0 : 2});
}

template <class T, class U>
inline void select_scalar(Where where, const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& a,
                          T value, SELMODE mode, const Lanes& lanes, const BinaryRepeatParams& p) {
  static_assert(one_of<T, half, float>, "AscendC::Select: the type is not accepted; accepted: half, float");
  issue(Op::vsels, where.of("Select"), lanes, {operand(dst), operand(sel), operand(a)},
        {scalar(value), integer(32 * p.dstBlkStride), integer(32 * p.dstRepStride), integer(32 * p.src0BlkStride),
         integer(32 * p.src0RepStride)},
        {mode == SELMODE::VSEL_CMPMASK_SPR ? 0 : 1}, 1);
}

}  // namespace mco_asc

namespace AscendC {

template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint32_t count,
                   mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::select(where, dst, sel, src0, src1, mode, mco_asc::count_of(count), BinaryRepeatParams());
}
template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& src0,
                   mco_asc::same_t<T> src1, SELMODE mode, uint32_t count,
                   mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::select_scalar(where, dst, sel, src0, src1, mode, mco_asc::count_of(count), BinaryRepeatParams());
}
#define MCO_ASC_SELECT(MASK)                                                                                      \
  template <class T, class U, bool isSetMask = true>                                                              \
  inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& src0,            \
                     const LocalTensor<T>& src1, SELMODE mode, MASK, uint8_t repeat, const BinaryRepeatParams& p, \
                     mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::select(where, dst, sel, src0, src1, mode, mco_asc::lanes_of<isSetMask>(mask, repeat), p);            \
  }                                                                                                               \
  template <class T, class U, bool isSetMask = true>                                                              \
  inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& src0,            \
                     mco_asc::same_t<T> src1, SELMODE mode, MASK, uint8_t repeat, const BinaryRepeatParams& p,    \
                     mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::select_scalar(where, dst, sel, src0, src1, mode, mco_asc::lanes_of<isSetMask>(mask, repeat), p);     \
  }
MCO_ASC_SELECT(uint64_t mask)
MCO_ASC_SELECT(const uint64_t mask[])
#undef MCO_ASC_SELECT
// By the register that Compare without a destination, or SetCmpMask, wrote: the bits themselves, or the address of bits
// that are read on from repeat to repeat.
template <class T, SELMODE mode = SELMODE::VSEL_CMPMASK_SPR>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint8_t repeat,
                   const BinaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(
      mode != SELMODE::VSEL_TENSOR_SCALAR_MODE,
      "AscendC::Select: VSEL_TENSOR_SCALAR_MODE with two tensors is not accepted; accepted: VSEL_CMPMASK_SPR, "
      "VSEL_TENSOR_TENSOR_MODE");
  LocalTensor<uint8_t> bits = mco_asc::compare_mask();
  if (mode == SELMODE::VSEL_TENSOR_TENSOR_MODE) {
    bits = LocalTensor<uint8_t>(mco_asc::in_compare_mask<void*>("Select", where), nullptr, 0);
  }
  mco_asc::select(where, dst, bits, src0, src1, mode, mco_asc::Lanes{MCO_ASC_REGISTER, 0, 0, repeat}, p);
}
// A tensor and a number, which SetCmpMask was given in the first element of its tensor.
template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& sel, const LocalTensor<T>& src0, uint8_t repeat,
                   const BinaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::select_scalar(where, dst, sel, src0, mco_asc::in_compare_mask<T>("Select", where),
                         SELMODE::VSEL_TENSOR_SCALAR_MODE, mco_asc::Lanes{MCO_ASC_REGISTER, 0, 0, repeat}, p);
}

}  // namespace AscendC
