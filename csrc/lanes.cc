// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <algorithm>
#include <cstring>

#include "handlers.h"

namespace mco {

namespace {

// Bytes that lanes [0, n) touch in one repeat.
void count_extent(const Lanes& l, int64_t n, Wide& lo, Wide& hi) {
  lo = hi = 0;
  if (n == 0) return;
  const int64_t per_block = kBlockBytes / l.size, full = n / per_block, tail = n % per_block;
  if (full) hi = Wide(full - 1) * l.blk + kBlockBytes;
  if (tail) hi = std::max(hi, Wide(full) * l.blk + Wide(tail) * l.size);
}

void bits_extent(const Lanes& l, const Plan& p, Wide& lo, Wide& hi) {
  const int per_block = int(kBlockBytes / l.size);
  bool any = false;
  lo = hi = 0;
  for (int lane = 0; lane < p.lanes; ++lane) {
    if (!(p.bits[lane / 64] >> (lane % 64) & 1)) continue;
    const Wide at = Wide(lane / per_block) * l.blk + Wide(lane % per_block) * l.size;
    lo = any ? std::min(lo, at) : at;
    hi = any ? std::max(hi, at + l.size) : at + l.size;
    any = true;
  }
}

void set_extent(Plan& p, Lanes& l) {
  if (p.empty()) return;
  const Wide last = Wide(p.repeats - 1) * l.rep;
  Wide lo, end, hi;
  if (p.by_bits) {
    bits_extent(l, p, lo, end);
  } else {
    count_extent(l, p.last, lo, end);
  }
  hi = end + last;
  if (!p.by_bits && p.repeats > 1 && p.count != p.last) {
    Wide first, full;
    count_extent(l, p.count, first, full);
    end = std::max(end, full);
    hi = std::max(hi, full + last - l.rep);
  }
  auto bytes = [](Wide w) { return int64_t(std::min<Wide>(w, INT64_MAX)); };
  l.lo = bytes(lo);
  l.hi = bytes(hi);
  l.end = bytes(end);
}

void bits_to_count(Plan& p) {
  const uint64_t low = p.bits[0], high = p.bits[1];
  int64_t n = -1;
  if (high == 0 && (low & (low + 1)) == 0) n = low == ~uint64_t(0) ? 64 : __builtin_popcountll(low);
  if (low == ~uint64_t(0) && (high & (high + 1)) == 0) n = 64 + __builtin_popcountll(high);
  if (n < 0) return;
  p.by_bits = false;
  p.count = p.last = n;
}

// Of elements of `size` bytes, the blocks with a lane that is on.
uint32_t find_blocks(const Plan& p, int size) {
  const int per_block = int(kBlockBytes) / size;
  const uint64_t lanes = (uint64_t(1) << per_block) - 1;
  uint32_t on = 0;
  for (int b = 0; b * per_block < p.lanes; ++b) {
    const int first = b * per_block;
    if (p.bits[first / 64] >> (first % 64) & lanes) on |= 1u << b;
  }
  return on;
}

void set_keep(Plan& p, int size) {
  for (int i = 0; i < 4; ++i) p.blocks[i] = find_blocks(p, 1 << i);
  std::memset(p.keep, 0xFF, sizeof p.keep);
  p.first = p.lanes;
  for (int lane = 0; lane < p.lanes; ++lane) {
    if (!(p.bits[lane / 64] >> (lane % 64) & 1)) continue;
    std::memset(p.keep + lane * size, 0, size_t(size));
    p.first = std::min(p.first, lane);
    p.end = lane + 1;
  }
}

// Values of the arguments: from constants while loading, from the machine while running.
struct Source {
  const Program& program;
  const Instr& instr;
  const Machine* machine;

