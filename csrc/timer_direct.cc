// SPDX-License-Identifier: Apache-2.0
// What front ends without a stream tell a timer. Their kernels run while they are read, so that every instruction comes
// when the scalar unit issues it; times belong to the core and its pipes, whatever the order in which cores run here.
#include <algorithm>

#include "timer.h"

namespace mco {

void Timer::open(const Machine& machine, int64_t core, bool cube) {
  begin(machine);
  block_ = core;
  unit_ = cube && cube_ ? 1 : 0;
  nosync_ = true;
  library_ = Library();
  owed_.clear();
}

void Timer::shut() {
  step_ = nullptr;
  if (!timing_.timing()) return;
  double end = now();
  for (const LaneState& lane : lanes_) end = std::max(end, lane.done);
  sum_.end = units(end);
  finish();
}

void Timer::grow() {
  if (shifts_.size() < timing_.program.buffers.size()) shifts_.resize(timing_.program.buffers.size());
}

void Timer::step(Machine& m, const Step& s) {
  if (!timing_.direct) return ObserverOf<Timer>::step(m, s);
  grow();
  seen_.clear();
  step_ = &s;
  try {
    m.execute(*s.instr);
  } catch (...) {
    step_ = nullptr;
    throw;
  }
  flush();
}

void Timer::work(double cycles) { spend(cycles, int32_t(at_)); }

// The access as one of the instruction at hand.
void Timer::see(Machine& m, const CoreAccess& a) {
  grow();
  if (a.scope == GM) m.set_view(a.buffer, a.memory);
  const int64_t at = int64_t(reinterpret_cast<uintptr_t>(a.at));
  const int64_t lo = a.scope == GM ? at : at - int64_t(reinterpret_cast<uintptr_t>(m.arena.base(a.scope)));
  seen_.push_back({a.buffer, Touch{a.scope, a.write, lo, lo + a.bytes}});
}

void Timer::scalar(Machine& m, const CoreAccess& a) {
  seen_.clear();
  see(m, a);
  if (timing_.timing()) {
    touches_.assign(1, seen_[0].second);
    scalar_access(int32_t(at_));
  } else {
    note_pages(m);
  }
  seen_.clear();
}

// A function reads its operands, then writes its results; the first result carries what it costs.
void Timer::library(Machine& m, const CoreAccess& a) {
  if (library_.step != at_ || (library_.wrote && !a.write)) library_ = Library();
  library_.step = at_;
  library_.bytes = std::max(library_.bytes, double(a.bytes));
  seen_.clear();
  see(m, a);
  if (!a.write) {
    library_.reads.push_back(seen_[0]);
    seen_.clear();
    return;
  }
  const bool first = !library_.wrote;
  library_.wrote = true;
  if (first) seen_.insert(seen_.end(), library_.reads.begin(), library_.reads.end());
  if (!timing_.timing()) {
    note_pages(m);
  } else {
    touches_.clear();
    for (const auto& entry : seen_) touches_.push_back(entry.second);
    Work work = library_work(timing_.costs, a.scope, double(a.bytes), library_.bytes, a.scratch);
    if (!first && a.scope != GM) work.occupies = work.lasts = 0;
    start(work, int32_t(at_), first ? chip_.dispatch : 0);
  }
  seen_.clear();
}

void Timer::flag(bool set, int pipe, int trigger, int64_t id) {
  if (!timing_.timing()) return;
  work(chip_.dispatch);
  auto& times = flags_[{pipe, trigger, id}];
  int64_t& owed = owed_[{pipe, trigger, id}];
  if (set) {
    if (owed > 0) {
      --owed;
    } else {
      times.push_back(mark(pipe));
    }
  } else if (times.empty()) {
    ++owed;
    ++sum_.unpaired;
  } else {
    hold(trigger, times.front() + chip_.handoff, kFlag);
    times.pop_front();
  }
}

void Timer::ordered(bool on) {
  nosync_ = !on;
  if (!on) rest();
}

}  // namespace mco
