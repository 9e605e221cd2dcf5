// SPDX-License-Identifier: Apache-2.0
// Lengths of sequences in the two readings of TND, and counts, as ms_custom_ops/aclnn/lengths.py reads them.
#include "lengths.h"

#include <numeric>

#include "../number.h"

namespace mco_acl {
namespace {

std::string listed(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + "]";
}

bool within(const std::vector<int64_t>& values, int64_t most) {
  for (const int64_t n : values) {
    if (n < 0 || n > most) return false;
  }
  return true;
}

bool rising(const std::vector<int64_t>& values) {
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1]) return false;
  }
  return true;
}

// Inclusive prefix sums; those of tokens of each batch are made here.
void as_sums(const Op& op, const Lengths& about, std::vector<int64_t>* values) {
  std::vector<int64_t>& v = *values;
  __int128 sum = 0;
  for (const int64_t n : v) sum += n;
  if (!v.empty() && within(v, about.tokens)) {
    if (sum == about.tokens) {
      std::partial_sum(v.begin(), v.end(), v.begin());
      return;
    }
    if (v.back() == about.tokens && rising(v)) return;
  }
  const long long tokens = about.tokens, told = static_cast<long long>(sum);
  refuse(ACLNN_ERR_INNER_TILING_ERROR,
         "561002 (tiling): %s: %s is %s (sum %lld, last %s); accepted: tokens of each batch, "
         "whose sum is T%s = %lld, or inclusive prefix sums, whose last is T%s = %lld",
         op.name, about.name.c_str(), listed(v).c_str(), told, v.empty() ? "None" : std::to_string(v.back()).c_str(),
         about.axis.c_str(), tokens, about.axis.c_str(), tokens);
}

void check_counts(const Op& op, const Lengths& about, const std::vector<int64_t>& v) {
  if (within(v, about.tokens)) return;
  refuse(ACLNN_ERR_INNER_TILING_ERROR, "561002 (tiling): %s: %s is %s; accepted: %zu counts (B) from 0 to S%s = %lld",
         op.name, about.name.c_str(), listed(v).c_str(), v.size(), about.axis.c_str(),
         static_cast<long long>(about.tokens));
}

}  // namespace

Shaped lengths_of(const Op& op, const Lengths& about, const Shaped& given) {
  if (given.shape.size() != 1 || (given.dtype != mco::I32 && given.dtype != mco::I64)) {
    refuse(ACLNN_ERR_INNER,
           "a plan whose lengths are no lengths; accepted: ms-custom-ops cache clear, and the call again");
  }
  std::vector<int64_t> values;
  const int64_t step = given.strides[0] * mco::kSize[given.dtype];
  for (int64_t i = 0; i < given.shape[0]; ++i) values.push_back(mco::load_int(given.data + i * step, given.dtype));
  if (about.sums) {
    as_sums(op, about, &values);
  } else {
    check_counts(op, about, values);
  }
  const Shaped out = fresh(mco::I32, given.shape);
  for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<int32_t*>(out.data)[i] = int32_t(values[i]);
  return out;
}

}  // namespace mco_acl
