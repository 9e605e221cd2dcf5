// SPDX-License-Identifier: Apache-2.0
#include "watch.h"

#include <algorithm>

namespace mco {

namespace {

using std::chrono::milliseconds;

// A limit of centuries is none: it must not overflow the clock.
Watch::Clock::time_point deadline_of(double seconds) {
  constexpr double kForever = 1e9;
  if (!(seconds > 0) || seconds > kForever) return Watch::Clock::time_point::max();
  return Watch::Clock::now() +
         std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Watch::Watch(double seconds, int (*poll)())
    : seconds_(seconds),
      deadline_(deadline_of(seconds)),
      poll_(poll),
      next_poll_(poll ? Clock::now() + milliseconds(kPollMilliseconds) : Clock::time_point::max()) {}

Watch::Stop Watch::look(Clock::time_point now) {
  if (stopped() != Stop::None) return stopped();
  Stop none = Stop::None;
  if (now >= deadline_) stop_.compare_exchange_strong(none, Stop::TimeLimit);
  if (poll_ && now >= next_poll_ && std::this_thread::get_id() == caller_) {
    next_poll_ = now + milliseconds(kPollMilliseconds);
    none = Stop::None;
    if (poll_() != 0) stop_.compare_exchange_strong(none, Stop::Asked);
  }
  return stopped();
}

Watch::Stop Pulse::look(Watch& watch) {
  const Watch::Clock::time_point now = Watch::Clock::now();
  const Watch::Clock::duration since = now - last_;
  last_ = now;
  if (since < milliseconds(1)) {
    steps_ = std::min(2 * steps_, kMostSteps);
  } else if (since > milliseconds(2)) {
    steps_ = std::max(steps_ / 8, 1);
  }
  left_ = steps_;
  return watch.look(now);
}

}  // namespace mco
