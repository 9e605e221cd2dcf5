// SPDX-License-Identifier: Apache-2.0
// Small helpers of instructions whose operands are not plain lanes.
#pragma once

#include <algorithm>
#include <cstring>

#include "lanes.h"
#include "number.h"

namespace mco {

constexpr int kBlocks = int(kVectorBytes / kBlockBytes);
constexpr uint32_t kMoved =
    bit(F16) | bit(BF16) | bit(F32) | bit(I8) | bit(U8) | bit(I16) | bit(U16) | bit(I32) | bit(U32) | bit(BOOL);
constexpr uint32_t kScores = bit(F16) | bit(F32);

// Bytes [lo, hi) that some accesses touch; empty until the first.
struct Span {
  Wide lo = 0, hi = 0;
  void add(Wide first, Wide end) {
    if (first >= end) return;
    if (lo >= hi) {
      lo = first;
      hi = end;
      return;
    }
    lo = std::min(lo, first);
    hi = std::max(hi, end);
  }
};

inline bool lane_on(const Plan& p, int lane, int64_t on) {
  return p.by_bits ? (p.bits[lane / 64] >> (lane % 64) & 1) != 0 : lane < on;
}

// f(lane) for the lanes of repeat r that are on, in order.
template <class F>
void each_lane(const Plan& p, int64_t r, F f) {
  const int64_t on = p.on(r);
  const int first = p.by_bits ? p.first : 0, end = p.by_bits ? p.end : int(on);
  for (int lane = first; lane < end; ++lane) {
    if (lane_on(p, lane, on)) f(lane);
  }
}

// Whether block b (of 8) has a lane that is on in repeat r.
inline bool block_on(const Plan& p, int b, int64_t r) {
  const int width = p.lanes / kBlocks;
  const int64_t on = p.on(r);
  for (int lane = b * width; lane < (b + 1) * width; ++lane) {
    if (lane_on(p, lane, on)) return true;
  }
  return false;
}

// A float32 value rounded to a float dtype.
inline float rounded(float x, DType t, bool saturate) {
  uint8_t raw[4];
  store_float(raw, x, t, saturate);
  return load_float(raw, t);
}

inline void need_on_chip(const Program& p, const Instr& in) {
  for (int i = 0; i < int(in.tensors.size()); ++i) need_scope(p, in, i, kOnChip);
}

}  // namespace mco
