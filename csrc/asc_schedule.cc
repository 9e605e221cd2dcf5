// SPDX-License-Identifier: Apache-2.0
// Which core a thread of a launch runs next, and what becomes of it when it comes back.
#include <algorithm>
#include <iterator>

#include "asc_run.h"
#include "fpenv.h"

namespace mco::asc {

namespace {

// Where a fibre begins: the core in `current`.
void enter() {
  AscCore& core = *current();
  core.seat->fibre.arrive(core.worker->shore);
  const mco_asc_launch& spec = core.launch.spec;
  spec.entry[core.info.is_cube ? 0 : 1](spec.args);
  core.leave();
}

}  // namespace

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
  constexpr int64_t kNothing[kScopes] = {};
  const bool keep = spec.keep_memory != 0 && !observed;
  if (!fresh || observed) {
    engine->reset(core.number, observed ? nullptr : keep ? kNothing : core.seat->touched);
  }
  if (!keep) std::fill(core.seat->touched, core.seat->touched + kScopes, 0);
  if (!observed) {
    core.made = &core.seat->made;
    core.made->restart();
  }
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
  for (int s = 0; s < kScopes; ++s) core.seat->touched[s] = std::max(core.seat->touched[s], core.touched[s]);
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
      text += (shown > 1 ? "; " : " ") + core->title() + " waits in " + core->waits_in + ": " + core->waits_for() +
              " [" + core->waits_at.text() + "]";
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
  for (const bool cube : {false, true}) {
    std::move(w.seats[cube].begin(), w.seats[cube].end(), std::back_inserter(left_[cube]));
  }
}

void Launch::alarm() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Worker* w : workers_) pthread_kill(w->thread, SIGURG);
}

}  // namespace mco::asc
