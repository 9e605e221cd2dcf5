// SPDX-License-Identifier: Apache-2.0
#include "counter.h"

namespace mco {

namespace {

void add_one(int64_t& count) { __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }

}  // namespace

void Counter::on_step(const Machine& machine, const Step& step) {
  if (step.what == What::Begin || step.what == What::Blocks || step.what == What::Next) return;
  add_one(counts_[&step - machine.program.stream.steps.data()]);
}

// Rounds count where the loop begins.
void Counter::on_loop(const Machine& machine, const Step& step, int64_t) {
  const int64_t number = &step - machine.program.stream.steps.data();
  add_one(counts_[step.what == What::Next ? int64_t(step.target) - 1 : number]);
}

const char* step_name(const Step& step) {
  switch (step.what) {
    case What::Instr:
    case What::Sync:
    case What::Barrier:
      return step.instr->op->name.c_str();
    case What::Begin:
    case What::Blocks:
      return "for";
    case What::Test:
      return "if";
    case What::Assign:
      return "assign";
    case What::Load:
      return "load";
    case What::Store:
      return "store";
    case What::Alloc:
      return "alloc";
    case What::Free:
      return "free";
    case What::NoSync:
      return "nosync";
    default:
      return nullptr;
  }
}

}  // namespace mco
