// SPDX-License-Identifier: Apache-2.0
// Order between cores: barriers, counters of a block, words in GM.
#include <algorithm>

#include "asc_check.h"
#include "asc_run.h"

namespace mco::asc {

// What others may know of this core once a flag of this pipe has come; and once all its pipes are done.
GmOrder::Known AscCore::tell(int pipe) {
  if (pipe < 0 || pipe >= kPipes) return all_done();
  return launch.checked->order().tell(number, checker->pipes().mark(pipe));
}

GmOrder::Known AscCore::all_done() {
  checker->pipes().barrier(kAllPipes);
  return launch.checked->order().tell(number, checker->pipes().mark(0));
}

// Of a loop that looks at GM: what it sees, and what was written before that.
void AscCore::learn_all() {
  for (const auto& other : launch.cores) {
    if (other.get() == this) continue;
    if (!other->checker) {
      launch.checked->order().learn(number, other->last);
      continue;
    }
    launch.checked->order().learn(number, launch.checked->order().tell(other->number, other->checker->pipes().now()));
  }
}

// The same of a timed launch: what it sees was there at the latest when all others had done what they have done by now.
void AscCore::wait_for_all() {
  double latest = 0;
  for (const auto& other : launch.cores) {
    if (other.get() == this) continue;
    latest = std::max(latest, other->timer ? other->timer->mark(kAllPipes) : other->told);
  }
  timer->meet(latest + timer->chip().load_gm, kCores);
}

// Work of the library, which orders its own pipes.
void AscCore::serve(void (*work)(void*), void* argument) {
  if (timer) {
    timer->ordered(true);
    work(argument);
    return timer->ordered(false);
  }
  if (!checker) return work(argument);
  checker->pipes().region_end();
  work(argument);
  checker->pipes().region_begin();
}

namespace {

constexpr int kMostCount = 15;

const char* who_text(int who) { return who == MCO_ASC_ALL_VECTOR ? "vector " : who == MCO_ASC_ALL_CUBE ? "cube " : ""; }

}  // namespace

// A flag of a mode is there when every core that sets it in that mode has; waiting takes one of each. Under the lock.
bool Launch::take_cross(AscCore& core, int id, bool take) {
  for (int mode = 0; mode < kCrossModes; ++mode) {
    AscCore::CrossFlag& flag = core.cross[id][mode];
    if (!flag.ready()) continue;
    if (!take) return true;
    for (const int source : core.peers[mode]) {
      flag.lower(cores[size_t(source)]->rank[mode]);
      if (timed) timed->take_flag(*core.timer, core.number, id, mode, source);
      if (!checked) continue;
      // What its own pipes had done when it told the other core is over: the scalar unit has waited, and issues later.
      const mco::Pipes::Clock own = checked->take_flag(core.number, id, mode, source);
      if (core.checker) core.checker->pipes().join(0, own);
    }
    return true;
  }
  return false;
}

}  // namespace mco::asc

using mco::asc::AscCore;
using mco::asc::here;

extern "C" {

void mco_asc_sync_all(const mco_asc_where* where, int who, int count) {
  auto& core = here(where->call);
  mco::asc::Launch& launch = core.launch;
  // Cube cores that come to the barrier of vector cores meet each other, as flags of mode 0 do.
  if (who == MCO_ASC_ALL_VECTOR && core.info.split && core.info.is_cube) who = MCO_ASC_ALL_CUBE;
  const int members = count > 0 ? count : int(launch.members[core.info.split ? who : MCO_ASC_ALL_CORES].size());
  int64_t round;
  if (core.checker) launch.checked->arrive({who, members}, core.number, core.all_done());
  if (core.timer) {
    core.time_call(*where, core.timer->chip().dispatch);
    launch.timed->arrive({who, members}, *core.timer);
  }
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    auto& barrier = launch.barriers[{who, members}];
    round = barrier.round;
    if (++barrier.arrived == members) {
      barrier.arrived = 0;
      ++barrier.round;
      launch.changed.notify_all();
      if (core.checker) launch.checked->meet({who, members}, core.number, size_t(members) == launch.cores.size());
      if (core.timer) launch.timed->meet({who, members}, *core.timer);
      return;
    }
  }
  const auto& barrier = launch.barriers[{who, members}];  // stays where it is
  core.wait(
      *where, [members, who] { return "for all " + std::to_string(members) + " " + mco::asc::who_text(who) + "cores"; },
      [&barrier, round](bool) { return barrier.round != round; });
  if (core.checker) launch.checked->leave({who, members}, core.number);
  if (core.timer) launch.timed->leave({who, members}, *core.timer);
}

void mco_asc_cross_set(const mco_asc_where* where, int pipe, int mode, int id) {
  auto& core = here(where->call);
  if (mode < 0 || mode >= mco::asc::kCrossModes || id < 0 || id >= mco::asc::kCrossFlags) {
    core.fail(*where, mco::Fault::EventIdRange,
              mco::format("mode is %d and the flag %d; accepted: modes 0 to 2, flags 0 to 15", mode, id));
  }
  mco::asc::Launch& launch = core.launch;
  int full = -1;
  const auto told = core.checker ? core.tell(pipe) : mco::GmOrder::Known();
  if (core.timer) core.time_call(*where, core.timer->chip().dispatch);
  const double done = core.timer ? core.timer->mark(pipe) : 0;
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    for (const int other : core.peers[mode]) {
      if (core.checker) launch.checked->flags[{other, id, mode, core.number}].push_back(told);
      if (core.timer) launch.timed->set_flag(other, id, mode, core.number, done);
      AscCore& to = *launch.cores[size_t(other)];
      auto& flag = to.cross[id][mode];
      if (flag.set.empty()) {
        for (int i = 0; i < to.peers[mode].count; ++i) flag.set.push_back(0);
        flag.missing = to.peers[mode].count;
      }
      if (flag.raise(core.rank[mode]) > mco::asc::kMostCount) full = other;
    }
    launch.changed.notify_all();
  }
  if (full >= 0) {
    core.fail(*where, mco::Fault::FlagUnpaired,
              mco::format("flag %d of %s is set 16 times and not waited for; accepted: 15 at most", id,
                          launch.cores[size_t(full)]->title().c_str()));
  }
}

