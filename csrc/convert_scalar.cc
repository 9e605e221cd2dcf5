// SPDX-License-Identifier: Apache-2.0
#include "convert_scalar.h"

#include <cmath>
#include <limits>

namespace mco {

namespace {

enum Mode { kNone, kRound, kFloor, kCeil, kAwayZero, kToZero, kOdd };

double round_integral(double x, int mode) {
  switch (mode) {
    case kNone:
    case kRound:
      return std::nearbyint(x);
    case kFloor:
      return std::floor(x);
    case kCeil:
      return std::ceil(x);
    default:
      break;
  }
  const double whole = std::trunc(x);
  if (mode == kToZero) return whole;
  if (mode == kAwayZero) return std::fabs(x - whole) >= 0.5 ? whole + std::copysign(1.0, x) : whole;
  const bool even = std::fmod(whole, 2) == 0;
  return whole != x && even && std::isfinite(x) ? whole + std::copysign(1.0, x) : whole;
}

// Bits of a float dtype, ordered by magnitude below the sign bit.
struct Format {
  uint32_t infinity;
  double overflow;  // from here on every mode gives infinity, except nearest, which decides itself
};

Format format_of(DType t) {
  if (t == F16) return {0x7c00u, 0x1p16};
  if (t == BF16) return {0x7f80u, 0x1p128};
  return {0x7f800000u, 0x1p128};
}

double value_of(uint32_t bits, DType t) {
  if (t == F32) return double(bits_as<float>(bits));
  return double(t == F16 ? half_to_float(uint16_t(bits)) : bfloat_to_float(uint16_t(bits)));
}

// Magnitude bits of the nearest-even rounding of |x|.
uint32_t nearest_bits(double magnitude, DType t) {
  if (t == F32) return bits_as<uint32_t>(float(magnitude));
  const float odd = to_float_odd(magnitude);
  return t == F16 ? float_to_half(odd) : float_to_bfloat(odd);
}

uint32_t rounded_bits(double x, DType t, int mode) {
  const Format f = format_of(t);
  const double magnitude = std::fabs(x);
  const uint32_t near = nearest_bits(magnitude, t);
  if (mode <= kRound || x != x) return near;
  if (magnitude >= f.overflow) return f.infinity;
  const uint32_t down = value_of(near, t) > magnitude ? near - 1 : near;
  const double low = value_of(down, t);
  if (low == magnitude) return down;
  switch (mode) {
    case kFloor:
      return x < 0 ? down + 1 : down;
    case kCeil:
      return x > 0 ? down + 1 : down;
    case kToZero:
      return down;
    case kOdd:
      return down | 1;
    default:
      return magnitude - low == value_of(down + 1, t) - magnitude ? down + 1 : near;
  }
}

void store_rounded(uint8_t* to, double x, DType t, int mode, bool saturate) {
  const uint32_t bits = rounded_bits(x, t, mode), sign = std::signbit(x) ? 1 : 0;
  if (t == F32) {
    const uint32_t whole = bits | sign << 31;
    std::memcpy(to, &whole, sizeof whole);
    return;
  }
  uint16_t h = uint16_t(bits | sign << 15);
  if (saturate) h = t == F16 ? saturate_half(h) : saturate_bfloat(h);
  std::memcpy(to, &h, sizeof h);
}

void store_clamped(uint8_t* to, DType dst, int64_t v, DType src) {
  if (src == U64 && v < 0) v = dst == U64 ? v : INT64_MAX;  // above every signed limit
  if (dst != U64 && dst != I64) {
    const int bits = kSize[dst] * 8;
    const int64_t high = is_signed(dst) ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
    const int64_t low = is_signed(dst) ? -(int64_t(1) << (bits - 1)) : 0;
    v = v > high ? high : v < low ? low : v;
  } else if (dst == U64 && src != U64 && v < 0) {
    v = 0;
  }
  std::memcpy(to, &v, kSize[dst]);
}

void convert_one(uint8_t* to, DType dst, const uint8_t* from, DType src, int mode, bool saturate) {
  if (!is_float(src)) {
    if (!is_float(dst)) return store_clamped(to, dst, load_int(from, src), src);
    return store_rounded(to, int_to_double_odd(load_int(from, src), src), dst, mode, saturate);
  }
  double x = double(load_float(from, src));
  if (!is_float(dst)) {
    Value v;
    v.f = round_integral(x, mode);
    v = convert_value(v, F32, dst);
    std::memcpy(to, &v.i, kSize[dst]);
    return;
  }
  if (src == F32 && dst == F32 && mode != kNone) x = round_integral(x, mode);
  store_rounded(to, x, dst, mode, saturate);
}

}  // namespace

double round_to_integral(double x, int mode) { return round_integral(x, mode); }

void convert_elements(uint8_t* to, DType dst, const uint8_t* from, DType src, int64_t n, int mode, bool saturate) {
  if (src == I32 && dst == F32 && mode <= kRound) {
    for (int64_t i = 0; i < n; ++i) {
      int32_t x;
      std::memcpy(&x, from + 4 * i, 4);
      const float f = float(x);
      std::memcpy(to + 4 * i, &f, 4);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    convert_one(to + i * kSize[dst], dst, from + i * kSize[src], src, mode, saturate);
  }
}

}  // namespace mco
