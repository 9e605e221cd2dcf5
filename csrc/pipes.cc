// SPDX-License-Identifier: Apache-2.0
#include "pipes.h"

#include <algorithm>

namespace mco {

namespace {

constexpr int kCube = 2;  // PIPES number of M

// Whether run [lo, hi) meets a box; the bytes in [from, to).
bool run_meets(int64_t lo, int64_t hi, const Box& b, int64_t base, int64_t& from, int64_t& to) {
  for (int64_t j = 0; j < b.outer_count; ++j) {
    const int64_t first = base + b.start + j * b.outer_step;
    const int64_t last = first + (b.count - 1) * b.step;
    if (hi <= first || lo >= last + b.bytes) {
      if (b.outer_step == 0) return false;
      continue;
    }
    int64_t i = 0;
    if (b.step > 0 && lo >= first + b.bytes) i = (lo - first - b.bytes) / b.step + 1;
    for (; i < b.count; ++i) {
      const int64_t at = first + i * b.step;
      if (at >= hi) break;
      if (at + b.bytes > lo) {
        from = std::max(lo, at);
        to = std::min(hi, at + b.bytes);
        return true;
      }
      if (b.step == 0) break;
    }
    if (b.outer_step == 0) return false;
  }
  return false;
}

}  // namespace

bool boxes_meet(const Touched& a, int64_t a_base, const Touched& b, int64_t b_base, int64_t& lo, int64_t& hi) {
  for (const Box& x : a.boxes) {
    for (const Box& y : b.boxes) {
      const int64_t x_lo = a_base + x.start, y_lo = b_base + y.start;
      if (x_lo >= b_base + int64_t(y.end()) || y_lo >= a_base + int64_t(x.end())) continue;
      for (int64_t j = 0; j < x.outer_count; ++j) {
        for (int64_t i = 0; i < x.count; ++i) {
          const int64_t at = x_lo + j * x.outer_step + i * x.step;
          if (run_meets(at, at + x.bytes, y, b_base, lo, hi)) return true;
        }
      }
    }
  }
  return false;
}

std::string flag_text(int pipe, int trigger, int64_t event) {
  return format("(%s, %s, %lld)", pipe_name(pipe), pipe_name(trigger), (long long)event);
}

void Pipes::start(bool within) {
  within_ = within;
  in_region_ = false;
  clock_ = {};
  ended_ = {};
  past_.clear();
  sets_.clear();
  waits_.clear();
  stalled_ = {};
  for (auto& held : held_) held.clear();
}

void Pipes::join_all() {
  Clock all{};
  for (const Clock& c : clock_) join(all, c);
  clock_.fill(all);
  ended_ = all;
  past_.clear();
}

void Pipes::region_begin() {
  join_all();
  in_region_ = true;
}

void Pipes::region_end() {
  in_region_ = false;
  join_all();
}

void Pipes::issue(int pipe) {
  Clock& c = clock_[size_t(pipe)];
  const uint32_t own = c[0];
  join(c, clock_[0]);
  if (pipe != 0) {
    if (!scalar_ordered_) c[0] = own;  // a store of the scalar unit itself needs a flag
    ended_[size_t(pipe)] = std::max(ended_[size_t(pipe)], clock_[0][size_t(pipe)]);
  }
  ++c[size_t(pipe)];
}

// Whether a write of the same pipe may still be under way.
bool Pipes::meets_own(const Past& p, int pipe) const {
  const size_t self = size_t(pipe);
  if (!within_ || pipe == 0 || !p.write || p.span.space == uint32_t(SMASK)) return false;
  if (pipe == kCube && busy_product_) return false;
  return p.time > ended_[self] && p.time != clock_[self][self];
}

void Pipes::access(int pipe, const Span64& span, const Touched& touched, bool write, uint32_t loc, const char* name,
                   std::vector<Report>& out) {
  if (touched.boxes.empty() || stalled_[size_t(pipe)]) return;
  Wide low, high;
  touched.hull(low, high);
  const int64_t lo = span.base + int64_t(low), hi = span.base + int64_t(high);
  const Clock& now = clock_[size_t(pipe)];
  for (const Past& p : past_) {
    if (p.span.space != span.space || !(write || p.write) || hi <= p.lo || lo >= p.hi) continue;
    if (p.pipe == pipe ? !meets_own(p, pipe) : p.time <= now[size_t(p.pipe)]) continue;
    int64_t from, to;
    if (!boxes_meet(touched, span.base, p.touched, p.span.base, from, to)) continue;
    const char* kind = write ? (p.write ? "write after write" : "write after read") : "read after write";
    out.push_back({Fault::RacePipes, loc, p.loc, span.buffer, from - span.base + span.start,
                   to - span.base + span.start,
                   format("%s (%s) %s what %s (%s) %s, and no %s: %s", name, pipe_name(pipe),
                          write ? "writes" : "reads", p.name.c_str(), pipe_name(p.pipe), p.write ? "writes" : "reads",
                          p.pipe == pipe ? "pipe_barrier is between them" : "flag orders the pipes", kind)});
  }
  for (Past& p : past_) {
    if (p.pipe == pipe && p.loc == loc && p.write == write && p.span.space == span.space && p.lo == lo && p.hi == hi) {
      p.time = now[size_t(pipe)];
      return;
    }
  }
  if (past_.size() >= kMostPast) forget();
  if (past_.size() >= kMostPast) past_.erase(past_.begin(), past_.begin() + kMostPast / 2);
  past_.push_back({pipe, now[size_t(pipe)], loc, write, span, lo, hi, name, touched});
}

void Pipes::scalar_waits(const Span64& span, const Touched& touched, bool write) {
  Wide low, high;
  touched.hull(low, high);
  const int64_t lo = span.base + int64_t(low), hi = span.base + int64_t(high);
  for (const Past& p : past_) {
    if (p.span.space != span.space || !(write || p.write) || hi <= p.lo || lo >= p.hi) continue;
    int64_t from, to;
    if (p.time > clock_[0][size_t(p.pipe)] && boxes_meet(touched, span.base, p.touched, p.span.base, from, to)) {
      join(clock_[0], clock_[size_t(p.pipe)]);
    }
  }
}

Pipes::Clock Pipes::mark(int pipe) {
  issue(pipe);
  return clock_[size_t(pipe)];
}

bool Pipes::known(int pipe, uint32_t time) const {
  for (int other = 0; other < kPipes; ++other) {
    if (other != pipe && clock_[size_t(other)][size_t(pipe)] >= time) return true;
  }
  return false;
}

// Drops accesses that every pipe knows of.
void Pipes::forget() {
  const auto known = [this](const Past& p) {
    for (const Clock& c : clock_) {
      if (c[size_t(p.pipe)] < p.time) return false;
    }
    return true;
  };
  past_.erase(std::remove_if(past_.begin(), past_.end(), known), past_.end());
}

// A flag whose pipe has reached it.
void Pipes::raise(const Flag& flag, uint32_t loc, std::vector<Report>& out) {
  const auto waiting = waits_.find(flag);
  if (waiting == waits_.end()) {
    std::deque<Set>& sets = sets_[flag];
    if (!sets.empty()) {
      out.push_back({Fault::FlagUnpaired, loc, sets.back().loc, kNoBuffer, 0, 0,
                     "set_flag" + flag_text(flag.pipe, flag.trigger, flag.event) +
                         " sets a flag that is set already: no wait_flag has taken it"});
      if (sets.size() >= 64) sets.pop_front();
    }
    sets.push_back({clock_[size_t(flag.pipe)], loc});
    return;
  }
  if (flag.trigger == 0) {  // the scalar unit, which would have issued this set, stands at the wait
    out.push_back({Fault::FlagDeadlock, waiting->second, loc, kNoBuffer, 0, 0,
                   "wait_flag" + flag_text(flag.pipe, flag.trigger, flag.event) +
                       " stops the scalar unit before it can issue the set_flag"});
  }
  waits_.erase(waiting);
  const size_t trigger = size_t(flag.trigger);
  follow(trigger, clock_[size_t(flag.pipe)]);
  if (--stalled_[trigger]) return;
  std::vector<Held> next;
  next.swap(held_[trigger]);
  for (const Held& h : next) raise(h.flag, h.loc, out);
}

void Pipes::set_flag(int pipe, int trigger, int64_t event, uint32_t loc, std::vector<Report>& out) {
  issue(pipe);
  const Flag flag{pipe, trigger, event};
  if (stalled_[size_t(pipe)] && held_[size_t(pipe)].size() < 1024) {
    held_[size_t(pipe)].push_back({flag, loc});
  } else {
    raise(flag, loc, out);
  }
}

void Pipes::wait_flag(int pipe, int trigger, int64_t event, uint32_t loc, std::vector<Report>&) {
  issue(trigger);
  const Flag flag{pipe, trigger, event};
  const auto found = sets_.find(flag);
  if (found != sets_.end() && !found->second.empty()) {
    follow(size_t(trigger), found->second.front().clock);
    found->second.pop_front();
    return;
  }
  if (waits_.emplace(flag, loc).second) ++stalled_[size_t(trigger)];
}

void Pipes::barrier(int pipe) {
  if (pipe == kAllPipes) return join_all();
  if (pipe >= 0 && pipe < kPipes) ended_[size_t(pipe)] = clock_[size_t(pipe)][size_t(pipe)];
}

void Pipes::end(std::vector<Report>& out) {
  for (const auto& [flag, sets] : sets_) {
    for (const Set& s : sets) {
      out.push_back({Fault::FlagUnpaired, s.loc, kNoLocation, kNoBuffer, 0, 0,
                     "set_flag" + flag_text(flag.pipe, flag.trigger, flag.event) +
                         " has no wait_flag with the same pipes and event"});
    }
  }
  for (const auto& [flag, loc] : waits_) {
    const Held* set = nullptr;  // that would answer, if its own pipe did not wait
    for (const auto& held : held_) {
      for (const Held& h : held) {
        if (!(h.flag < flag) && !(flag < h.flag)) set = &h;
      }
    }
    const std::string wait = "wait_flag" + flag_text(flag.pipe, flag.trigger, flag.event);
    if (set) {
      out.push_back({Fault::FlagDeadlock, loc, set->loc, kNoBuffer, 0, 0,
                     wait + format(" waits for ever: %s reaches the set_flag only after a wait of its own",
                                   pipe_name(flag.pipe))});
    } else {
      out.push_back({Fault::FlagUnpaired, loc, kNoLocation, kNoBuffer, 0, 0,
                     wait + " waits for ever: no set_flag has the same pipes and event"});
    }
  }
  start(within_);
}

}  // namespace mco