void mco_asc_cross_wait(const mco_asc_where* where, int id) {
  auto& core = here(where->call);
  if (id < 0 || id >= mco::asc::kCrossFlags)
    core.fail(*where, mco::Fault::EventIdRange, mco::format("the flag is %d; accepted: 0 to 15", id));
  mco::asc::Launch& launch = core.launch;
  if (core.timer) core.time_call(*where, core.timer->chip().dispatch);
  const auto there = [&core, id](bool take) { return core.launch.take_cross(core, id, take); };
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    if (there(true)) return;
  }
  core.wait(*where, [id] { return "for flag " + std::to_string(id); }, there);
}

void mco_asc_hand(const mco_asc_where* where, void (*work)(void*), void* argument) {
  auto& core = here(where->call);
  if (core.info.is_cube || !core.info.split) return core.serve(work, argument);
  mco::asc::Launch& launch = core.launch;
  int cube = -1;
  for (const int other : core.peers[2]) cube = other;
  if (cube < 0) {
    core.fail(*where, "the block has no cube core; accepted: KERNEL_TYPE_MIX_AIC_1_1 or KERNEL_TYPE_MIX_AIC_1_2");
  }
  mco::asc::Launch::Work mine{work, argument, {}};
  if (core.checker) mine.known = core.all_done();
  if (core.timer) mine.done_at = core.timer->mark(mco::kAllPipes);
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    launch.handed[cube].push_back(&mine);
    launch.changed.notify_all();
  }
  const AscCore& other = *launch.cores[size_t(cube)];
  core.wait(*where, [&other] { return "for " + other.title() + " to do it"; }, [&mine](bool) { return mine.done; });
  if (core.checker) launch.checked->order().learn(core.number, mine.known);
  if (core.timer) launch.timed->wait_flag(*core.timer, mine.done_at);
}

void mco_asc_serve(const mco_asc_where* where) {
  auto& core = here(where->call);
  mco::asc::Launch& launch = core.launch;
  const AscCore::Peers vectors = core.peers[2];
  for (;;) {
    mco::asc::Launch::Work* next = nullptr;
    const auto ready = [&](bool take) {
      auto& list = launch.handed[core.number];
      if (!list.empty()) {
        if (take) {
          next = list.front();
          list.pop_front();
        }
        return true;
      }
      return std::all_of(vectors.begin(), vectors.end(), [&](int v) { return launch.cores[size_t(v)]->ended; });
    };
    bool found;
    {
      std::lock_guard<std::mutex> lock(launch.mutex);
      found = ready(true);
    }
    if (!found) core.wait(*where, [] { return "for work of the vector cores of its block"; }, std::ref(ready));
    if (!next) return;
    if (core.checker) launch.checked->order().learn(core.number, next->known);
    if (core.timer) launch.timed->wait_flag(*core.timer, next->done_at);
    core.serve(next->call, next->argument);
    if (core.checker) next->known = core.all_done();
    if (core.timer) next->done_at = core.timer->mark(mco::kAllPipes);
    std::lock_guard<std::mutex> lock(launch.mutex);
    next->done = true;
    launch.changed.notify_all();
  }
}

void mco_asc_leave(void) { here("leave").leave(); }

void mco_asc_wait_word(const mco_asc_where* where, int32_t* at, int32_t value, int take) {
  auto& core = here(where->call);
  const auto there = [at, value, take](bool now) {
    if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != value) return false;
    if (take && now) __atomic_store_n(at, 0, __ATOMIC_RELEASE);
    return true;
  };
  bool now;
  {
    std::lock_guard<std::mutex> lock(core.launch.mutex);
    now = there(true);
  }
  if (!now) core.wait(*where, [value] { return mco::format("for a word in GM to become %d", value); }, there);
  if (core.checker) core.launch.checked->order().learn(core.number, core.launch.checked->words[at]);
  if (core.timer) core.launch.timed->wait_flag(*core.timer, core.launch.timed->word(at));
}

void mco_asc_wake(const int32_t* at) {
  auto& core = here("IBSet");
  if (core.checker) core.launch.checked->words[at] = core.all_done();
  if (core.timer) core.launch.timed->set_word(at, core.timer->mark(mco::kAllPipes));
  std::lock_guard<std::mutex> lock(core.launch.mutex);
  core.launch.changed.notify_all();
}

void mco_asc_pause(void) {
  auto& core = here("pause");
  if (core.launch.cores.size() < 2) return;
  const mco_asc_where where = {"a loop that looks at GM", nullptr, 0};
  core.look(where);
  core.pauses = true;
  if (core.checker) core.launch.checked->order().polls(core.number);
  core.wait(where, [] { return "for other cores"; }, [](bool) { return true; });
  if (core.checker) core.learn_all();
  if (core.timer) core.wait_for_all();
}

}  // extern "C"
