// SPDX-License-Identifier: Apache-2.0
#include "asc_core.h"

#include <link.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstring>

#include "asc_check.h"
#include "asc_run.h"

namespace mco::asc {

namespace {

constexpr const char* kPositions[] = {"GM",  "A1",    "A2",     "B1",      "B2",  "C1",   "C2",        "CO1",
                                      "CO2", "VECIN", "VECOUT", "VECCALC", "SHM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
enum Position { kGM, kA1, kA2, kB1, kB2, kC1, kC2, kCO1, kCO2, kVECIN, kVECOUT, kVECCALC, kSHM, kTSCM };

}  // namespace

std::string Place::text() const { return file ? std::string(file) + ":" + std::to_string(line) : std::string("?"); }

thread_local AscCore* running_core = nullptr;

void nowhere(const char* call) {
  fprintf(stderr, "%s: called outside of a kernel; accepted: calls from a kernel that was launched\n", call);
  abort();
}

const char* position_name(int position) {
  const int n = int(sizeof kPositions / sizeof kPositions[0]);
  return position >= 0 && position < n ? kPositions[position] : "?";
}

std::string Queue::name() const {
  return std::string(position_name(position)) + (depth >= 0 ? " queue of " : " buffer of ") + made.text();
}

const std::string& Home::name() const {
  if (!given.empty()) return given;
  if (placed) return given = format("%s tensor at %lld", position_name(position), (long long)address);
  if (!queue) return given = format("%s at %lld", kScopeName[scope], (long long)address);
  const auto at = std::find(queue->blocks.begin(), queue->blocks.end(), this);
  if (queue->blocks.size() == 1) return given = "the " + queue->name();
  return given = "block " + std::to_string(at - queue->blocks.begin()) + " of the " + queue->name();
}

Scope scope_of(int position, bool split) {
  switch (position) {
    case kA1:
    case kB1:
    case kC1:
    case kTSCM:
      return L1;
    case kA2:
      return L0A;
    case kB2:
      return L0B;
    case kC2:
      return BT;
    case kCO1:
      return L0C;
    case kCO2:
      return split ? GM : UB;
    case kVECIN:
    case kVECOUT:
    case kVECCALC:
    case kSHM:
      return UB;
    default:
      return GM;
  }
}

AscCore::AscCore(Launch& launch, int number, bool cube) : launch(launch), number(number) {
  info.is_cube = cube;
  info.deq_scale = 1;
}

std::string AscCore::title() const {
  const char* kind = !info.split ? "core" : info.is_cube ? "AIC core" : "AIV core";
  return std::string(kind) + " " + std::to_string(info.block);
}

void AscCore::fail(const char* text) {
  error = title() + ": " + text;
  failed = true;
  leave();
}

void AscCore::fail(const mco_asc_where& where, Fault kind, const std::string& text) {
  if (checker && kind != Fault::kCount) {
    find(where, kind, text);
    failed = found = true;
    leave();
  }
  error = title() + ": " + where.call + ": " + text;
  if (where.file) error += " [" + Place(where).text() + "]";
  failed = true;
  leave();
}

void AscCore::find(const mco_asc_where& where, Fault kind, const std::string& text) {
  const std::string full = std::string(where.call) + ": " + text;
  checker->find(kind, place_of(where), kNoLocation, kNoBuffer, 0, 0, full);
}

void AscCore::time_call(const mco_asc_where& where, double cycles) {
  timer->at(launch.timed->step_of(where));
  timer->work(cycles);
}

uint32_t AscCore::place_of(const mco_asc_where& where) {
  const uint32_t number = launch.directory().place(Place(where));
  core->catch_up();
  return number;
}

void AscCore::leave() {
  ended = true;
  seat->fibre.leave(worker->shore);
}

void AscCore::wait(const mco_asc_where& where, What what, Ready until) {
  waits_in = where.call;
  waits_for = std::move(what);
  waits_at = Place(where);
  ready = std::move(until);
  seat->fibre.rest(worker->shore);
}

void AscCore::look_now(const mco_asc_where& where) {
  switch (launch.watch.look()) {
    case Watch::Stop::TimeLimit:
      fail(where, format("still runs after the time limit of %g s; accepted: a kernel that ends before it, or a higher "
                         "limit",
                         launch.watch.seconds()));
    case Watch::Stop::Asked:
      fail(where, "interrupted");
    default:
      if (launch.stopping(number)) leave();
  }
}

int64_t AscCore::scope_bytes(Scope scope) const {
  const bool split = info.split != 0, cube = info.is_cube != 0;
  if (split && (scope == UB) == cube) return 0;
  return launch.spec.scope_bytes[scope];
}

Home* AscCore::new_home(const char* name, Scope scope, int position, int64_t address, int64_t bytes) {
  Home& home = made->homes.add();
  home.owner = this;
  touched[scope] = std::max(touched[scope], address + bytes);
  home.given = name;
  home.scope = scope;
  home.position = position;
  home.address = address;
  // TSCM of a vector core lies in its cube core's L1, where the core has moves write and Matmul read it; here in an L1
  // of the vector core's own, which nothing else uses.
  const bool has = scope_bytes(scope) || (position == kTSCM && launch.spec.scope_bytes[scope]);
  home.base = has ? core->machine().arena.base(scope) + address : nullptr;
  home.bytes = home.base ? bytes : 0;
  const bool scalar = home.base && scope == UB && !core->observed();
  home.lo = scalar ? home.base : nullptr;
  home.hi = scalar ? home.base + bytes : nullptr;
  return &home;
}

// Constants of the kernel's own library: its segment that holds `at`.
static bool constant_of(const void* code, uint8_t* at, DirectOperand& place) {
  struct Wanted {
    uintptr_t code, at, first = 0, end = 0;
  } wanted{reinterpret_cast<uintptr_t>(code), reinterpret_cast<uintptr_t>(at)};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        Wanted& w = *static_cast<Wanted*>(data);
        bool ours = false;
        uintptr_t first = 0, end = 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr) & part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          const uintptr_t from = object->dlpi_addr + part.p_vaddr, to = from + part.p_memsz;
          ours |= w.code >= from && w.code < to;
          if (w.at >= from && w.at < to) first = from, end = to;
        }
        if (!ours || !end) return 0;
        w.first = first;
        w.end = end;
        return 1;
      },
      &wanted);
  if (!wanted.end) return false;
  place.memory = {reinterpret_cast<uint8_t*>(wanted.first), int64_t(wanted.end - wanted.first), 0,
                  Name("the constants of the kernel"), GM};
  place.offset = int64_t(wanted.at - wanted.first);
  return true;
}

