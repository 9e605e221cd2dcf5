// SPDX-License-Identifier: Apache-2.0
// What front ends without a stream tell a checker: accesses that are no instructions, memory that begins anew, flags.
#include <algorithm>
#include <cstring>

#include "checker.h"

namespace mco {

namespace {

constexpr int kScalar = 0;

}  // namespace

void Checker::find(Fault kind, uint32_t loc, uint32_t other, uint32_t buffer, int64_t lo, int64_t hi,
                   const std::string& text) {
  add(kind, loc, other, buffer, lo, hi, [&] { return text; });
}

void Checker::order_direct(const DirectAccess& a, const Touched& touched) {
  const Span64 span = span_of(a.buffer, a.start);
  pipe_ = a.pipe;
  for (const bool write : {false, true}) {
    if (write ? !a.writes : !a.reads) continue;
    if (a.pipe == kScalar) pipes_.scalar_waits(span, touched, write);
    pipes_.issue(a.pipe);
    if (watches(a.buffer)) log(a.buffer, write ? GmUse::Write : GmUse::Read, a.loc, a.start, touched);
    if (pipes_.in_region()) pipes_.access(a.pipe, span, touched, write, a.loc, call_ ? call_ : "access", reports_);
  }
  flush(reports_);
}

void Checker::find_unwritten(const DirectAccess& a, const Mark* marks) {
  const auto* lacking = std::find_if(marks, marks + a.bytes, [](Mark m) { return m != kHeld; });
  const bool named = *lacking >= kFirstOrigin;
  const uint32_t other = named ? run_.gm.origin(*lacking).loc : program_.buffers[a.buffer].loc;
  add(Fault::UninitializedScalar, a.loc, other, a.buffer, a.start, a.start + a.bytes, [&] {
    return format("%s takes %s, %s", call_ ? call_ : "the scalar unit",
                  place(a.buffer, a.start, a.start + a.bytes).c_str(),
                  named ? "which come from bytes that were never written" : "which were never written");
  });
}

void Checker::scalar(const DirectAccess& a) {
  Touched touched;
  touched.add(0, a.bytes);
  order_direct(a, touched);
  Mark* marks = marks_of(a.buffer);
  if (!marks) return;
  marks += a.start;
  if (a.writes) {
    std::memset(marks, kHeld, size_t(a.bytes));
  } else if (!all_held(marks, a.bytes)) {
    find_unwritten(a, marks);
  }
}

// A function reads its operands, then writes its results: results of as many elements as an operand come from it
// element by element, or row by row where rows are given; others from all of it.
void Checker::library(const DirectAccess& a) {
  Touched touched;
  touched.add(0, a.bytes);
  order_direct(a, touched);
  Mark* marks = marks_of(a.buffer);
  const int64_t n = a.bytes / std::max<int64_t>(a.element, 1);
  if (a.reads) {
    if (taken_done_ || taken_at_ != a.loc) taken_.clear();
    taken_done_ = false;
    taken_at_ = a.loc;
    Taken& taken = taken_.emplace_back(Taken{n, {}});
    if (!marks || all_held(marks + a.start, a.bytes)) return;
    taken.marks.assign(size_t(n), kHeld);
    for (int64_t i = 0; i < a.bytes; ++i) {
      const Mark here = marks[a.start + i];
      if (here == kHeld) continue;
      Mark& mark = taken.marks[size_t(i / a.element)];
      if (mark == kHeld) mark = here >= kFirstOrigin ? here : run_.gm.number_of({a.loc, a.buffer, false});
    }
    return;
  }
  if (!marks) return;
  taken_done_ = true;
  marks += a.start;
  std::memset(marks, kHeld, size_t(a.bytes));
  if (taken_at_ != a.loc) return;
  const Rows r = rows_of_;
  const auto first_in = [](const Taken& t, int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      if (t.marks[size_t(i)]) return t.marks[size_t(i)];
    }
    return kHeld;
  };
  for (const Taken& t : taken_) {
    if (t.marks.empty()) continue;
    const bool by_row = r.rows > 0 && n % r.rows == 0 && t.elements % r.rows == 0;
    const int64_t parts = by_row ? r.rows : n == t.elements ? n : 1;
    const int64_t from = by_row || parts > 1 ? t.elements / parts : t.elements, to = n / parts;
    const int64_t used = by_row && from == r.pitch ? r.columns : from, made = by_row && to == r.pitch ? r.columns : to;
    for (int64_t i = 0; i < parts; ++i) {
      const Mark mark = first_in(t, i * from, i * from + used);
      if (mark) std::memset(marks + i * to * a.element, mark, size_t(made * a.element));
    }
  }
}

void Checker::fresh(Scope scope, int64_t address, int64_t bytes) {
  if (chip_.base(scope)) std::memset(chip_.base(scope) + address, kNeverWritten, size_t(bytes));
}

void Checker::exposed(uint32_t buffer, int64_t start, int64_t bytes) {
  Mark* marks = marks_of(buffer);
  const int64_t size = program_.buffers[buffer].size_bytes;
  if (marks && start >= 0 && start < size) std::memset(marks + start, kHeld, size_t(std::min(bytes, size - start)));
}

void Checker::flag(bool set, int pipe, int trigger, int64_t event, uint32_t loc) {
  if (pipe >= kPipes || trigger >= kPipes) return;
  if (set) {
    pipes_.set_flag(pipe, trigger, event, loc, reports_);
  } else {
    pipes_.wait_flag(pipe, trigger, event, loc, reports_);
  }
  flush(reports_);
}

// `complete`: the core came to its end; else what it left open says nothing.
void Checker::end(const Machine& m, bool complete) {
  if (!complete) {
    held_back_.clear();
    pipes_.start();
  }
  on_end(m);
}

}  // namespace mco
