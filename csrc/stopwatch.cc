// SPDX-License-Identifier: Apache-2.0
#include "stopwatch.h"

#include <algorithm>

#include "access.h"

namespace mco {

namespace {

int64_t nanoseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

// The least of many: an interruption is no part of it.
int64_t look_at_the_clock() {
  constexpr int kLooks = 200;
  int64_t least = INT64_MAX;
  auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kLooks; ++i) {
    const auto now = std::chrono::steady_clock::now();
    least = std::min(least, nanoseconds(now - before));
    before = now;
  }
  return least;
}

// Adds to what all blocks share, and starts again.
void hand_over(std::vector<int64_t>& own, int64_t* shared) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i]) __atomic_fetch_add(shared + i, own[i], __ATOMIC_RELAXED);
    own[i] = 0;
  }
}

int64_t bytes_of(const Touched& touched) {
  Wide sum = 0;
  for (const Box& b : touched.boxes) sum += Wide(b.bytes) * b.count * b.outer_count;
  return int64_t(std::min<Wide>(sum, INT64_MAX / 4));
}

}  // namespace

Stopwatch::Stopwatch(const Program& program, const Measures& measures)
    : first_(program.stream.steps.data()),
      measures_(measures),
      look_(measures.nanoseconds ? look_at_the_clock() : 0),
      counts_(program.stream.steps.size()),
      nanoseconds_(measures.nanoseconds ? counts_.size() : 0),
      work_(measures.work ? counts_.size() * kWork : 0) {}

Outcome Stopwatch::walk(Machine& machine) {
  const Outcome outcome = mco::walk(machine, *this);
  close();
  last_ = nullptr;  // the time that a block rests at a barrier is nobody's
  return outcome;
}

void Stopwatch::on_end(const Machine&) {
  close();
  last_ = nullptr;
  hand_over(counts_, measures_.counts);
  hand_over(nanoseconds_, measures_.nanoseconds);
  hand_over(work_, measures_.work);
}

void Stopwatch::close() {
  if (!measures_.nanoseconds) return;
  const auto now = Clock::now();
  if (last_) nanoseconds_[size_t(last_ - first_)] += std::max<int64_t>(nanoseconds(now - since_) - look_, 0);
  since_ = now;
}

void Stopwatch::on_step(const Machine& machine, const Step& step) {
  close();
  last_ = &step;
  const size_t number = size_t(&step - first_);
  if (step.what != What::Begin && step.what != What::Blocks && step.what != What::Next) ++counts_[number];
  if (measures_.work && step.what == What::Instr) add_work(machine, *step.instr, &work_[number * kWork]);
}

// Rounds count where the loop begins.
void Stopwatch::on_loop(const Machine&, const Step& step, int64_t) {
  ++counts_[size_t(step.what == What::Next ? int64_t(step.target) - 1 : &step - first_)];
}

void Stopwatch::add_work(const Machine& machine, const Instr& instr, int64_t* sums) const {
  const Use use(machine, instr);
  if (!use.sane()) return;
  Touched touched;
  for (int i = 0; i < int(instr.tensors.size()); ++i) {
    touched.clear();
    touched_bytes(use, i, touched);
    const int64_t bytes = bytes_of(touched);
    if (reads(instr, i)) sums[0] += bytes;
    if (writes(instr, i)) sums[1] += bytes;
  }
  const bool of_arguments = use.has("m") && use.has("k") && use.has("n");
  if (of_arguments) sums[2] += 2 * use.arg("m") * use.arg("k") * use.arg("n");
  if (use.has_attr("m") && use.has_attr("k") && use.has_attr("n")) {
    sums[2] += 2 * use.attr("m") * use.attr("k") * use.attr("n");
  }
}

}  // namespace mco
