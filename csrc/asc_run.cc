// SPDX-License-Identifier: Apache-2.0
#include "asc_run.h"

#include <algorithm>
#include <cstring>

#include "asc_findings.h"
#include "capi.h"
#include "fpenv.h"
#include "guarded.h"
#include "pool.h"

namespace mco::asc {

namespace {

// KernelMetaType: numbers of the headers.
enum Kind { kAivOnly, kAicOnly, kMixAiv10, kMixAic10, kMixAic11, kMixAic12, kAiCore, kVectorCore };

int cubes_of(int kind) { return kind == kAicOnly || kind == kMixAic10 || kind == kMixAic11 || kind == kMixAic12; }
int vectors_of(int kind) { return kind == kAicOnly || kind == kMixAic10 ? 0 : kind == kMixAic12 ? 2 : 1; }

// Where a fibre begins: the core in `current`.
void enter() {
  AscCore& core = *current();
  core.seat->fibre.arrive(core.worker->shore);
  const mco_asc_launch& spec = core.launch.spec;
  spec.entry[core.info.is_cube ? 0 : 1](spec.args);
  core.leave();
}

}  // namespace

Launch::Launch(const mco_asc_launch& spec, int kind) : spec(spec), kind(kind), watch(spec.time_limit, spec.poll) {
  for (int i = 0; i < spec.memories; ++i) {
    auto home = std::make_unique<Home>();
    home->base = static_cast<uint8_t*>(spec.memory[i].data);
    home->bytes = spec.memory[i].bytes;
    home->lo = home->base;
    home->hi = home->base + home->bytes;
    home->scope = GM;
    home->position = 0;
    home->given = spec.memory[i].name;
    home->fresh = spec.memory[i].output ? home->bytes : spec.memory[i].fresh;
    home->output = spec.memory[i].output != 0;
    if (spec.check) home->lo = home->hi = nullptr;
    gm_.push_back(std::move(home));
  }
  std::sort(gm_.begin(), gm_.end(), [](const auto& a, const auto& b) { return a->base < b->base; });
  make_cores();
  if (spec.check) begin_checked();
}

Launch::~Launch() = default;

void Launch::begin_checked() {
  if (!spec.strict) fail("a checked launch needs to know its memory; accepted: memory of GmAlloc or aclrtMalloc");
  std::vector<std::string> titles;
  for (const auto& core : cores) titles.push_back(core->title());
  checked = std::make_unique<Checked>(spec, gm_, std::move(titles));
}

void Launch::time(Timed& t) {
  timed = &t;
  for (auto& home : gm_) home->lo = home->hi = nullptr;
}

int Launch::cores_of_block(bool cube) const {
  if (cube) return spec.split ? cubes_of(kind) : 0;
  return spec.split ? vectors_of(kind) : 1;
}

Directory& Launch::directory() const { return checked ? static_cast<Directory&>(*checked) : *timed; }

std::unique_ptr<Core> Launch::make_core(const AscCore& core) {
  int64_t bytes[kScopes];
  for (int s = 0; s < kScopes; ++s) bytes[s] = core.scope_bytes(Scope(s));
  if (core.info.split) bytes[L1] = spec.scope_bytes[L1];  // of a vector core: for its TSCM
  if (bytes[UB]) bytes[UB] += kScratchBytes;
  if (checked) return checked->make_core(bytes);
  if (timed) return timed->make_core(bytes);
  return std::make_unique<Core>(bytes, spec.saturate != 0, nullptr, true, helpers_ == 0);
}

void Launch::make_cores() {
  const bool split = spec.split != 0;
  void* workspace = nullptr;  // the framework's, which kernels find by GetSysWorkSpacePtr without SetSysWorkspace
  for (int i = 0; i < spec.memories; ++i) {
    if (std::strcmp(spec.memory[i].name, "workspace") == 0) workspace = spec.memory[i].data;
  }
  const int cubes = cores_of_block(true), vectors = cores_of_block(false);
  for (int block = 0; block < spec.blocks; ++block) {
    for (int sub = 0; sub < cubes + vectors; ++sub) {
      const bool cube = sub < cubes;
      const int number = int(cores.size());
      cores.push_back(std::make_unique<AscCore>(*this, number, cube));
      mco_asc_core& info = cores.back()->info;
      info.sub = cube ? 0 : sub - cubes;
      info.subs = cube ? 1 : vectors;
      info.ratio = vectors;
      info.block = cube ? block : block * vectors + info.sub;
      info.blocks = spec.blocks;
      info.arch = spec.arch;
      info.split = split;
      info.tiling_key = spec.tiling_key;
      info.user[0] = workspace;
      members[MCO_ASC_ALL_CORES].push_back(number);
      members[cube ? MCO_ASC_ALL_CUBE : MCO_ASC_ALL_VECTOR].push_back(number);
    }
  }
  for (auto& core : cores) set_peers(*core);
}

// Flags of mode 0 are between all cores of a kind, of mode 1 between those of its block, of mode 2 between a core and
// those of the other kind in its block.
void Launch::set_peers(AscCore& core) {
  const int block = core.info.is_cube ? core.info.block : core.info.block / core.info.ratio;
  for (int mode = 0; mode < kCrossModes; ++mode) {
    const bool cube = (core.info.is_cube != 0) != (mode == 2);
    const std::vector<int>& kind = members[cube ? MCO_ASC_ALL_CUBE : MCO_ASC_ALL_VECTOR];
    const int of_block = cores_of_block(cube);
    core.peers[mode] = mode == 0 ? AscCore::Peers{kind.data(), int(kind.size())}
                                 : AscCore::Peers{kind.data() + block * of_block, of_block};
    core.rank[mode] = mode == 0 ? core.info.block : core.info.sub;
  }
}

// The tensor an address lies in; one behind its end counts, so that an empty rest of a tensor is no fault.
const Home* Launch::find_gm(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  auto after =
      std::upper_bound(gm_.begin(), gm_.end(), at, [](const uint8_t* x, const auto& h) { return x < h->base; });
  const Home* end_of = nullptr;
  while (after != gm_.begin()) {
    const Home& home = **--after;
    if (at < home.base + home.bytes) return &home;
    if (at == home.base + home.bytes) end_of = &home;
    if (home.bytes) break;
  }
  return end_of;
}

void Launch::note_error(int core, const std::string& text) {
  if (core >= error_core_.load()) return;
  error_core_ = core;
  error_ = text;
}

// Cores below one that failed go on: theirs is the error to report.
bool Launch::stopping(int core) { return core > error_core_.load(std::memory_order_relaxed); }

void Launch::end_probe() {
  if (!probing) return;
  std::lock_guard<std::mutex> lock(mutex);
  probing = false;
  changed.notify_all();
}

void Launch::want_other_kind(const AscCore& core, Scope scope) {
  if (!guessed || !probing || core.issued || !core.info.split || scope == GM) return;
  std::lock_guard<std::mutex> lock(mutex);
  wanted_kind = scope == UB ? kAivOnly : kAicOnly;
}

void Launch::begin(Worker& w, AscCore& core) {
  auto& seats = w.seats[core.info.is_cube];
  if (seats.empty()) {
    seats.push_back(checked || timed ? std::make_unique<Seat>() : take_seat(seat_kind(core.info.is_cube)));
  }
  core.seat = std::move(seats.back());
  seats.pop_back();
  auto& engine = core.seat->core;
  const bool fresh = !engine;
  if (fresh) engine = make_core(core);
  const bool observed = engine->observed();
  if (!fresh || observed) engine->reset(core.number, observed ? nullptr : core.seat->touched);
  std::fill(core.seat->touched, core.seat->touched + kScopes, 0);
  core.core = engine.get();
  if (checked) core.checker = static_cast<Checker*>(engine->observer());
  if (timed) {
    core.timer = static_cast<Timer*>(engine->observer());
    core.timer->open(engine->machine(), core.number, core.info.is_cube != 0);
  }
  core.info.observed = observed;
  core.worker = &w;
  core.seat->events.clear();
  core.seat->fibre.begin(enter);
  w.cores.push_back(&core);
}

void Launch::step(Worker& w, AscCore& core) {
  w.running = &core;
  current() = &core;
  core.seat->fibre.step(w.shore);
  current() = nullptr;
  w.running = nullptr;
}

// What a core leaves behind that hangs a chip.
void Launch::check_end(AscCore& core) {
  for (uint64_t left = core.seat->events.used; left; left &= left - 1) {
    const int event = __builtin_ctzll(left);
    for (int id = 0; id < PipeFlags::kIds; ++id) {
      const PipeFlags::Flag& flag = core.seat->events.of(event)[id];
      if (flag.balance < 0) {
        core.failed = true;
        core.error = core.title() + ": WaitFlag: event id " + std::to_string(id) +
                     " of this pair of pipes is waited for and never set; accepted: one SetFlag for each WaitFlag [" +
                     flag.first_wait.text() + "]";
        return;
      }
    }
  }
}

// Under the lock: the core has come back to its thread.
void Launch::after(Worker& w, AscCore& core) {
  if (wanted_kind < 0) probing = false;  // a core that waits, waits for others to run
  if (!core.ended) return;
  if (!core.failed && !checked) check_end(core);
  if (core.checker) core.last = core.all_done();
  if (core.checker) core.checker->end(core.core->machine(), !core.failed);
  if (core.timer) {
    core.told = core.timer->mark(kAllPipes);
    core.timer->shut();
  }
  if (core.failed && checked) checked->note_failed();
  if (core.fault_at) core.error += " [" + fault_place(core) + "]";
  if (core.failed && !core.found) note_error(core.number, core.error);
  w.cores.erase(std::find(w.cores.begin(), w.cores.end(), &core));
  leave_seat(w, core);
  core.core = nullptr;
  core.checker = nullptr;
  core.timer = nullptr;
}

void Launch::abandon(Worker& w) {
  for (AscCore* core : w.cores) {
    core->ended = true;
    if (core->checker) core->checker->end(core->core->machine(), false);
    leave_seat(w, *core);
  }
  w.cores.clear();
}

void Launch::leave_seat(Worker& w, AscCore& core) {
  std::copy(core.touched, core.touched + kScopes, core.seat->touched);
  w.seats[core.info.is_cube].push_back(std::move(core.seat));
}

SeatKind Launch::seat_kind(bool cube) const {
  SeatKind kind{cube, spec.saturate != 0, spec.split != 0, helpers_ == 0, {}};
  std::copy(spec.scope_bytes, spec.scope_bytes + kScopes, kind.bytes.begin());
  return kind;
}

void Launch::deadlock() {
  std::string text = "no core can go on:";
  int shown = 0, waiting = 0, first = INT32_MAX;
  for (const auto& core : cores) {
    if (core->ended || !core->ready) continue;
    if (core->number < first) stuck_at_ = core->waits_at;
    first = std::min(first, core->number);
    if (++waiting <= 8) {
      ++shown;
      text += (shown > 1 ? "; " : " ") + core->title() + " waits in " + core->waits_in + ": " + core->waits_for() + " [" + core->waits_at.text() +
              "]";
    }
  }
  if (waiting > shown) text += "; and " + std::to_string(waiting - shown) + " more";
  std::vector<std::string> done;
  for (const auto& core : cores) {
    if (core->ended) done.push_back(core->title());
  }
  if (!done.empty()) {
    text += "; ended: ";
    for (size_t i = 0; i < done.size() && i < 8; ++i) text += (i ? ", " : "") + done[i];
    if (done.size() > 8) text += " and " + std::to_string(done.size() - 8) + " more";
  }
  stuck_ = true;
  note_error(first, text);
}

// A core of this thread that can go on; those that only pause come after cores that have not begun.
AscCore* Launch::take_ready(Worker& w, bool pauses) {
  for (size_t i = 0; i < w.cores.size(); ++i) {
    AscCore* core = w.cores[i];
    if (!core->ready || core->pauses != pauses || !core->ready(true)) continue;
    core->ready = nullptr;
    core->pauses = false;
    std::rotate(w.cores.begin(), w.cores.begin() + long(i) + 1, w.cores.end());
    return core;
  }
  return nullptr;
}

// The next core to begin. A thread takes a block at a time, whose cores wait for each other and share a cache; without
// one it takes what another has not come to.
AscCore* Launch::take_due(Worker& w) {
  std::deque<AscCore*>* from = &w.due;
  if (from->empty() && taken_ < cores.size()) {
    const size_t of_block = size_t(cores_of_block(true) + cores_of_block(false));
    for (const size_t end = std::min(taken_ + of_block, cores.size()); taken_ < end; ++taken_) {
      from->push_back(cores[spec.reverse ? cores.size() - 1 - taken_ : taken_].get());
    }
  }
  for (size_t i = 0; from->empty() && i < workers_.size(); ++i) {
    if (!workers_[i]->due.empty()) from = &workers_[i]->due;
  }
  if (from->empty()) return nullptr;
  AscCore* core = from->front();
  from->pop_front();
  ++started_;
  return core;
}

AscCore* Launch::next_core(Worker& w, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (error_core_ != INT32_MAX || wanted_kind >= 0) {
      // Cores below the one that failed may hold an earlier error; those that wait for others never will.
      abandon(w);
      if (wanted_kind >= 0 || started_ >= cores.size()) return nullptr;
    }
    if (AscCore* core = take_ready(w, false)) return core;
    if (!(probing && started_ > 0)) {
      if (AscCore* core = take_due(w)) {
        if (stopping(core->number)) {
          core->ended = true;
          continue;
        }
        begin(w, *core);
        return core;
      }
    }
    if (AscCore* core = take_ready(w, true)) return core;
    if (started_ >= cores.size() && w.cores.empty()) return nullptr;
    if (running_ == 0 && started_ >= cores.size()) {
      bool can_go_on = false;
      for (const auto& core : cores) can_go_on |= !core->ended && core->ready && core->ready(false);
      if (!can_go_on) {
        deadlock();
        changed.notify_all();
        continue;
      }
    }
    changed.wait_for(lock, std::chrono::milliseconds(Watch::kPollMilliseconds));
    const Watch::Stop stop = watch.look();
    if (stop == Watch::Stop::Asked) note_error(-1, "interrupted");
    if (stop == Watch::Stop::TimeLimit && running_ == 0 && error_core_ == INT32_MAX) {
      note_error(-1, "the cores still wait at the time limit");
    }
  }
}

