// SPDX-License-Identifier: Apache-2.0
// A call of the API as an instruction of the engine's table.
#pragma once

#include <initializer_list>

#include "mco/ops.inc"
#include "mco/tensor.h"

namespace mco_asc {

// The lanes of a call: `repeat` iterations, of which each has the lanes of a mask.
struct Lanes {
  uint8_t kind;
  uint64_t low, high;
  int64_t repeat;
};

inline Lanes count_of(int64_t count) { return {MCO_ASC_COUNT, uint64_t(count), 0, 1}; }

template <bool isSetMask>
inline Lanes lanes_of(uint64_t mask, int64_t repeat) {
  return {isSetMask ? uint8_t(MCO_ASC_NUMBER) : uint8_t(MCO_ASC_REGISTER), mask, 0, repeat};
}

template <bool isSetMask>
inline Lanes lanes_of(const uint64_t mask[], int64_t repeat) {
  if (!isSetMask) return {MCO_ASC_REGISTER, 0, 0, repeat};
  return {MCO_ASC_BITS, mask[0], mask[1], repeat};
}

inline mco_asc_value integer(int64_t i) {
  mco_asc_value v;
  v.i = i;
  return v;
}
inline mco_asc_value real(double f) {
  mco_asc_value v;
  v.f = f;
  return v;
}

// Value of a scalar of type T, and whether it is a float.
template <class T>
constexpr bool is_real = std::is_floating_point<T>::value || one_of<T, half, bfloat16_t>;
template <class T>
inline mco_asc_value scalar(T v) {
  if constexpr (is_real<T>) {
    return real(double(v));
  } else {
    return integer(int64_t(v));
  }
}

template <class T>
inline mco_asc_operand operand(const AscendC::LocalTensor<T>& t, int32_t align = 32) {
  return {t.mco_at(), t.mco_home(), dtype_of<T>::value, align, 0};
}
template <class T>
inline mco_asc_operand operand(const AscendC::GlobalTensor<T>& t) {
  return {t.mco_at(), t.mco_home(), dtype_of<T>::value, int32_t(sizeof(T)), 1};
}

// Memories as sets of positions: a call says in which its tensors may lie.
template <class... P>
constexpr uint32_t places(P... p) {
  return ((1u << uint32_t(p)) | ...);
}
constexpr uint32_t IN_L1 =
    places(AscendC::TPosition::A1, AscendC::TPosition::B1, AscendC::TPosition::C1, AscendC::TPosition::TSCM);
constexpr uint32_t IN_L0A = places(AscendC::TPosition::A2), IN_L0B = places(AscendC::TPosition::B2),
                   IN_L0C = places(AscendC::TPosition::CO1), IN_GM = places(AscendC::TPosition::GM);

inline void need_place(const mco_asc_where& where, const char* what, const mco_asc_home* home, uint32_t in,
                       const char* accepted) {
  if (!home || (in >> uint32_t(home->position) & 1)) return;
  constexpr const char* names[] = {"GM",  "A1",    "A2",     "B1",      "B2",  "C1",   "C2",        "CO1",
                                   "CO2", "VECIN", "VECOUT", "VECCALC", "SHM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
  mco_asc_fault(&where, "%s lies in %s; accepted: %s", what, names[home->position & 15], accepted);
}

using Operands = std::initializer_list<mco_asc_operand>;
using Values = std::initializer_list<mco_asc_value>;
using Attrs = std::initializer_list<int64_t>;

inline void issue(Op op, const mco_asc_where& where, const Lanes& lanes, Operands operands, Values args,
                  Attrs attrs = {}, uint32_t floats = 0) {
  const mco_asc_call call = {
      where,      uint16_t(op), uint8_t(operands.size()), uint8_t(args.size()), uint8_t(attrs.size()),
      lanes.kind, floats,       {lanes.low, lanes.high},  lanes.repeat};
  mco_asc_issue(&call, operands.begin(), args.begin(), attrs.begin());
}

// An instruction without a mask.
inline void issue(Op op, const mco_asc_where& where, Operands operands, Values args, Attrs attrs = {},
                  uint32_t floats = 0) {
  issue(op, where, Lanes{MCO_ASC_NO_MASK, 0, 0, 1}, operands, args, attrs, floats);
}

}  // namespace mco_asc
