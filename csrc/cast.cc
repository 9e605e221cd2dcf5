// SPDX-License-Identifier: Apache-2.0
// Whole arrays of one float dtype as another, for the faces: what stands around an op, not inside of one.
#include <algorithm>
#include <cstring>

#include "base.h"
#include "capi.h"
#include "fpenv.h"
#include "simd/kernels.h"

namespace {

using mco::BF16;
using mco::F16;
using mco::F32;

// Values at a time, which stay in the cache. The kernels read up to 63 bytes behind an array whose length is no
// multiple of kWhole.
constexpr int64_t kChunk = 2048, kWhole = 64;

class Cast {
 public:
  Cast(int dst, int src) : dst_(dst), src_(src) {}

  // n is a multiple of kWhole, or there is memory behind the source.
  void run(uint8_t* to, const uint8_t* from, int64_t n) {
    const float* x = wide_;
    if (src_ == F32) {
      x = reinterpret_cast<const float*>(from);
    } else {
      float* wide = dst_ == F32 ? reinterpret_cast<float*>(to) : wide_;
      const auto widen = src_ == F16 ? kernels_.half_to_float : kernels_.bfloat_to_float;
      widen(wide, reinterpret_cast<const uint16_t*>(from), n);
      if (dst_ == F32) return;
    }
    if (dst_ == F32) {
      std::memcpy(to, from, size_t(n) * sizeof(float));
      return;
    }
    const auto narrow = dst_ == F16 ? kernels_.float_to_half : kernels_.float_to_bfloat;
    narrow(reinterpret_cast<uint16_t*>(to), x, n, false);
  }

 private:
  const mco::Kernels& kernels_ = mco::kernels();
  const int dst_, src_;
  alignas(64) float wide_[kChunk + kWhole] = {};
};

}  // namespace

int mco_cast_floats(void* dst, int dst_dtype, const void* src, int src_dtype, int64_t n) {
  const auto is_float = [](int t) { return t == F16 || t == BF16 || t == F32; };
  if (!is_float(dst_dtype) || !is_float(src_dtype) || n < 0 || (n && (!dst || !src))) return 1;
  const mco::FloatingPointDefaults defaults;
  auto* to = static_cast<uint8_t*>(dst);
  const auto* from = static_cast<const uint8_t*>(src);
  const int64_t to_size = mco::kSize[dst_dtype], from_size = mco::kSize[src_dtype], whole = n / kWhole * kWhole;
  Cast cast(dst_dtype, src_dtype);
  for (int64_t i = 0; i < whole; i += kChunk) {
    cast.run(to + i * to_size, from + i * from_size, std::min(kChunk, whole - i));
  }
  if (n > whole) {
    alignas(64) uint8_t last[kWhole * sizeof(float)] = {}, result[kWhole * sizeof(float)];
    std::memcpy(last, from + whole * from_size, size_t((n - whole) * from_size));
    cast.run(result, last, kWhole);
    std::memcpy(to + whole * to_size, result, size_t((n - whole) * to_size));
  }
  return 0;
}
