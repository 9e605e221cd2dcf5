// SPDX-License-Identifier: Apache-2.0
// One element of L0C on its way out: casts, and quantization by the bits of a 64-bit scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "instruction.h"
#include "number.h"

namespace mco {

enum Quant : int64_t { kNoQuant, kHalfScale, kScaleWord };
constexpr int kReluBit = 47;  // of a scale word

inline int64_t clamp_to(double value, DType t) {
  const double low = t == I8 ? -128 : t == I16 ? -32768 : 0, high = t == I8 ? 127 : t == I16 ? 32767 : 255;
  return int64_t(std::min(std::max(value, low), high));
}

struct Convert {
  DType src, dst;
  int64_t quant;
  bool relu, short_scale, saturate;

  void rounded(uint8_t* to, float value) const {
    uint8_t raw[4];
    store_float(raw, value, dst, saturate);
    if (relu && !(load_float(raw, dst) > 0)) std::memset(raw, 0, sizeof raw);
    std::memcpy(to, raw, size_t(kSize[dst]));
  }

  void integer(uint8_t* to, int64_t value) const {
    if (relu && value <= 0) value = 0;
    std::memcpy(to, &value, size_t(kSize[dst]));
  }

  void quantize(uint8_t* to, const uint8_t* from, uint64_t scale) const {
    const int64_t shift = int64_t(scale >> 32 & 15) + 1;
    if (dst == I16) return integer(to, clamp_to(double(load_int(from, src) >> shift), I16));
    const float factor = bits_as<float>(uint32_t(scale) & (short_scale ? 0xffffe000u : 0xffffffffu));
    float value = src == F32        ? load_float(from, F32)
                  : scale >> 36 & 1 ? float(clamp_to(double(load_int(from, src) >> shift), I16))
                                    : float(load_int(from, src));
    if (dst == F16) return rounded(to, value * factor);
    if (relu && !(value > 0)) value = 0;
    float product = value * factor;
    if (product != product) product = 0;
    const int64_t offset = int64_t((scale >> 37 & 511) ^ 256) - 256;
    const int64_t result = clamp_to(std::nearbyint(double(product)) + double(offset), dst);
    std::memcpy(to, &result, 1);
  }

  void operator()(uint8_t* to, const uint8_t* from, float factor, uint64_t scale) const {
    if (quant == kScaleWord) return quantize(to, from, scale);
    if (quant == kHalfScale) {
      return rounded(to, (src == I32 ? float(load_int(from, I32)) : load_float(from, src)) * factor);
    }
    if (src != dst) return rounded(to, load_float(from, src));
    if (relu && is_float(dst) && !(load_float(from, dst) > 0)) {
      std::memset(to, 0, size_t(kSize[dst]));
    } else if (relu && !is_float(dst)) {
      integer(to, load_int(from, dst));
    } else {
      std::memcpy(to, from, size_t(kSize[dst]));
    }
  }
};

inline bool casts(DType src, DType dst) {
  return src == dst || (src == F32 && (dst == F16 || dst == BF16)) || (src == F16 && dst == F32);
}

inline bool quantizes(DType src, DType dst) {
  const uint32_t bytes = bit(I8) | bit(U8);
  return (src == I32 && (bytes | bit(I16) | bit(F16)) & bit(dst)) || (src == F32 && bytes & bit(dst));
}

}  // namespace mco
