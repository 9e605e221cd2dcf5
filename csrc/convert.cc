// SPDX-License-Identifier: Apache-2.0
// vconv: conversion lane by lane; the wider dtype decides the lanes of a repeat.
#include <algorithm>
#include <cstring>
#include <limits>

#include "convert_scalar.h"
#include "handlers.h"
#include "lanes.h"

namespace mco {

namespace {

constexpr int kNearestMode = 1;

constexpr int64_t kChunk = 256;

// Lanes through float32, in chunks that stay in cache.
struct Conversion {
  const Kernels& kernels;
  DType src, dst;
  int mode;
  bool has_deq, saturate;
  float deqscale;
  bool wrap = false;  // integers keep the low bits

  // n dense elements; dst and src do not overlap. Up to 63 bytes behind src are read.
  void operator()(uint8_t* to, const uint8_t* from, int64_t n) const {
    if (wrap && !is_float(dst)) {
      convert_wrapping(to, dst, from, src, n, mode);
    } else if (has_deq) {
      for (int64_t i = 0; i < n; ++i) dequantize(to + 2 * i, from + 4 * i);
    } else if (to_float_exact(src) && to_float_nearest(dst)) {
      each_chunk(to, from, n, [this](uint8_t* d, const uint8_t* s, int64_t k) { through_float(d, s, k); });
    } else if (is_float(src) && kSize[dst] <= 4 && dst != U32 && !is_float(dst)) {
      each_chunk(to, from, n, [this](uint8_t* d, const uint8_t* s, int64_t k) { to_integer(d, s, k); });
    } else {
      convert_elements(to, dst, from, src, n, mode, saturate);
    }
  }

 private:
  static bool to_float_exact(DType t) { return t == F16 || t == BF16 || t == F32 || kSize[t] <= 2; }
  // One rounding to nearest even; float32 to itself may mean rounding to integral values.
  bool to_float_nearest(DType t) const {
    if (t == F32) return src != F32 || mode == 0;
    return (t == F16 || t == BF16) && (mode <= kNearestMode || kSize[src] == 1);  // 8 bits fit exactly
  }

  template <class F>
  void each_chunk(uint8_t* to, const uint8_t* from, int64_t n, F f) const {
    for (int64_t i = 0; i < n; i += kChunk) f(to + i * kSize[dst], from + i * kSize[src], std::min(kChunk, n - i));
  }

  // n values of src as float32, at `scratch` or where they lie.
  const float* as_float(const uint8_t* from, float* scratch, int64_t n) const {
    auto* half = reinterpret_cast<const uint16_t*>(from);
    switch (src) {
      case F32:
        return reinterpret_cast<const float*>(from);
      case F16:
        kernels.half_to_float(scratch, half, n);
        break;
      case BF16:
        kernels.bfloat_to_float(scratch, half, n);
        break;
      case I8:
        widen<int8_t>(scratch, from, n);
        break;
      case U8:
        widen<uint8_t>(scratch, from, n);
        break;
      case I16:
        widen<int16_t>(scratch, from, n);
        break;
      default:
        widen<uint16_t>(scratch, from, n);
        break;
    }
    return scratch;
  }

  template <class T>
  static void widen(float* to, const uint8_t* from, int64_t n) {
    T x[kChunk];
    std::memcpy(x, from, size_t(n) * sizeof(T));
    for (int64_t i = 0; i < n; ++i) to[i] = float(x[i]);
  }

  void through_float(uint8_t* to, const uint8_t* from, int64_t n) const {
    alignas(64) float scratch[kChunk + 16];
    float* target = dst == F32 && src != F32 ? reinterpret_cast<float*>(to) : scratch;
    const float* x = as_float(from, target, n);
    if (dst == F16) kernels.float_to_half(reinterpret_cast<uint16_t*>(to), x, n, saturate);
    if (dst == BF16) kernels.float_to_bfloat(reinterpret_cast<uint16_t*>(to), x, n, saturate);
    if (dst == F32 && src == F32) std::memcpy(to, from, size_t(n) * 4);
  }

  template <class T>
  static void clamp(uint8_t* to, const int32_t* x, int64_t n) {
    constexpr int32_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    T y[kChunk];
    for (int64_t i = 0; i < n; ++i) y[i] = T(x[i] < kLow ? kLow : x[i] > kHigh ? kHigh : x[i]);
    std::memcpy(to, y, size_t(n) * sizeof(T));
  }

  void to_integer(uint8_t* to, const uint8_t* from, int64_t n) const {
    alignas(64) float scratch[kChunk + 16];
    alignas(64) int32_t y[kChunk + 16];
    kernels.float_to_int(y, as_float(from, scratch, n), n, mode);
    switch (dst) {
      case I8:
        return clamp<int8_t>(to, y, n);
      case U8:
        return clamp<uint8_t>(to, y, n);
      case I16:
        return clamp<int16_t>(to, y, n);
      case U16:
        return clamp<uint16_t>(to, y, n);
      default:
        std::memcpy(to, y, size_t(n) * 4);
    }
  }

  void dequantize(uint8_t* to, const uint8_t* from) const {
    float x = float(load_int(from, I32));
    for (float factor : {0x1p-17f, deqscale, 0x1p17f}) {
      store_float(to, x * factor, F16, saturate);
      x = load_float(to, F16);
    }
  }
};

bool dense(const Plan& p) { return !p.by_bits && p.operand[0].dense() && p.operand[1].dense(); }

}  // namespace

void check_vconv(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) {
    need_scope(p, in, i, kOnChip);
    need_dtype(p, in, i, (bit(kDTypes) - 1) & ~bit(BOOL));
  }
  const DType dst = in.tensors[isa::vconv::dst].dtype, src = in.tensors[isa::vconv::src].dtype;
  if (in.attrs[isa::vconv::has_deq] && (src != I32 || dst != F16)) {
    refuse(p, in, "conversion with deqscale", format("%s to %s", kDTypeName[src], kDTypeName[dst]), "int32 to float16");
  }
}

void run_vconv(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const Value scale = m.value_arg(in, isa::vconv::deqscale, F16);
  const Conversion convert{m.kernels,
                           in.tensors[isa::vconv::src].dtype,
                           in.tensors[isa::vconv::dst].dtype,
                           int(in.attrs[isa::vconv::round_mode]),
                           in.attrs[isa::vconv::has_deq] != 0,
                           m.saturate,
                           float(scale.f),
                           m.wrap_int};
  if (p.empty()) return;
  const Lanes &d = p.operand[0], &s = p.operand[1];
  const uint8_t* src = m.read(in, isa::vconv::src, s.lo, s.hi);
  uint8_t* dst = m.write(in, isa::vconv::dst, d.lo, d.hi);
  const bool apart = !overlap(dst, d, src, s);
  if (apart && p.flat) return convert(dst, src, p.flat);
  alignas(64) uint8_t from[kVectorBytes + 64] = {}, to[kVectorBytes + 64];
  for (int64_t r = 0; r < p.repeats; ++r) {
    const int64_t on = p.on(r);
    if (apart && dense(p)) {
      convert(dst + r * d.rep, src + r * s.rep, on);
      continue;
    }
    gather_lanes(from, src + r * s.rep, s, p, on);
    convert(to, from, p.lanes);
    scatter_lanes(dst + r * d.rep, to, d, p, on);
  }
}

}  // namespace mco
