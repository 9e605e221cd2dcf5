// SPDX-License-Identifier: Apache-2.0
#include "checker.h"

#include <algorithm>
#include <cstring>

#include "flow.h"
#include "gm_order.h"
#include "handlers.h"
#include "number.h"

namespace mco {

Checker::Checker(CheckRun& run, const Program& p)
    : run_(run), program_(p), chip_(p), life_(p.buffers.size()), life_loc_(p.buffers.size()), copy_(p.buffers.size()) {
  if (run.options.order) pipes_.order_scalar();
}

bool Checker::watches(uint32_t buffer) const {
  return run_.options.order ? program_.buffers[buffer].scope == GM : run_.cores.watches(buffer);
}

void Checker::on_start(const Machine& m) {
  block_ = m.block_;
  at_ = nullptr;
  region_first_ = region_last_ = nullptr;
  rounds_.clear();
  bits_.clear();
  held_back_.clear();
  held_bytes_ = 0;
  chip_.reset();
  pipes_.start(run_.options.within_pipe);
  if (run_.options.manual_sync) pipes_.region_begin();
  std::fill(life_.begin(), life_.end(), 0);
  for (int s = UB; s < kScopes; ++s) {
    if (program_.arena_bytes[s]) std::memset(m.arena.base(Scope(s)), kPoison, size_t(program_.arena_bytes[s]));
  }
}

void Checker::on_end(const Machine& m) {
  land(m, true);
  pipes_.end(reports_);
  flush(reports_);
  run_.cores.take(block_, log_);
  run_.take(std::move(found_));
  found_ = Findings();
}

Outcome Checker::walk(Machine& m) {
  try {
    const Outcome outcome = mco::walk(m, *this);
    if (outcome == Outcome::AtBarrier) {
      run_.cores.take(block_, log_);
      pipes_.barrier(kAllPipes);
      land(m, true);
    }
    return outcome;
  } catch (const Error& e) {  // a loop or a branch whose number is not known: the block ends here
    if (m.must_stop()) throw;
    lost(e.what(), at_ ? at_->loc : 0);
    m.at_ = &program_.stream.steps.back();
    return Outcome::Done;
  }
}

void Checker::leave_region(const Machine& m) {
  pipes_.region_end();
  land(m, true);
}

void Checker::on_step(const Machine& m, const Step& s) {
  at_ = &s;
  if (region_first_ && (&s < region_first_ || &s > region_last_)) {  // a jump went past its end
    region_first_ = nullptr;
    if (!run_.options.manual_sync) leave_region(m);
  }
  switch (s.what) {
    case What::Alloc:
      return alloc(s);
    case What::Free:
      life_[s.index] = 2;
      life_loc_[s.index] = s.loc;
      return;
    case What::NoSync: {
      region_first_ = region_last_ = &s;
      while (region_last_->what != What::Resync) ++region_last_;
      return pipes_.region_begin();
    }
    case What::Resync:
      region_first_ = nullptr;
      if (!run_.options.manual_sync) leave_region(m);
      return;
    default:
      return;
  }
}

void Checker::on_loop(const Machine&, const Step& s, int64_t) {
  const uint32_t here = uint32_t(&s - program_.stream.steps.data());
  const uint32_t begin = s.what == What::Next ? s.target - 1 : here;
  const auto inside = [&](const Round& r) { return here > r.step && here < program_.stream.steps[r.step].target; };
  while (!rounds_.empty() && rounds_.back().step != begin && !inside(rounds_.back())) rounds_.pop_back();
  if (s.loop.threads < 2) return;
  if (s.what == What::Next && !rounds_.empty() && rounds_.back().step == begin) {
    ++rounds_.back().number;
  } else {
    if (!rounds_.empty() && rounds_.back().step == begin) rounds_.pop_back();
    rounds_.push_back({begin, s.loop.threads, 0});
  }
}

void Checker::alloc(const Step& s) {
  const uint32_t buffer = s.index;
  const Buffer& b = program_.buffers[buffer];
  life_[buffer] = 1;
  life_loc_[buffer] = s.loc;
  copy_[buffer] = 0;
  if (b.scope == GM) return;
  const uint32_t here = uint32_t(&s - program_.stream.steps.data());
  while (!rounds_.empty() && here >= program_.stream.steps[rounds_.back().step].target) rounds_.pop_back();
  const int64_t round = rounds_.empty() ? 0 : rounds_.back().number;
  copy_[buffer] = uint8_t(round % int64_t(b.copies.size() + 1));
  Mark* marks = chip_.base(b.scope) + b.address;
  if (round > 0 && !b.copies.empty()) {
    for (int64_t i = 0; i < b.size_bytes; ++i) marks[i] = marks[i] == kNeverWritten ? kNeverWritten : kCarried;
  } else if (b.size_bytes) {  // a memory may have no bytes at all
    std::memset(marks, kNeverWritten, size_t(b.size_bytes));
  }
}

Mark* Checker::marks_of(uint32_t buffer) const {
  const Buffer& b = program_.buffers[buffer];
  if (b.scope == GM) return run_.gm.of(buffer);
  return chip_.base(b.scope) ? chip_.base(b.scope) + b.address : nullptr;  // null: memory of another core
}

int64_t Checker::copy_shift(uint32_t buffer) const {
  const Buffer& b = program_.buffers[buffer];
  const uint8_t copy = buffer < copy_.size() ? copy_[buffer] : 0;
  return copy && copy <= b.copies.size() ? b.copies[copy - 1u] - b.address : 0;
}

Span64 Checker::span_of(uint32_t buffer, int64_t start) const {
  const Buffer& b = program_.buffers[buffer];
  if (b.scope == GM) return {uint32_t(kScopes) + buffer, start, buffer, start};
  return {uint32_t(b.scope), b.address + copy_shift(buffer) + start, buffer, start};
}

std::string Checker::place(uint32_t buffer, int64_t lo, int64_t hi) const {
  return format("bytes [%lld, %lld) of %s (%s)", (long long)lo, (long long)hi, name(buffer),
                kScopeName[program_.buffers[buffer].scope]);
}

void Checker::flush(std::vector<Pipes::Report>& reports) {
  for (Pipes::Report& r : reports) {
    add(r.kind, r.loc, r.other, r.buffer, r.lo, r.hi, [&] {
      if (r.buffer == kNoBuffer) return std::move(r.text);
      return r.text + ", " + place(r.buffer, r.lo, r.hi);
    });
  }
  reports.clear();
}

void Checker::alive(uint32_t buffer, uint32_t loc) {
  if (buffer >= life_.size() || life_[buffer] != 2) return;
  add(Fault::UseAfterScope, loc, life_loc_[buffer], buffer, 0, 0,
      [&] { return format("%s is used after the end of its scope", name(buffer)); });
}

// The part of an access that lies in its tensor.
static void clip(Touched& t, int64_t room) {
  std::vector<Box> kept;
  for (const Box& b : t.boxes) {
    if (b.end() <= room) {
      kept.push_back(b);
      continue;
    }
    each_run(b, [&](int64_t lo, int64_t hi) {
      if (lo < room) kept.push_back({lo, std::min(hi, room) - lo});
    });
  }
  t.boxes = std::move(kept);
}

void Checker::note_order(const Instr& in, int pipe, const OperandUse& o, bool write) {
  if (!write && watches(o.buffer)) log(o.buffer, GmUse::Read, in.loc, o.start, *o.touched);
  if (pipes_.in_region() && pipe != kNoPipe) {
    pipes_.access(pipe, span_of(o.buffer, o.start), *o.touched, write, in.loc, name_of(in), reports_);
  }
}

void Checker::log(uint32_t buffer, GmUse use, uint32_t loc, int64_t start, const Touched& touched) {
  if (run_.options.order) {
    const uint32_t time = pipe_ == kNoPipe ? 0 : pipes_.time(pipe_);
    return run_.options.order->access({block_, std::max(pipe_, 0), time, loc, buffer, use}, start, touched, found_);
  }
  log_.add(buffer, use, loc, start, touched);
  if (log_.full()) run_.cores.take(block_, log_);
}

// Two blocks that write one value to the same bytes at once would both see what was there before: one after the other
// sees the value of the first.
std::unique_lock<std::mutex> Checker::write_in_turn(const Step& s) {
  if (s.what == What::Sync || s.what == What::Barrier || run_.options.order) return {};
  const Instr& in = *s.instr;
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    if (writes(in, int(i)) && run_.cores.watches(in.tensors[i].buffer)) return run_.in_turn();
  }
  return {};
}

