// SPDX-License-Identifier: Apache-2.0
// What the blocks of a checked run share, and what is found when they are done.
#include <algorithm>
#include <cstring>

#include "checker.h"

namespace mco {

void set_marks(const OperandUse& o, Mark value) {
  if (!o.marks) return;
  each_run(*o.touched, [&](int64_t lo, int64_t hi) { std::memset(o.marks + lo, value, size_t(hi - lo)); });
}

bool all_held(const OperandUse& o) {
  if (!o.marks) return true;
  for (const Box& b : o.touched->boxes) {
    bool all = true;
    each_run(b, [&](int64_t lo, int64_t hi) { all = all && all_held(o.marks + lo, hi - lo); });
    if (!all) return false;
  }
  return true;
}

bool any_held(const OperandUse& o) {
  if (!o.marks) return true;
  bool any = false;
  each_run(*o.touched,
           [&](int64_t lo, int64_t hi) { any = any || std::memchr(o.marks + lo, kHeld, size_t(hi - lo)) != nullptr; });
  return any;
}

CheckRun::CheckRun(const Program& p, const std::vector<View>& views, const CheckOptions& o)
    : options(o),
      gm(p, views, o.order != nullptr),
      cores(p,
            [&] {
              std::vector<int64_t> bytes;
              for (size_t i = 0; i < p.buffers.size(); ++i)
                bytes.push_back(p.buffers[i].scope == GM ? views[i].size : 0);
              return bytes;
            }()),
      program_(p),
      known_(p.stream.steps.size()) {}

void CheckRun::take(Findings&& found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  found_.merge(std::move(found));
}

void CheckRun::next_stage() { cores.next_stage(found_); }

const CheckRun::Known* CheckRun::keep(size_t step, std::unique_ptr<Known> fresh) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const Known* have = known(step)) return have;
  kept_.push_back(std::move(fresh));
  known_[step].store(kept_.back().get(), std::memory_order_release);
  return kept_.back().get();
}

// A read that races with the write may come before or after it: which of the two it was says nothing.
std::vector<Finding> CheckRun::findings() const {
  std::vector<Finding> list = found_.sorted(), kept;
  for (Finding& f : list) {
    const bool unwritten = f.kind == Fault::UninitializedRead || f.kind == Fault::UninitializedScalar;
    const bool races = unwritten && std::any_of(list.begin(), list.end(), [&](const Finding& r) {
                         return r.kind == Fault::RaceCores && r.loc == f.loc && r.buffer == f.buffer;
                       });
    if (!races) kept.push_back(f);
  }
  return kept;
}

// What the outputs hold at the end.
void CheckRun::finish(const std::vector<View>& views, bool complete) {
  next_stage();
  if (!complete) return;
  for (const uint32_t buffer : program_.outputs) {
    const Mark* marks = gm.of(buffer);
    const int64_t size = views[buffer].size;
    if (!marks) continue;
    for (int64_t at = 0; at < size;) {
      if (!marks[at]) {
        int64_t n = at;
        while (n + 64 <= size && all_held(marks + n, 64)) n += 64;
        while (n < size && !marks[n]) ++n;
        at = n;
        continue;
      }
      const Mark here = marks[at];
      int64_t end = at;
      while (end < size && marks[end] == here) ++end;
      const char* name = program_.buffers[buffer].name.c_str();
      if (here == kNeverWritten || here == kCarried) {
        found_.add(Fault::UnwrittenOutput, program_.buffers[buffer].loc, kNoLocation, buffer, 0, at, end, [&] {
          return format("bytes [%lld, %lld) of output %s were never written", (long long)at, (long long)end, name);
        });
      } else {
        const Origin o = gm.origin(here);
        const Buffer& from = program_.buffers[o.buffer];
        const Fault kind = o.carried ? Fault::DoubleBufferCarry : Fault::UninitializedRead;
        found_.add(kind, o.loc, from.loc, o.buffer, 0, 0, 0, [&] {
          return format("bytes of %s that were never written are read; they reach bytes [%lld, %lld) of output %s",
                        from.name.c_str(), (long long)at, (long long)end, name);
        });
      }
      at = end;
    }
  }
}

}  // namespace mco
