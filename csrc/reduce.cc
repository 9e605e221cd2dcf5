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

// Adjacent lanes that make one result.
int width_of(int code, const Plan& p) {
  if (code == kPairAdd) return 2;
  return is_group(code) ? int(p.lanes * kBlockBytes / kVectorBytes) : p.lanes;
}

bool lane_on(const Plan& p, int lane, int64_t on) {
  return p.by_bits ? (p.bits[lane / 64] >> (lane % 64) & 1) != 0 : lane < on;
}

// First lane of [first, first + width) that is on, or -1.
int first_on(const Plan& p, int first, int width, int64_t on) {
  for (int i = first; i < first + width; ++i) {
    if (lane_on(p, i, on)) return i;
  }
  return -1;
}

// Bit i: result i has a lane that is on. There are 64 results at most.
uint64_t results_on(int code, const Plan& p, int64_t on) {
  const int width = width_of(code, p);
  uint64_t mask = 0;
  if (!p.by_bits) {
    const int64_t n = ceil_div(on, width);
    return n == 64 ? ~mask : (uint64_t(1) << n) - 1;
  }
  for (int i = 0; i < p.lanes / width; ++i) mask |= uint64_t(first_on(p, i * width, width, on) >= 0) << i;
  return mask;
}

void saturate_element(uint8_t* at, DType t) {
  if (t != F16 && t != BF16) return;
  uint16_t h;
  std::memcpy(&h, at, sizeof h);
  h = t == F16 ? saturate_half(h) : saturate_bfloat(h);
  std::memcpy(at, &h, sizeof h);
}

// One repeat: its lanes are dense at `x`, readable to the end of the repeat.
struct Repeat {
  const uint8_t* x;
  uint8_t* dst;
  int64_t on;
  uint64_t results;  // of results_on
};

// Lane number of the extreme among lanes [first, first + n), where some are on.
int find_extreme(const Machine& m, const Plan& p, const Repeat& r, int first, int n, DType t, bool largest) {
  const int size = kSize[t];
  if (!p.by_bits) {
    const int count = int(std::min<int64_t>(n, r.on - first));
    return first + m.kernels.extreme[t](r.x + first * size, count, largest);
  }
  if (is_float(t)) {  // filled by fill_lanes_off
    const int lane = m.kernels.extreme[t](r.x + first * size, n, largest);
    return lane == 0 ? first_on(p, first, n, r.on) : first + lane;
  }
  uint8_t packed[kVectorBytes];
  int lane[kMaxLanes], count = 0;
  for (int i = first; i < first + n; ++i) {
    if (!lane_on(p, i, r.on)) continue;
    std::memcpy(packed + count * size, r.x + i * size, size_t(size));
    lane[count++] = i;
  }
  return lane[m.kernels.extreme[t](packed, count, largest)];
}

void store_results(uint8_t* dst, const uint8_t* results, int count, int size, uint64_t on) {
  const uint64_t all = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
  if (on == all) {
    std::memcpy(dst, results, size_t(count * size));
    return;
  }
  for (; on; on &= on - 1) {
    const int i = __builtin_ctzll(on);
    std::memcpy(dst + i * size, results + i * size, size_t(size));
  }
}

void store_extremes(const Machine& m, const Instr& in, const Plan& p, const Repeat& r) {
  const int code = in.op->code;
  const DType t = in.tensors[isa::reduction::dst].dtype;
  const int size = kSize[t], width = width_of(code, p);
  const bool largest = wants_largest(code);
  alignas(64) uint8_t values[kVectorBytes];
  if (is_group(code) && m.kernels.group_extreme[t]) {
    m.kernels.group_extreme[t]({values, r.x, 0, 0, 1, m.saturate}, largest);
    store_results(r.dst, values, p.lanes / width, size, r.results);
    return;
  }
  for (uint64_t left = r.results; left; left &= left - 1) {
    const int g = __builtin_ctzll(left), lane = find_extreme(m, p, r, g * width, width, t, largest);
    std::memcpy(values + g * size, r.x + lane * size, size_t(size));
    if (m.saturate) saturate_element(values + g * size, t);
    if (is_group(code)) continue;
    const int64_t index = lane;
    const bool index_first = in.attrs[isa::reduction::index_low] != 0;
    std::memcpy(r.dst + (index_first ? size : 0), values, size_t(size));
    std::memcpy(r.dst + (index_first ? 0 : size), &index, size_t(size));
    return;
  }
  if (is_group(code)) store_results(r.dst, values, p.lanes / width, size, r.results);
}

