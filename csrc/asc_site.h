// SPDX-License-Identifier: Apache-2.0
// What a core remembers of the calls of a kernel: made again from the same place with the same numbers, a call needs no
// check of its form and no plan of its lanes.
#pragma once

#include <vector>

#include "../ms_custom_ops/ascendc/include/mco/abi.h"
#include "core.h"

namespace mco::asc {

struct MaskRegister {
  uint64_t bits[2] = {};
  bool counter = false;
  bool operator!=(const MaskRegister& o) const {
    return bits[0] != o.bits[0] || bits[1] != o.bits[1] || counter != o.counter;
  }
};

struct Site {
  static constexpr int kArgs = 24, kAttrs = 8, kOperands = 8;
  static constexpr uint64_t kNobody = ~uint64_t(0);
  const OpInfo* op = nullptr;
  KnownForm known;
  uint64_t head = kNobody;  // what is called, and how many operands, arguments and attributes it has
  uint64_t places = 0;      // dtypes and scopes of the operands
  uint64_t bits[2] = {};    // what the call says of its mask
  int64_t repeat = 0;
  MaskRegister before, after;
  uint32_t call_floats = 0, floats = 0;  // as the call has them, and as Direct has them
  uint32_t loose = 0;                    // arguments that each call brings
  uint32_t first = 0;                    // arguments of the mask, which come before those of the call
  mco_asc_value args[kArgs];
  int64_t attrs[kAttrs];
};

// The sites of the two kinds of cores of a seat. Of calls that share a place in the table the last one stays.
class Sites {
 public:
  Site& of(const mco_asc_call& call, bool cube) {
    auto& table = tables_[cube];
    if (table.empty()) table.resize(kCount);
    const uint64_t hash = (reinterpret_cast<uintptr_t>(call.where.file) + call.where.line) * 0x9E3779B97F4A7C15u +
                          uint64_t(call.op) * 0xC2B2AE3D27D4EB4Fu;
    return table[hash >> 32 & (kCount - 1)];
  }

 private:
  static constexpr size_t kCount = 256;
  std::vector<Site> tables_[2];
};

}  // namespace mco::asc
