// SPDX-License-Identifier: Apache-2.0
// Conversions between types.
#pragma once

#include "mco/vector.h"

namespace mco_asc {

// Pairs of Cast on 910B and 310P.
template <class D, class S>
constexpr bool can_cast =
    (std::is_same<S, half>::value && one_of<D, int4b_t, int8_t, uint8_t, int16_t, int32_t, float>) ||
    (std::is_same<S, float>::value && one_of<D, half, bfloat16_t, int16_t, int32_t, int64_t, long long, float>) ||
    (std::is_same<S, bfloat16_t>::value && one_of<D, float, int32_t>) ||
    (one_of<S, int4b_t, int8_t, uint8_t> && std::is_same<D, half>::value) ||
    (std::is_same<S, int16_t>::value && one_of<D, half, float>) ||
    (std::is_same<S, int32_t>::value && one_of<D, float, half, int16_t, int64_t, long long>) ||
    (one_of<S, int64_t, long long> && one_of<D, int32_t, float>);

// Rounding as the engine numbers it.
inline int64_t round_mode(AscendC::RoundMode mode) {
  switch (mode) {
    case AscendC::RoundMode::CAST_RINT:
      return 1;
    case AscendC::RoundMode::CAST_FLOOR:
      return 2;
    case AscendC::RoundMode::CAST_CEIL:
      return 3;
    case AscendC::RoundMode::CAST_ROUND:
      return 4;
    case AscendC::RoundMode::CAST_TRUNC:
      return 5;
    case AscendC::RoundMode::CAST_ODD:
      return 6;
    default:
      return 0;
  }
}

template <class D, class S>
inline void cast(const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                 AscendC::RoundMode mode, const Lanes& lanes, int64_t dst_blk, int64_t dst_rep, int64_t src_blk,
                 int64_t src_rep) {
  const bool scaled = std::is_same<S, int32_t>::value && std::is_same<D, half>::value;
  // Wider floats hold every value: the mode says nothing.
  const bool widens = std::is_same<D, float>::value && one_of<S, half, bfloat16_t, int16_t>;
  const double scale = scaled ? mco_asc_this_core(name)->deq_scale : 1;
  issue(Op::vconv, where.of(name), lanes, {operand(dst), operand(src)},
        {real(scale), integer(dst_blk), integer(dst_rep), integer(src_blk), integer(src_rep)},
        {scaled || widens ? 0 : round_mode(mode), scaled}, 1);
}

// 4 bits to a half and back, as the halves of bytes: element i of a byte pair is its low part first.
void cast_int4(const mco_asc_where& where, const LocalTensor<half>& dst, const LocalTensor<int4b_t>& src,
               int64_t count);
void cast_int4(const mco_asc_where& where, const LocalTensor<int4b_t>& dst, const LocalTensor<half>& src,
               AscendC::RoundMode mode, int64_t count);

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_CAN_CAST(D, S)                                                                                  \
  static_assert(                                                                                                \
      mco_asc::can_cast<D, S>,                                                                                  \
      "AscendC::Cast: this pair of types is not accepted; accepted: half to int4b_t, "                          \
      "int8_t, uint8_t, int16_t, int32_t, float; float to half, bfloat16_t, int16_t, int32_t, int64_t, float; " \
      "bfloat16_t to float, int32_t; int4b_t, int8_t, uint8_t to half; int16_t to half, float; int32_t to "     \
      "float, half, int16_t, int64_t; int64_t to int32_t, float")

template <class D, class S>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint32_t count,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_CAN_CAST(D, S);
  if constexpr (std::is_same<S, int4b_t>::value) {
    mco_asc::cast_int4(where.of("Cast"), dst, src, count);
  } else if constexpr (std::is_same<D, int4b_t>::value) {
    mco_asc::cast_int4(where.of("Cast"), dst, src, mode, count);
  } else {
    using W = mco_asc::wider_t<D, S>;
    mco_asc::cast("Cast", where, dst, src, mode, mco_asc::count_of(count), 32, mco_asc::dense_repeat<D, W>, 32,
                  mco_asc::dense_repeat<S, W>);
  }
}
template <class D, class S, bool isSetMask = true>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint64_t mask,
                 const uint8_t repeat, const UnaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_CAN_CAST(D, S);
  static_assert(!mco_asc::one_of<int4b_t, D, S>, "AscendC::Cast: int4b_t is accepted with a count only");
  mco_asc::cast("Cast", where, dst, src, mode, mco_asc::lanes_of<isSetMask>(mask, repeat), 32 * p.dstBlkStride,
                32 * p.dstRepStride, 32 * p.srcBlkStride, 32 * p.srcRepStride);
}
template <class D, class S, bool isSetMask = true>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint64_t mask[],
                 const uint8_t repeat, const UnaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_CAN_CAST(D, S);
  static_assert(!mco_asc::one_of<int4b_t, D, S>, "AscendC::Cast: int4b_t is accepted with a count only");
  mco_asc::cast("Cast", where, dst, src, mode, mco_asc::lanes_of<isSetMask>(mask, repeat), 32 * p.dstBlkStride,
                32 * p.dstRepStride, 32 * p.srcBlkStride, 32 * p.srcRepStride);
}

