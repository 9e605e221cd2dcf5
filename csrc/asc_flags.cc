// SPDX-License-Identifier: Apache-2.0
// Flags and barriers between the pipes of a core.
#include "asc_check.h"
#include "asc_run.h"

namespace mco::asc {

namespace {

constexpr const char* kPipes[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};

void check_event(AscCore& core, const mco_asc_where& where, int event, int id) {
  if (event < 0 || event >= PipeFlags::kPairs || id < 0 || id >= PipeFlags::kIds) {
    core.fail(where, Fault::EventIdRange, "event id is " + std::to_string(id) + "; accepted: 0 to 7");
  }
}

void time_flag(AscCore& core, const mco_asc_where& where, bool set, int event, int id) {
  core.timer->at(core.launch.timed->step_of(where));
  core.timer->flag(set, event / 8, event % 8, id);
}

std::string pair_of(int event) { return std::string(kPipes[event / 8]) + "_" + kPipes[event % 8]; }

}  // namespace

}  // namespace mco::asc

using mco::asc::here;
using mco::asc::Place;

extern "C" {

void mco_asc_set_flag(const mco_asc_where* where, int event, int id) {
  auto& core = here(where->call);
  mco::asc::check_event(core, *where, event, id);
  if (core.checker) return core.checker->flag(true, event / 8, event % 8, id, core.place_of(*where));
  if (core.timer) mco::asc::time_flag(core, *where, true, event, id);
  core.seat->events.of(event)[id].balance++;
}

void mco_asc_wait_flag(const mco_asc_where* where, int event, int id) {
  auto& core = here(where->call);
  mco::asc::check_event(core, *where, event, id);
  if (core.checker) return core.checker->flag(false, event / 8, event % 8, id, core.place_of(*where));
  if (core.timer) mco::asc::time_flag(core, *where, false, event, id);
  auto& flag = core.seat->events.of(event)[id];
  if (--flag.balance >= 0) return;
  // The scalar unit itself waits here; another pipe waits until a later instruction sets the flag.
  if (event % 8 == 0) {
    core.fail(*where, "no SetFlag<" + mco::asc::pair_of(event) + "> of event id " + std::to_string(id) +
                          " came before it; accepted: one SetFlag for each WaitFlag");
  }
  if (flag.balance == -1) flag.first_wait = Place(*where);
}

int mco_asc_take_event(const mco_asc_where* where, int event, int keep) {
  auto& core = here(where->call);
  mco::asc::check_event(core, *where, event, 0);
  for (int id = 0; id < mco::asc::PipeFlags::kIds; ++id) {
    auto& flag = core.seat->events.of(event)[id];
    if (flag.taken) continue;
    flag.taken = keep != 0;
    return id;
  }
  core.fail(*where, mco::Fault::EventIdRange,
            "all 8 event ids of " + mco::asc::pair_of(event) +
                " are taken; accepted: ReleaseEventID before the next AllocEventID");
}

void mco_asc_release_event(const mco_asc_where* where, int event, int id) {
  auto& core = here(where->call);
  mco::asc::check_event(core, *where, event, id);
  core.seat->events.of(event)[id].taken = false;
}

void mco_asc_pipe_barrier(const mco_asc_where* where, int pipe) {
  auto& core = here(where->call);
  if (core.checker) core.checker->pipes().barrier(pipe);
  if (pipe == 0) core.fail(*where, mco::Fault::ParamRange, "pipe is PIPE_S; accepted: another pipe, or PIPE_ALL");
  if (core.timer) {
    core.time_call(*where, core.timer->chip().dispatch);
    core.timer->drain(pipe);
  }
}

}  // extern "C"
