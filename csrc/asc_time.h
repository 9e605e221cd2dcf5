// SPDX-License-Identifier: Apache-2.0
// A timed launch: what its cores share, and when one did what another waits for. The launch runs twice, first to find
// who touches which page of GM; all cores run on one thread, so that times do not depend on threads.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "asc_directory.h"
#include "timer.h"

namespace mco::asc {

class Timed final : public Directory {
 public:
  Timed(const mco_asc_launch& spec, const std::vector<std::unique_ptr<Home>>& gm, int64_t cores, Costs costs,
        int64_t traced_cores, int64_t traced_slices);

  std::unique_ptr<Core> make_core(const int64_t (&bytes)[kScopes]);
  // The step of a call: its name and its line.
  uint32_t step_of(const mco_asc_where& where);
  // Another run of the same launch, whose times count.
  void begin_timing();
  Timing& timing() { return timing_; }
  struct Step {
    std::string call;
    uint32_t loc;
  };
  const std::vector<Step>& steps() const { return steps_; }

  // Order of cores.
  using Barrier = std::pair<int, int>;
  void arrive(Barrier which, Timer& core);
  void meet(Barrier which, Timer& core);
  void leave(Barrier which, Timer& core);
  void set_flag(int core, int id, int mode, int source, double at) { flags_[{core, id, mode, source}].push_back(at); }
  void take_flag(Timer& core, int number, int id, int mode, int source);
  void wait_flag(Timer& core, double at) const;
  void set_word(const void* at, double time) { words_[at] = time; }
  double word(const void* at) const;

 private:
  void added(uint32_t number, const MemorySpan& memory) override;

  const bool saturate_, split_;
  Timing timing_;
  std::vector<Step> steps_;
  std::map<std::tuple<const char*, const char*, uint32_t>, uint32_t> known_;  // texts lie in the kernel's library
  struct Meeting {
    double gathered = 0, met = 0;
  };
  std::map<Barrier, Meeting> meetings_;
  std::map<std::array<int, 4>, std::deque<double>> flags_;  // by waiting core, flag, mode, setting core
  std::unordered_map<const void*, double> words_;           // in GM: when they were set last
};

}  // namespace mco::asc