// int32 accumulators to half by the scale of SetDeqScale. The other flags concern int16_t.
#define MCO_ASC_CAST_DEQ(NAME)                                                                                      \
  template <class D, class S, bool isVecDeq = true, bool halfBlock = true>                                          \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src, const uint32_t count,                      \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                 \
    MCO_ASC_CAN_CAST_DEQ(NAME);                                                                                     \
    Cast(dst, src, RoundMode::CAST_NONE, count, where);                                                             \
  }                                                                                                                 \
  template <class D, class S, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                   \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src, const int32_t mask, uint8_t repeat,        \
                   const UnaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {                     \
    MCO_ASC_CAN_CAST_DEQ(NAME);                                                                                     \
    Cast<D, S, isSetMask>(dst, src, RoundMode::CAST_NONE, uint64_t(mask), repeat, p, where);                        \
  }                                                                                                                 \
  template <class D, class S, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                   \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src, const uint64_t mask[], uint8_t repeat,     \
                   const UnaryRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {                     \
    MCO_ASC_CAN_CAST_DEQ(NAME);                                                                                     \
    Cast<D, S, isSetMask>(dst, src, RoundMode::CAST_NONE, mask, repeat, p, where);                                  \
  }
#define MCO_ASC_CAN_CAST_DEQ(NAME)                                        \
  static_assert(std::is_same<D, half>::value && std::is_same<S, int32_t>::value, \
                "AscendC::" #NAME ": these types are not accepted; accepted: int32_t to half")
MCO_ASC_CAST_DEQ(CastDequant)
MCO_ASC_CAST_DEQ(CastDeq)
#undef MCO_ASC_CAN_CAST_DEQ
#undef MCO_ASC_CAST_DEQ

inline float ToFloat(const bfloat16_t& value) { return float(value); }
inline float Cast(const bfloat16_t& value) { return float(value); }
inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }

inline void SetDeqScale(half scale) { mco_asc_this_core("SetDeqScale")->deq_scale = double(scale); }
template <class... T>
inline void SetDeqScale(float, int16_t, T...) {
  static_assert(sizeof...(T) == 99,
                "AscendC::SetDeqScale: a scale with an offset, for int16_t to 8 bits, is not there; accepted: a half, for "
                "int32_t to half");
}

}  // namespace AscendC

namespace mco_asc {

inline void cast_int4(const mco_asc_where& where, const LocalTensor<half>& dst, const LocalTensor<int4b_t>& src,
                      int64_t count) {
  const Where at = Where::of(where);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = *element<uint8_t>(src.mco_at(), src.mco_home(), i / 2, false, where.call, at);
    const int value = byte >> (i % 2 * 4) & 15;
    *element<half>(dst.mco_at(), dst.mco_home(), 2 * i, true, where.call, at) = half(value > 7 ? value - 16 : value);
  }
}

inline void cast_int4(const mco_asc_where& where, const LocalTensor<int4b_t>& dst, const LocalTensor<half>& src,
                      AscendC::RoundMode mode, int64_t count) {
  const Where at = Where::of(where);
  // Through int8, by the engine's rounding, in chunks of the scratch.
  const mco_asc_home* home = mco_asc_scratch();
  const LocalTensor<int8_t> bytes(home->base, home, 4096);
  for (int64_t done = 0; done < count; done += 4096) {
    const int64_t n = count - done < 4096 ? count - done : 4096;
    cast(where.call, at, bytes, src[uint32_t(done)], mode, count_of(n), 32, 128, 32, 256);
    for (int64_t i = 0; i < n; ++i) {
      int value = *element<int8_t>(bytes.mco_at(), home, i, false, where.call, at);
      value = value > 7 ? 7 : value < -8 ? -8 : value;
      uint8_t* byte = element<uint8_t>(dst.mco_at(), dst.mco_home(), (done + i) / 2, true, where.call, at);
      *byte = uint8_t(i % 2 ? (*byte & 15) | (value & 15) << 4 : (*byte & 0xF0) | (value & 15));
    }
  }
}

}  // namespace mco_asc