int64_t AscCore::cube_room(const Home& home) {
  const bool cube_only = home.scope == L0A || home.scope == L0B || home.scope == L0C;
  if (!cube_only || !home.queue || !home.queue->pipe) return home.bytes;
  const int64_t end = home.address + home.bytes;
  if (end != home.queue->pipe->used[home.scope]) return home.bytes;
  touched[home.scope] = launch.spec.scope_bytes[home.scope];
  return touched[home.scope] - home.address;
}

void AscCore::missing(const Home& home, const mco_asc_call& call) {
  if (!info.split) return;
  launch.want_other_kind(*this, Scope(home.scope));
  if (launch.wanted_kind >= 0) leave();
  const bool vector = home.scope == UB;
  fail(call.where, Fault::OutOfBounds,
       home.name() + " is memory of " + (vector ? "vector" : "cube") + " cores, this is a " +
           (info.is_cube ? "cube" : "vector") + " core; accepted: such a call under " +
           (vector ? "ASCEND_IS_AIV" : "ASCEND_IS_AIC"));
}

// The same for an address alone.
void AscCore::search(const mco_asc_operand& o, DirectOperand& place, const mco_asc_call& call, int number) {
  uint8_t* at = static_cast<uint8_t*>(o.at);
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (!o.gm && address < uintptr_t(launch.spec.scope_bytes[UB])) {  // a tensor that was never set lies at 0
    const int64_t ub = scope_bytes(UB);
    touched[UB] = std::max(touched[UB], ub);
    place.memory = {ub ? core->machine().arena.base(UB) : nullptr, ub, 0, Name("UB"), UB};
    place.offset = int64_t(address);
    return;
  }
  for (int s = UB; !o.gm && s < kScopes; ++s) {
    const int64_t bytes = scope_bytes(Scope(s));
    uint8_t* first = bytes ? core->machine().arena.base(Scope(s)) : nullptr;
    if (!bytes || at < first || at >= first + bytes) continue;
    touched[s] = std::max(touched[s], bytes);
    place.memory = {first, bytes, 0, Name(kScopeName[s]), Scope(s)};
    place.offset = at - first;
    return;
  }
  const Home* home = launch.find_gm(at);
  if (home) {
    place.memory = {home->base, home->bytes, 0, home->lazy_name(), GM};
    place.offset = at - home->base;
    return;
  }
  if (at && constant_of(reinterpret_cast<const void*>(launch.spec.entry[info.is_cube ? 0 : 1]), at, place)) return;
  if (!launch.spec.strict && at) {
    place.memory = {at, INT64_MAX / 4, 0, Name("memory of unknown size"), GM};
    place.offset = 0;
    return;
  }
  const char* name = call.op < 0xFFFF && op_at(call.op) ? op_at(call.op)->tensors[size_t(number)].name : "operand";
  fail(call.where, Fault::OutOfBounds,
       std::string(name) + " is " + (at ? "memory that no argument of the kernel holds" : "a null pointer") +
           "; accepted: memory in GM of the launch");
}

}  // namespace mco::asc

