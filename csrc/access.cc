// SPDX-License-Identifier: Apache-2.0
#include "access.h"

#include <cstring>

#include "machine.h"
#include "picks.h"

namespace mco {

namespace {

// No product of a count, a distance and a size of these leaves 63 bits; memory ends long before.
constexpr int64_t kMostThings = int64_t(1) << 24, kMostBytes = int64_t(1) << 34;

bool is_sane(ArgKind kind, int64_t v) {
  switch (kind) {
    case ArgKind::Word:
    case ArgKind::Value:
      return true;
    case ArgKind::Mask:
      return v >= 0 && v <= UINT32_MAX;
    case ArgKind::Bytes:
    case ArgKind::Elements:
      return v >= 0 && v <= kMostBytes;
    default:
      return v >= 0 && v <= kMostThings;
  }
}

}  // namespace

void Touched::add(int64_t start, int64_t bytes, int64_t count, int64_t step, int64_t outer_count, int64_t outer_step) {
  if (bytes <= 0 || count <= 0 || outer_count <= 0) return;
  if (step == 0) count = 1;  // the same bytes again
  if (outer_step == 0) outer_count = 1;
  if (count == 1 && outer_count > 1) {
    count = outer_count;
    step = outer_step;
    outer_count = 1;
    outer_step = 0;
  }
  if (count > 1 && step == bytes) {  // runs that follow each other are one
    bytes *= count;
    count = outer_count;
    step = outer_step;
    outer_count = 1;
    outer_step = 0;
    if (count > 1 && step == bytes) {
      bytes *= count;
      count = 1;
      step = 0;
    }
  }
  boxes.push_back({start, bytes, count, step, outer_count, outer_step});
}

void Touched::scatter(std::vector<int64_t>& starts, int64_t bytes) {
  std::sort(starts.begin(), starts.end());
  int64_t first = 0, end = 0;
  bool open = false;
  for (const int64_t at : starts) {
    if (open && at <= end) {
      end = std::max(end, at + bytes);
      continue;
    }
    if (open) add(first, end - first);
    open = true;
    first = at;
    end = at + bytes;
  }
  if (open) add(first, end - first);
}

void Touched::hull(Wide& lo, Wide& hi) const {
  lo = hi = 0;
  bool any = false;
  for (const Box& b : boxes) {
    lo = any ? std::min<Wide>(lo, b.start) : b.start;
    hi = any ? std::max(hi, b.end()) : b.end();
    any = true;
  }
}

Use::Use(const Machine& m, const Instr& instr) : machine(m), in(instr) {
  values_.reserve(in.args.size());
  const int kind_at = in.op->shape.mask_kind >= 0 ? in.op->shape.mask_kind : find_attr("mask_kind");
  const bool bits = kind_at >= 0 && in.attrs[size_t(kind_at)] == kMaskBits;
  for (size_t i = 0; i < in.args.size(); ++i) {
    const ArgKind kind = in.op->args[i].kind;
    int64_t v = 0;
    if (kind != ArgKind::Value) {
      const bool plain = kind == ArgKind::Mask || kind == ArgKind::Word;
      v = plain ? m.raw_arg(in, int(i)) : m.arg(in, int(i));
      sane_ = sane_ && ((kind == ArgKind::Mask && bits) || is_sane(kind, v));
    }
    values_.push_back(v);
  }
  for (const int64_t v : in.attrs) sane_ = sane_ && v <= kMostThings;
}

int Use::find(const char* name) const {
  for (size_t i = 0; i < in.op->args.size(); ++i) {
    if (!std::strcmp(in.op->args[i].name, name)) return int(i);
  }
  return -1;
}

int Use::find_attr(const char* name) const {
  for (size_t i = 0; i < in.op->attrs.size(); ++i) {
    if (!std::strcmp(in.op->attrs[i].name, name)) return int(i);
  }
  return -1;
}

int Use::index(const char* name) const {
  const int i = find(name);
  if (i < 0) fail("%s: access asks for an argument %s", in.op->name.c_str(), name);
  return i;
}

int64_t Use::attr(const char* name) const {
  const int i = find_attr(name);
  if (i < 0) fail("%s: access asks for an attribute %s", in.op->name.c_str(), name);
  return in.attrs[size_t(i)];
}

int Use::operand(const char* name) const {
  for (size_t i = 0; i < in.op->tensors.size(); ++i) {
    if (!std::strcmp(in.op->tensors[i].name, name)) return int(i);
  }
  return -1;
}

static void own_name(char (&out)[48], const char* operand, const char* what) {
  std::snprintf(out, sizeof out, "%s_%s", operand, what);
}

int64_t Use::of(int operand, const char* what) const {
  char text[48];
  own_name(text, name(operand), what);
  return arg(text);
}

bool Use::has_of(int operand, const char* what) const {
  char text[48];
  own_name(text, name(operand), what);
  return has(text);
}

Scope Use::scope(int operand) const { return machine.scope(in, operand); }

int64_t Use::room(int operand) const {
  const Operand& o = in.tensors[size_t(operand)];
  const int64_t elements = machine.elements(o, in.loc), bytes = machine.view(o.buffer).size;
  return elements < 0 || elements > bytes / o.size ? 0 : bytes - elements * o.size;
}

const Plan& Use::plan() const {
  if (!plan_) plan_ = &plan_of(machine, in, room_);
  return *plan_;
}

const LaneGroups& Use::groups() const {
  if (grouped_) return groups_;
  grouped_ = true;
  const Plan& p = plan();
  auto add = [&](int64_t first, int64_t repeats, int64_t on) {
    if (repeats <= 0) return;
    LaneGroup g{first, repeats, {}};
    if (on > 0) g.runs.emplace_back(0, on);
    groups_.push_back(std::move(g));
  };
  if (!p.by_bits) {
    if (p.count == p.last) {
      add(0, p.repeats, p.count);
    } else {
      add(0, p.repeats - 1, p.count);
      add(p.repeats - 1, p.repeats ? 1 : 0, p.last);
    }
    return groups_;
  }
  if (p.repeats <= 0) return groups_;
  LaneGroup g{0, p.repeats, {}};
  for (int64_t lane = 0; lane < p.lanes;) {
    if (!lane_on(p, int(lane), 0)) {
      ++lane;
      continue;
    }
    int64_t end = lane;
    while (end < p.lanes && lane_on(p, int(end), 0)) ++end;
    g.runs.emplace_back(lane, end);
    lane = end;
  }
  groups_.push_back(std::move(g));
  return groups_;
}

void touched_bytes(const Use& use, int operand, Touched& out) {
  out.clear();
  use.in.op->access(use, operand, out);
}

bool reads(const Instr& in, int operand) {
  const OperandRow& row = in.op->tensors[size_t(operand)];
  if (row.read_if < 0) return row.read;
  return (in.attrs[size_t(row.read_if)] != 0) == row.read_where;
}

}  // namespace mco
