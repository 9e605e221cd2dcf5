// SPDX-License-Identifier: Apache-2.0
// Arrays in memory and the steps of a lowering on them, as ms_custom_ops/lower/arrays.py has them in NumPy.
#pragma once

#include "../base.h"
#include "common.h"

namespace mco_acl {

// Strides in elements. `owner` keeps the memory, null for memory of a caller.
struct Shaped {
  std::shared_ptr<void> owner;
  char* data = nullptr;
  mco::DType dtype = mco::F32;
  std::vector<int64_t> shape, strides;

  int64_t elements() const;
  int64_t bytes() const { return elements() * mco::kSize[dtype]; }
  bool contiguous() const;
};

enum class StepKind : uint8_t {
  kPad,
  kCut,
  kCast,
  kFlags,
  kReshape,
  kBroadcast,
  kRepeat,
  kCorner,
  kSwap,
  kBatch,
  kUnbatch,
  kTake,
  kKeep,
  kSum,
  kTranspose,
  kBits,
  kTile,
  kFirst
};

struct Step {
  StepKind kind;
  std::vector<int64_t> numbers;  // as in lower/steps.py
  double value = 0;              // of a pad
  mco::DType dtype = mco::F32;   // of a cast
  int constant = -1;             // of take and keep
};

// Fresh and contiguous, not initialised.
Shaped fresh(mco::DType dtype, const std::vector<int64_t>& shape);
Shaped zeros(mco::DType dtype, const std::vector<int64_t>& shape);
std::vector<int64_t> row_strides(const std::vector<int64_t>& shape);
// `x` after a step; a view of the same memory where no value moves. Refused when the step does not fit.
Shaped apply(const Shaped& x, const Step& step, const std::vector<Shaped>& constants);
// `x` itself where it is contiguous, else a copy.
Shaped packed(const Shaped& x);
// A copy with memory of its own.
Shaped detached(const Shaped& x);
// Writes the values of `from` into `to`, of the same shape and dtype, both of any strides.
void assign(const Shaped& to, const Shaped& from);
// Bytes that this thread has copied for a lowering.
uint64_t& copied_bytes();

}  // namespace mco_acl
