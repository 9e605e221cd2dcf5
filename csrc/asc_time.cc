// SPDX-License-Identifier: Apache-2.0
#include "asc_time.h"

#include <algorithm>

namespace mco::asc {

Timed::Timed(const mco_asc_launch& spec, const std::vector<std::unique_ptr<Home>>& gm, int64_t cores, Costs costs,
             int64_t traced_cores, int64_t traced_slices)
    : saturate_(spec.saturate != 0),
      split_(spec.split != 0),
      timing_(program_, std::move(costs), cores, Execute::All, traced_cores, traced_slices, true) {
  for (const auto& home : gm) number_of(*home);
}

void Timed::added(uint32_t number, const MemorySpan& memory) {
  if (memory.scope == GM) timing_.size_pages(number, memory.bytes);
}

std::unique_ptr<Core> Timed::make_core(const int64_t (&bytes)[kScopes]) {
  auto core = std::make_unique<Core>(bytes, saturate_, [this](const Program&) { return timing_.make(); }, split_);
  core->follow(program_);
  return core;
}

uint32_t Timed::step_of(const mco_asc_where& where) {
  const auto [at, fresh] = known_.try_emplace({where.call, where.file, where.line}, uint32_t(steps_.size()));
  if (fresh) steps_.push_back({where.call, place(Place(where))});
  return at->second;
}

void Timed::begin_timing() {
  meetings_.clear();
  flags_.clear();
  words_.clear();
  timing_.begin_timing();
}

void Timed::arrive(Barrier which, Timer& core) {
  double& gathered = meetings_[which].gathered;
  gathered = std::max(gathered, core.mark(kAllPipes));
}

void Timed::meet(Barrier which, Timer& core) {
  Meeting& m = meetings_[which];
  m.met = m.gathered;
  m.gathered = 0;
  leave(which, core);
}

void Timed::leave(Barrier which, Timer& core) { core.meet(meetings_[which].met + core.chip().load_gm, kBlocks); }

void Timed::take_flag(Timer& core, int number, int id, int mode, int source) {
  auto& times = flags_[{number, id, mode, source}];
  if (times.empty()) return;
  wait_flag(core, times.front());
  times.pop_front();
}

void Timed::wait_flag(Timer& core, double at) const { core.meet(at + core.chip().cross_flag, kCores); }

double Timed::word(const void* at) const {
  const auto found = words_.find(at);
  return found == words_.end() ? 0 : found->second;
}

}  // namespace mco::asc
