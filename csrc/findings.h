// SPDX-License-Identifier: Apache-2.0
// What the checked mode found: one entry for all events of a kind at a place, with their number.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base.h"

namespace mco {

enum class Fault : uint8_t {
  OutOfBounds,
  Misaligned,
  Capacity,
  UninitializedRead,
  UninitializedScalar,
  UnwrittenOutput,
  Overlap,
  RaceCores,
  RacePipes,
  FlagUnpaired,
  FlagDeadlock,
  EventIdRange,
  UseAfterScope,
  DoubleBufferCarry,
  ParamRange,
  NanProduced,
  Saturated,
  GmTail,
  QueueMisuse,
  kCount
};
const char* fault_name(Fault fault);

constexpr uint32_t kNoLocation = ~0u, kNoBuffer = ~0u;

struct Finding {
  Fault kind;
  uint32_t loc = kNoLocation, other = kNoLocation;  // numbers of locations of the program
  uint32_t buffer = kNoBuffer;
  int64_t core = -1;       // the lowest block
  int64_t lo = 0, hi = 0;  // bytes of the buffer, where lo < hi
  int64_t count = 0;
  std::string text;
};

class Findings {
 public:
  // `text()` is called for the first event of a kind at a place alone.
  template <class F>
  void add(Fault kind, uint32_t loc, uint32_t other, uint32_t buffer, int64_t core, int64_t lo, int64_t hi, F text) {
    const Key key{loc, kind, other, buffer};
    const auto found = of_.find(key);
    if (found != of_.end()) return more(found->second, core, 1);
    if (of_.size() >= kMost) {
      ++dropped_;
      return;
    }
    Finding f;
    f.kind = kind;
    f.loc = loc;
    f.other = other;
    f.buffer = buffer;
    f.core = core;
    f.lo = lo;
    f.hi = hi;
    f.count = 1;
    f.text = text();
    of_.emplace(key, std::move(f));
  }
  void merge(Findings&& other);
  bool empty() const { return of_.empty(); }
  int64_t dropped() const { return dropped_; }
  // In the order of the locations of the program.
  std::vector<Finding> sorted() const;

 private:
  static constexpr size_t kMost = 500;  // places; what is found elsewhere is counted
  using Key = std::tuple<uint32_t, Fault, uint32_t, uint32_t>;
  static void more(Finding& f, int64_t core, int64_t count);

  std::map<Key, Finding> of_;
  int64_t dropped_ = 0;
};

}  // namespace mco
