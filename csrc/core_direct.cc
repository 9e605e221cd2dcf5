// SPDX-License-Identifier: Apache-2.0
// Instructions of a core whose operands are addresses. What depends on the form of an instruction alone - its check,
// the plan of its lanes - is kept by the thread, so that a call costs little beside its work.
#include <algorithm>
#include <cstring>

#include "core.h"
#include "decode.h"
#include "lanes.h"

namespace mco {

namespace {

constexpr size_t kMostOperands = 32;
constexpr size_t kMostKey = 40, kForms = 256;

// Everything that check and plan look at: instruction, dtypes, scopes, attributes, and where there are lanes the
// arguments but for values.
struct Key {
  uint64_t words[kMostKey];
  size_t size = 0;
  uint64_t hash = 0;

  void add(uint64_t word) {
    hash += (word ^ word >> 31) * (0x9E3779B97F4A7C15u + 2 * size);
    words[size++] = word;
  }
};

struct Form {
  Key key;
  What what = What::Instr;
  bool has_plan = false;
  Plan plan;
};

Form& form_at(uint64_t hash) {
  thread_local Form* forms = nullptr;
  thread_local std::unique_ptr<Form[]> owner;
  if (!forms) {
    owner.reset(new Form[kForms]);
    forms = owner.get();
  }
  return forms[(hash ^ hash >> 32) >> 8 & (kForms - 1)];
}

void make_key(const Direct& d, Key& key) {
  const OpInfo& op = *d.op;
  key.add(reinterpret_cast<uint64_t>(d.op) ^ d.floats);
  const size_t operands = op.tensors.size();
  for (size_t first = 0; first < operands; first += 8) {  // 8 bits each
    uint64_t word = 0;
    const size_t n = std::min<size_t>(8, operands - first);
    for (size_t i = 0; i < n; ++i) {
      const DirectOperand& o = d.operands[first + i];
      word = word << 8 | uint64_t(o.dtype) << 4 | uint64_t(o.memory.scope);
    }
    key.add(word);
  }
  for (size_t i = 0; i < op.attrs.size(); ++i) key.add(uint64_t(d.attrs[i]));
  if (!op.shape.operands) return;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].kind != ArgKind::Value) key.add(uint64_t(d.args[i].i));
  }
}

bool same(const Key& a, const Key& b) {
  return a.hash == b.hash && a.size == b.size && std::memcmp(a.words, b.words, a.size * sizeof a.words[0]) == 0;
}

}  // namespace

void Core::add_slots() {
  slots_.resize(kMostOperands);
  for (Operand& o : slots_) {
    if (!directory_) {
      machine_->add_view(View());
      program_.buffers.emplace_back();
      o.buffer = uint32_t(program_.buffers.size() - 1);
    }
    o.offset = program_.exprs.add_constant();
    slot_args_.push_back(program_.exprs.add_constant());
  }
}

void Core::catch_up() {
  while (program_.buffers.size() < directory_->buffers.size()) {
    machine_->add_view(View());
    program_.buffers.push_back(directory_->buffers[program_.buffers.size()]);
  }
  while (program_.locations.size() < directory_->locations.size()) {
    program_.locations.push_back(directory_->locations[program_.locations.size()]);
  }
}

// Operands and arguments into the tables that handlers look into.
void Core::place(const Direct& d) {
  const OpInfo& op = *d.op;
  if (slots_.empty()) add_slots();
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const DirectOperand& given = d.operands[i];
    Operand& o = slots_[i];
    if (directory_) o.buffer = given.memory.number;
    Buffer& b = program_.buffers[o.buffer];
    b.name = Name(given.memory.name);
    b.scope = given.memory.scope;
    b.address = given.memory.address;
    b.size_bytes = given.memory.bytes;
    machine_->set_view(o.buffer, {given.memory.base, given.memory.bytes});
    o.dtype = given.dtype;
    o.size = kSize[given.dtype];
    Value elements;
    elements.i = given.offset / o.size;
    program_.exprs.set_constant(o.offset, I64, elements);
    const bool settled = b.scope != GM && given.offset >= 0 && given.offset < b.size_bytes;
    o.start = settled ? uint32_t(given.offset) : 0;
    o.room = settled ? uint32_t(b.size_bytes - given.offset) : 0;
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    program_.exprs.set_constant(slot_args_[i], d.floats >> i & 1 ? F32 : I64, d.args[i]);
  }
}

void Core::issue(const Direct& d) {
  const OpInfo& op = *d.op;
  if (directory_) {
    catch_up();
  } else {
    program_.locations[0] = {Name(d.file), d.line};
  }
  place(d);
  Instr instr;
  instr.loc = d.loc;
  instr.op = d.op;
  instr.tensors = {slots_.data(), op.tensors.size()};
  instr.args = {slot_args_.data(), op.args.size()};
  instr.attrs = {const_cast<int64_t*>(d.attrs), op.attrs.size()};
  Key key;
  make_key(d, key);
  Form& form = form_at(key.hash);
  if (!same(form.key, key)) {
    form.key.size = 0;
    check_instr(program_, instr, nullptr);
    form.plan = Plan();
    form.has_plan = make_plan(program_, instr, form.plan);
    form.plan.meeting = Plan::kLook;
    form.what = kind_of(op.name);
    form.key = key;
  }
  if (form.has_plan) instr.plan = &form.plan;
  if (!observer_) return machine_->execute(instr);
  Step& step = program_.stream.steps[0];
  step.what = form.what;
  step.instr = &instr;
  observer_->step(*machine_, step);
}

}  // namespace mco
