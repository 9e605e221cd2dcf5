// SPDX-License-Identifier: Apache-2.0
// Compare and select: bits are packed little endian, one per lane, repeat after repeat.
#include <cstring>

#include "handlers.h"
#include "lanes.h"
#include "number.h"

namespace mco {

namespace {

// d[i] = bit i of sel ? a[i] : b[i]
template <class T>
void select(uint8_t* d, const uint8_t* sel, const uint8_t* a, const uint8_t* b, int n) {
  T x[kMaxLanes], y[kMaxLanes];
  std::memcpy(x, a, size_t(n) * sizeof(T));
  std::memcpy(y, b, size_t(n) * sizeof(T));
  for (int i = 0; i < n; i += 8) {
    const unsigned byte = sel[i / 8];
    for (int k = 0; k < 8; ++k) y[i + k] = byte >> k & 1 ? x[i + k] : y[i + k];
  }
  std::memcpy(d, y, size_t(n) * sizeof(T));
}

void select_any(int size, uint8_t* d, const uint8_t* sel, const uint8_t* a, const uint8_t* b, int n) {
  switch (size) {
    case 1:
      return select<uint8_t>(d, sel, a, b, n);
    case 2:
      return select<uint16_t>(d, sel, a, b, n);
    case 4:
      return select<uint32_t>(d, sel, a, b, n);
    default:
      return select<uint64_t>(d, sel, a, b, n);
  }
}

static_assert(int(isa::vcmpv::src0) == int(isa::vcmpvs::src) && int(isa::vcmpv::src0) == int(isa::vcmp::src0) &&
                  int(isa::vcmpv::compare) == int(isa::vcmpvs::compare) &&
                  int(isa::vsel::sel) == int(isa::vsels::sel) && int(isa::vsel::src0) == int(isa::vsels::src0) &&
                  int(isa::vsel::mode) == int(isa::vsels::mode),
              "one handler reads both");

// One element of a scalar argument, as bits.
void scalar_bits(const Machine& m, const Instr& in, int arg, DType t, uint8_t out[8]) {
  value_to_bits(m.value_arg(in, arg, t), t, out);
}

}  // namespace

void check_compare(const Program& p, const Instr& in) {
  for (int i = 0; i < int(in.tensors.size()); ++i) need_scope(p, in, i, kOnChip);
  need_dtype(p, in, isa::vcmpv::src0, kNumeric);
  if (in.tensors.size() > 2) need_same_dtype(p, in, isa::vcmpv::src0, isa::vcmpv::src1);
}

void run_compare(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const bool scalar = in.op->code == 1;
  const DType t = in.tensors[isa::vcmpv::src0].dtype;
  alignas(64) uint8_t a[kVectorBytes + 64], b[kVectorBytes + 64] = {}, bits[kMaxLanes / 8];
  if (scalar) scalar_bits(m, in, isa::vcmpvs::scalar, t, b);
  if (p.empty()) return;
  const int64_t per_repeat = p.lanes / 8;
  const uint8_t* s0 = m.read(in, isa::vcmpv::src0, p.operand[0].lo, p.operand[0].hi);
  const uint8_t* s1 = scalar ? nullptr : m.read(in, isa::vcmpv::src1, p.operand[1].lo, p.operand[1].hi);
  uint8_t* d = m.write(in, isa::vcmpv::dst, 0, Wide(p.repeats) * per_repeat);
  const bool dense = p.operand[0].dense() && (scalar || p.operand[1].dense());
  for (int64_t r = 0; r < p.repeats; ++r) {
    const uint8_t *x = s0 + r * p.operand[0].rep, *y = scalar ? b : s1 + r * p.operand[1].rep;
    if (!dense) {
      gather_lanes(a, x, p.operand[0], p, p.lanes);
      x = a;
      if (!scalar) {
        gather_lanes(b, y, p.operand[1], p, p.lanes);
        y = b;
      }
    }
    m.kernels.compare[t](bits, x, y, p.lanes, int(in.attrs[isa::vcmpv::compare]), scalar);
    std::memcpy(d + r * per_repeat, bits, size_t(per_repeat));
  }
}

void run_masked_compare(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  if (p.empty()) return;
  const int64_t per_repeat = p.lanes / 8;
  const uint8_t* s0 = m.read(in, isa::vcmp::src0, p.operand[0].lo, p.operand[0].hi);
  const uint8_t* s1 = m.read(in, isa::vcmp::src1, p.operand[1].lo, p.operand[1].hi);
  uint8_t* d = m.write(in, isa::vcmp::dst, 0, Wide(p.repeats) * per_repeat);
  alignas(64) uint8_t a[kVectorBytes + 64] = {}, b[kVectorBytes + 64] = {}, bits[kMaxLanes / 8];
  for (int64_t r = 0; r < p.repeats; ++r, d += per_repeat) {
    const int64_t on = p.on(r);
    gather_lanes(a, s0 + r * p.operand[0].rep, p.operand[0], p, on);
    gather_lanes(b, s1 + r * p.operand[1].rep, p.operand[1], p, on);
    m.kernels.compare[in.tensors[isa::vcmp::src0].dtype](bits, a, b, p.lanes, int(in.attrs[isa::vcmp::compare]), false);
    for (int lane = 0; lane < p.lanes; ++lane) {
      if (p.by_bits ? !(p.bits[lane / 64] >> (lane % 64) & 1) : lane >= on) continue;
      const uint8_t one = uint8_t(1u << (lane % 8));
      d[lane / 8] = uint8_t((d[lane / 8] & ~one) | (bits[lane / 8] & one));
    }
  }
}

void check_select(const Program& p, const Instr& in) {
  for (int i = 0; i < int(in.tensors.size()); ++i) need_scope(p, in, i, kOnChip);
  for (int i = 2; i < int(in.tensors.size()); ++i) need_same_dtype(p, in, isa::vsel::dst, i);
}

// Block by block, where no bit or element is read after it was written; false where that is not so.
static bool select_direct(const Machine& m, const Instr& in, const Plan& p, const uint8_t* sel, int64_t step,
                          const LaneOperands& o) {
  const int size = in.tensors[isa::vsel::dst].size;
  Lanes bits;
  bits.hi = (p.repeats - 1) * step + p.lanes / 8;
  if ((size != 2 && size != 4) || overlap(o.at[0], p.operand[0], sel, bits) || must_stage(p, o)) return false;
  LaneJob job{};
  set_place(job, p, o);
  const SelectFn fn = m.kernels.select[size / 4];
  by_repeats(job, p, [=](const LaneJob& part, int64_t first) { fn(part, sel + first * step, step); });
  return true;
}

void run_select(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  const bool scalar = in.op->code == 1;
  const int size = in.tensors[isa::vsel::dst].size;
  uint8_t one[8] = {};
  if (scalar) scalar_bits(m, in, isa::vsels::scalar, in.tensors[isa::vsel::dst].dtype, one);
  if (p.repeats == 0) return;
  const int64_t bytes = p.lanes / 8, step = in.attrs[isa::vsel::mode] ? bytes : 0;
  uint8_t* sel = m.read(in, isa::vsel::sel, 0, Wide(p.repeats - 1) * step + bytes);
  if (p.empty()) return;
  uint8_t* s0 = m.read(in, isa::vsel::src0, p.operand[1].lo, p.operand[1].hi);
  uint8_t* s1 = scalar ? nullptr : m.read(in, isa::vsel::src1, p.operand[2].lo, p.operand[2].hi);
  uint8_t* to = m.write(in, isa::vsel::dst, p.operand[0].lo, p.operand[0].hi);
  if (!scalar && select_direct(m, in, p, sel, step, LaneOperands{{to, s0, s1}, 2})) return;
  alignas(64) uint8_t d[kVectorBytes], a[kVectorBytes] = {}, b[kVectorBytes] = {}, bits[kMaxLanes / 8];
  for (int i = 0; scalar && i < p.lanes; ++i) std::memcpy(b + i * size, one, size_t(size));
  for (int64_t r = 0; r < p.repeats; ++r) {
    const int64_t on = p.on(r);
    gather_lanes(a, s0 + r * p.operand[1].rep, p.operand[1], p, on);
    if (!scalar) gather_lanes(b, s1 + r * p.operand[2].rep, p.operand[2], p, on);
    std::memcpy(bits, sel + r * step, size_t(bytes));
    select_any(size, d, bits, a, b, p.lanes);
    scatter_lanes(to + r * p.operand[0].rep, d, p.operand[0], p, on);
  }
}

}  // namespace mco
