// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <algorithm>
#include <cstring>

#include "number.h"
#include "run.h"

namespace mco {

namespace {

constexpr int64_t kMaxLogBytes = int64_t(64) << 20;  // of one block; then it waits for its turn

}  // namespace

Machine::Machine(const Program& p, Run& r, Arena& a, const std::vector<View>& gm)
    : program(p), run(r), arena(a), kernels(mco::kernels()), saturate(p.saturate), views_(gm) {
  arena.fit(p);
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.scope != GM) views_[i] = {arena.base(b.scope) + b.address, b.size_bytes};
  }
}

void Machine::run_block(int64_t block, int64_t register_value) {
  block_ = block;
  block_value_ = register_value;
  atomic = kDTypes;
  saturate = program.saturate;
  wrap_int = false;
  registers_.value.assign(program.registers.size(), Value{0});
  registers_.set.assign(program.registers.size(), 0);
  run.set_inputs(registers_);
  body(program.body);
}

void Machine::end_block(int64_t block) { run.order().end(block, log_); }

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

void Machine::refuse_negative(const Instr& in, int index, int64_t given) const {
  const bool huge = program.exprs.dtype(in.args[size_t(index)]) == U64;
  refuse(in, in.op->args[size_t(index)].c_str(), huge ? std::to_string(uint64_t(given)) : std::to_string(given),
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
  if (start + int64_t(hi) > view.size) return nullptr;
  if (settled && !log_.empty() && log_.touches(o.buffer)) return nullptr;
  return view.base + start;
}

uint8_t* Machine::locate(const Operand& o, const char* op, const char* name, uint32_t loc, Wide lo, Wide hi,
                         bool settled) {
  const View& view = views_[o.buffer];
  const int64_t elements = eval(o.offset, loc).i;
  Wide start = elements;
  if (elements < 0 && program.exprs.dtype(o.offset) == U64) start = uint64_t(elements);
  start *= o.size;
  if (lo >= hi) return view.base;
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
  if (uint8_t* at = near(in.tensors[i], in.loc, lo, hi, true)) return at;
  return locate(in.tensors[i], in.op->name.c_str(), in.op->tensors[i].c_str(), in.loc, lo, hi, true);
}

uint8_t* Machine::write_any(const Instr& in, int tensor, Wide lo, Wide hi) {
  const size_t i = size_t(tensor);
  const Operand& o = in.tensors[i];
  const Scope where = program.buffers[o.buffer].scope;
  const bool adds = where == GM && atomic != kDTypes;  // then to_gm decides what waits for its turn
  uint8_t* at = near(o, in.loc, lo, hi, !adds);
  if (!at) at = locate(o, in.op->name.c_str(), in.op->tensors[i].c_str(), in.loc, lo, hi, !adds);
  if (where != GM && lo < hi) note_write(where, at, lo, hi);
  return at;
}

uint8_t* Machine::move_operand(const Instr& in, int tensor, Wide extent, bool written, int64_t& room) {
  const Operand& o = in.tensors[size_t(tensor)];
  const bool adds = written && atomic != kDTypes;
  room = INT64_MAX;
  if (program.buffers[o.buffer].scope != GM)
    return written ? write(in, tensor, 0, extent) : read(in, tensor, 0, extent);
  if (uint8_t* at = near(o, in.loc, 0, extent, !adds)) return at;
  const View& view = views_[o.buffer];
  const int64_t elements = eval(o.offset, in.loc).i;
  const Wide start = Wide(elements) * o.size, end = start + extent;
  if (elements >= 0 && end > view.size &&
      end <= (Wide(view.size) + kBlockBytes - 1) / kBlockBytes * kBlockBytes + kBlockBytes) {
    room = std::max<int64_t>(0, view.size - int64_t(start));
    if (!adds && !log_.empty() && log_.touches(o.buffer)) settle();
    return view.base + (room ? int64_t(start) : 0);
  }
  return locate(o, in.op->name.c_str(), in.op->tensors[size_t(tensor)].c_str(), in.loc, 0, extent, !adds);
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
  if (!run.deterministic()) {
    atomic_add(at, bytes, size, atomic, program.saturate, true);
  } else if (run.order().has_turn(block_)) {
    log_.apply(program.saturate);
    atomic_add(at, bytes, size, atomic, program.saturate, false);
  } else {
    log_.add(o.buffer, at, bytes, size, atomic);
    if (log_.bytes() > kMaxLogBytes) settle();
  }
}

void Machine::settle() {
  run.order().wait_turn(block_);
  log_.apply(program.saturate);
}

void Machine::arrive_at_barrier(const Instr& in) {
  run.order().arrive(block_, log_, program.name, program.location(in.loc));
}

Flow Machine::body(const Body& statements) {
  for (const Statement& s : statements) {
    Flow flow = Flow::Next;
    switch (s.what) {
      case What::Instr:
        s.instr->op->run(*this, *s.instr);
        break;
      case What::For:
        flow = loop(s);
        break;
      case What::If: {
        const Value v = eval(s.a, s.loc);
        const bool taken = is_float(program.exprs.dtype(s.a)) ? v.f != 0 : v.i != 0;
        flow = body(taken ? s.body : s.orelse);
        break;
      }
      case What::Assign:
        assign(s);
        break;
      case What::Load:
        load(s);
        break;
      case What::Store:
        store(s);
        break;
      case What::Alloc:
        break;
      case What::Jump:
        return s.jump;
    }
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Flow Machine::loop(const Statement& s) {
  int64_t begin = eval(s.a, s.loc).i, end = eval(s.b, s.loc).i;
  if (s.block) {
    begin = block_value_;
    end = begin + 1;
  }
  const DType t = program.registers[s.index].dtype;
  for (int64_t i = begin; i < end; ++i) {
    Value v;
    v.i = i;
    registers_.value[s.index] = convert_value(v, I64, t);
    registers_.set[s.index] = 1;
    const Flow flow = body(s.body);
    if (flow == Flow::Break) break;
    if (flow == Flow::Return) return flow;
  }
  return Flow::Next;
}

void Machine::assign(const Statement& s) {
  registers_.value[s.index] =
      convert_value(eval(s.a, s.loc), program.exprs.dtype(s.a), program.registers[s.index].dtype);
  registers_.set[s.index] = 1;
}

void Machine::load(const Statement& s) {
  const DType t = program.registers[s.index].dtype;
  const uint8_t* at = locate(s.ref, "load", "src", s.loc, 0, kSize[t], true);
  registers_.value[s.index] = value_from_bits(at, t);
  registers_.set[s.index] = 1;
}

void Machine::store(const Statement& s) {
  const Value v = convert_value(eval(s.a, s.loc), program.exprs.dtype(s.a), s.ref.dtype);
  uint8_t* at = locate(s.ref, "store", "dst", s.loc, 0, s.ref.size, true);
  uint8_t raw[8];
  const int size = value_to_bits(v, s.ref.dtype, raw);
  const Scope where = program.buffers[s.ref.buffer].scope;
  if (where != GM) arena.note_write(where, at - arena.base(where), at - arena.base(where) + size);
  std::memcpy(at, raw, size_t(size));
}

}  // namespace mco
