// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <algorithm>
#include <cstring>

#include "decode.h"
#include "fpenv.h"
#include "number.h"

namespace mco {

namespace {

Value normal(Value v, DType t) {
  if (is_float(t)) {
    v.f = round_to_dtype(v.f, t);
  } else {
    v.i = wrap_int(v.i, t);
  }
  return v;
}

}  // namespace

Core::Core(const int64_t (&scope_bytes)[kScopes], bool saturate, Observer* observer, bool concurrent, bool alone)
    : observer_(observer) {
  start(scope_bytes, saturate, concurrent, alone);
}

Core::Core(const int64_t (&scope_bytes)[kScopes], bool saturate, const MakeObserver& make, bool split)
    : observer_([&] {
        program_.split_cores = split;
        for (int s = UB; s < kScopes; ++s) program_.arena_bytes[s] = scope_bytes[s];
        own_ = make(program_);
        return own_.get();
      }()) {
  start(scope_bytes, saturate, true, true);
}

void Core::start(const int64_t (&scope_bytes)[kScopes], bool saturate, bool concurrent, bool alone) {
  program_.name = Name(names_.emplace_back("core"));
  program_.saturate = saturate;
  for (int s = UB; s < kScopes; ++s) {
    check_scope_bytes(Scope(s), scope_bytes[s]);
    program_.scope_bytes[s] = program_.arena_bytes[s] = scope_bytes[s];
  }
  program_.locations.resize(1);
  program_.stream.steps.resize(1);
  machine_ =
      std::make_unique<Machine>(program_, Shared{order_, watch_, !concurrent, alone}, std::vector<View>(), observer_);
  reset();
}

void Core::reset(int64_t number, const int64_t* touched) {
  machine_->start(number, number, registers_);
  for (int s = UB; s < kScopes; ++s) {
    const int64_t bytes = touched ? std::min(touched[s], program_.scope_bytes[s]) : program_.scope_bytes[s];
    std::memset(machine_->arena.base(Scope(s)), kPoison, size_t(bytes));
  }
}

uint32_t Core::add(const std::string& name, Buffer b, View view) {
  b.name = Name(names_.emplace_back(name));
  if (b.scope != GM) {
    place_buffer(program_, b);
    view = {machine_->arena.base(b.scope) + b.address, b.size_bytes};
  }
  machine_->add_view(view);
  program_.buffers.push_back(b);
  return uint32_t(program_.buffers.size() - 1);
}

uint32_t Core::add_tensor(const std::string& name, DType dtype, void* data, int64_t bytes) {
  if (bytes < 0 || (bytes && !data)) fail("core: tensor %s has %lld bytes", name.c_str(), (long long)bytes);
  Buffer b;
  b.dtype = dtype;
  b.size_bytes = bytes;
  return add(name, b, {static_cast<uint8_t*>(data), bytes});
}

uint32_t Core::add_buffer(const std::string& name, Scope scope, DType dtype, int64_t address, int64_t bytes) {
  if (scope == GM) fail("core: buffer %s lies in gm; accepted: a scope on the chip", name.c_str());
  Buffer b;
  b.scope = scope;
  b.dtype = dtype;
  b.address = address;
  b.size_bytes = bytes;
  return add(name, b, View());
}

View Core::memory(uint32_t buffer) const {
  if (buffer >= program_.buffers.size()) fail("core: buffer number %u; it has %zu", buffer, program_.buffers.size());
  return machine_->view(buffer);
}

uint32_t Core::add_register(const std::string& name, DType dtype) {
  Register r;
  r.name = Name(names_.emplace_back(name));
  r.dtype = dtype;
  program_.registers.push_back(r);
  registers_.value.push_back(Value{0});
  registers_.set.push_back(0);
  return uint32_t(program_.registers.size() - 1);
}

void Core::set_register(uint32_t reg, int64_t i, double f) {
  if (reg >= program_.registers.size()) fail("core: register number %u; it has %zu", reg, program_.registers.size());
  const DType t = program_.registers[reg].dtype;
  Value v;
  if (is_float(t)) {
    v.f = f;
  } else {
    v.i = i;
  }
  registers_.value[reg] = normal(v, t);
  registers_.set[reg] = 1;
}

// Arguments and offsets are roots of the expression table, which the handlers evaluate: constants that change.
uint32_t Core::constant(size_t slot, DType dtype, Value value) {
  while (constants_.size() <= slot) constants_.push_back(program_.exprs.add_constant());
  program_.exprs.set_constant(constants_[slot], dtype, normal(value, dtype));
  return constants_[slot];
}

Value Core::value_of(const Argument& a) const {
  if (a.reg == kNone) return a.value;
  if (a.reg >= registers_.set.size()) fail("core: register number %u; it has %zu", a.reg, registers_.set.size());
  if (!registers_.set[a.reg]) fail_scalar(program_, EvalError("", a.reg), 0);
  return registers_.value[a.reg];
}

Instr Core::make(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
                 const std::vector<int64_t>& attributes) {
  Instr instr;
  instr.op = find_op(row);
  check_counts(program_, row, instr.op, operands.size(), arguments.size(), attributes.size(), 0);
  size_t slot = 0;
  operands_.clear();
  for (const Place& place : operands) {
    Operand o;
    if (place.buffer >= program_.buffers.size()) {
      fail("core: buffer number %u; it has %zu", place.buffer, program_.buffers.size());
    }
    o.buffer = place.buffer;
    o.dtype = place.dtype;
    o.size = kSize[place.dtype];
    Value offset;
    offset.i = place.offset;
    o.offset = constant(slot++, I64, offset);
    operands_.push_back(o);
  }
  arguments_.clear();
  for (const Argument& a : arguments) {
    const DType t = a.reg == kNone || a.reg >= program_.registers.size() ? a.dtype : program_.registers[a.reg].dtype;
    const Value value = value_of(a);
    arguments_.push_back(constant(slot++, t, value));
  }
  attributes_ = attributes;
  instr.tensors = {operands_.data(), operands_.size()};
  instr.args = {arguments_.data(), arguments_.size()};
  instr.attrs = {attributes_.data(), attributes_.size()};
  check_instr(program_, instr, nullptr);
  return instr;
}

Touched Core::access(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
                     const std::vector<int64_t>& attributes, int operand) {
  const Instr instr = make(row, operands, arguments, attributes);
  if (operand < 0 || size_t(operand) >= operands.size()) fail("core: %s has no operand %d", row.c_str(), operand);
  const Use use(*machine_, instr);
  Touched touched;
  if (use.sane()) touched_bytes(use, operand, touched);
  return touched;
}

void Core::issue(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
                 const std::vector<int64_t>& attributes, const std::string& file, uint32_t line) {
  const FloatingPointDefaults defaults;
  file_ = file;
  program_.locations[0] = {Name(file_), line};
  const Instr instr = make(row, operands, arguments, attributes);
  Step& step = program_.stream.steps[0];
  step.what = kind_of(row);
  step.instr = &instr;
  observer_ ? observer_->step(*machine_, step) : machine_->execute(instr);
}

}  // namespace mco
