// SPDX-License-Identifier: Apache-2.0
// Random argument sets: whatever is passed ends in a documented status with a text, and nothing is written by a call
// that was refused. fuzz SETS SEED
#include <iterator>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "random_arguments.h"

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {

void change(Call& c) {
  switch (below(8)) {
    case 0:
      c.mode = one_of(kNumbers);
      break;
    case 1:
      c.block = one_of(kNumbers);
      break;
    case 2:
      c.layout = one_of(kTexts);
      break;
    case 3:
      c.pre = one_of(kNumbers), c.next = one_of(kNumbers);
      break;
    case 4: {
      const double scales[] = {0, -1, NAN, INFINITY, 1e300};
      c.scale = one_of(scales);
      break;
    }
    case 5:
      c.v2 = true;
      c.t["sinks"].there = below(2), c.t["dSinks"].there = below(2), c.t["value"].there = below(2);
      break;
    case 6: {
      std::vector<int32_t> lengths;
      for (int64_t n = below(4); n > 0; --n)
        lengths.push_back(static_cast<int32_t>(below(2) ? below(25) : one_of(kNumbers)));
      Tensor& t = c.t[below(2) ? "actualSeqQ" : "actualSeqKv"];
      t.shape = {static_cast<int64_t>(lengths.size())};
      t.bytes = bytes_of(lengths);
      break;
    }
    default: {
      auto it = c.t.begin();
      std::advance(it, below(static_cast<int64_t>(c.t.size())));
      change_tensor(it->second);
    }
  }
}

// Between the phases, what a program may do wrong.
void disturb(Call& c) {
  switch (below(10)) {
    case 0:
      c.size = c.size ? c.size - 1 : 0;
      break;
    case 1:
      if (c.workspace) aclrtFree(c.workspace);
      c.workspace = nullptr;
      break;
    case 2:
      c.executor = reinterpret_cast<aclOpExecutor*>(random_bits());
      break;
    case 3: {
      auto it = c.t.begin();
      std::advance(it, below(static_cast<int64_t>(c.t.size())));
      if (it->second.address) aclrtFree(it->second.address);
      it->second.address = nullptr;
      break;
    }
    case 4:
      known(aclSetInputTensorAddr(c.executor, static_cast<size_t>(below(14)), c.t["key"].handle, c.t["query"].address));
      break;
    case 5:
      aclDestroyAclOpExecutor(c.executor);
      break;
    case 6:
      aclSetAclOpExecutorRepeatable(c.executor);
      break;
    default:
      break;
  }
}

int sparse() {
  Call c;
  for (int64_t n = below(3); n > 0; --n) change(c);
  try {
    c.make();
  } catch (const std::runtime_error&) {
    return -1;  // no view, or no memory: refused already
  }
  if (below(20) == 0) aclDestroyTensor(c.t["out"].handle);
  const auto before = c.outputs();
  const int first = known(c.first());
  if (first) {
    if (c.outputs() != before) wrong("a refused call wrote");
    return first;
  }
  c.take_workspace();
  disturb(c);
  int second = 0;
  for (int64_t n = 1 + below(2); n > 0; --n) second = known(c.second());
  return second;
}

int score() {
  int64_t b = 1, s = 16 + below(2), n = 2, d = 16;
  const std::string layout = below(4) ? "BSH" : one_of(kTexts);
  Tensor t[8];
  for (int i : {0, 1, 2, 7}) t[i].shape = {b, s, n * d};
  t[3].shape = {1, n, s, s};
  t[4].shape = {s, s};
  t[4].dtype = ACL_BOOL;
  t[5].shape = t[6].shape = {b, n, s, 8};
  t[5].dtype = t[6].dtype = ACL_FLOAT;
  t[3].there = t[4].there = below(2) != 0;
  for (int64_t k = below(3); k > 0; --k) change_tensor(t[below(8)]);
  int status = -1;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  void* workspace = nullptr;
  try {
    for (Tensor& each : t) each.make();
    std::string text = layout;
    status = known(aclnnFlashAttentionScoreGetWorkspaceSize(
        t[0].handle, t[1].handle, t[2].handle, t[3].handle, nullptr, nullptr, t[4].handle, nullptr, 0.25, 1.0,
        below(4) ? 2147483647 : one_of(kNumbers), 2147483647, below(8) ? n : one_of(kNumbers), &text[0], 0,
        below(4) ? 0 : one_of(kNumbers), t[5].handle, t[6].handle, nullptr, t[7].handle, &size, &executor));
    if (!status) {
      if (size) good(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
      status = known(aclnnFlashAttentionScore(workspace, size, executor, nullptr));
    }
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).find("aclCreateTensor") == std::string::npos) throw;
  }
  if (workspace) aclrtFree(workspace);
  for (Tensor& each : t) each.release();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const int sets = argc > 1 ? std::atoi(argv[1]) : 100;
  state = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  good(aclInit(nullptr));
  good(aclrtSetDevice(0));
  std::map<int, int> counts;
  int done = 0;
  try {
    for (; done < sets; ++done) ++counts[below(4) ? sparse() : score()];
  } catch (const std::exception& error) {
    std::printf("set %d: %s\n", done, error.what());
    return 1;
  }
  for (const auto& entry : counts) std::printf("%d: %d\n", entry.first, entry.second);
  good(aclrtResetDevice(0));
  good(aclFinalize());
  return 0;
}
