// SPDX-License-Identifier: Apache-2.0
// A checked launch: what its cores share, and what each core tells its checker. A core without one runs fast. All cores
// of a checked launch run on one thread, so that findings do not depend on threads.
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
#include "checker.h"
#include "gm_order.h"

namespace mco::asc {

class Checked final : public Directory {
 public:
  Checked(const mco_asc_launch& spec, const std::vector<std::unique_ptr<Home>>& gm, std::vector<std::string> titles);

  std::unique_ptr<Core> make_core(const int64_t (&bytes)[kScopes]);

  // Order of cores.
  GmOrder& order() { return order_; }
  using Barrier = std::pair<int, int>;
  void arrive(Barrier which, int64_t core, const GmOrder::Known& known);
  void meet(Barrier which, int64_t core, bool everyone);  // the last one has arrived
  void leave(Barrier which, int64_t core);
  // Gives what the core that set the flag had been told of the waiting core's own pipes.
  Pipes::Clock take_flag(int core, int id, int mode, int source);
  std::map<std::array<int, 4>, std::deque<GmOrder::Known>> flags;  // by waiting core, flag, mode, setting core
  std::unordered_map<const void*, GmOrder::Known> words;           // in GM, as who set them last left them

  // A core has ended without an error, or with one that is a finding.
  void note_failed() { complete_ = false; }
  bool complete() const { return complete_; }
  void add(Fault kind, const Place& where, int64_t core, const std::string& text);
  void finish(bool all_ended);
  std::vector<Finding> findings() const { return run_->findings(); }
  int64_t dropped() const { return run_->dropped(); }
  const std::vector<std::string>& titles() const { return titles_; }

 private:
  const std::vector<std::string> titles_;
  GmOrder order_;
  const bool saturate_, split_;
  std::vector<View> gm_;
  std::unique_ptr<CheckRun> run_;
  struct Meeting {
    GmOrder::Known gathered, met;
  };
  std::map<Barrier, Meeting> meetings_;
  bool complete_ = true;
};

}  // namespace mco::asc
