// SPDX-License-Identifier: Apache-2.0
// What may stop a run from outside: its time limit, the caller's own check.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace mco {

class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Stop : int { None, TimeLimit, Asked };

  // `seconds` 0: no limit. `poll`, or null, is called every kPollMilliseconds on the thread that made the watch and
  // stops the run when it returns other than 0.
  Watch(double seconds, int (*poll)());
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Why the run must stop. Called by every thread of the run about once in a millisecond, by those that wait too.
  Stop look(Clock::time_point now = Clock::now());
  double seconds() const { return seconds_; }
  Stop stopped() const { return stop_.load(std::memory_order_relaxed); }

  static constexpr int kPollMilliseconds = 50;

 private:
  const double seconds_;
  const Clock::time_point deadline_;
  int (*const poll_)();
  const std::thread::id caller_ = std::this_thread::get_id();
  Clock::time_point next_poll_;
  std::atomic<Stop> stop_{Stop::None};
};

// Makes the looks of one thread rare: a step costs a decrement.
class Pulse {
 public:
  bool due() { return --left_ <= 0; }
  Watch::Stop look(Watch& watch);

 private:
  // Where every step of kMostSteps is a long instruction, the first look is late by that many.
  static constexpr int kFirstSteps = 8, kMostSteps = 128;
  int left_ = kFirstSteps, steps_ = kFirstSteps;
  Watch::Clock::time_point last_ = Watch::Clock::now();
};

}  // namespace mco