// What is written to GM over bytes that hold something: blocks that move back at the end of a tensor, so as to move
// whole blocks, write the same values twice, which is no race.
void Checker::keep_old(const Machine& m) {
  old_.clear();
  for (const OperandUse& o : operands_) {
    if (!o.again) continue;
    const uint8_t* at = m.view(o.buffer).base + o.start;
    each_run(*o.touched, [&](int64_t lo, int64_t hi) { old_.insert(old_.end(), at + lo, at + hi); });
  }
}

void Checker::note_writes(const Machine& m, const Instr& in) {
  size_t next = 0;
  for (const OperandUse& o : operands_) {
    if (!o.writes || o.touched->boxes.empty() || !watches(o.buffer)) continue;
    bool same = o.again;
    const uint8_t* at = m.view(o.buffer).base + o.start;
    if (o.again) {
      each_run(*o.touched, [&](int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i, ++next) same = same && (old_[next] == at[i] || old_[next] == kPoison);
      });
    }
    const GmUse use = m.atomic != kDTypes ? GmUse::Add : same ? GmUse::Rewrite : GmUse::Write;
    log(o.buffer, use, in.loc, o.start, *o.touched);
  }
}

void Checker::sync(Machine& m, const Instr& in) {
  if (in.args.size() == 0) return pipes_.barrier(int(in.attrs[0]));
  const int64_t event = m.raw_arg(in, 0);
  const int pipe = int(in.attrs[0]), trigger = int(in.attrs[1]);
  if (event < 0 || event >= run_.options.events) {
    return add(Fault::EventIdRange, in.loc, kNoLocation, kNoBuffer, 0, 0, [&] {
      return format("%s: event_id is %lld; accepted: 0 to %lld", in.op->name.c_str(), (long long)event,
                    (long long)run_.options.events - 1);
    });
  }
  if (pipe >= kPipes || trigger >= kPipes) return;
  if (in.op->name == "set_flag") {
    pipes_.set_flag(pipe, trigger, event, in.loc, reports_);
  } else {
    pipes_.wait_flag(pipe, trigger, event, in.loc, reports_);
  }
}

