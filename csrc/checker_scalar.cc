// SPDX-License-Identifier: Apache-2.0
// Scalars: loads from memory and stores to it.
#include "checker.h"
#include "number.h"

namespace mco {

bool Checker::scalar_place(Machine& m, const Step& s, int64_t bytes, OperandUse& o, Touched& touched) {
  o.buffer = s.place->buffer;
  o.touched = &touched;
  touched.add(0, bytes);
  const int64_t elements = m.elements(*s.place, s.loc);
  const View view = m.view(o.buffer);
  const Wide start = Wide(elements) * s.place->size;
  alive(o.buffer, s.loc);
  if (start < 0 || start + bytes > view.size) {
    add(Fault::OutOfBounds, s.loc, program_.buffers[o.buffer].loc, o.buffer, elements * s.place->size,
        elements * s.place->size + bytes, [&] {
          return format("a scalar %s element %lld of %s (%s), which has %lld bytes",
                        s.what == What::Load ? "is loaded from" : "is stored to", (long long)elements, name(o.buffer),
                        kScopeName[program_.buffers[o.buffer].scope], (long long)view.size);
        });
    return false;
  }
  o.start = int64_t(start);
  Mark* marks = marks_of(o.buffer);
  o.marks = marks ? marks + o.start : nullptr;
  return true;
}

void Checker::order_scalar(const Step& s, const OperandUse& o, bool write) {
  if (watches(o.buffer)) log(o.buffer, write ? GmUse::Write : GmUse::Read, s.loc, o.start, *o.touched);
  if (!pipes_.in_region()) return;
  pipes_.issue(0);
  pipes_.access(0, span_of(o.buffer, o.start), *o.touched, write, s.loc, write ? "store" : "load", reports_);
  flush(reports_);
}

void Checker::load(Machine& m, const Step& s) {
  try {
    OperandUse o;
    Touched touched;
    if (!scalar_place(m, s, kSize[s.to], o, touched)) {
      m.registers_.value[s.index] = Value{0};
      m.registers_.set[s.index] = 1;
      return;
    }
    o.reads = true;
    order_scalar(s, o, false);
    if (!all_held(o)) {
      Mark mark = 0;
      for (int i = 0; i < kSize[s.to] && !mark; ++i) mark = o.marks[i];
      const bool named = mark >= kFirstOrigin;
      const Origin origin = named ? run_.gm.origin(mark) : Origin();
      const bool carried = mark == kCarried || origin.carried;
      const uint32_t other = named ? origin.loc : program_.buffers[o.buffer].loc;
      add(carried ? Fault::DoubleBufferCarry : Fault::UninitializedScalar, s.loc, other, o.buffer, o.start,
          o.start + kSize[s.to], [&] {
            return format("scalar %s takes %s, %s", program_.registers[s.index].name.c_str(),
                          place(o.buffer, o.start, o.start + kSize[s.to]).c_str(),
                          named ? "which come from bytes that were never written" : "which were never written");
          });
    }
    m.load(s);
  } catch (const Error& e) {
    if (m.must_stop()) throw;
    lost(e.what(), s.loc);
  }
}

void Checker::store(Machine& m, const Step& s) {
  try {
    OperandUse o;
    Touched touched;
    if (!scalar_place(m, s, s.place->size, o, touched)) return;
    o.writes = true;
    order_scalar(s, o, true);
    set_marks(o, kHeld);
    m.store(s);
  } catch (const Error& e) {
    if (m.must_stop()) throw;
    lost(e.what(), s.loc);
  }
}

}  // namespace mco