void Launch::work() {
  const FloatingPointDefaults defaults;
  const FaultStack faults;
  Worker w(*this);
  w.thread = pthread_self();
  pthread_sigmask(SIG_SETMASK, nullptr, &w.mask);
  std::unique_lock<std::mutex> lock(mutex);
  workers_.push_back(&w);
  while (AscCore* core = next_core(w, lock)) {
    ++running_;
    lock.unlock();
    step(w, *core);
    lock.lock();
    --running_;
    after(w, *core);
    changed.notify_all();
  }
  workers_.erase(std::find(workers_.begin(), workers_.end(), &w));
  if (checked || timed || error_core_ != INT32_MAX) return;
  for (const bool cube : {false, true}) give_seats(seat_kind(cube), std::move(w.seats[cube]));
}

void Launch::alarm() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Worker* w : workers_) pthread_kill(w->thread, SIGURG);
}

void Launch::run() {
  const int threads = checked || timed ? 1 : spec.threads > 0 ? spec.threads : ThreadPool::threads();
  helpers_ = int(std::min<size_t>(size_t(threads), cores.size())) - 1;
  const FaultHandlers handlers;
  const TimeLimit limit(*this);
  ThreadPool::instance().run(helpers_, [this] { work(); }, [this] { watch.look(); });
  if (!checked) {
    if (error_core_ != INT32_MAX) throw Error(error_);
    return;
  }
  // Cores that wait for one that ended with a finding are no finding of their own.
  if (stuck_ && checked->complete()) checked->add(Fault::FlagDeadlock, stuck_at_, error_core_, error_);
  checked->finish(error_core_ == INT32_MAX);
  if (error_core_ != INT32_MAX && !stuck_) throw Error(error_);
}

}  // namespace mco::asc

