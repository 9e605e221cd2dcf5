// SPDX-License-Identifier: Apache-2.0
// Instructions of a core whose operands are addresses. What depends on the form of an instruction alone - its check,
// the plan of its lanes, the tables that its handler looks into - is kept, so that a call costs little beside its work.
#include <algorithm>
#include <cstring>

#include "core.h"
#include "decode.h"
#include "lanes.h"
#include "prefetch.h"

namespace mco {

namespace {

constexpr size_t kMostOperands = 32;
constexpr size_t kMostKey = 40, kForms = 256;
constexpr uint8_t kSizeShift[kDTypes] = {1, 1, 2, 0, 0, 1, 1, 2, 2, 3, 3, 0};  // log2 of the size of a dtype

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
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (!is_loose(op, i)) key.add(uint64_t(d.args[i].i));
  }
}

bool same(const Key& a, const Key& b) {
  return a.hash == b.hash && a.size == b.size && std::memcmp(a.words, b.words, a.size * sizeof a.words[0]) == 0;
}

}  // namespace

// What every call needs comes first and lies together: between two calls the tiles of a kernel pass through the caches.
struct DirectForm : FormHead {
  Instr instr;  // of the tables below
  Operand operands[kMostOperands];
  uint32_t args[kMostOperands];  // roots; the first `roots` of them are made
  size_t roots = 0;
  Plan plan;
  What what = What::Instr;
  std::vector<int64_t> attrs;
  Key key;
};

void Core::foresee(const KnownForm& known) const {
  if (!known.form) return;
  const DirectForm& form = *known.form;
  prefetch_lines(&form, 2);
  prefetch_lines(form.args, 1);
  prefetch_lines(form.operands, 2);
  prefetch_lines(&form.plan, 4);
  constexpr size_t kUsual = 3;  // operands, whose buffers lie side by side
  prefetch_lines(&program_.buffers[slot_buffers_[0]], kUsual * sizeof(Buffer) / kCacheLine);
}

void Core::DropForm::operator()(DirectForm* form) const { delete form; }

void Core::add_slots() {
  forms_.resize(kForms);
  for (size_t i = 0; i < kMostOperands; ++i) {
    if (!directory_) {
      machine_->add_view(View());
      program_.buffers.emplace_back();
      slot_buffers_.push_back(uint32_t(program_.buffers.size() - 1));
    }
    slot_offsets_.push_back(program_.exprs.add_constant());
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

// Operands and loose arguments into the tables of the form.
void Core::place(DirectForm& form, const Direct& d) {
  Operand* o = form.operands;
  for (size_t i = 0, n = form.instr.tensors.size(); i < n; ++i, ++o) {
    const DirectOperand& given = d.operands[i];
    if (directory_) o->buffer = given.memory.number;
    Buffer& b = program_.buffers[o->buffer];
    b.name = given.memory.name;
    b.scope = given.memory.scope;
    b.address = given.memory.address;
    b.size_bytes = given.memory.bytes;
    machine_->set_view(o->buffer, {given.memory.base, given.memory.bytes});
    Value elements;
    elements.i = given.offset >> kSizeShift[given.dtype];
    program_.exprs.set_constant(o->offset, I64, elements);
    const bool settled = b.scope != GM && given.offset >= 0 && given.offset < b.size_bytes;
    o->start = settled ? uint32_t(given.offset) : 0;
    o->room = settled ? uint32_t(b.size_bytes - given.offset) : 0;
  }
  for (uint32_t left = form.loose; left; left &= left - 1) {
    const int i = __builtin_ctz(left);
    program_.exprs.set_constant(form.args[i], d.floats >> i & 1 ? F32 : I64, d.args[i]);
  }
}

void Core::make_form(DirectForm& form, const Direct& d) {
  const OpInfo& op = *d.op;
  if (op.tensors.size() > kMostOperands || op.args.size() > kMostOperands) {
    fail("%s: has %zu operands and %zu arguments; accepted: %zu of each", op.name.c_str(), op.tensors.size(),
         op.args.size(), kMostOperands);
  }
  form.key.size = 0;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    Operand& o = form.operands[i];
    o = Operand();
    if (!directory_) o.buffer = slot_buffers_[i];
    o.offset = slot_offsets_[i];
    o.dtype = d.operands[i].dtype;
    o.size = kSize[o.dtype];
  }
  while (form.roots < op.args.size()) form.args[form.roots++] = program_.exprs.add_constant();
  form.loose = 0;
  for (size_t i = 0; i < op.args.size(); ++i) {
    form.loose |= uint32_t(is_loose(op, i)) << i;
    program_.exprs.set_constant(form.args[i], d.floats >> i & 1 ? F32 : I64, d.args[i]);
  }
  form.attrs.assign(d.attrs, d.attrs + op.attrs.size());
  form.instr.op = d.op;
  form.instr.plan = nullptr;
  form.instr.tensors = {form.operands, op.tensors.size()};
  form.instr.args = {form.args, op.args.size()};
  form.instr.attrs = {form.attrs.data(), form.attrs.size()};
  form.instr.loc = d.loc;
  place(form, d);
  check_instr(program_, form.instr, nullptr);
  form.plan = Plan();
  if (make_plan(program_, form.instr, form.plan)) form.instr.plan = &form.plan;
  form.plan.meeting = Plan::kLook;
  form.plan.has_scalar = false;  // each call brings its own
  form.what = kind_of(op.name);
}

// The form of an instruction, made where it is new. It has two places in the table; of the forms that share the second
// one the last stays.
DirectForm& Core::form_of(const Direct& d, KnownForm& known) {
  if (forms_.empty()) add_slots();
  Key key;
  make_key(d, key);
  size_t at = (key.hash ^ key.hash >> 32) >> 8 & (kForms - 1);
  if (forms_[at] && !same(forms_[at]->key, key)) at = (key.hash ^ key.hash >> 32) >> 20 & (kForms - 1);
  auto& form = forms_[at];
  if (!form) form.reset(new DirectForm);
  if (!same(form->key, key)) {
    ++form->serial;
    make_form(*form, d);
    form->key = key;
  } else {
    place(*form, d);
  }
  known = {form.get(), form.get(), form->serial};
  return *form;
}

void Core::issue(const Direct& d, KnownForm& known) {
  if (directory_) {
    catch_up();
  } else {
    program_.locations[0] = {Name(d.file), d.line};
  }
  DirectForm& form = form_of(d, known);
  form.instr.loc = d.loc;
  if (!observer_) return machine_->execute(form.instr);
  Step& step = program_.stream.steps[0];
  step.what = form.what;
  step.instr = &form.instr;
  observer_->step(*machine_, step);
}

void Core::issue_again(const Direct& d, const KnownForm& known) {
  program_.locations[0] = {Name(d.file), d.line};
  DirectForm& form = *known.form;
  place(form, d);
  machine_->execute(form.instr);
}

}  // namespace mco
