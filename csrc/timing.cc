// SPDX-License-Identifier: Apache-2.0
#include "timing.h"

#include <algorithm>

#include "timer.h"

namespace mco {

const std::vector<const char*>& chip_value_names() {
  static const auto& names = *new std::vector<const char*>{
#define V(name) #name,
#include "chip_values.inc"
#undef V
  };
  return names;
}

const RowCost& Costs::of(const OpInfo* op) const {
  const auto found = rows.find(op);
  if (found == rows.end()) fail("%s: has no cost", op->name.c_str());
  return found->second;
}

Timing::Timing(const Program& p, Costs c, int64_t n, Execute execute, int64_t traced, int64_t most, bool direct)
    : program(p),
      costs(std::move(c)),
      direct(direct),
      traced_blocks(traced),
      traced_slices(most),
      blocks(size_t(n)),
      steps(p.stream.steps.size()),
      execute_(execute),
      pages_(p.buffers.size()),
      bytes_(direct ? size_t(n) : 0) {}

std::unique_ptr<Observer> Timing::make() { return std::make_unique<Timer>(*this); }

void Timing::size_pages(uint32_t buffer, int64_t bytes) {
  if (buffer >= pages_.size()) pages_.resize(buffer + 1);
  pages_[buffer].resize(size_t(std::max<int64_t>(ceil_div(bytes, kPage), 1)));
}

void Timing::note_page(uint32_t buffer, int64_t page) {
  uint16_t& count = pages_[buffer][size_t(page)];
  std::lock_guard<std::mutex> lock(mutex_);
  if (count < UINT16_MAX) ++count;
}

void Timing::begin_timing() {
  timing_ = true;
  for (const auto& buffer : pages_) {
    for (const uint16_t count : buffer) {
      unique_pages_ += count > 0;
      touched_pages_ += count;
    }
  }
  active_ = std::clamp<double>(double(blocks.size()), 1, costs.chip.cores);
  spread_ = touched_pages_ > 0 ? std::max(1.0, active_ * unique_pages_ / touched_pages_) : 1;
  if (!direct) return;
  // Cores that move much while others compute get what those leave; nobody gets less than an equal part.
  double all = 0;
  for (const double bytes : bytes_) all += bytes;
  const double at_once = active_ / std::max<double>(double(blocks.size()), 1);
  for (const double bytes : bytes_) {
    const double share = all > 0 ? bytes / all / at_once : 0;
    parts_.push_back(std::clamp(share, 1 / active_, 1.0));
  }
}

void Timing::add(int64_t block, const BlockSum& sum, const std::vector<StepSum>& from, std::vector<TimeSpan>& found) {
  std::lock_guard<std::mutex> lock(mutex_);
  blocks[size_t(block)] = sum;
  if (from.size() > steps.size()) steps.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    steps[i].count += from[i].count;
    steps[i].busy += from[i].busy;
    steps[i].wait += from[i].wait;
    steps[i].bytes += from[i].bytes;
  }
  slices.insert(slices.end(), found.begin(), found.end());
  found.clear();
}

void Timing::arrive(int64_t stage, double time) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (int64_t(barriers_.size()) <= stage) barriers_.resize(size_t(stage) + 1);
  barriers_[size_t(stage)] = std::max(barriers_[size_t(stage)], time);
}

bool needs_data(const Program& program) {
  for (const Step& step : program.stream.steps) {
    if (step.what == What::Load) return true;
  }
  return false;
}

}  // namespace mco
