// SPDX-License-Identifier: Apache-2.0
#include "asc_check.h"

#include <cstring>

namespace mco::asc {

Checked::Checked(const mco_asc_launch& spec, const std::vector<std::unique_ptr<Home>>& gm,
                 std::vector<std::string> titles)
    : titles_(std::move(titles)), order_(program_, titles_), saturate_(spec.saturate != 0), split_(spec.split != 0) {
  for (const auto& home : gm) {
    const uint32_t number = number_of(*home);
    gm_.push_back({home->base, home->bytes});
    (home->output ? program_.outputs : program_.inputs).push_back(number);
  }
  CheckOptions options;
  options.values = spec.check_values != 0;
  options.manual_sync = true;
  options.order = &order_;
  run_ = std::make_unique<CheckRun>(program_, gm_, options);
  for (const auto& home : gm) {
    Mark* marks = run_->gm.of(home->number);
    if (!home->output && home->fresh > 0)
      std::memset(marks + home->bytes - home->fresh, kNeverWritten, size_t(home->fresh));
  }
}

std::unique_ptr<Core> Checked::make_core(const int64_t (&bytes)[kScopes]) {
  auto core = std::make_unique<Core>(
      bytes, saturate_, [this](const Program& p) { return std::make_unique<Checker>(*run_, p); }, split_);
  core->follow(program_);
  return core;
}

void Checked::add(Fault kind, const Place& where, int64_t core, const std::string& text) {
  Findings one;
  one.add(kind, place(where), kNoLocation, kNoBuffer, core, 0, 0, [&] { return text; });
  run_->take(std::move(one));
}

void Checked::arrive(Barrier which, int64_t, const GmOrder::Known& known) {
  GmOrder::join(meetings_[which].gathered, known);
}

void Checked::meet(Barrier which, int64_t core, bool everyone) {
  Meeting& m = meetings_[which];
  m.met = std::move(m.gathered);
  m.gathered.clear();
  order_.learn(core, m.met);
  if (everyone) order_.forget();
}

void Checked::leave(Barrier which, int64_t core) { order_.learn(core, meetings_[which].met); }

Pipes::Clock Checked::take_flag(int core, int id, int mode, int source) {
  auto& told = flags[{core, id, mode, source}];
  Pipes::Clock own{};
  if (told.empty()) return own;
  for (const auto& [of, clock] : told.front()) {
    if (of == core) own = clock;
  }
  order_.learn(core, told.front());
  told.pop_front();
  return own;
}

void Checked::finish(bool all_ended) { run_->finish(gm_, all_ended && complete_); }

}  // namespace mco::asc
