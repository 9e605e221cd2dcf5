// SPDX-License-Identifier: Apache-2.0
// Reductions of a repeat: sums are trees of adjacent pairs, each node rounded to the dtype.
#include <cstring>

#include "handlers.h"
#include "lanes.h"
#include "number.h"

namespace mco {

namespace {

bool is_sum(int code) { return code == kReduceAdd || code == kGroupAdd || code == kPairAdd; }
bool is_group(int code) { return code >= kGroupAdd && code <= kGroupMin; }
bool wants_largest(int code) { return code == kReduceMax || code == kGroupMax; }


bool lane_on(const Plan& p, int lane, int64_t on) {
  return p.by_bits ? (p.bits[lane / 64] >> (lane % 64) & 1) != 0 : lane < on;
}

bool any_on(const Plan& p, int first, int n, int64_t on) {
  for (int i = 0; i < n; ++i) {
    if (lane_on(p, first + i, on)) return true;
  }
  return false;
}

void saturate_element(uint8_t* at, DType t) {
  if (t != F16 && t != BF16) return;
  uint16_t h;
  std::memcpy(&h, at, sizeof h);
  h = t == F16 ? saturate_half(h) : saturate_bfloat(h);
  std::memcpy(at, &h, sizeof h);
}

// Lane number of the extreme among lanes [first, first + n) that are on; one of them is.
int find_extreme(const Machine& m, const Plan& p, const uint8_t* x, int first, int n, int64_t on, DType t, bool largest) {
  const int size = kSize[t];
  if (!p.by_bits) {
    const int count = int(std::min<int64_t>(n, on - first));
    return first + m.kernels.extreme[t](x + first * size, count, largest);
  }
  uint8_t packed[kVectorBytes];
  int lane[kMaxLanes], count = 0;
  for (int i = first; i < first + n; ++i) {
    if (!lane_on(p, i, on)) continue;
    std::memcpy(packed + count * size, x + i * size, size_t(size));
    lane[count++] = i;
  }
  return lane[m.kernels.extreme[t](packed, count, largest)];
}

void store_extremes(const Machine& m, const Instr& in, const Plan& p, const uint8_t* x, uint8_t* d, int64_t on) {
  const int code = in.op->code;
  const DType t = in.tensors[0].dtype;
  const int size = kSize[t], groups = is_group(code) ? int(kVectorBytes / kBlockBytes) : 1, width = p.lanes / groups;
  for (int g = 0; g < groups; ++g) {
    if (!any_on(p, g * width, width, on)) continue;
    const int lane = find_extreme(m, p, x, g * width, width, on, t, wants_largest(code));
    uint8_t value[8];
    std::memcpy(value, x + lane * size, size_t(size));
    if (m.saturate) saturate_element(value, t);
    if (is_group(code)) {
      std::memcpy(d + g * size, value, size_t(size));
      continue;
    }
    const int64_t index = lane;
    const bool index_first = in.attrs[1] != 0;
    std::memcpy(d + (index_first ? size : 0), value, size_t(size));
    std::memcpy(d + (index_first ? 0 : size), &index, size_t(size));
  }
}

void store_sums(const Machine& m, const Instr& in, const Plan& p, const uint8_t* x, uint8_t* d, int64_t on) {
  const int code = in.op->code;
  const DType t = in.tensors[0].dtype;
  const int size = kSize[t];
  const int width = code == kReduceAdd ? p.lanes : code == kPairAdd ? 2 : int(p.lanes * kBlockBytes / kVectorBytes);
  const int results = p.lanes / width;
  alignas(64) uint8_t sums[kVectorBytes];
  m.kernels.tree_sum[t](sums, x, p.lanes, width, m.saturate);
  if (code == kReduceAdd || (!p.by_bits && on == p.lanes)) {
    std::memcpy(d, sums, size_t(results * size));
    return;
  }
  for (int i = 0; i < results; ++i) {
    if (any_on(p, i * width, width, on)) std::memcpy(d + i * size, sums + i * size, size_t(size));
  }
}

// Bytes of dst that one repeat writes.
void result_extent(const Instr& in, const Plan& p, int64_t on, Wide& lo, Wide& hi) {
  const int code = in.op->code, size = in.tensors[0].size;
  lo = 0;
  if (code == kReduceAdd || code == kReduceMax || code == kReduceMin) {
    const bool some = p.by_bits ? !p.empty() : on > 0;
    hi = code == kReduceAdd ? size : some ? 2 * size : 0;
    return;
  }
  const int width = code == kPairAdd ? 2 : int(p.lanes * kBlockBytes / kVectorBytes), results = p.lanes / width;
  int first = results, last = -1;
  for (int i = 0; i < results; ++i) {
    if (!any_on(p, i * width, width, on)) continue;
    first = std::min(first, i);
    last = i;
  }
  lo = last < 0 ? 0 : first * size;
  hi = last < 0 ? 0 : (last + 1) * size;
}

void dst_extent(const Instr& in, const Plan& p, int64_t rep, Wide& lo, Wide& hi) {
  Wide l, h;
  result_extent(in, p, p.last, lo, hi);
  const bool some = lo < hi;
  lo += Wide(p.repeats - 1) * (some ? rep : 0);
  hi += Wide(p.repeats - 1) * (some ? rep : 0);
  if (p.repeats == 1) return;
  result_extent(in, p, p.count, l, h);
  if (l >= h) return;
  hi = some ? std::max(hi, h + Wide(p.repeats - 2) * rep) : h + Wide(p.repeats - 2) * rep;
  lo = some ? std::min(lo, l) : l;
}

}  // namespace

void check_reduce(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_attr(p, in, "mask_kind", kMaskCount, kMaskCounter);
  need_dtype(p, in, 0, is_sum(in.op->code) ? kFloats : kNumeric);
  need_same_dtype(p, in, 0, 1);
}

void run_reduce(Machine& m, const Instr& in) {
  Plan local;
  const Plan& p = plan_of(m, in, local);
  const int64_t rep = m.arg(in, in.op->shape.mask0 + 3);
  if (p.repeats == 0) return;
  const Lanes& l = p.operand[0];
  Wide lo, hi;
  dst_extent(in, p, rep, lo, hi);
  const uint8_t* src = m.read(in, 1, l.lo, l.hi);
  uint8_t* dst = m.write(in, 0, lo, hi);
  if (lo >= hi) return;
  alignas(64) uint8_t dense[kVectorBytes + 64];
  const bool shared = dst + int64_t(lo) < src + int64_t(l.hi) && src + int64_t(l.lo) < dst + int64_t(hi);
  for (int64_t r = 0; r < p.repeats; ++r) {
    const int64_t on = p.on(r);
    const uint8_t* x = src + r * l.rep;
    if (p.by_bits || !l.dense() || on < p.lanes || shared) {  // else the lanes are dense where they lie
      std::memset(dense, 0, size_t(kVectorBytes));
      gather_lanes(dense, x, l, p, on);
      for (int i = 0; p.by_bits && i < kVectorBytes; ++i) dense[i] = uint8_t(dense[i] & ~p.keep[i]);
      x = dense;
    }
    if (is_sum(in.op->code)) {
      store_sums(m, in, p, x, dst + r * rep, on);
    } else {
      store_extremes(m, in, p, x, dst + r * rep, on);
    }
  }
}

}  // namespace mco
