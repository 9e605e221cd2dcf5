// SPDX-License-Identifier: Apache-2.0
// Lanes of vector instructions: mask, strides, and the bytes they touch.
#pragma once

#include <type_traits>

#include "machine.h"

namespace mco {

enum MaskKind : int64_t { kMaskCount, kMaskBits, kMaskCounter };

// Where the lanes of one operand lie, in bytes from its start. Ends beyond 63 bits, which fit no tensor, count as the
// largest int64.
struct Lanes {
  int64_t blk = 0, rep = 0;
  int64_t lo = 0, hi = 0;  // bytes touched by the lanes that are on
  int64_t end = 0;         // of the bytes touched in one repeat, the largest
  int size = 0;
  bool dense() const { return blk == kBlockBytes; }
};

constexpr int kMaxLanes = 256;

// What every execution needs comes first: it shares few cache lines.
struct Plan {
  int lanes = 0;
  int operands = 0;
  int64_t repeats = 0;
  int64_t count = 0;  // lanes on in every repeat but the last (not by_bits)
  int64_t last = 0;   // lanes on in the last repeat (not by_bits)
  int64_t flat = 0;   // elements, when the lanes of every operand lie one after the other; else 0
  bool by_bits = false;
  enum Meeting : uint8_t { kLook, kApart, kMeet } meeting = kLook;  // of dst with a source, as meets() says
  bool has_scalar = false;  // the scalar of an element-wise instruction is a constant, of which a LaneJob wants:
  float scalar = 0;
  int64_t iscalar = 0;
  Lanes operand[4];                        // dst, then sources
  uint64_t bits[kMaxLanes / 64] = {};      // by_bits; a mask has 128 bits at most
  int first = 0, end = 0;                  // lanes [first, end) hold every lane that is on (by_bits)
  uint32_t blocks[4] = {};                 // by_bits: those with a lane that is on, of elements of 1, 2, 4 and 8 bytes
  alignas(32) uint8_t keep[kVectorBytes];  // by_bits: 0xFF for the bytes of lanes of dst that are off
  bool empty() const { return repeats == 0 || (by_bits ? !(bits[0] | bits[1]) : count == 0 && last == 0); }
  int64_t on(int64_t repeat) const { return repeat + 1 == repeats ? last : count; }
};

// Plan of an instruction whose arguments are constants, in `memory`, else null. Instructions without lanes have none.
const Plan* make_plan(const Program& p, const Instr& instr, Chunks& memory);
// The same where there is room for one; false where there is none.
bool make_plan(const Program& p, const Instr& instr, Plan& plan);
// Room for a plan, not initialised: most executions do not need it.
struct PlanRoom {
  alignas(Plan) unsigned char bytes[sizeof(Plan)];
};
static_assert(std::is_trivially_destructible<Plan>::value, "a plan in a room is never destroyed");

// A plan from the arguments of this execution.
const Plan& new_plan(const Machine& m, const Instr& instr, PlanRoom& room);
// The plan of this execution: the prepared one, or one in `room`.
inline const Plan& plan_of(const Machine& m, const Instr& instr, PlanRoom& room) {
  return instr.plan ? *instr.plan : new_plan(m, instr, room);
}

// Blocks of a repeat with a lane that is on (by_bits), of elements of `size` bytes. Masked instructions touch them as a
// whole, also where lanes that are off lie outside of the tensor: on-chip memory is padded on both sides.
inline uint32_t blocks_on(const Plan& p, int size) { return p.blocks[__builtin_ctz(unsigned(size))]; }

// Elements of one repeat between strided on-chip memory and a dense array of kVectorBytes. Lanes that are off may be
// copied to the array, never from it; scattered are the lanes of operand 0.
void gather_lanes(uint8_t* dense, const uint8_t* at, const Lanes& lanes, const Plan& plan, int64_t on);
void scatter_lanes(uint8_t* at, const uint8_t* dense, const Lanes& lanes, const Plan& plan, int64_t on);

bool overlap(const uint8_t* a, const Lanes& la, const uint8_t* b, const Lanes& lb);
// Whether a source shares bytes with dst so that a walk block by block would read what it has written. Not, if each
// lane reads where it writes. `at`: addresses of dst and the sources.
bool meets(const Plan& p, const int64_t at[4]);

// Addresses of dst and up to 2 sources, in the order of Plan::operand.
struct LaneOperands {
  uint8_t* at[3];
  int sources;
};

// Whether a walk from block to block may read what it has written, or lanes that are on are no run from lane 0 on.
bool must_stage(const Plan& p, const LaneOperands& o);
// Addresses and strides.
void set_place(LaneJob& job, const Plan& p, const LaneOperands& o);

// walk(job, number of its first repeat) for the repeats that have the same number of lanes, in order.
template <class Walk>
void by_repeats(LaneJob& job, const Plan& p, Walk walk) {
  const int64_t per_block = kBlockBytes / p.operand[0].size;
  auto part = [&](int64_t first, int64_t repeats, int64_t on) {
    if (repeats == 0 || on == 0) return;
    job.repeats = repeats;
    job.blocks = int32_t(on / per_block);
    job.tail = int32_t(on % per_block);
    walk(job, first);
  };
  if (p.count == p.last) return part(0, p.repeats, p.count);
  const int64_t first = p.repeats - 1;
  part(0, first, p.count);
  job.dst += first * job.dst_rep;
  if (job.s0) job.s0 += first * job.s0_rep;
  if (job.s1) job.s1 += first * job.s1_rep;
  part(first, 1, p.last);
}

}  // namespace mco
