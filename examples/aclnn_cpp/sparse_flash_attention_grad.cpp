// SPDX-License-Identifier: Apache-2.0
// Gradient of sparse attention, called as CANN documents aclnnSparseFlashAttentionGrad, compared with a golden in
// float64.
#include <algorithm>
#include <iostream>
#include <numeric>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "helpers.h"

namespace {

// One sequence: T1 queries with N1 heads over T2 keys, K of them for each query, causal from the lower right.
constexpr int64_t T1 = 5, N1 = 8, T2 = 40, D = 64, ROPE = 16, K = 16;
constexpr double SCALE = 0.11180339887498949;  // (D + ROPE) ** -0.5

// The values, row after row.
struct Problem {
  std::vector<double> query, key, value, d_out, query_rope, key_rope, out, top, total;
  std::vector<int32_t> indices;

  std::vector<int64_t> keys_of(int64_t t) const {
    std::vector<int64_t> keys;
    const int64_t seen = T2 - T1 + t + 1;
    for (int64_t c = 0; c < std::min(K, seen); ++c) {
      const int64_t id = indices[t * K + c];
      if (id < 0) break;
      if (id < seen) keys.push_back(id);
    }
    return keys;
  }
  double score(int64_t t, int64_t n, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += query[(t * N1 + n) * D + d] * key[j * D + d];
    for (int64_t d = 0; d < ROPE; ++d) sum += query_rope[(t * N1 + n) * ROPE + d] * key_rope[j * ROPE + d];
    return sum * SCALE;
  }
};

struct Gradients {
  std::vector<double> query = std::vector<double>(T1 * N1 * D), key = std::vector<double>(T2 * D), value = key,
                      query_rope = std::vector<double>(T1 * N1 * ROPE), key_rope = std::vector<double>(T2 * ROPE);
};

Problem make_problem() {
  Random random;
  Problem p;
  p.query = random.numbers(T1 * N1 * D), p.key = random.numbers(T2 * D), p.value = random.numbers(T2 * D);
  p.d_out = random.numbers(T1 * N1 * D);
  p.query_rope = random.numbers(T1 * N1 * ROPE), p.key_rope = random.numbers(T2 * ROPE);
  for (int64_t t = 0; t < T1; ++t) {
    std::vector<int32_t> ids(T2 - T1 + t + 1);  // keys that the row may see
    std::iota(ids.begin(), ids.end(), 0);
    for (size_t i = ids.size(); i-- > 1;) std::swap(ids[i], ids[random.next() % (i + 1)]);
    p.indices.insert(p.indices.end(), ids.begin(), ids.begin() + K);
  }
  return p;
}

// Outputs of the forward operator.
void forward(Problem& p) {
  for (int64_t t = 0; t < T1; ++t) {
    for (int64_t n = 0; n < N1; ++n) {
      const std::vector<int64_t> keys = p.keys_of(t);
      double top = -INFINITY, total = 0;
      for (int64_t j : keys) top = std::max(top, p.score(t, n, j));
      std::vector<double> row(D);
      for (int64_t j : keys) {
        const double weight = std::exp(p.score(t, n, j) - top);
        total += weight;
        for (int64_t d = 0; d < D; ++d) row[d] += weight * p.value[j * D + d];
      }
      for (double& x : row) p.out.push_back(x / total);
      p.top.push_back(top), p.total.push_back(total);
    }
  }
}

Gradients golden(const Problem& p) {
  Gradients g;
  for (int64_t t = 0; t < T1; ++t) {
    for (int64_t n = 0; n < N1; ++n) {
      const int64_t row = t * N1 + n;
      double delta = 0;
      for (int64_t d = 0; d < D; ++d) delta += p.d_out[row * D + d] * p.out[row * D + d];
      for (int64_t j : p.keys_of(t)) {
        const double weight = std::exp(p.score(t, n, j) - p.top[row]) / p.total[row];
        double d_weight = 0;
        for (int64_t d = 0; d < D; ++d) d_weight += p.d_out[row * D + d] * p.value[j * D + d];
        const double d_score = weight * (d_weight - delta) * SCALE;
        for (int64_t d = 0; d < D; ++d) {
          g.value[j * D + d] += weight * p.d_out[row * D + d];
          g.query[row * D + d] += d_score * p.key[j * D + d];
          g.key[j * D + d] += d_score * p.query[row * D + d];
        }
        for (int64_t d = 0; d < ROPE; ++d) {
          g.query_rope[row * ROPE + d] += d_score * p.key_rope[j * ROPE + d];
          g.key_rope[j * ROPE + d] += d_score * p.query_rope[row * ROPE + d];
        }
      }
    }
  }
  return g;
}

}  // namespace

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtContext context = nullptr;
  CHECK(aclrtCreateContext(&context, 0));
  CHECK(aclrtSetCurrentContext(context));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  Problem p = make_problem();
  const Shape queries = {T1, N1, D}, keys = {T2, 1, D}, statistics = {1, T1, N1};
  const DeviceTensor query = half_tensor(p.query, queries), key = half_tensor(p.key, keys),
                     value = half_tensor(p.value, keys), d_out = half_tensor(p.d_out, queries),
                     query_rope = half_tensor(p.query_rope, {T1, N1, ROPE}),
                     key_rope = half_tensor(p.key_rope, {T2, 1, ROPE});
  forward(p);
  const DeviceTensor out = half_tensor(p.out, queries);
  const std::vector<float> top(p.top.begin(), p.top.end()), total(p.total.begin(), p.total.end());
  const DeviceTensor softmax_max = make_tensor(top, statistics, aclDataType::ACL_FLOAT),
                     softmax_sum = make_tensor(total, statistics, aclDataType::ACL_FLOAT),
                     indices = make_tensor(p.indices, {T1, 1, K}, aclDataType::ACL_INT32),
                     lengths_q = make_tensor(std::vector<int32_t>{T1}, {1}, aclDataType::ACL_INT32),
                     lengths_kv = make_tensor(std::vector<int32_t>{T2}, {1}, aclDataType::ACL_INT32);
  const DeviceTensor d_query = empty_half(queries), d_key = empty_half(keys), d_value = empty_half(keys),
                     d_query_rope = empty_half({T1, N1, ROPE}), d_key_rope = empty_half({T2, 1, ROPE});

  char layout[] = "TND";
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnSparseFlashAttentionGradGetWorkspaceSize(
      query.tensor, key.tensor, value.tensor, indices.tensor, d_out.tensor, out.tensor, softmax_max.tensor,
      softmax_sum.tensor, lengths_q.tensor, lengths_kv.tensor, query_rope.tensor, key_rope.tensor, SCALE, 1, layout, 3,
      2147483647, 2147483647, false, d_query.tensor, d_key.tensor, d_value.tensor, d_query_rope.tensor,
      d_key_rope.tensor, &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnSparseFlashAttentionGrad(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  const Gradients g = golden(p);
  constexpr double LIMIT = 1e-3;
  bool good = close("dQuery", halves(d_query), g.query, LIMIT);
  good &= close("dKey", halves(d_key), g.key, LIMIT);
  good &= close("dValue", halves(d_value), g.value, LIMIT);
  good &= close("dQueryRope", halves(d_query_rope), g.query_rope, LIMIT);
  good &= close("dKeyRope", halves(d_key_rope), g.key_rope, LIMIT);

  destroy({query, key, value, indices, d_out, out, softmax_max, softmax_sum, lengths_q, lengths_kv, query_rope,
           key_rope, d_query, d_key, d_value, d_query_rope, d_key_rope});
  if (workspace) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtDestroyContext(context));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  std::cout << (good ? "all good" : "WRONG") << std::endl;
  return good ? 0 : 1;
}
