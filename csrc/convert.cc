// SPDX-License-Identifier: Apache-2.0
// vconv: conversion lane by lane; the wider dtype decides the lanes of a repeat.
#include <cstring>

#include "convert_scalar.h"
#include "handlers.h"
#include "lanes.h"

namespace mco {

namespace {

enum RoundMode : int64_t { kNearestMode = 1, kLastMode = 6 };

struct Conversion {
  const Kernels& kernels;
  DType src, dst;
  int mode;
  bool has_deq, saturate;
  float deqscale;

  // n dense elements; dst and src do not overlap.
  void operator()(uint8_t* to, const uint8_t* from, int64_t n) const {
    if (has_deq) {
      for (int64_t i = 0; i < n; ++i) dequantize(to + 2 * i, from + 4 * i);
      return;
    }
    auto* half_to = reinterpret_cast<uint16_t*>(to);
    auto* half_from = reinterpret_cast<const uint16_t*>(from);
    if (dst == F32 && src == F16) return kernels.half_to_float(reinterpret_cast<float*>(to), half_from, n);
    if (dst == F32 && src == BF16) return kernels.bfloat_to_float(reinterpret_cast<float*>(to), half_from, n);
    if (src == F32 && mode <= kNearestMode) {
      auto* wide = reinterpret_cast<const float*>(from);
      if (dst == F16) return kernels.float_to_half(half_to, wide, n, saturate);
      if (dst == BF16) return kernels.float_to_bfloat(half_to, wide, n, saturate);
    }
    convert_elements(to, dst, from, src, n, mode, saturate);
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

bool contiguous(const Plan& p) {
  for (int i = 0; i < 2; ++i) {
    if (p.repeats > 1 && p.operand[i].rep != int64_t(p.lanes) * p.operand[i].size) return false;
  }
  return p.repeats == 1 || p.count == p.lanes;
}

}  // namespace

void check_vconv(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) {
    need_scope(p, in, i, kOnChip);
    need_dtype(p, in, i, (bit(kDTypes) - 1) & ~bit(BOOL));
  }
  need_attr(p, in, "mask_kind", kMaskCount, kMaskCounter);
  need_attr(p, in, "round_mode", 0, kLastMode);
  const DType dst = in.tensors[0].dtype, src = in.tensors[1].dtype;
  if (in.attrs[2] && (src != I32 || dst != F16)) {
    refuse(p, in, "conversion with deqscale", format("%s to %s", kDTypeName[src], kDTypeName[dst]),
           "int32 to float16");
  }
}

void run_vconv(Machine& m, const Instr& in) {
  Plan local;
  const Plan& p = plan_of(m, in, local);
  const Value scale = m.value_arg(in, in.op->shape.mask0 + 3, F16);
  const Conversion convert{m.kernels, in.tensors[1].dtype, in.tensors[0].dtype, int(in.attrs[1]), in.attrs[2] != 0,
                           m.saturate, float(scale.f)};
  if (p.empty()) return;
  const Lanes &d = p.operand[0], &s = p.operand[1];
  const uint8_t* src = m.read(in, 1, s.lo, s.hi);
  uint8_t* dst = m.write(in, 0, d.lo, d.hi);
  const bool apart = !overlap(dst, d, src, s);
  if (apart && dense(p) && contiguous(p)) {
    convert(dst, src, (p.repeats - 1) * p.lanes + p.last);
    return;
  }
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