using mco::asc::here;

extern "C" {

mco_asc_core* mco_asc_this_core(const char* call) { return &here(call).info; }

int64_t mco_asc_cycles(void) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void mco_asc_refuse(const mco_asc_where* where, const char* what, const char* given, const char* accepted) {
  here(where->call)
      .fail(*where, mco::Fault::ParamRange, std::string(what) + " is " + given + "; accepted: " + accepted);
}

void mco_asc_fault(const mco_asc_where* where, const char* text, ...) {
  char buffer[1024];
  va_list args;
  va_start(args, text);
  vsnprintf(buffer, sizeof buffer, text, args);
  va_end(args);
  // A condition of the kernel's own that does not hold breaks no rule of the API.
  const bool own =
      !std::strcmp(where->call, "ASSERT") || !std::strcmp(where->call, "assert") || !std::strcmp(where->call, "Trap");
  here(where->call).fail(*where, own ? mco::Fault::kCount : mco::Fault::ParamRange, buffer);
}

void* mco_asc_keep(size_t bytes) {
  auto& core = here("mco_asc_keep");
  core.kept.push_back(std::make_unique<uint8_t[]>(bytes));
  return core.kept.back().get();
}

const mco_asc_home* mco_asc_scratch(void) {
  auto& core = here("mco_asc_scratch");
  if (!core.scratch) {
    core.scratch = core.new_home(mco::asc::kScratchName, mco::UB, 11, core.launch.spec.scope_bytes[mco::UB],
                                 mco::asc::kScratchBytes);
  }
  return core.scratch;
}

const mco_asc_home* mco_asc_find_gm(const void* at) { return here("SetGlobalBuffer").launch.find_gm(at); }

const mco_asc_home* mco_asc_place(const mco_asc_where* where, int position, int64_t address, int64_t bytes, void** at) {
  auto& core = here(where->call);
  const mco::Scope scope = mco::asc::scope_of(position, core.info.split != 0);
  const int64_t size = core.launch.spec.scope_bytes[scope];
  if (scope == mco::GM) mco_asc_refuse(where, "position", mco::asc::position_name(position), "one on the chip");
  if (address < 0 || bytes < 0 || address + bytes > size) {
    core.fail(*where, mco::Fault::Capacity,
              mco::format("bytes [%lld, %lld) of %s, which has %lld; accepted: a place within it", (long long)address,
                          (long long)(address + bytes), mco::kScopeName[scope], (long long)size));
  }
  for (size_t i = 0; i < core.made->homes.size(); ++i) {  // loops make the same tensor again and again
    mco::asc::Home& old = core.made->homes[i];
    if (old.placed && old.position == position && old.address == address && old.bytes == bytes) {
      *at = old.base;
      return &old;
    }
  }
  mco::asc::Home* home = core.new_home("", scope, position, address, bytes);
  home->placed = true;
  *at = home->base;
  return home;
}

}  // extern "C"
