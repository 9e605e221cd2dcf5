// SPDX-License-Identifier: Apache-2.0
#include "timer.h"

#include <algorithm>
#include <cstring>

namespace mco {

namespace {

bool overlap(const Touch& a, const Touch& b) { return a.scope == b.scope && a.lo < b.hi && b.lo < a.hi; }

}  // namespace

Timer::Timer(Timing& timing)
    : timing_(timing),
      chip_(timing.costs.chip),
      cube_(timing.costs.chip.split != 0 ? 1 : 0),
      shifts_(timing.program.buffers.size()),
      lives_(timing.program.buffers.size()),
      steps_(timing.steps.size()),
      pages_(timing.program.buffers.size()) {
  for (LaneState& lane : lanes_) lane.starts.assign(size_t(chip_.queue), 0);
}

Outcome Timer::walk(Machine& machine) {
  const Outcome outcome = mco::walk(machine, *this);
  flush();
  if (!timing_.timing()) return outcome;
  double end = std::max(issue_[0], issue_[1]);
  for (const LaneState& lane : lanes_) end = std::max(end, lane.done);
  if (outcome == Outcome::AtBarrier) {
    timing_.arrive(stage_++, end);
    after_barrier_ = true;
  } else {
    sum_.end = units(end);
    finish();
  }
  return outcome;
}

void Timer::begin(const Machine& machine) {
  machine_ = &machine;
  if (timing_.execute() == Execute::Integers) {
    for (int scope = UB; scope < kScopes; ++scope) {
      const int64_t bytes = timing_.program.arena_bytes[scope];
      if (bytes > 0) std::memset(machine.arena.base(Scope(scope)), 0, size_t(bytes));
    }
  }
  block_ = machine.block();
  for (LaneState& lane : lanes_) {
    lane = LaneState{};
    lane.starts.assign(size_t(chip_.queue), 0);
  }
  issue_[0] = issue_[1] = chip_.start;
  for (auto& list : pending_) list.clear();
  flags_.clear();
  nosync_ = after_barrier_ = false;
  std::fill(std::begin(mask_), std::end(mask_), -1);
  gm_tokens_ = l2_tokens_ = 0;  // all cores begin at once, and what nobody took during the launch is gone
  tokens_at_ = chip_.start;
  moved_ = ended_ = 0;
  std::fill(shifts_.begin(), shifts_.end(), 0);
  std::fill(lives_.begin(), lives_.end(), 0);
  stage_ = 0;
  sum_ = BlockSum{};
  std::fill(steps_.begin(), steps_.end(), StepSum{});
  for (auto& pages : pages_) pages.clear();
}

void Timer::finish() {
  for (LaneState& lane : lanes_) close(lane, lane.slice_end);
  timing_.add(block_, sum_, steps_, slices_);
}

void Timer::on_step(const Machine& m, const Step& step) {
  flush();
  if (&step == timing_.program.stream.steps.data()) begin(m);
  if (after_barrier_) {
    after_barrier_ = false;
    const double open = timing_.barrier(stage_ - 1) + chip_.load_gm;
    for (double& issue : issue_) {
      sum_.stall[kS][kBlocks] += units(std::max(0.0, open - issue));
      issue = std::max(issue, open);
    }
  }
  switch (step.what) {
    case What::Instr:
      step_ = &step;
      return;
    case What::Alloc:
      return take_copy(step.index);
    case What::NoSync:
      nosync_ = true;
      return;
    case What::Resync:
      nosync_ = false;
      return;
    case What::Test:
    case What::Assign:
      return spend(chip_.scalar, number_of(step));
    case What::Load:
    case What::Store:
      step_ = &step;  // waits for its access
      return;
    default:
      return;
  }
}

void Timer::take_copy(uint32_t buffer) {
  const Buffer& b = timing_.program.buffers[buffer];
  const size_t copy = lives_[buffer]++ % (b.copies.size() + 1);
  shifts_[buffer] = copy ? b.copies[copy - 1] - b.address : 0;
}

void Timer::on_loop(const Machine&, const Step& step, int64_t) { spend(chip_.loop, number_of(step)); }

bool Timer::executes(const Machine& m, const Step& step) {
  if (timing_.execute() == Execute::All || step.what != What::Instr) return true;
  seen_.clear();
  const Instr& in = *step.instr;
  const bool integers = timing_.execute() == Execute::Integers && in.tensors.size() && !is_float(in.tensors[0].dtype);
  const bool skipped = !integers && touches_of(m, in, seen_);
  if (!skipped) seen_.clear();
  return !skipped;
}

void Timer::on_access(const Machine& m, const Access& a) {
  if (!step_) return;
  const Scope scope = timing_.program.buffers[a.buffer].scope;
  const int64_t at = int64_t(reinterpret_cast<uintptr_t>(a.address));
  const int64_t lo = scope == GM ? at : at - int64_t(reinterpret_cast<uintptr_t>(m.arena.base(scope)));
  seen_.push_back({a.buffer, Touch{scope, a.write, lo, lo + (a.hi - a.lo)}});
}

void Timer::spend(double cycles, int32_t number) {
  if (!timing_.timing()) return;
  StepSum& sum = step_sum(number);
  ++sum.count;
  sum.busy += units(cycles);
  for (int unit = 0; unit <= cube_; ++unit) {
    issue_[unit] += cycles;
    if (!timing_.direct || unit == unit_) sum_.busy[unit ? kCubeS : kS] += units(cycles);
  }
}

// The instruction whose accesses are known by now.
void Timer::flush() {
  if (!step_) return;
  const Step& step = *step_;
  step_ = nullptr;
  touches_.clear();
  for (const auto& [buffer, touch] : seen_) {
    touches_.push_back(touch);
    touches_.back().lo += shifts_[buffer];
    touches_.back().hi += shifts_[buffer];
  }
  if (!timing_.timing()) {
    note_pages(*machine_);
    seen_.clear();
    return;
  }
  if (step.what != What::Instr) {
    scalar_access(number_of(step));
  } else {
    Work work = work_of(*machine_, *step.instr, timing_.costs, shifts_);
    start(work, number_of(step), dispatch_cost(*machine_, *step.instr));
  }
  seen_.clear();
}

// An instruction whose touches are known, from the scalar unit on.
void Timer::start(Work& work, int32_t number, double cost) {
  LaneState& lane = lanes_[work.lane];
  double& issued = issue(work.lane);
  const int scalar_lane = &issued == &issue_[0] ? kS : kCubeS;
  // A full queue holds the scalar unit up.
  const double room = lane.starts[lane.at];
  if (room > issued) {
    sum_.stall[scalar_lane][kQueue] += units(room - issued);
    issued = room;
  }
  record(scalar_lane, number, issued, cost, issued + cost, 0, -1, 0);
  issued += cost;
  if (timing_.direct) issue_[0] = issue_[1] = issued;
  if (work.lane == kS) return;
  const double was_free = work.lane == kV && meets_last(lane) ? std::max(lane.free, lane.done) : lane.free;
  int reason = kDispatch;
  double start = std::max(issued, was_free);
  if (lane.held > start) {
    start = lane.held;
    reason = lane.held_by;
  }
  if (!nosync_) start = ready(touches_, work.lane, start, reason);
  if (chip_.serial != 0) start = std::max(start, ended_);
  double shared = 0;
  if (work.gm) {
    find_misses(*machine_, work);
    move_through_gm(work, start, shared);
  }
  const double waited = std::max(0.0, start - std::max(was_free, chip_.start));
  if (waited > 0) sum_.stall[work.lane][reason] += units(waited);
  if (shared > 0) sum_.stall[work.lane][kBandwidth] += units(shared);
  if (work.bank > 0) sum_.stall[work.lane][kBank] += units(work.bank);
  lane.starts[lane.at] = start;
  lane.at = (lane.at + 1) % lane.starts.size();
  lane.free = start + work.occupies;
  lane.done = std::max(lane.done, start + work.lasts);
  ended_ = std::max(ended_, lane.done);
  if (work.lane == kV) lane.touched = touches_;
  remember(work.lane, start + work.lasts);
  const int shown = shared > waited ? int(kBandwidth) : reason;
  record(work.lane, number, start, work.occupies, start + work.lasts, waited, shown, double(work.bytes));
  sum_.bytes[work.dst][work.src] += work.bytes;
  sum_.busy_on[work.dst][work.src] += work.bytes ? units(work.occupies) : 0;
  sum_.macs += work.macs;
  sum_.vector_bytes += work.vector_bytes;
  sum_.cube += units(work.cube);
}

double Timer::dispatch_cost(const Machine& m, const Instr& in) {
  double cost = chip_.dispatch;
  const ExprTable& exprs = m.program.exprs;
  for (const Operand& o : in.tensors) cost += exprs.is_constant(o.offset) ? 0 : chip_.operand;
  for (const uint32_t arg : in.args) cost += exprs.is_constant(arg) ? 0 : chip_.operand;
  const LaneShape& shape = in.op->shape;
  if (shape.mask0 >= 0) {
    const int64_t mask[3] = {m.raw_arg(in, shape.mask0), m.raw_arg(in, shape.mask1), in.attrs[size_t(shape.mask_kind)]};
    if (!std::equal(mask, mask + 3, mask_)) cost += chip_.mask;
    std::copy(mask, mask + 3, mask_);
  }
  return cost;
}

// A load waits for what it reads; both scalar units of a split core need the value. Compilers of front ends without a
// stream order the scalar unit with the pipes, whatever the kernel says of these.
void Timer::scalar_access(int32_t number) {
  if (touches_.empty()) return;
  const Touch& touch = touches_[0];
  const bool load = !touch.write;
  const int lane = unit_ ? kCubeS : kS;
  int reason = kRaw;
  const double from = std::max(issue_[0], issue_[1]);
  const double start = nosync_ && !timing_.direct ? from : ready(touches_, lane, from, reason);
  const double cost = !load ? chip_.scalar : touch.scope == GM ? chip_.load_gm : chip_.load_ub;
  sum_.stall[size_t(lane)][size_t(reason)] += units(start - from);
  record(lane, number, start, cost, start + cost, start - from, reason, double(touch.hi - touch.lo));
  for (double& issue : issue_) issue = start + cost;
  lanes_[lane].done = start + cost;
  remember(lane, start + cost);
}

// The earliest start behind what has to be over before these bytes are touched.
double Timer::ready(const std::vector<Touch>& touches, int lane, double from, int& reason) {
  double start = from;
  for (const Touch& touch : touches) {
    for (const Pending& p : pending_[touch.scope]) {
      if (p.lane == lane || p.end + chip_.handoff <= start) continue;
      if (!(touch.write || p.touch.write) || !overlap(touch, p.touch)) continue;
      start = p.end + chip_.handoff;
      reason = !p.touch.write ? kWar : touch.write ? kWaw : kRaw;
    }
  }
  return start;
}

bool Timer::meets_last(const LaneState& lane) const {
  for (const Touch& a : lane.touched) {
    for (const Touch& b : touches_) {
      if ((a.write || b.write) && overlap(a, b)) return true;
    }
  }
  return false;
}

// What is over before anything can still start is forgotten, and what a later access of the same pipe covers. Long
// streams through GM become one access; kMost bounds the rest, of which the one that ends first goes.
void Timer::remember(int lane, double end) {
  constexpr size_t kMany = 64, kMost = 512;
  const double oldest = std::min(issue_[0], issue_[cube_]) - chip_.handoff;
  for (const Touch& touch : touches_) {
    auto& list = pending_[touch.scope];
    const auto over = [&](const Pending& p) {
      const bool covered =
          p.lane == lane && (touch.write || !p.touch.write) && touch.lo <= p.touch.lo && p.touch.hi <= touch.hi;
      return p.end <= oldest || covered;
    };
    list.erase(std::remove_if(list.begin(), list.end(), over), list.end());
    Pending added{touch, end, lane};
    if (touch.scope == GM && list.size() >= kMany) {
      for (Pending& p : list) {
        const bool one = p.lane == lane && p.touch.write == touch.write;
        if (!one || p.touch.hi < touch.lo || touch.hi < p.touch.lo) continue;
        added.touch.lo = std::min(added.touch.lo, p.touch.lo);
        added.touch.hi = std::max(added.touch.hi, p.touch.hi);
        std::swap(p, list.back());
        list.pop_back();
        break;
      }
    }
    if (list.size() >= kMost) {
      const auto first =
          std::min_element(list.begin(), list.end(), [](const Pending& x, const Pending& y) { return x.end < y.end; });
      std::swap(*first, list.back());
      list.pop_back();
    }
    list.push_back(added);
  }
}

void Timer::record(int number, int32_t step, double start, double occupied, double ends, double wait, int reason,
                   double bytes) {
  LaneState& lane = lanes_[number];
  close(lane, std::min(lane.slice_end, start));
  StepSum& sum = step_sum(step);
  const bool scalar = number == kS || number == kCubeS;
  if (!scalar || reason >= 0) {
    ++sum.count;
    sum.wait += units(wait);
    sum.bytes += int64_t(bytes);
  }
  ++sum_.count[size_t(number)];
  lane.open = true;
  lane.slice_end = scalar ? start + occupied : std::max(ends, start + occupied);
  lane.last = {step, number, reason, int32_t(block_), start, 0, wait, bytes};
}

// The pipe was busy until `end`.
void Timer::close(LaneState& lane, double end) {
  if (!lane.open) return;
  lane.open = false;
  lane.last.end = std::max(end, lane.last.start);
  const int64_t busy = units(lane.last.end - lane.last.start);
  sum_.busy[size_t(lane.last.lane)] += busy;
  step_sum(lane.last.step).busy += busy;
  if (block_ < timing_.traced_blocks && int64_t(slices_.size()) < timing_.traced_slices) slices_.push_back(lane.last);
}

}  // namespace mco
