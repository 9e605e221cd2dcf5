// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <algorithm>

namespace mco {

void* Chunks::take(size_t bytes, size_t alignment) {
  constexpr size_t kLargest = size_t(1) << 18;
  size_t skip = (alignment - reinterpret_cast<uintptr_t>(at_) % alignment) % alignment;
  if (!at_ || skip + bytes > left_) {
    const size_t size = std::max(next_, bytes + alignment);
    chunks_.emplace_back(new unsigned char[size]);
    next_ = std::min(2 * next_, kLargest);
    at_ = chunks_.back().get();
    left_ = size;
    skip = (alignment - reinterpret_cast<uintptr_t>(at_) % alignment) % alignment;
  }
  void* taken = at_ + skip;
  at_ += skip + bytes;
  left_ -= skip + bytes;
  return taken;
}

Step& StreamWriter::add(What what, uint32_t loc) {
  Step step;
  step.what = what;
  step.loc = loc;
  stream_.steps.push_back(step);
  return stream_.steps.back();
}

uint32_t StreamWriter::begin_loop(What what, uint32_t loc, uint32_t reg, DType dtype, uint32_t from, uint32_t to,
                                  uint32_t threads) {
  const uint32_t number = here();
  Step& s = add(what, loc);
  s.index = reg;
  s.to = dtype;
  s.a = from;
  s.b = to;
  s.loop = {uint32_t(loops_.size()), threads};
  loops_.push_back(Loop());
  stream_.loops = std::max(stream_.loops, loops_.size());
  if (what == What::Blocks) stream_.blocks = number;
  return number;
}

void StreamWriter::end_loop(uint32_t begin) {
  land(loops_.back().going_on);
  const Step first = stream_.steps[begin];
  Step& s = add(What::Next, first.loc);
  s.index = first.index;
  s.to = first.to;
  s.target = begin + 1;
  s.loop = first.loop;
  land(loops_.back().leaving);
  stream_.steps[begin].target = here();
  loops_.pop_back();
}

uint32_t StreamWriter::begin_if(uint32_t loc, uint32_t root, DType dtype) {
  const uint32_t number = here();
  Step& s = add(What::Test, loc);
  s.a = root;
  s.from = dtype;
  return number;
}

uint32_t StreamWriter::begin_else(uint32_t test) {
  const uint32_t number = here();
  add(What::Goto, stream_.steps[test].loc);
  stream_.steps[test].target = here();
  return number;
}

void StreamWriter::end_if(uint32_t test, uint32_t otherwise) {
  std::vector<Step>& steps = stream_.steps;
  if (otherwise + 1 == here()) {  // there is nothing to jump over
    steps.pop_back();
    steps[test].target = here();
  } else {
    steps[otherwise].target = here();
  }
}

void StreamWriter::jump(uint32_t loc, uint32_t& list) {
  const uint32_t number = here();
  add(What::Goto, loc).target = list;
  list = number;
}

void StreamWriter::land(uint32_t list) {
  while (list != kNoStep) {
    const uint32_t next = stream_.steps[list].target;
    stream_.steps[list].target = here();
    list = next;
  }
}

}  // namespace mco
