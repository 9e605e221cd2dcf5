// SPDX-License-Identifier: Apache-2.0
// Order of the pipes of a core where the kernel says it: vector clocks, joined by flags and barriers.
//
// Between pipes nothing is ordered but by a flag (what was before the set is before what comes after the wait) or
// pipe_barrier(PIPE_ALL). The scalar unit issues everything: what it has waited for is past for whatever is issued
// later. A pipe starts its instructions in order; where that is documented (`within`) one may start before the one
// ahead of it has ended, and what it touches of that one's results needs a pipe_barrier or a flag that came round.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "access.h"
#include "findings.h"

namespace mco {

// Bytes that one instruction touches, in a memory that buffers may share: an on-chip scope, or a GM buffer.
struct Span64 {
  uint32_t space = 0;  // of on-chip memory its Scope, of GM kScopes + number of the buffer
  int64_t base = 0;    // of the boxes
  uint32_t buffer = 0;
  int64_t start = 0;  // the same place, in bytes of the buffer
};

bool boxes_meet(const Touched& a, int64_t a_base, const Touched& b, int64_t b_base, int64_t& lo, int64_t& hi);

class Pipes {
 public:
  using Clock = std::array<uint32_t, kPipes>;
  struct Report {
    Fault kind;
    uint32_t loc, other, buffer;
    int64_t lo, hi;
    std::string text;
  };

  void start(bool within = false);  // of a block
  void region_begin();              // before it everything is ordered
  void region_end();
  bool in_region() const { return in_region_; }

  // An instruction is issued to a pipe.
  void issue(int pipe);
  // Its accesses, after issue().
  void access(int pipe, const Span64& span, const Touched& touched, bool write, uint32_t loc, const char* name,
              std::vector<Report>& out);
  void set_flag(int pipe, int trigger, int64_t event, uint32_t loc, std::vector<Report>& out);
  void wait_flag(int pipe, int trigger, int64_t event, uint32_t loc, std::vector<Report>& out);
  void barrier(int pipe);
  // For front ends whose compiler orders the scalar unit with the pipes: before its access to these bytes it waits for
  // what meets them, and what is issued later comes after its access.
  void order_scalar() { scalar_ordered_ = true; }
  void scalar_waits(const Span64& span, const Touched& touched, bool write);
  // What a flag carries that is set by the pipe now, and a pipe that has waited for it.
  Clock mark(int pipe);
  // What all pipes have been given.
  Clock now() const {
    Clock all{};
    for (const Clock& c : clock_) join(all, c);
    return all;
  }
  void join(int pipe, const Clock& clock) { follow(size_t(pipe), clock); }
  uint32_t time(int pipe) const { return clock_[size_t(pipe)][size_t(pipe)]; }
  // The accesses of pipe M that follow are of a product long enough for the one before it to be there.
  void busy_product(bool long_enough) { busy_product_ = long_enough; }
  // Whether another pipe has waited for what `pipe` did at `time`.
  bool known(int pipe, uint32_t time) const;
  void end(std::vector<Report>& out);  // of the block: flags that are left over

 private:
  struct Past {  // an access that some pipe may not know of
    int pipe;
    uint32_t time, loc;
    bool write;
    Span64 span;
    int64_t lo, hi;
    std::string name;
    Touched touched;
  };
  struct Flag {
    int pipe, trigger;
    int64_t event;
    bool operator<(const Flag& o) const {
      return std::tie(pipe, trigger, event) < std::tie(o.pipe, o.trigger, o.event);
    }
  };
  struct Set {
    Clock clock;
    uint32_t loc;
  };
  struct Held {
    Flag flag;
    uint32_t loc;
  };

  static void join(Clock& to, const Clock& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
  void raise(const Flag& flag, uint32_t loc, std::vector<Report>& out);
  // What `from` knows is over for a pipe that waited.
  void follow(size_t pipe, const Clock& from) {
    ended_[pipe] = std::max(ended_[pipe], from[pipe]);
    join(clock_[pipe], from);
  }
  void join_all();
  void forget();
  bool meets_own(const Past& p, int pipe) const;

  static constexpr size_t kMostPast = 2048;
  bool in_region_ = false, within_ = false, busy_product_ = false, scalar_ordered_ = false;
  std::array<Clock, kPipes> clock_{};
  Clock ended_{};  // of each pipe the time up to which all it did has ended, as it knows itself
  std::vector<Past> past_;
  std::map<Flag, std::deque<Set>> sets_;
  std::map<Flag, uint32_t> waits_;              // that no set has answered yet: where
  std::array<int, kPipes> stalled_{};           // by so many waits
  std::array<std::vector<Held>, kPipes> held_;  // sets behind a wait of their own pipe
};

std::string flag_text(int pipe, int trigger, int64_t event);

}  // namespace mco