void store_sums(const Machine& m, const Instr& in, const Plan& p, const Repeat& r) {
  const DType t = in.tensors[isa::reduction::dst].dtype;
  const int width = width_of(in.op->code, p);
  alignas(64) uint8_t sums[kVectorBytes];
  m.kernels.tree_sum[t]({sums, r.x, 0, 0, 1, m.saturate}, p.lanes, width);
  store_results(r.dst, sums, p.lanes / width, kSize[t], in.op->code == kReduceAdd ? 1 : r.results);
}

// The lanes of a repeat. Those that are off count as zero in sums, and in extremes of floats as a NaN, which never
// beats another element; the first lane of a result, which is never beaten by one, holds the first element that is on.
void gather_filled(const Machine& m, const Instr& in, const Plan& p, const Repeat& r, uint8_t* dense) {
  const Lanes& l = p.operand[0];
  const int code = in.op->code, size = l.size, width = width_of(code, p);
  const bool sum = is_sum(code);
  const int64_t on = r.on;
  if (!p.by_bits) {
    gather_lanes(dense, r.x, l, p, on);
    std::memset(dense + on * size, sum ? 0 : 0xFF, size_t(kVectorBytes - on * size));
    return;
  }
  m.kernels.fill_off(dense, r.x, l.blk, p.keep, !sum, blocks_on(p, size));
  for (int first = 0; !sum && first < p.lanes; first += width) {
    const int lane = first_on(p, first, width, on);
    if (lane > first) std::memcpy(dense + first * size, dense + lane * size, size_t(size));
  }
}

// Bytes of dst that one repeat writes.
void result_extent(const Instr& in, const Plan& p, int64_t on, Wide& lo, Wide& hi) {
  const int code = in.op->code, size = in.tensors[isa::reduction::dst].size;
  const uint64_t results = results_on(code, p, on);
  lo = hi = 0;
  if (code == kReduceAdd) {
    hi = size;
  } else if (results && !is_group(code) && code != kPairAdd) {
    hi = 2 * size;
  } else if (results) {
    lo = __builtin_ctzll(results) * size;
    hi = (64 - __builtin_clzll(results)) * size;
  }
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

// Repeats whose lanes are all on and lie dense, apart from the results, in one go. False where each goes by itself.
bool reduce_all(const Machine& m, const Instr& in, const Plan& p, const RepeatJob& job) {
  const int code = in.op->code;
  const DType t = in.tensors[isa::reduction::dst].dtype;
  if (p.count != p.lanes || p.last != p.lanes) return false;
  if (is_sum(code)) {
    m.kernels.tree_sum[t](job, p.lanes, width_of(code, p));
    return true;
  }
  if (!is_group(code) || !m.kernels.group_extreme[t]) return false;
  m.kernels.group_extreme[t](job, wants_largest(code));
  return true;
}

}  // namespace

void check_reduce(const Program& p, const Instr& in) {
  for (int i = 0; i < 2; ++i) need_scope(p, in, i, kOnChip);
  need_dtype(p, in, isa::reduction::dst, is_sum(in.op->code) ? kFloats : kNumeric);
  need_same_dtype(p, in, isa::reduction::dst, isa::reduction::src);
}

void run_reduce(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const int64_t rep = m.arg(in, isa::reduction::dst_rep);
  if (p.repeats == 0) return;
  const Lanes& l = p.operand[0];
  Wide lo, hi;
  dst_extent(in, p, rep, lo, hi);
  const uint8_t* src = m.read(in, isa::reduction::src, l.lo, l.hi);
  uint8_t* dst = m.write(in, isa::reduction::dst, lo, hi);
  if (lo >= hi) return;
  alignas(64) uint8_t dense[kVectorBytes + 64] = {};
  const bool shared = dst + int64_t(lo) < src + int64_t(l.hi) && src + int64_t(l.lo) < dst + int64_t(hi);
  const bool copied = p.by_bits || !l.dense() || shared, sum = is_sum(in.op->code);
  if (!copied && reduce_all(m, in, p, {dst, src, rep, l.rep, p.repeats, m.saturate})) return;
  // Extremes of integers look at the lanes that are on only.
  const bool filled = is_float(in.tensors[isa::reduction::dst].dtype);
  const uint64_t results = results_on(in.op->code, p, p.count);
  for (int64_t i = 0; i < p.repeats; ++i) {
    Repeat r{src + i * l.rep, dst + i * rep, p.on(i), results};
    if (r.on != p.count) r.results = results_on(in.op->code, p, r.on);
    if (copied || r.on < p.lanes) {  // else the lanes are dense where they lie
      if (filled) {
        gather_filled(m, in, p, r, dense);
      } else {
        gather_lanes(dense, r.x, l, p, r.on);
      }
      r.x = dense;
    }
    if (sum) {
      store_sums(m, in, p, r);
    } else {
      store_extremes(m, in, p, r);
    }
  }
}

}  // namespace mco
