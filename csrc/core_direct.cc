// SPDX-License-Identifier: Apache-2.0
// Instructions of a core whose operands are addresses. What depends on the form of an instruction alone - its check,
// the plan of its lanes - is kept by the thread, so that a call costs little beside its work.
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
    words[size++] = word;
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
};

struct Form {
  Key key;
  What what = What::Instr;
  bool has_plan = false;
  Plan plan;
};

Form& form_at(uint64_t hash) {
  thread_local std::unique_ptr<Form[]> forms{new Form[kForms]};
  return forms[hash >> 32 & (kForms - 1)];
}

Key key_of(const Direct& d) {
  const OpInfo& op = *d.op;
  Key key;
  uint64_t dtypes[2] = {}, scopes[2] = {};
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    dtypes[i / 16] |= uint64_t(d.operands[i].dtype) << (4 * (i % 16));
    scopes[i / 16] |= uint64_t(d.operands[i].memory.scope) << (4 * (i % 16));
  }
  key.add(reinterpret_cast<uint64_t>(d.op) ^ d.floats);
  for (size_t i = 0; i <= op.tensors.size() / 17; ++i) {
    key.add(dtypes[i]);
    key.add(scopes[i]);
  }
  for (size_t i = 0; i < op.attrs.size(); ++i) key.add(uint64_t(d.attrs[i]));
  for (size_t i = 0; op.shape.operands && i < op.args.size(); ++i) {
    if (op.args[i].kind != ArgKind::Value) key.add(uint64_t(d.args[i].i));
  }
  return key;
}

bool same(const Key& a, const Key& b) {
  return a.hash == b.hash && a.size == b.size && std::memcmp(a.words, b.words, a.size * sizeof a.words[0]) == 0;
}

}  // namespace

// Operands and arguments into the tables that handlers look into.
void Core::place(const Direct& d) {
  const OpInfo& op = *d.op;
  if (first_slot_ == kNone) {
    first_slot_ = uint32_t(program_.buffers.size());
    slots_.resize(kMostOperands);
    for (Operand& o : slots_) {
      machine_->add_view(View());
      program_.buffers.emplace_back();
      o.buffer = uint32_t(program_.buffers.size() - 1);
      o.offset = program_.exprs.add_constant();
      slot_args_.push_back(program_.exprs.add_constant());
    }
  }
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const DirectOperand& given = d.operands[i];
    Operand& o = slots_[i];
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
  program_.locations[0] = {Name(d.file), d.line};
  place(d);
  Instr instr;
  instr.op = d.op;
  instr.tensors = {slots_.data(), op.tensors.size()};
  instr.args = {slot_args_.data(), op.args.size()};
  instr.attrs = {const_cast<int64_t*>(d.attrs), op.attrs.size()};
  const Key key = key_of(d);
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
