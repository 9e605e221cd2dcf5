// SPDX-License-Identifier: Apache-2.0
// What a core remembers of the calls of a kernel: made again from the same place with the same numbers, a call needs no
// check of its form and no plan of its lanes.
#pragma once

#include <vector>

#include "../ms_custom_ops/ascendc/include/mco/abi.h"
#include "core.h"
#include "prefetch.h"

namespace mco::asc {

struct MaskRegister {
  uint64_t bits[2] = {};
  bool counter = false;
  bool operator!=(const MaskRegister& o) const {
    return bits[0] != o.bits[0] || bits[1] != o.bits[1] || counter != o.counter;
  }
};

struct Site {
  static constexpr int kWords = 32, kOperands = 8;
  static constexpr uint64_t kNobody = ~uint64_t(0);
  KnownForm known;
  const OpInfo* op = nullptr;
  uint64_t head = kNobody;               // what is called, and how many operands, arguments and attributes it has
  uint64_t places = 0;                   // dtypes and scopes of the operands
  uint64_t bits[2] = {};                 // what the call says of its mask
  uint32_t call_floats = 0, floats = 0;  // as the call has them, and as Direct has them
  uint32_t loose = 0;                    // arguments that each call brings
  int32_t repeat = 0;
  MaskRegister before, after;
  Site* next = nullptr;  // of the call that came after the last one of this site, and what that one knew
  KnownForm next_known;
  int64_t words[kWords];  // arguments, then attributes
};

// The sites of the core of a seat. A call has a place in the table by where it stands, and two more by its arguments
// and attributes as well: a function of the kernel's that moves several tensors makes its calls in turn. Of calls that
// share all of these places the last one stays.
class Sites {
 public:
  Site& of(const mco_asc_call& call) {
    if (table_.empty()) table_.resize(kCount);
    return table_[place_hash(call) >> 32 & (kCount - 1)];
  }
  // The first of two neighbours.
  Site* others(const mco_asc_call& call, const mco_asc_value* args, const int64_t* attrs) {
    uint64_t hash = place_hash(call);
    const auto add = [&hash](int64_t word) { hash = (hash ^ hash >> 29 ^ uint64_t(word)) * 0x9E3779B97F4A7C15u; };
    for (int i = 0; i < call.args; ++i) add(args[i].i);
    for (int i = 0; i < call.attrs; ++i) add(attrs[i]);
    return &table_[hash >> 32 & (kCount - 2)];
  }

  // The call that will most likely come after one of a site: that of last time.
  struct Next {
    const Site* site;
    KnownForm known;
  };
  // A call of this site begins.
  Next follow(Site& site) {
    if (last_) {
      last_->next = &site;
      last_->next_known = site.known;
    }
    last_ = &site;
    return {site.next, site.next_known};
  }
  // It has ended: tiles have passed through the nearest cache, and what the next one needs is asked for all at once.
  static void foresee(const Next& next, const Core& core) {
    if (!next.site) return;
    prefetch_lines(next.site, 4);  // of a site with few words
    core.foresee(next.known);
  }

 private:
  static uint64_t place_hash(const mco_asc_call& call) {
    return (reinterpret_cast<uintptr_t>(call.where.file) + call.where.line) * 0x9E3779B97F4A7C15u +
           uint64_t(call.op) * 0xC2B2AE3D27D4EB4Fu;
  }
  static constexpr size_t kCount = 512;
  std::vector<Site> table_;
  Site* last_ = nullptr;
};

}  // namespace mco::asc