using mco::asc::here;

extern "C" {

int mco_asc_run(const mco_asc_launch* given, char* err, size_t errlen) {
  bool asked = false;
  const int status = mco::guarded(err, errlen, [&] {
    if (!given || given->struct_size != sizeof *given || given->abi != MCO_ASC_ABI) {
      mco::fail("mco_asc_run: made by other headers than those of this version; build the kernel again");
    }
    mco_asc_launch own = *given;
    const mco_asc_launch* const spec = &own;
    if (spec->findings) *spec->findings = nullptr;
    if (mco_get_check()) own.check = 1;
    if (mco::asc::current()) mco::fail("a kernel cannot launch a kernel");
    int kind = spec->kind >= 0 ? spec->kind : 0;
    for (int tries = 0; tries < 3; ++tries) {
      mco::asc::Launch launch(*spec, kind);
      launch.guessed = tries == 0 && spec->kind < 0;
      try {
        launch.run();
      } catch (...) {
        asked = launch.asked_to_stop();
        if (launch.checked && spec->findings) *spec->findings = mco::asc::findings_of(*launch.checked);
        throw;
      }
      if (launch.wanted_kind < 0) return mco::asc::hand_over(launch);
      kind = launch.wanted_kind;
    }
    mco::fail("the kernel says another KERNEL_TASK_TYPE each time it runs");
  });
  return asked ? 2 : status;
}

void mco_asc_task_type(const mco_asc_where* where, int type) {
  auto& core = here(where->call);
  mco::asc::Launch& launch = core.launch;
  if (!core.info.split || type == launch.kind) return;
  if (mco::asc::cubes_of(type) == mco::asc::cubes_of(launch.kind) &&
      mco::asc::vectors_of(type) == mco::asc::vectors_of(launch.kind)) {
    return;
  }
  if (type < 0 || type > mco::asc::kVectorCore) mco_asc_refuse(where, "type", "unknown", "a type of 910B");
  if (core.issued || !launch.probing) {
    core.fail(*where, "comes after the kernel's first instruction; accepted: before it");
  }
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    launch.wanted_kind = type;
  }
  core.leave();
}

}  // extern "C"