  int64_t raw(int i) const {
    return machine ? machine->raw_arg(instr, i) : program.exprs.expr(instr.args[size_t(i)]).c.i;
  }
  int64_t count(int i) const {
    if (machine) return machine->arg(instr, i);
    const int64_t v = raw(i);
    if (v < 0) throw Error("");
    return v;
  }
  [[noreturn]] void refuse(const char* what, const std::string& given, const std::string& accepted) const {
    mco::refuse(program, instr, what, given, accepted);
  }
};

void set_mask(const Source& s, Plan& p) {
  const LaneShape& shape = s.instr.op->shape;
  p.repeats = s.count(shape.repeat);
  const int at = shape.mask0;
  if (at < 0) {  // no mask: every lane
    p.count = p.last = p.lanes;
    return;
  }
  const int64_t kind = s.instr.attrs[size_t(shape.mask_kind)];
  const int64_t mask0 = s.raw(at);
  if (kind == kMaskBits) {
    const uint64_t high = uint64_t(s.raw(shape.mask1)), low = uint64_t(mask0);
    const bool beyond = p.lanes < 64 ? (low >> p.lanes || high) : p.lanes < 128 && high >> (p.lanes - 64) != 0;
    if (beyond) {
      s.refuse("mask",
               high ? format("0x%llx%016llx", (unsigned long long)high, (unsigned long long)low)
                    : format("0x%llx", (unsigned long long)low),
               format("bits of %d lanes", p.lanes));
    }
    p.by_bits = true;
    p.bits[0] = low;
    p.bits[1] = high;
    bits_to_count(p);
    return;
  }
  if (mask0 < 0) s.refuse("mask0", std::to_string(mask0), "0 or more");
  if (kind == kMaskCounter) {
    p.repeats = mask0 / p.lanes + (mask0 % p.lanes != 0);
    p.count = p.lanes;
    p.last = mask0 == 0 ? 0 : mask0 - (p.repeats - 1) * p.lanes;
    return;
  }
  if (mask0 > p.lanes) s.refuse("mask", std::to_string(mask0), format("0 to %d lanes", p.lanes));
  p.count = p.last = mask0;
}

bool contiguous(const Plan& p) {
  for (int i = 0; i < p.operands; ++i) {
    const Lanes& l = p.operand[i];
    if (!l.dense() || (p.repeats > 1 && l.rep != int64_t(p.lanes) * l.size)) return false;
  }
  return p.repeats == 1 || p.count == p.lanes;
}

void build(const Source& s, Plan& p) {
  const LaneShape& shape = s.instr.op->shape;
  int widest = 1;
  for (int i = 0; i < shape.operands; ++i) {
    widest = std::max(widest, int(s.instr.tensors[size_t(shape.tensor[i])].size));
  }
  p.lanes = int(kVectorBytes / widest);
  p.operands = shape.operands;
  set_mask(s, p);
  for (int i = 0; i < shape.operands; ++i) {
    Lanes& l = p.operand[i];
    l.size = s.instr.tensors[size_t(shape.tensor[i])].size;
    l.blk = s.count(shape.blk[i]);
    l.rep = s.count(shape.rep[i]);
    set_extent(p, l);
  }
  if (p.by_bits && !p.empty()) set_keep(p, p.operand[0].size);
  const bool fits = p.operands > 0 && p.operand[0].hi < INT64_MAX;  // else no tensor holds them
  if (!p.empty() && !p.by_bits && fits && contiguous(p)) p.flat = (p.repeats - 1) * p.lanes + p.last;
}

// Decided while loading when every operand has a settled place. Scopes lie apart.
void set_meeting(const Program& p, const Instr& instr, Plan& plan) {
  constexpr int64_t kFar = int64_t(1) << 56;
  int64_t at[4] = {};
  for (int i = 0; i < plan.operands; ++i) {
    const Operand& o = instr.tensors[size_t(instr.op->shape.tensor[i])];
    const Buffer& b = p.buffers[o.buffer];
    if (!o.holds(plan.operand[i].lo, plan.operand[i].hi)) return;
    at[i] = int64_t(b.scope) * kFar + b.address + o.start;
  }
  plan.meeting = meets(plan, at) ? Plan::kMeet : Plan::kApart;
}

}  // namespace

bool make_plan(const Program& p, const Instr& instr, Plan& plan) {
  const OpInfo& op = *instr.op;
  if (op.shape.operands == 0) return false;
  for (size_t i = 0; i < instr.args.size(); ++i) {
    if (op.args[i].kind != ArgKind::Value && !p.exprs.is_constant(instr.args[i])) return false;
  }
  try {
    build(Source{p, instr, nullptr}, plan);
  } catch (const Error&) {
    return false;  // an error of the statement that runs it, if it ever runs
  }
  if (!plan.empty()) set_meeting(p, instr, plan);
  if (op.run == run_lanes) prepare_scalar(p, instr, plan);
  return true;
}

const Plan* make_plan(const Program& p, const Instr& instr, Chunks& memory) {
  Plan plan;
  return make_plan(p, instr, plan) ? &(*memory.make<Plan>(1) = plan) : nullptr;
}

const Plan& new_plan(const Machine& m, const Instr& instr, PlanRoom& room) {
  Plan* plan = new (room.bytes) Plan;
  build(Source{m.program, instr, &m}, *plan);
  return *plan;
}

// Blocks that hold bytes of lanes [0, n).
static uint32_t first_blocks(int64_t n) { return uint32_t((uint64_t(1) << n) - 1); }

void gather_lanes(uint8_t* dense, const uint8_t* at, const Lanes& l, const Plan& p, int64_t on) {
  if (p.by_bits) return kernels().copy_blocks(dense, kBlockBytes, at, l.blk, blocks_on(p, l.size));
  const int64_t bytes = on * l.size, full = bytes / kBlockBytes, tail = bytes % kBlockBytes;
  kernels().copy_blocks(dense, kBlockBytes, at, l.blk, first_blocks(full));
  if (tail) std::memcpy(dense + full * kBlockBytes, at + full * l.blk, size_t(tail));
}

void scatter_lanes(uint8_t* at, const uint8_t* dense, const Lanes& l, const Plan& p, int64_t on) {
  if (p.by_bits) return kernels().blend_blocks(at, l.blk, dense, p.keep, blocks_on(p, l.size));
  const int64_t bytes = on * l.size, full = bytes / kBlockBytes, tail = bytes % kBlockBytes;
  kernels().copy_blocks(at, l.blk, dense, kBlockBytes, first_blocks(full));
  if (tail) std::memcpy(at + full * l.blk, dense + full * kBlockBytes, size_t(tail));
}

static bool overlap_at(int64_t a, const Lanes& la, int64_t b, const Lanes& lb) {
  return a + la.lo < b + lb.hi && b + lb.lo < a + la.hi;
}

bool overlap(const uint8_t* a, const Lanes& la, const uint8_t* b, const Lanes& lb) {
  return overlap_at(reinterpret_cast<int64_t>(a), la, reinterpret_cast<int64_t>(b), lb);
}

// Whether one fits into the gaps that the other leaves between its repeats.
static bool interleaved(int64_t a, const Lanes& la, int64_t b, const Lanes& lb) {
  const int64_t rep = la.rep;
  if (rep <= 0 || lb.rep != rep) return false;
  const int64_t behind = ((b - a) % rep + rep) % rep;
  return behind >= la.end && behind + lb.end <= rep;
}

bool meets(const Plan& p, const int64_t at[4]) {
  const Lanes& d = p.operand[0];
  for (int i = 1; i < p.operands; ++i) {
    const Lanes& s = p.operand[i];
    if (!overlap_at(at[0], d, at[i], s) || interleaved(at[0], d, at[i], s)) continue;
    const bool in_place =
        at[0] == at[i] && s.blk == d.blk && d.blk >= kBlockBytes && (s.rep == d.rep || p.repeats == 1);
    if (!in_place) return true;
  }
  return false;
}

bool must_stage(const Plan& p, const LaneOperands& o) {
  if (p.by_bits) return true;
  if (p.meeting != Plan::kLook) return p.meeting == Plan::kMeet;
  int64_t at[4] = {};
  for (int i = 0; i <= o.sources; ++i) at[i] = reinterpret_cast<int64_t>(o.at[i]);
  return meets(p, at);
}

void set_place(LaneJob& job, const Plan& p, const LaneOperands& o) {
  job.dst = o.at[0];
  job.dst_blk = p.operand[0].blk;
  job.dst_rep = p.operand[0].rep;
  if (o.sources > 0) {
    job.s0 = o.at[1];
    job.s0_blk = p.operand[1].blk;
    job.s0_rep = p.operand[1].rep;
  }
  if (o.sources > 1) {
    job.s1 = o.at[2];
    job.s1_blk = p.operand[2].blk;
    job.s1_rep = p.operand[2].rep;
  }
}

}  // namespace mco
