// SPDX-License-Identifier: Apache-2.0
// The walk of a block over the stream, a template over its observer (observer.h).
#pragma once

#include <type_traits>

#include "machine.h"

namespace mco {

template <class O, class = void>
struct Guards : std::false_type {};
template <class O>
struct Guards<O, std::enable_if_t<O::kGuards>> : std::true_type {};

template <class O>
Outcome walk(Machine& m, O& observer) {
  constexpr bool kObserved = !std::is_same<O, Unobserved>::value;
  constexpr bool kGuarded = Guards<O>::value;
  const Step* const first = m.program.stream.steps.data();
  for (const Step* s = m.at_;; ++s) {
    if constexpr (kObserved) {
      if (s->what != What::Goto && s->what != What::End) observer.on_step(m, *s);
    }
    switch (s->what) {
      case What::Sync:
        if constexpr (kObserved) observer.on_sync(m, *s);
        [[fallthrough]];
      case What::Instr:
        m.tick(s->loc);
        if constexpr (kGuarded) {
          observer.execute(m, *s);
        } else if constexpr (kObserved) {
          if (observer.executes(m, *s)) m.execute(*s->instr);
        } else if (s->instr->row) {
          m.take_row(*s->instr);
        } else if (s->instr->waiter) {
          m.wait(*s->instr);
        } else {
          if (s->what == What::Instr) m.catch_up();
          s->instr->op->run(m, *s->instr);
        }
        break;
      case What::Barrier:
        if constexpr (!kObserved) m.catch_up();
        if constexpr (kObserved) observer.on_sync(m, *s);
        m.at_ = s + 1;
        return Outcome::AtBarrier;
      case What::Begin:
      case What::Blocks: {
        const bool blocks = s->what == What::Blocks;
        const int64_t from = blocks ? m.block_value_ : m.eval(s->a, s->loc).i;
        const int64_t to = blocks ? from + 1 : m.eval(s->b, s->loc).i;
        if (from >= to) {
          s = first + s->target - 1;
          break;
        }
        m.loops_[s->loop.depth] = {from, to};
        m.begin_round(*s, from);
        if constexpr (kObserved) observer.on_loop(m, *s, from);
        break;
      }
      case What::Next: {
        Machine::Loop& loop = m.loops_[s->loop.depth];
        m.tick(s->loc);
        if constexpr (!kObserved) m.catch_up_pieces();
        if (++loop.i >= loop.end) break;
        m.begin_round(*s, loop.i);
        if constexpr (kObserved) observer.on_loop(m, *s, loop.i);
        s = first + s->target - 1;
        break;
      }
      case What::Test:
        if (!m.is_true(*s)) s = first + s->target - 1;
        break;
      case What::Goto:
        s = first + s->target - 1;
        break;
      case What::Assign:
        m.assign(*s);
        break;
      case What::Load:
        if constexpr (kGuarded) {
          observer.load(m, *s);
        } else {
          if constexpr (!kObserved) m.catch_up_for_load(*s);
          m.load(*s);
        }
        break;
      case What::Store:
        if constexpr (kGuarded) {
          observer.store(m, *s);
        } else if (!kObserved && s->b) {
          m.catch_up();
          m.store_joined(*s);
          s += s->b - 1;
        } else {
          if constexpr (!kObserved) m.catch_up();
          m.store(*s);
        }
        break;
      case What::Alloc:
      case What::Free:
      case What::NoSync:
      case What::Resync:
        break;
      case What::End:
        if constexpr (!kObserved) m.catch_up();
        m.at_ = s;
        return Outcome::Done;
    }
  }
}

template <class O>
class ObserverOf : public Observer {
 public:
  Outcome walk(Machine& machine) override { return mco::walk(machine, static_cast<O&>(*this)); }
  void step(Machine& machine, const Step& step) override {
    O& o = static_cast<O&>(*this);
    o.on_step(machine, step);
    if (step.what == What::Sync || step.what == What::Barrier) o.on_sync(machine, step);
    machine.execute(*step.instr);
  }
};

}  // namespace mco
