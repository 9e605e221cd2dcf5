// SPDX-License-Identifier: Apache-2.0
// What Iterate has computed and GetTensorC has not taken yet.
#pragma once

#include <cstring>

#include "mco/matmul_block.h"

namespace mco_asc {

constexpr int kMatmulSum = 3;  // of mco_asc_core::user: the KeptSum that lies in L0C

// One base block of sums, of one Matmul. All objects of a block's vector cores compute in the same place of L0C: where
// another one does before the sum is taken, it waits in memory of the cube core, which lives until they all have ended.
struct KeptSum {
  int64_t bytes;
  void* memory;
};

// On the cube core: L0C is for `next`, or with null for a product that leaves nothing. Whose sum was there is kept.
inline void take_l0c(void* l0c, KeptSum* next, bool restored) {
  void*& owner = mco_asc_this_core("Matmul")->user[kMatmulSum];
  if (next && owner == next) return;
  if (const auto* before = static_cast<const KeptSum*>(owner)) std::memcpy(before->memory, l0c, size_t(before->bytes));
  if (next && restored) std::memcpy(l0c, next->memory, size_t(next->bytes));
  owner = next;
}

inline KeptSum* new_sum(int64_t bytes) {
  auto* sum = static_cast<KeptSum*>(mco_asc_keep(sizeof(KeptSum)));
  return new (sum) KeptSum{bytes, mco_asc_keep(size_t(bytes))};
}

}  // namespace mco_asc
