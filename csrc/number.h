// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between float formats, bit-exact on every machine.
#pragma once

#include <cmath>
#include <cstring>

#include "base.h"

namespace mco {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "width");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) {
    const uint32_t payload = magnitude & 0x3ff;
    return bits_as<float>(sign | 0x7f800000u | payload << 13 | (payload ? 0x400000u : 0u));
  }
  const float scaled = bits_as<float>(magnitude << 13) * 0x1p112f;
  return bits_as<float>(bits_as<uint32_t>(scaled) | sign);
}

// Round to nearest even.
inline uint16_t float_to_half(float f) {
  const uint32_t bits = bits_as<uint32_t>(f), sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000u) {
    const float shifted = bits_as<float>(magnitude) + 0.5f;
    return uint16_t(sign | (bits_as<uint32_t>(shifted) - 0x3f000000u));
  }
  magnitude += 0xc8000fffu + (magnitude >> 13 & 1);
  return uint16_t(sign | magnitude >> 13);
}

inline float bfloat_to_float(uint16_t h) { return bits_as<float>(uint32_t(h) << 16); }

inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = bits_as<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// float64 rounded to odd in float32, so that a second rounding to 16 bits is the rounding of the float64 itself.
inline float to_float_odd(double d) {
  float f = float(d);
  if (double(f) == d || d != d) return f;
  uint32_t bits = bits_as<uint32_t>(f);
  if (std::fabs(double(f)) > std::fabs(d)) --bits;
  return bits_as<float>(bits | 1u);
}

// float64 rounded once to nearest even in a float dtype.
inline double round_to_dtype(double d, DType t) {
  switch (t) {
    case F32:
      return double(float(d));
    case F16:
      return double(half_to_float(float_to_half(to_float_odd(d))));
    case BF16:
      return double(bfloat_to_float(float_to_bfloat(to_float_odd(d))));
    default:
      return d;
  }
}

// An infinite 16-bit float becomes the largest finite one, NaN becomes 0.
inline uint16_t saturate_half(uint16_t h) {
  const uint16_t magnitude = h & 0x7fff;
  if (magnitude < 0x7c00) return h;
  return magnitude == 0x7c00 ? uint16_t((h & 0x8000) | 0x7bff) : uint16_t(0);
}

inline uint16_t saturate_bfloat(uint16_t h) {
  const uint16_t magnitude = h & 0x7fff;
  if (magnitude < 0x7f80) return h;
  return magnitude == 0x7f80 ? uint16_t((h & 0x8000) | 0x7f7f) : uint16_t(0);
}

inline __attribute__((always_inline)) float load_float(const void* at, DType t) {
  if (t == F32) {
    float f;
    std::memcpy(&f, at, sizeof f);
    return f;
  }
  uint16_t h;
  std::memcpy(&h, at, sizeof h);
  return t == F16 ? half_to_float(h) : bfloat_to_float(h);
}

inline __attribute__((always_inline)) void store_float(void* at, float f, DType t, bool saturate) {
  if (t == F32) {
    std::memcpy(at, &f, sizeof f);
    return;
  }
  uint16_t h = t == F16 ? float_to_half(f) : float_to_bfloat(f);
  if (saturate) h = t == F16 ? saturate_half(h) : saturate_bfloat(h);
  std::memcpy(at, &h, sizeof h);
}

// The integer of dtype `t` that lies at `at` (bool as 0 or 1).
inline int64_t load_int(const void* at, DType t) {
  uint64_t raw = 0;
  std::memcpy(&raw, at, kSize[t]);
  switch (t) {
    case I8:
      return int8_t(raw);
    case I16:
      return int16_t(raw);
    case I32:
      return int32_t(raw);
    case BOOL:
      return raw != 0;
    default:
      return int64_t(raw);
  }
}

inline int64_t wrap_int(int64_t value, DType t) {
  switch (t) {
    case I8:
      return int8_t(value);
    case U8:
      return uint8_t(value);
    case I16:
      return int16_t(value);
    case U16:
      return uint16_t(value);
    case I32:
      return int32_t(value);
    case U32:
      return uint32_t(value);
    case BOOL:
      return value != 0;
    default:
      return value;
  }
}

// An integer as float64; where that is inexact, rounded to odd, so that a second rounding to 24 bits or fewer is exact.
double int_to_double_odd(int64_t value, DType t);
Value convert_value(Value v, DType from, DType to);
// The bytes of a value of dtype `t`; returns their number.
int value_to_bits(Value v, DType t, uint8_t out[8]);
Value value_from_bits(const uint8_t* raw, DType t);

}  // namespace mco
