// SPDX-License-Identifier: Apache-2.0
// Lanes of vector instructions: mask, strides, and the bytes they touch.
#pragma once

#include <memory>

#include "machine.h"

namespace mco {

enum MaskKind : int64_t { kMaskCount, kMaskBits, kMaskCounter };

// Where the lanes of one operand lie, in bytes from its start.
struct Lanes {
  int size = 0;
  int64_t blk = 0, rep = 0;
  Wide lo = 0, hi = 0;  // bytes touched by the lanes that are on
  bool dense() const { return blk == kBlockBytes; }
};

constexpr int kMaxLanes = 256;

struct Plan {
  int lanes = 0;
  int64_t repeats = 0;
  bool by_bits = false;
  uint64_t bits[kMaxLanes / 64] = {};     // a mask has 128 bits at most
  int first = 0, end = 0;                 // lanes [first, end) hold every lane that is on (by_bits)
  alignas(32) uint8_t keep[kVectorBytes]; // by_bits: 0xFF for the bytes of lanes of dst that are off
  int64_t count = 0;  // lanes on in every repeat but the last (not by_bits)
  int64_t last = 0;   // lanes on in the last repeat (not by_bits)
  int operands = 0;
  Lanes operand[4];   // dst, then sources
  bool empty() const { return repeats == 0 || (by_bits ? !(bits[0] | bits[1]) : count == 0 && last == 0); }
  int64_t on(int64_t repeat) const { return repeat + 1 == repeats ? last : count; }
};

// Plan of an instruction whose arguments are constants, else null. Instructions without lanes have none.
std::shared_ptr<const Plan> make_plan(const Program& p, const Instr& instr);
// The plan of this execution: the prepared one, or `local` filled from the arguments.
const Plan& plan_of(const Machine& m, const Instr& instr, Plan& local);

// Blocks of a repeat with a lane that is on (by_bits), of elements of `size` bytes. Masked instructions touch them as a
// whole, also where lanes that are off lie outside of the tensor: on-chip memory is padded on both sides.
uint32_t blocks_on(const Plan& p, int size);

// Elements of one repeat between strided on-chip memory and a dense array of kVectorBytes. Lanes that are off may be
// copied to the array, never from it; scattered are the lanes of operand 0.
void gather_lanes(uint8_t* dense, const uint8_t* at, const Lanes& lanes, const Plan& plan, int64_t on);
void scatter_lanes(uint8_t* at, const uint8_t* dense, const Lanes& lanes, const Plan& plan, int64_t on);

bool overlap(const uint8_t* a, const Lanes& la, const uint8_t* b, const Lanes& lb);

}  // namespace mco
