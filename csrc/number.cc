// SPDX-License-Identifier: Apache-2.0
#include "number.h"

namespace mco {

double int_to_double_odd(int64_t value, DType t) {
  const bool negative = t != U64 && value < 0;
  const uint64_t magnitude = negative ? 0 - uint64_t(value) : uint64_t(value);
  int shift = 0;
  while (magnitude >> shift >> 53) ++shift;
  uint64_t kept = magnitude >> shift;
  if (kept << shift != magnitude) kept |= 1;
  const double d = std::ldexp(double(kept), shift);
  return negative ? -d : d;
}

namespace {

int64_t double_to_int(double d, DType t) {
  if (d != d) return 0;
  switch (t) {
    case BOOL:
      return d != 0;
    case U64:
      if (d <= 0) return 0;
      if (d >= 0x1p64) return -1;
      return int64_t(uint64_t(d));
    case I64:
      if (d >= 0x1p63) return INT64_MAX;
      if (d < -0x1p63) return INT64_MIN;
      return int64_t(d);
    default:
      break;
  }
  const int bits = kSize[t] * 8;
  const double high = is_signed(t) ? std::ldexp(1.0, bits - 1) - 1 : std::ldexp(1.0, bits) - 1;
  const double low = is_signed(t) ? -std::ldexp(1.0, bits - 1) : 0;
  return int64_t(d > high ? high : d < low ? low : d);
}

}  // namespace

Value convert_value(Value v, DType from, DType to) {
  Value out;
  if (is_float(to)) {
    const double d = is_float(from) ? v.f : int_to_double_odd(v.i, from);
    out.f = round_to_dtype(d, to);
  } else {
    out.i = is_float(from) ? double_to_int(v.f, to) : wrap_int(v.i, to);
  }
  return out;
}

int value_to_bits(Value v, DType t, uint8_t out[8]) {
  if (is_float(t)) {
    store_float(out, float(v.f), t, false);
  } else {
    std::memcpy(out, &v.i, kSize[t]);
  }
  return kSize[t];
}

Value value_from_bits(const uint8_t* raw, DType t) {
  Value v;
  if (is_float(t)) {
    v.f = double(load_float(raw, t));
  } else {
    v.i = load_int(raw, t);
  }
  return v;
}

}  // namespace mco
