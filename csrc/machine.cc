// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <algorithm>
#include <cstring>

#include "number.h"
#include "walk.h"

namespace mco {

namespace {

constexpr int64_t kMaxLogBytes = int64_t(64) << 20;  // of one block; then it waits for its turn

}  // namespace

Machine::Machine(const Program& p, const Shared& shared, const std::vector<View>& gm, Observer* observer,
                 std::unique_ptr<Arena> memory)
    : program(p),
      arena(*memory),
      kernels(mco::kernels()),
      saturate(p.saturate),
      shared_(shared),
      arena_(std::move(memory)),
      observer_(observer),
      reports_(observer && observer->wants_access()),
      loops_(p.stream.loops),
      log_(take_log()) {
  arena.fit(p);
  for (int side = 0; side < 2 && shared.straight; ++side) {
    noted_[side].resize(size_t(p.arena_bytes[side ? L0B : L0A] / kFractalBytes + 1));
  }
  views_ = gm;
  for (const Local& local : p.locals) {
    views_[local.buffer] = {arena.base(local.scope) + local.address, local.bytes};
  }
  if (!reports_) return;
  sizes_.reserve(views_.size());
  for (View& v : views_) {
    sizes_.push_back(v.size);
    v.size = -1;
  }
}

void Machine::add_view(View v) {
  if (reports_) {
    sizes_.push_back(v.size);
    v.size = -1;
  }
  views_.push_back(v);
}

Machine::~Machine() {
  give_log(std::move(log_));
  give_arena(std::move(arena_));
}

void Machine::start(int64_t block, int64_t register_value, const Registers& inputs) {
  block_ = block;
  block_value_ = register_value;
  atomic = kDTypes;
  atomic_op = AtomicOp::Add;
  saturate = program.saturate;
  wrap_int = false;
  registers_ = inputs;
  waiting_.clear();
  rows_.clear();
  has_turn_ = came = false;
  at_ = program.stream.steps.data();
  if (observer_) observer_->on_start(*this);
}

Outcome Machine::resume() {
  if (observer_) return observer_->walk(*this);
  Unobserved nobody;
  try {
    return walk(*this, nobody);
  } catch (...) {
    catch_up();  // what stands before the failure, with its own
    throw;
  }
}

void Machine::execute(const Instr& in) { in.op->run(*this, reports_ ? unsettled(in) : in); }

void Machine::end(int64_t block) {
  if (observer_) observer_->on_end(*this);
  shared_.order.end(block, log_);
}

void Machine::arrive(int64_t block) {
  has_turn_ = false;
  shared_.order.arrive(block, log_, at_[-1].loc);
}

void Machine::look(uint32_t loc) {
  switch (pulse_.look(shared_.watch)) {
    case Watch::Stop::None:
      return;
    case Watch::Stop::TimeLimit:
      fail(
          "%s: still runs after the time limit of %g s; accepted: a kernel that ends before it, or a higher limit [%s]",
          program.name.c_str(), shared_.watch.seconds(), program.location(loc).c_str());
    default:
      fail("%s: interrupted [%s]", program.name.c_str(), program.location(loc).c_str());
  }
}

Value Machine::eval_registers(uint32_t root, uint32_t loc) const {
  try {
    return program.exprs.eval(root, registers_);
  } catch (const EvalError& e) {
    fail_scalar(program, e, loc);
  }
}

void fail_scalar(const Program& p, const EvalError& e, uint32_t loc) {
  if (e.reg == kNone) fail("scalar: %s [%s]", e.what(), p.location(loc).c_str());
  fail("scalar %s is read before it was set [%s]", p.registers[e.reg].name.c_str(), p.location(loc).c_str());
}

int64_t Machine::running_arg(const Instr& in, int index) const {
  const int64_t v = eval_registers(in.args[size_t(index)], in.loc).i;
  if (v < 0) refuse_negative(in, index, v);
  const ArgRow& row = in.op->args[size_t(index)];
  if (v >= row.run_low && v <= row.run_high) return v;
  refuse(in, row.name, std::to_string(v), format("%lld to %lld", (long long)row.run_low, (long long)row.run_high));
}

void Machine::refuse_negative(const Instr& in, int index, int64_t given) const {
  const bool huge = program.exprs.dtype(in.args[size_t(index)]) == U64;
  refuse(in, in.op->args[size_t(index)].name, huge ? std::to_string(uint64_t(given)) : std::to_string(given),
         huge ? "less than 2**63" : "0 or more");
}

Value Machine::value_arg(const Instr& in, int index, DType to) const {
  const uint32_t root = in.args[size_t(index)];
  return convert_value(eval(root, in.loc), program.exprs.dtype(root), to);
}

// Bytes [lo, hi) of an operand whose numbers are small, as they are in any program that does not fail; else null.
inline uint8_t* Machine::near(const Operand& o, uint32_t loc, Wide lo, Wide hi, bool settled) {
  constexpr int64_t kNear = int64_t(1) << 48;
  const View& view = views_[o.buffer];
  const int64_t elements = eval(o.offset, loc).i;
  if (elements < 0 || elements >= kNear || lo < 0 || lo >= hi || hi >= kNear) return nullptr;
  const int64_t start = elements * o.size;
  if (start + int64_t(hi) > view.size || (start & o.off_grid)) return nullptr;
  if (settled && !log_.empty() && log_.touches(o.buffer)) return nullptr;
  return view.base + start;
}

uint8_t* Machine::locate(const Operand& o, const char* op, const char* name, uint32_t loc, Wide lo, Wide hi,
                         bool settled) {
  const View view = this->view(o.buffer);
  const int64_t elements = eval(o.offset, loc).i;
  Wide start = elements;
  if (elements < 0 && program.exprs.dtype(o.offset) == U64) start = uint64_t(elements);
  start *= o.size;
  if (lo >= hi) return view.base;
  if (start & o.off_grid) {
    fail("%s: the start of %s is byte %lld of %s; accepted: multiples of %d bytes [%s]", op, name,
         (long long)std::max<Wide>(std::min<Wide>(start, INT64_MAX), INT64_MIN), program.buffers[o.buffer].name.c_str(),
         int(o.off_grid) + 1, program.location(loc).c_str());
  }
  if (start + lo < 0 || start + hi > view.size) {
    auto clamped = [](Wide w) {
      return (long long)(w > INT64_MAX ? Wide(INT64_MAX) : w < INT64_MIN ? Wide(INT64_MIN) : w);
    };
    fail("%s: %s needs bytes [%lld, %lld) of %s, it has %lld [%s]", op, name, clamped(start + lo), clamped(start + hi),
         program.buffers[o.buffer].name.c_str(), (long long)view.size, program.location(loc).c_str());
  }
  // Adds of this block to that tensor that wait for their turn come first.
  if (settled && !log_.empty() && log_.touches(o.buffer)) settle();
  return view.base + int64_t(start);
}

uint8_t* Machine::read_any(const Instr& in, int tensor, Wide lo, Wide hi) {
  const size_t i = size_t(tensor);
  const Operand& o = in.tensors[i];
  if (uint8_t* at = near(o, in.loc, lo, hi, true)) return at;
  uint8_t* at = locate(o, in.op->name.c_str(), in.op->tensors[i].name, in.loc, lo, hi, true);
  if (reports_) report(&in, tensor, o, at, lo, hi, false, in.loc);
  return at;
}

uint8_t* Machine::write_any(const Instr& in, int tensor, Wide lo, Wide hi) {
  const size_t i = size_t(tensor);
  const Operand& o = in.tensors[i];
  const bool adds =
      atomic != kDTypes && program.buffers[o.buffer].scope == GM;  // to_gm decides what waits for its turn
  if (uint8_t* at = near(o, in.loc, lo, hi, !adds)) return at;
  uint8_t* at = locate(o, in.op->name.c_str(), in.op->tensors[i].name, in.loc, lo, hi, !adds);
  if (reports_) report(&in, tensor, o, at, lo, hi, true, in.loc);
  return at;
}

uint8_t* Machine::move_operand(const Instr& in, int tensor, Wide extent, bool written, int64_t& room) {
  const Operand& o = in.tensors[size_t(tensor)];
  const bool adds = written && atomic != kDTypes;
  room = INT64_MAX;
  if (program.buffers[o.buffer].scope != GM)
    return written ? write(in, tensor, 0, extent) : read(in, tensor, 0, extent);
  if (uint8_t* at = near(o, in.loc, 0, extent, !adds)) return at;
  const View view = this->view(o.buffer);
  const int64_t elements = eval(o.offset, in.loc).i;
  const Wide start = Wide(elements) * o.size, end = start + extent;
  if (elements >= 0 && end > view.size &&
      end <= (Wide(view.size) + kBlockBytes - 1) / kBlockBytes * kBlockBytes + kBlockBytes) {
    room = std::max<int64_t>(0, view.size - int64_t(start));
    if (!adds && !log_.empty() && log_.touches(o.buffer)) settle();
    uint8_t* at = view.base + (room ? int64_t(start) : 0);
    if (reports_) report(&in, tensor, o, at, 0, room, written, in.loc);
    return at;
  }
  uint8_t* at = locate(o, in.op->name.c_str(), in.op->tensors[size_t(tensor)].name, in.loc, 0, extent, !adds);
  if (reports_) report(&in, tensor, o, at, 0, extent, written, in.loc);
  return at;
}

void Machine::report(const Instr* in, int tensor, const Operand& o, const uint8_t* at, Wide lo, Wide hi, bool write,
                     uint32_t loc) {
  if (lo >= hi) return;
  const int64_t start = at - views_[o.buffer].base;
  const Access access{in, tensor, o.buffer, start + int64_t(lo), start + int64_t(hi), at + int64_t(lo), write, loc};
  observer_->on_access(*this, access);
}

// The instruction without the places that loading has settled, whose accesses pass no check while running.
const Instr& Machine::unsettled(const Instr& in) {
  unsettled_.assign(in.tensors.begin(), in.tensors.end());
  for (Operand& o : unsettled_) o.room = 0;
  copy_ = in;
  copy_.tensors = {unsettled_.data(), unsettled_.size()};
  return copy_;
}

void Machine::to_gm(const Instr& in, int tensor, uint8_t* at, const uint8_t* bytes, int64_t size) {
  if (atomic == kDTypes) {
    std::memmove(at, bytes, size_t(size));
    return;
  }
  const Operand& o = in.tensors[size_t(tensor)];
  if (o.dtype != atomic) {
    refuse(in, "dtype of dst", kDTypeName[o.dtype], std::string(kDTypeName[atomic]) + " of set_atomic_add");
  }
  if (size % o.size) {
    refuse(in, "burst", format("%lld bytes", (long long)size), format("whole elements of %d bytes", o.size));
  }
  if (!shared_.deterministic) {
    if (reinterpret_cast<uintptr_t>(at) % size_t(o.size)) {
      fail("an atomic add at an address that is no multiple of the element size needs deterministic=1");
    }
    atomic_add(at, bytes, size, atomic, program.saturate, !shared_.alone, atomic_op);
  } else if (has_turn_ || (has_turn_ = shared_.order.has_turn(block_))) {
    log_.apply(program.saturate);
    atomic_add(at, bytes, size, atomic, program.saturate, false);
  } else {
    log_.add(o.buffer, at, bytes, size, atomic);
    if (log_.bytes() > kMaxLogBytes) settle();
  }
}

void Machine::settle() {
  shared_.order.wait_turn(block_, shared_.watch);
  log_.apply(program.saturate);
}

void Machine::begin_round(const Step& s, int64_t i) {
  Value v;
  v.i = i;
  registers_.value[s.index] = convert_value(v, I64, s.to);
  registers_.set[s.index] = 1;
}

bool Machine::is_true(const Step& s) const {
  const Value v = eval(s.a, s.loc);
  return is_float(s.from) ? v.f != 0 : v.i != 0;
}

void Machine::assign(const Step& s) {
  registers_.value[s.index] = convert_value(eval(s.a, s.loc), s.from, s.to);
  registers_.set[s.index] = 1;
}

void Machine::load(const Step& s) {
  const uint8_t* at = locate(*s.place, "load", "src", s.loc, 0, kSize[s.to], true);
  if (reports_) report(nullptr, 0, *s.place, at, 0, kSize[s.to], false, s.loc);
  registers_.value[s.index] = value_from_bits(at, s.to);
  registers_.set[s.index] = 1;
}

void Machine::store(const Step& s) {
  const Operand& o = *s.place;
  const Value v = convert_value(eval(s.a, s.loc), s.from, o.dtype);
  uint8_t* at = locate(o, "store", "dst", s.loc, 0, o.size, true);
  if (reports_) report(nullptr, 0, o, at, 0, o.size, true, s.loc);
  uint8_t raw[8];
  const int size = value_to_bits(v, o.dtype, raw);
  std::memcpy(at, raw, size_t(size));
}

void Machine::store_joined(const Step& step) {
  const Stream& stream = program.stream;
  for (uint32_t i = step.index; i < step.index + step.target; ++i) {
    const Stored& s = stream.stored[i];
    std::memcpy(arena.base(s.scope) + s.at, stream.stored_bytes.data() + s.from, s.bytes);
  }
}

}  // namespace mco
