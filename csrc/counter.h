// SPDX-License-Identifier: Apache-2.0
// The observer of mode "counted": how often each step is executed.
#pragma once

#include "walk.h"

namespace mco {

class Counter final : public ObserverOf<Counter> {
 public:
  // `counts`: one number per step of the stream, shared by the blocks of a run.
  explicit Counter(int64_t* counts) : counts_(counts) {}
  void on_step(const Machine& machine, const Step& step);
  void on_loop(const Machine& machine, const Step& step, int64_t i);

 private:
  int64_t* const counts_;
};

// What a step does, as people name it; null for a step that only leads to others.
const char* step_name(const Step& step);

}  // namespace mco
