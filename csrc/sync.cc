// SPDX-License-Identifier: Apache-2.0
// Synchronisation and modes: the instructions of a block run in program order, so flags have no effect.
#include "handlers.h"

namespace mco {

namespace {

constexpr DType kAtomicDType[] = {kDTypes, F32, F16, I16, I32, I8, BF16};
static_assert(sizeof kAtomicDType / sizeof kAtomicDType[0] == isa::set_atomic_add::mode_high + 1, "one for each mode");

}  // namespace

void check_nothing(const Program&, const Instr&) {}

void run_nothing(Machine& m, const Instr& in) {
  for (int i = 0; i < int(in.args.size()); ++i) m.arg(in, i);
}

void run_atomic_mode(Machine& m, const Instr& in) { m.atomic = kAtomicDType[in.attrs[isa::set_atomic_add::mode]]; }

void check_barrier(const Program& p, const Instr& in) { need_scope(p, in, isa::block_barrier::workspace, bit(GM)); }

// The walk ends there and the run resumes the block when all have arrived; a block alone has nothing to wait for.
void run_barrier(Machine&, const Instr&) {}

}  // namespace mco
