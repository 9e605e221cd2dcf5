// SPDX-License-Identifier: Apache-2.0
#include "findings.h"

namespace mco {

const char* fault_name(Fault fault) {
  static const char* const kNames[] = {
      "out_of_bounds",    "misaligned",     "capacity",        "uninitialized_read",  "uninitialized_scalar",
      "unwritten_output", "overlap",        "race_cores",      "race_pipes",          "flag_unpaired",
      "flag_deadlock",    "event_id_range", "use_after_scope", "double_buffer_carry", "param_range",
      "nan_produced",     "saturated",      "gm_tail",         "queue_misuse"};
  static_assert(sizeof kNames / sizeof kNames[0] == size_t(Fault::kCount), "a name for each");
  return kNames[size_t(fault)];
}

void Findings::more(Finding& f, int64_t core, int64_t count) {
  f.count += count;
  if (core < f.core) f.core = core;
}

void Findings::merge(Findings&& other) {
  for (auto& [key, f] : other.of_) {
    const auto found = of_.find(key);
    if (found == of_.end()) {
      if (of_.size() >= kMost) {
        dropped_ += f.count;
      } else {
        of_.emplace(key, std::move(f));
      }
      continue;
    }
    Finding& mine = found->second;
    if (f.core < mine.core) {  // what the lowest block saw, whichever came first
      mine.lo = f.lo;
      mine.hi = f.hi;
      mine.text = std::move(f.text);
    }
    more(mine, f.core, f.count);
  }
  dropped_ += other.dropped_;
  other.of_.clear();
  other.dropped_ = 0;
}

std::vector<Finding> Findings::sorted() const {
  std::vector<Finding> list;
  for (const auto& [key, f] : of_) list.push_back(f);
  return list;
}

}  // namespace mco
