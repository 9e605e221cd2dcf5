// SPDX-License-Identifier: Apache-2.0
// Transfers that land late: in a disable_sync region nothing says that what a transfer writes is there before a pipe
// has waited for it.
#include <cstring>

#include "checker.h"

namespace mco {

void Checker::hold_back(const Machine& m, int pipe) {
  for (const OperandUse& o : operands_) {
    if (!o.writes || o.touched->boxes.empty()) continue;
    Late late{pipe, pipes_.time(pipe), o.buffer, o.start, *o.touched, {}};
    uint8_t* at = m.view(o.buffer).base + o.start;
    each_run(*o.touched, [&](int64_t lo, int64_t hi) {
      late.bytes.insert(late.bytes.end(), at + lo, at + hi);
      std::memset(at + lo, kPoison, size_t(hi - lo));
    });
    held_bytes_ += late.bytes.size();
    held_back_.push_back(std::move(late));
  }
  while (held_bytes_ > kMostHeldBytes) {
    land(m, held_back_.front());
    held_back_.erase(held_back_.begin());
  }
}

void Checker::land(const Machine& m, Late& late) {
  uint8_t* at = m.view(late.buffer).base + late.start;
  size_t next = 0;
  each_run(late.touched, [&](int64_t lo, int64_t hi) {
    std::memcpy(at + lo, late.bytes.data() + next, size_t(hi - lo));
    next += size_t(hi - lo);
  });
  held_bytes_ -= late.bytes.size();
}

// A pipe sees what it did itself.
void Checker::land_same_pipe(const Machine& m, int pipe) {
  const auto meets = [&](const Late& late) {
    const Span64 there = span_of(late.buffer, late.start);
    for (const OperandUse& o : operands_) {
      if (o.touched->boxes.empty()) continue;
      const Span64 here = span_of(o.buffer, o.start);
      int64_t lo, hi;
      if (here.space == there.space && boxes_meet(*o.touched, here.base, late.touched, there.base, lo, hi)) return true;
    }
    return false;
  };
  size_t kept = 0;
  for (size_t i = 0; i < held_back_.size(); ++i) {
    if (held_back_[i].pipe == pipe && meets(held_back_[i])) {
      land(m, held_back_[i]);
    } else if (kept++ != i) {
      held_back_[kept - 1] = std::move(held_back_[i]);
    }
  }
  held_back_.resize(kept);
}

void Checker::land(const Machine& m, bool all) {
  size_t kept = 0;
  for (size_t i = 0; i < held_back_.size(); ++i) {
    if (all || pipes_.known(held_back_[i].pipe, held_back_[i].time)) {
      land(m, held_back_[i]);
    } else if (kept++ != i) {
      held_back_[kept - 1] = std::move(held_back_[i]);
    }
  }
  held_back_.resize(kept);
}

}  // namespace mco
