// SPDX-License-Identifier: Apache-2.0
// Accesses that are no instructions: scalars, library functions of the headers, pointers in the kernel's hands.
#include <cstring>

#include "asc_check.h"
#include "asc_run.h"

namespace mco::asc {

namespace {

constexpr int kVector = 1, kMoveOut = 5;

// What a checked launch makes of an access within its memory.
void look(AscCore& core, const mco_asc_where& where, const Home* home, const MemorySpan& memory, int64_t start,
          int64_t bytes, int how) {
  DirectAccess a;
  a.loc = core.place_of(where);
  a.buffer = core.number_of(home, memory);
  a.start = start;
  a.bytes = bytes;
  core.checker->call(where.call);
  if (home) core.check_alive(*home, a.loc);
  if (how & MCO_ASC_EITHER) {
    core.checker->exposed(a.buffer, start, bytes);
    a.reads = true;
    return core.checker->scalar(a);
  }
  a.writes = (how & MCO_ASC_WRITE) != 0;
  a.reads = !a.writes;
  if (!(how & MCO_ASC_LIBRARY)) return core.checker->scalar(a);
  a.pipe = memory.scope == GM ? kMoveOut : kVector;
  a.element = std::max(how >> MCO_ASC_ELEMENT_SHIFT, 1);
  core.checker->library(a);
}

// What a timed launch makes of it.
void take_time(AscCore& core, const mco_asc_where& where, const Home* home, const MemorySpan& memory, int64_t start,
               int64_t bytes, int how) {
  CoreAccess a;
  a.buffer = core.number_of(home, memory);
  a.scope = memory.scope;
  a.at = memory.base + start;
  a.bytes = bytes;
  a.write = (how & MCO_ASC_WRITE) != 0;
  a.memory = {memory.base, memory.bytes};
  a.scratch = home && home == core.scratch;
  core.timer->at(core.launch.timed->step_of(where));
  Machine& machine = core.core->machine();
  how& MCO_ASC_LIBRARY ? core.timer->library(machine, a) : core.timer->scalar(machine, a);
}

}  // namespace

uint32_t AscCore::number_of(const Home* home, const MemorySpan& memory) {
  Directory& all = launch.directory();
  const uint32_t number = home ? all.number_of(*home) : all.number_of(memory, Place());
  core->catch_up();
  return number;
}

void AscCore::check_alive(const Home& home, uint32_t loc) {
  const bool released = home.released.file != nullptr,
             free = home.queue && home.queue->depth >= 0 && home.state == Home::kFree;
  if (!released && !free) return;
  const Place& since = released ? home.released : home.since;
  const uint32_t other = launch.checked->place(since);
  core->catch_up();
  checker->find(Fault::UseAfterScope, loc, other, launch.checked->number_of(home), 0, 0,
                "a tensor of " + home.name() + (released ? " is used" : " is used after its FreeTensor"));
}

}  // namespace mco::asc

using mco::asc::here;

extern "C" {

void* mco_asc_touch(const mco_asc_where* where, void* at, const mco_asc_home* home, int64_t bytes, int how) {
  auto& core = here(where->call);
  const mco_asc_call call = {*where, 0xFFFF, 0, 0, 0, 0, 0, {0, 0}, 0};
  const mco_asc_operand operand = {at, home, 0, 1, (how & MCO_ASC_GM) != 0};
  mco::DirectOperand place;
  core.locate(operand, place, call, 0);
  const mco::MemorySpan& memory = place.memory;
  if (place.offset < 0 || place.offset + bytes > memory.bytes) {
    const std::string text = mco::format(
        "%s bytes [%lld, %lld) of %s, which has %lld", how & MCO_ASC_WRITE ? "writes" : "reads",
        (long long)place.offset, (long long)(place.offset + bytes), memory.name.c_str(), (long long)memory.bytes);
    if (!core.checker || how & MCO_ASC_LIBRARY || bytes > int64_t(sizeof core.spare)) {
      core.fail(*where, mco::Fault::OutOfBounds, text);
    }
    core.find(*where, mco::Fault::OutOfBounds, text);  // it is left out
    std::memset(core.spare, 0, sizeof core.spare);
    return core.spare;
  }
  if (memory.scope != mco::UB && memory.scope != mco::GM) {
    core.fail(*where, mco::Fault::ParamRange,
              std::string("a scalar access to ") + mco::kScopeName[memory.scope] + "; accepted: UB and GM");
  }
  if (core.checker && !(how & MCO_ASC_WORD)) {
    mco::asc::look(core, *where, static_cast<const mco::asc::Home*>(home), memory, place.offset, bytes, how);
  }
  if (core.timer && !(how & MCO_ASC_WORD)) {
    mco::asc::take_time(core, *where, static_cast<const mco::asc::Home*>(home), memory, place.offset, bytes, how);
  }
  return memory.base + place.offset;
}

void mco_asc_rows(int64_t rows, int64_t columns, int64_t pitch) {
  auto& core = here("rows");
  if (core.checker) core.checker->rows(rows, columns, pitch);
}

void mco_asc_expose(const void* at, const mco_asc_home* home) {
  auto& core = here("GetPhyAddr");
  if (!core.checker) return;
  const auto& known = *static_cast<const mco::asc::Home*>(home);
  if (!known.base) return;
  core.checker->exposed(core.number_of(&known, {}), static_cast<const uint8_t*>(at) - known.base, INT64_MAX);
}

}  // extern "C"
