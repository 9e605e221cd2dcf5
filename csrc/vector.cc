// SPDX-License-Identifier: Apache-2.0
// Element-wise vector instructions: which way through memory, and the inner loop for it.
#include <cstring>

#include "handlers.h"
#include "lanes.h"
#include "number.h"

namespace mco {

namespace {

bool reads_dst(int op) { return op == kMla || op == kMadd || op == kMaddRelu || op == kAxpy; }
bool has_scalar(int op) { return op >= kAdds && op <= kDup; }
int sources_of(int op) { return op <= kMaddRelu ? 2 : op == kDup ? 0 : 1; }

uint32_t accepted_dtypes(int op) {
  switch (op) {
    case kDiv:
    case kExp:
    case kLn:
    case kRec:
    case kSqrt:
    case kRsqrt:
    case kLrelu:
      return kFloats;
    case kAnd:
    case kOr:
    case kNot:
      return kWords16;
    case kShl:
    case kShr:
      return kIntegers;
    default:
      return kNumeric;
  }
}

// float32 += products of float16, which are exact in float32.
bool is_mixed(const Instr& in) {
  return (in.op->code == kMla || in.op->code == kAxpy) && in.tensors[isa::binary::dst].dtype == F32 &&
         in.tensors[isa::binary::src0].dtype == F16;
}

int lane_op(const Instr& in) {
  if (in.op->code == kShr && in.attrs[isa::scalar::round_en] != 0) return kShrRound;
  return in.op->code;
}

static_assert(int(isa::scalar::scalar) == int(isa::constant::scalar) &&
                  int(isa::scalar::src) == int(isa::binary::src0) && int(isa::unary::src) == int(isa::binary::src0),
              "one handler reads all layouts");

DType dtype_of_scalar(const Instr& in) {
  return in.tensors[sources_of(in.op->code) ? int(isa::scalar::src) : int(isa::scalar::dst)].dtype;
}

// What a LaneJob and a Plan hold of a scalar of dtype `t`.
template <class Holder>
void hold_scalar(const Instr& in, Value v, DType t, Holder& holder) {
  if (in.op->code == kDup) {  // a copy of bits
    uint8_t raw[8] = {};
    value_to_bits(v, t, raw);
    std::memcpy(&holder.iscalar, raw, sizeof raw);
  } else if (is_float(t)) {
    holder.scalar = float(v.f);
  } else {
    holder.iscalar = v.i;
  }
}

void set_scalar(const Machine& m, const Instr& in, const Plan& p, LaneJob& job) {
  const int op = in.op->code, at = isa::scalar::scalar;
  if (!has_scalar(op)) return;
  if (p.has_scalar) {
    job.scalar = p.scalar;
    job.iscalar = p.iscalar;
  } else if (op == kShl || op == kShr) {
    job.iscalar = m.arg(in, at);
  } else {
    const DType t = dtype_of_scalar(in);
    hold_scalar(in, m.value_arg(in, at, t), t, job);
  }
}

// One by one: cleared as a whole, by a string instruction, it takes as long as the work of a short vector.
LaneJob new_job() {
  LaneJob job;
  job.dst = nullptr;
  job.s0 = job.s1 = nullptr;
  job.dst_blk = job.s0_blk = job.s1_blk = job.dst_rep = job.s0_rep = job.s1_rep = 0;
  job.flat = job.repeats = 0;
  job.blocks = job.tail = 0;
  job.scalar = 0;
  job.iscalar = 0;
  job.saturate = false;
  return job;
}

// Repeat by repeat through dense copies: every lane is read before one is written.
void run_staged(LaneFn fn, LaneJob job, const Plan& p, const LaneOperands& o, bool dst_read) {
  alignas(64) uint8_t dense[3][kVectorBytes + 64];
  const Lanes& d = p.operand[0];
  const uint32_t blocks = p.by_bits ? blocks_on(p, d.size) : 0;
  const int64_t first = p.by_bits ? __builtin_ctz(blocks) * kBlockBytes : 0;
  const int64_t end = p.by_bits ? (32 - __builtin_clz(blocks)) * kBlockBytes : 0;
  job.dst = dense[0] + first;
  // What lies between lanes that are on is computed too. A source that is not there is never read.
  for (int i = dst_read ? 0 : 1; i <= o.sources; ++i) std::memset(dense[i], 0, sizeof dense[i]);
  for (int64_t r = 0; r < p.repeats; ++r) {
    const int64_t on = p.on(r);
    if (on == 0 && !p.by_bits) continue;
    const uint8_t* from[3] = {dense[0], dense[1], dense[2]};
    for (int i = dst_read ? 0 : 1; i <= o.sources; ++i) {
      from[i] = o.at[i] + r * p.operand[i].rep;
      if (i && p.operand[i].dense()) continue;  // read where it lies
      gather_lanes(dense[i], from[i], p.operand[i], p, on);
      from[i] = dense[i];
    }
    job.s0 = from[1] + first;
    job.s1 = from[2] + first;
    job.flat = p.by_bits ? (end - first) / d.size : on;
    if (r == 0 || o.sources || on != p.count) fn(job);  // without sources every repeat has the same values
    scatter_lanes(o.at[0] + r * p.operand[0].rep, dense[0], p.operand[0], p, on);
  }
}

void run_mixed(Machine& m, LaneFn fn, LaneJob job, const Plan& p, const LaneOperands& o) {
  alignas(64) uint8_t dense[3][kVectorBytes + 64] = {};
  alignas(64) float wide[3][kVectorBytes / 4 + 16] = {};
  job.dst = dense[0];
  job.s0 = reinterpret_cast<uint8_t*>(wide[1]);
  job.s1 = reinterpret_cast<uint8_t*>(wide[2]);
  job.flat = p.lanes;
  for (int64_t r = 0; r < p.repeats; ++r) {
    const int64_t on = p.on(r);
    for (int i = 0; i <= o.sources; ++i) {
      gather_lanes(dense[i], o.at[i] + r * p.operand[i].rep, p.operand[i], p, on);
      if (i) m.kernels.half_to_float(wide[i], reinterpret_cast<uint16_t*>(dense[i]), p.lanes);
    }
    fn(job);
    scatter_lanes(o.at[0] + r * p.operand[0].rep, dense[0], p.operand[0], p, on);
  }
}

void check_all(const Program& p, const Instr& in, uint32_t accepted) {
  for (int i = 0; i < int(in.tensors.size()); ++i) need_scope(p, in, i, kOnChip);
  need_dtype(p, in, isa::binary::dst, accepted);
  for (int i = 2; i < int(in.tensors.size()); ++i) need_same_dtype(p, in, isa::binary::src0, i);
  if (in.tensors.size() > 1 && !is_mixed(in)) need_same_dtype(p, in, isa::binary::dst, isa::binary::src0);
}

}  // namespace

void check_lanes(const Program& p, const Instr& in) { check_all(p, in, accepted_dtypes(in.op->code)); }

void check_dup(const Program& p, const Instr& in) { check_all(p, in, bit(kDTypes) - 1); }

bool is_flat_lanes(const Instr& in) { return in.op->run == run_lanes && !is_mixed(in); }

bool reads_dst(const Instr& in) { return in.op->run == run_lanes && reads_dst(in.op->code); }

int flat_job(Machine& m, const Instr& in, LaneJob& job) {
  const Plan& p = *in.plan;
  job = new_job();
  set_scalar(m, in, p, job);
  const int sources = sources_of(in.op->code);
  if (sources > 0) job.s0 = m.read(in, isa::binary::src0, p.operand[1].lo, p.operand[1].hi);
  if (sources > 1) job.s1 = m.read(in, isa::binary::src1, p.operand[2].lo, p.operand[2].hi);
  job.dst = m.write(in, isa::binary::dst, p.operand[0].lo, p.operand[0].hi);
  job.saturate = m.saturate;
  job.flat = p.flat;
  return lane_op(in);
}

void prepare_scalar(const Program& p, const Instr& in, Plan& plan) {
  const int op = in.op->code;
  if (!has_scalar(op)) return;
  const uint32_t root = in.args[isa::scalar::scalar];
  if (!p.exprs.is_constant(root)) return;
  const Value v = p.exprs.expr(root).c;
  if (op == kShl || op == kShr) {
    if (v.i < 0) return;  // an error of the statement that runs it
    plan.iscalar = v.i;
  } else {
    const DType t = dtype_of_scalar(in);
    hold_scalar(in, convert_value(v, p.exprs.dtype(root), t), t, plan);
  }
  plan.has_scalar = true;
}

// Any but the plainest. A function of its own, so that the plainest needs no room for copies.
[[gnu::noinline]] static void run_other_lanes(Machine& m, const Instr& in) {
  PlanRoom room;
  const Plan& p = plan_of(m, in, room);
  LaneJob job = new_job();
  set_scalar(m, in, p, job);
  if (p.empty()) return;
  const int op = in.op->code;
  const bool dst_read = reads_dst(op);
  LaneOperands o{{}, sources_of(op)};
  for (int i = 1; i <= o.sources; ++i) o.at[i] = m.read(in, i, p.operand[i].lo, p.operand[i].hi);
  o.at[0] = m.write(in, isa::binary::dst, p.operand[0].lo, p.operand[0].hi);
  job.saturate = m.saturate;
  const LaneFn fn = m.kernels.lane[lane_op(in)][in.tensors[isa::binary::dst].dtype];
  if (is_mixed(in)) return run_mixed(m, fn, job, p, o);
  const bool overwrites = dst_read && p.operand[0].blk < kBlockBytes;  // a block that a later one reads again
  if (overwrites || must_stage(p, o)) return run_staged(fn, job, p, o, dst_read);
  set_place(job, p, o);
  if (p.flat) {
    job.flat = p.flat;
    fn(job);
  } else {
    by_repeats(job, p, [fn](const LaneJob& part, int64_t) { fn(part); });
  }
}

// Lanes that lie one after the other, in operands of which loading knows that they lie apart or in one place.
void run_lanes(Machine& m, const Instr& in) {
  const Plan* const p = in.plan;
  if (!p || !p->flat || p->meeting != Plan::kApart || is_mixed(in)) return run_other_lanes(m, in);
  LaneJob job;
  const int op = flat_job(m, in, job);
  m.kernels.lane[op][in.tensors[isa::binary::dst].dtype](job);
}

}  // namespace mco
