// SPDX-License-Identifier: Apache-2.0
// Random arguments: numbers, dtypes, formats, tensors that are wrong in one way.
#pragma once

#include <set>

#include "harness.h"

inline uint64_t state = 1;
inline uint64_t random_bits() {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}
inline int64_t below(int64_t n) { return static_cast<int64_t>(random_bits() % static_cast<uint64_t>(n)); }
template <class T, size_t N>
const T& one_of(const T (&values)[N]) {
  return values[below(N)];
}

inline const std::set<int> kStatuses = {0, 161001, 161002, 361001, 561002, 561003, 100000, 107002, 107003};
constexpr int64_t kNumbers[] = {0, 1, -1, 3, 7, 8, 16, 2147483647, INT64_MAX, INT64_MIN, 1ll << 40};
constexpr int kDtypes[] = {0, 1, 2, 3, 4, 6, 9, 11, 12, 16, 27, 33, 36};
constexpr int kFormats[] = {2, 2, 0, 1, 3, 29, 35, 47, -1};
inline const std::string kTexts[] = {"TND", "BSND", "BSH", "", "tnd", "\xff\xfe", ";|\"%", std::string(300, 'x')};

// A tensor that is wrong in one way, or not.
inline void change_tensor(Tensor& t) {
  switch (below(9)) {
    case 0:
      t.there = !t.there;
      break;
    case 1:
      t.dtype = static_cast<aclDataType>(one_of(kDtypes));
      break;
    case 2:
      t.format = static_cast<aclFormat>(one_of(kFormats));
      break;
    case 3:
      if (!t.shape.empty()) t.shape[static_cast<size_t>(below(static_cast<int64_t>(t.shape.size())))] = below(20);
      break;
    case 4:
      t.shape.insert(t.shape.begin(), 1 + below(2));
      break;
    case 5:
      if (!t.shape.empty()) t.shape.pop_back();
      break;
    case 6:
      t.strides = row_strides(t.shape);
      if (!t.strides.empty()) t.strides[static_cast<size_t>(below(static_cast<int64_t>(t.shape.size())))] = below(40);
      break;
    case 7:
      t.offset = below(5), t.behind = below(5);
      break;
    default:
      t.bytes = halves(static_cast<size_t>(below(64)), static_cast<unsigned>(random_bits()));
      return;
  }
  t.bytes.clear();
}

inline int known(int status) {
  if (!kStatuses.count(status)) wrong("status " + std::to_string(status) + " of no contract: " + recent());
  if (status && recent() == "(null)") wrong("status " + std::to_string(status) + " without a text");
  return status;
}
