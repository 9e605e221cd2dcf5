// SPDX-License-Identifier: Apache-2.0
// aclnnFlashAttentionScore and its gradient in the layout BSH, compared with a golden in float64.
#include <algorithm>
#include <iostream>
#include <limits>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "helpers.h"

namespace {

// Two sequences of S tokens, N1 query heads on N2 key heads, causal.
constexpr int64_t B = 2, S = 48, N1 = 4, N2 = 2, D = 32, LANES = 8;
constexpr double SCALE = 0.17677669529663687;  // D ** -0.5
constexpr int64_t FAR = std::numeric_limits<int32_t>::max();

struct Problem {
  std::vector<double> query, key, value, d_out;
  double q(int64_t b, int64_t n, int64_t i, int64_t d) const { return query[((b * S + i) * N1 + n) * D + d]; }
  static size_t at_key(int64_t b, int64_t n, int64_t j, int64_t d) {
    return ((b * S + j) * N2 + n / (N1 / N2)) * D + d;
  }
};

struct Golden {
  std::vector<double> out = std::vector<double>(B * S * N1 * D), top = std::vector<double>(B * N1 * S), total = top,
                      d_query = out, d_key = std::vector<double>(B * S * N2 * D), d_value = d_key;
};

// One row of the attention and what it adds to the gradients.
void row(const Problem& p, int64_t b, int64_t n, int64_t i, Golden& g) {
  std::vector<double> weights(i + 1);
  double top = -INFINITY, total = 0;
  for (int64_t j = 0; j <= i; ++j) {
    for (int64_t d = 0; d < D; ++d) weights[j] += p.q(b, n, i, d) * p.key[Problem::at_key(b, n, j, d)] * SCALE;
    top = std::max(top, weights[j]);
  }
  for (double& w : weights) w = std::exp(w - top), total += w;
  const size_t begin = ((b * S + i) * N1 + n) * D;
  for (int64_t j = 0; j <= i; ++j) {
    weights[j] /= total;
    for (int64_t d = 0; d < D; ++d) g.out[begin + d] += weights[j] * p.value[Problem::at_key(b, n, j, d)];
  }
  g.top[(b * N1 + n) * S + i] = top, g.total[(b * N1 + n) * S + i] = total;
  double delta = 0;
  for (int64_t d = 0; d < D; ++d) delta += p.d_out[begin + d] * g.out[begin + d];
  for (int64_t j = 0; j <= i; ++j) {
    double d_weight = 0;
    for (int64_t d = 0; d < D; ++d) d_weight += p.d_out[begin + d] * p.value[Problem::at_key(b, n, j, d)];
    const double d_score = weights[j] * (d_weight - delta) * SCALE;
    for (int64_t d = 0; d < D; ++d) {
      const size_t at = Problem::at_key(b, n, j, d);
      g.d_value[at] += weights[j] * p.d_out[begin + d];
      g.d_query[begin + d] += d_score * p.key[at];
      g.d_key[at] += d_score * p.q(b, n, i, d);
    }
  }
}

Golden golden(const Problem& p) {
  Golden g;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t n = 0; n < N1; ++n) {
      for (int64_t i = 0; i < S; ++i) row(p, b, n, i, g);
    }
  }
  return g;
}

// The first of the equal values of each row.
std::vector<double> first_lane(const DeviceTensor& from) {
  std::vector<double> out;
  const std::vector<float> all = read_back<float>(from);
  for (size_t i = 0; i < all.size(); i += LANES) out.push_back(all[i]);
  return out;
}

template <class Second>
void run(Second second, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(second(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  if (workspace) CHECK(aclrtFree(workspace));
}

}  // namespace

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  Random random;
  Problem p;
  p.query = random.numbers(B * S * N1 * D), p.key = random.numbers(B * S * N2 * D);
  p.value = random.numbers(B * S * N2 * D), p.d_out = random.numbers(B * S * N1 * D);
  const Shape queries = {B, S, N1 * D}, keys = {B, S, N2 * D}, statistics = {B, N1, S, LANES};
  const DeviceTensor query = half_tensor(p.query, queries), key = half_tensor(p.key, keys),
                     value = half_tensor(p.value, keys), d_out = half_tensor(p.d_out, queries);
  const Golden g = golden(p);
  std::vector<uint8_t> blocked(S * S, 0);
  for (int64_t i = 0; i < S; ++i) std::fill(blocked.begin() + i * S + i + 1, blocked.begin() + (i + 1) * S, 1);
  const DeviceTensor mask = make_tensor(blocked, {1, 1, S, S}, aclDataType::ACL_BOOL);
  const std::vector<float> nothing(elements(statistics), 0);
  const DeviceTensor softmax_max = make_tensor(nothing, statistics, aclDataType::ACL_FLOAT),
                     softmax_sum = make_tensor(nothing, statistics, aclDataType::ACL_FLOAT), out = empty_half(queries);

  char layout[] = "BSH";
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnFlashAttentionScoreGetWorkspaceSize(
      query.tensor, key.tensor, value.tensor, nullptr, nullptr, nullptr, mask.tensor, nullptr, SCALE, 1.0, FAR, FAR, N1,
      layout, 0, 0, softmax_max.tensor, softmax_sum.tensor, nullptr, out.tensor, &size, &executor));
  run(aclnnFlashAttentionScore, size, executor, stream);
  constexpr double LIMIT = 2e-3;
  bool good = close("softmaxMax", first_lane(softmax_max), g.top, LIMIT);
  good &= close("softmaxSum", first_lane(softmax_sum), g.total, LIMIT);
  good &= close("attention", halves(out), g.out, LIMIT);

  const DeviceTensor d_query = empty_half(queries), d_key = empty_half(keys), d_value = empty_half(keys);
  CHECK(aclnnFlashAttentionScoreGradGetWorkspaceSize(
      query.tensor, key.tensor, value.tensor, d_out.tensor, nullptr, nullptr, nullptr, mask.tensor, softmax_max.tensor,
      softmax_sum.tensor, nullptr, out.tensor, nullptr, SCALE, 1.0, FAR, FAR, N1, layout, 0, 0, d_query.tensor,
      d_key.tensor, d_value.tensor, nullptr, &size, &executor));
  run(aclnnFlashAttentionScoreGrad, size, executor, stream);
  good &= close("dQuery", halves(d_query), g.d_query, LIMIT);
  good &= close("dKey", halves(d_key), g.d_key, LIMIT);
  good &= close("dValue", halves(d_value), g.d_value, LIMIT);

  destroy({query, key, value, d_out, mask, softmax_max, softmax_sum, out, d_query, d_key, d_value});
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  std::cout << (good ? "all good" : "WRONG") << std::endl;
  return good ? 0 : 1;
}
