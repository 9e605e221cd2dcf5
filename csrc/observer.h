// SPDX-License-Identifier: Apache-2.0
// The seam for what looks on while a program runs: counters, sanitizers, cost models.
//
// The walker (walk.h) is a template over its observer: the fast one is compiled with Unobserved and has no branch for
// others. A new observer is a class `final : public ObserverOf<itself>` (walk.h) and a mode of run.cc that makes one
// for each machine. It serves one block at a time; what blocks on several threads share is its own business.
#pragma once

#include <memory>

#include "stream.h"

namespace mco {

class Machine;

// Bytes [lo, hi) of a buffer that an instruction, a scalar load or a scalar store is about to touch: what the checks
// of the engine look at, which is the hull of the bytes touched where they lie apart.
struct Access {
  const Instr* instr;  // null: a scalar load or store
  int operand;         // number in OpInfo::tensors
  uint32_t buffer;
  int64_t lo, hi;
  const uint8_t* address;  // of byte lo
  bool write;              // an operand that is read and written is reported twice where its handler asks twice
  uint32_t loc;
};

enum class Outcome { Done, AtBarrier };

// An observer with `static constexpr bool kGuards = true` executes instructions, loads and stores itself (execute, load
// and store with the machine and the step), and may leave them out. Hooks are called before what they announce, in
// program order of their block. What they throw ends the block with it as the error.
class Observer {
 public:
  virtual ~Observer() = default;
  // Runs the machine up to its next barrier or its end.
  virtual Outcome walk(Machine& machine) = 0;
  // Executes a step outside of any walk.
  virtual void step(Machine& machine, const Step& step) = 0;
  // Whether on_access is to be called; without it, the machine runs as fast as one that is not observed.
  virtual bool wants_access() const { return true; }
  // Whether every instruction is executed, in order, and on-chip memory is looked at by instructions alone.
  virtual bool passive() const { return false; }
  // A block begins; has come to its end, or failed.
  virtual void on_start(const Machine&) {}
  virtual void on_end(const Machine&) {}

  // Whether an instruction is executed; else it is only looked at.
  bool executes(const Machine&, const Step&) { return true; }
  void on_step(const Machine&, const Step&) {}                 // every step but Goto and End
  void on_loop(const Machine&, const Step&, int64_t /*i*/) {}  // a round of a loop begins; the step is Begin or Next
  void on_sync(const Machine&, const Step&) {}                 // a flag, a pipe barrier, a block barrier
  virtual void on_access(const Machine&, const Access&) {}     // handlers are no templates: the one virtual hook
};

struct Unobserved {};

// Makes the observers of a run, one for each machine; lives longer than they do.
class ObserverSource {
 public:
  virtual ~ObserverSource() = default;
  virtual std::unique_ptr<Observer> make() = 0;
};

}  // namespace mco
