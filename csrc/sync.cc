// SPDX-License-Identifier: Apache-2.0
// Synchronisation and modes: the instructions of a block run in program order, so flags have no effect.
#include "handlers.h"

namespace mco {

namespace {

constexpr int64_t kPipes = 8;
constexpr DType kAtomicDType[] = {kDTypes, F32, F16, I16, I32, I8, BF16};
constexpr int64_t kAtomicModes = sizeof kAtomicDType / sizeof kAtomicDType[0];

}  // namespace

void check_pipe(const Program& p, const Instr& in) {
  for (const std::string& name : in.op->attrs) need_attr(p, in, name.c_str(), 0, kPipes - 1);
}

void run_nothing(Machine& m, const Instr& in) {
  for (int i = 0; i < int(in.args.size()); ++i) m.raw_arg(in, i);
}

void check_atomic_mode(const Program& p, const Instr& in) { need_attr(p, in, "mode", 0, kAtomicModes - 1); }

void run_atomic_mode(Machine& m, const Instr& in) { m.atomic = kAtomicDType[in.attrs[0]]; }

void check_barrier(const Program& p, const Instr& in) { need_scope(p, in, 0, bit(GM)); }

// The walk ends there and the run resumes the block when all have arrived; a block alone has nothing to wait for.
void run_barrier(Machine&, const Instr&) {}

}  // namespace mco
