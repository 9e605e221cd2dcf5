// SPDX-License-Identifier: Apache-2.0
// What a pointer of the C interface to a program points at.
#pragma once

#include <atomic>
#include <memory>

#include "capi.h"
#include "program.h"

// A loaded program with its number of references.
struct mco_program {
  explicit mco_program(std::unique_ptr<mco::Program> p) : program(std::move(p)) {}
  const std::unique_ptr<mco::Program> program;
  mutable std::atomic<int64_t> references{1};
};

namespace mco {

inline void retain(const mco_program* p) { p->references.fetch_add(1, std::memory_order_relaxed); }

inline void release(const mco_program* p) {
  if (p->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete p;
}

// A reference held for a scope.
class ProgramHeld {
 public:
  explicit ProgramHeld(const mco_program* p) : p_(p) { retain(p); }
  ~ProgramHeld() { release(p_); }
  ProgramHeld(const ProgramHeld&) = delete;
  ProgramHeld& operator=(const ProgramHeld&) = delete;

 private:
  const mco_program* p_;
};

}  // namespace mco