// The bytes of every operand: into touched_, or what is kept of a step whose arguments are constants.
const CheckRun::Known* Checker::find_touched(const Use& use, bool in_stream, size_t step) {
  const size_t n = use.in.tensors.size();
  touched_.resize(std::max(touched_.size(), n));
  bool exact = true;
  for (size_t i = 0; i < n; ++i) {
    Touched& t = touched_[i];
    touched_bytes(use, int(i), t);
    if (t.exact) continue;
    exact = false;
    if (!touched_by_data(use, int(i), t)) clip(t, use.room(int(i)));  // the engine looks at its bounds
  }
  if (!in_stream || !exact || !constant_arguments(program_, use.in)) return nullptr;
  auto fresh = std::make_unique<CheckRun::Known>();
  fresh->touched.assign(touched_.begin(), touched_.begin() + long(n));
  return run_.keep(step, std::move(fresh));
}

// Of L0C that a product writes. Successive ones into the same fractals need a barrier where they are fewer than ten.
static constexpr int64_t kLongProduct = 10;
static int64_t product_fractals(const Machine& m, const Instr& in) {
  return ceil_div(m.arg(in, isa::mmad::m), kFractalSide) * ceil_div(m.arg(in, isa::mmad::n), kFractalSide);
}

bool Checker::before(Machine& m, const Step& s) {
  const Instr& in = *s.instr;
  if (s.what == What::Sync) {
    sync(m, in);
    land(m, false);
    flush(reports_);
    return false;  // it has no other effect
  }
  const size_t n = in.tensors.size();
  if (n == 0 || s.what == What::Barrier) return true;
  if (in.op->shape.mask0 >= 0) check_mask(m, in);
  Use use(m, in);
  if (!use.sane()) return true;  // the engine refuses it, or nothing is touched
  const auto& steps = program_.stream.steps;
  const bool in_stream = &s >= steps.data() && &s < steps.data() + steps.size() && steps.size() > 1;
  const size_t number = in_stream ? size_t(&s - steps.data()) : 0;
  const CheckRun::Known* known = in_stream ? run_.known(number) : nullptr;
  if (!known) known = find_touched(use, in_stream, number);
  operands_.resize(n);
  bool fits = true, all = true;
  const int pipe = pipes_.in_region() || run_.options.order ? pipe_of(program_, in) : kNoPipe;
  if (pipe != kNoPipe) {
    pipes_.issue(pipe);
    pipes_.busy_product(in.op->run == run_mmad && product_fractals(m, in) >= kLongProduct);
  }
  pipe_ = pipe;
  for (size_t i = 0; i < n; ++i) {
    OperandUse& o = operands_[i];
    o.buffer = in.tensors[i].buffer;
    o.reads = reads(in, int(i));
    o.writes = writes(in, int(i));
    o.start = 0;
    o.touched = known ? &known->touched[i] : &touched_[i];
    bool past = false;
    fits = bound(m, in, int(i), o, past) && fits;
    if (past) {
      const int64_t room = std::max<int64_t>(m.view(o.buffer).size - o.start, 0);
      Wide lo, hi;
      o.touched->hull(lo, hi);
      add(Fault::GmTail, in.loc, program_.buffers[o.buffer].loc, o.buffer, m.view(o.buffer).size, o.start + int64_t(hi),
          [&] {
            return format(
                "%s: %s %s %lld bytes behind the end of %s, which has %lld, because a move goes by whole blocks",
                name_of(in), in.op->tensors[i].name, o.writes ? "writes" : "reads",
                (long long)(o.start + int64_t(hi) - m.view(o.buffer).size), name(o.buffer),
                (long long)m.view(o.buffer).size);
          });
      if (known) {
        touched_.resize(std::max(touched_.size(), n));
        touched_[i] = known->touched[i];
        o.touched = &touched_[i];
      }
      clip(touched_[i], room);
    }
    if (o.touched->boxes.empty()) {
      o.marks = nullptr;
      continue;
    }
    alive(o.buffer, in.loc);
    fits = check_start(in, int(i), o) && fits;
  }
  if (!fits) {
    for (const OperandUse& o : operands_) {  // so that one fault is one finding
      if (!o.writes || o.start < 0 || o.start >= m.view(o.buffer).size) continue;
      if (Mark* marks = marks_of(o.buffer))
        std::memset(marks + o.start, kHeld, size_t(m.view(o.buffer).size - o.start));
    }
    return false;
  }
  if (in.op->shape.operands > 1) check_overlap(in, use);
  const bool adds = m.atomic != kDTypes;
  for (OperandUse& o : operands_) {
    if (o.touched->boxes.empty()) continue;
    Mark* marks = marks_of(o.buffer);
    o.marks = marks ? marks + o.start : nullptr;
    const bool to_gm = adds && o.writes && program_.buffers[o.buffer].scope == GM;
    if ((o.reads || to_gm) && o.touched->exact) all = all && all_held(o);
    if (o.reads) note_order(in, pipe, o, false);
  }
  for (OperandUse& o : operands_) {
    if (!o.writes || o.touched->boxes.empty()) continue;
    note_order(in, pipe, o, true);
    o.again = watches(o.buffer) && !adds && any_held(o);
  }
  if (!reports_.empty()) flush(reports_);
  if (all) {
    for (const OperandUse& o : operands_) {
      if (o.writes) set_marks(o, kHeld);
    }
  } else {
    Flow(*this, m, in, use, operands_).run();
  }
  return true;
}

void Checker::execute(Machine& m, const Step& s) {
  const Instr& in = *s.instr;
  try {
    operands_.clear();
    const std::unique_lock<std::mutex> turn = write_in_turn(s);
    if (!before(m, s)) return;
    keep_old(m);
    const bool known = !operands_.empty();  // not of an instruction that is refused or touches nothing
    if (run_.options.values && known) weigh(m, in);
    const int pipe = pipes_.in_region() ? pipe_of(program_, in) : kNoPipe;
    if (pipe != kNoPipe) land_same_pipe(m, pipe);
    in.op->run(m, in);
    note_writes(m, in);
    if (pipe >= kFirstTransferPipe && m.atomic == kDTypes && !run_.options.order) hold_back(m, pipe);
    if (run_.options.values && known) after(m, in);
  } catch (const Error& e) {
    if (m.must_stop()) throw;
    lost(e.what(), in.loc);
  }
}

void Checker::step(Machine& m, const Step& s) {
  on_step(m, s);
  execute(m, s);
}

}  // namespace mco
