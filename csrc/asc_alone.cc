// SPDX-License-Identifier: Apache-2.0
// Kernels that a program of the user's own launches: memory it takes, its key and mode, one launch after the other.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "asc_run.h"
#include "forksafe.h"

namespace mco::asc {

namespace {

struct Alone {
  std::mutex mutex;
  std::map<void*, size_t> memory;
  uint64_t tiling_key = 0;
  int mode = 0;  // KernelMode: mix, cube, vector
};

Alone& alone() { return fork_safe<Alone>(); }

constexpr int64_t kKib = 1024;
constexpr int64_t kSplitBytes[kScopes] = {0, 192 * kKib, 512 * kKib, 64 * kKib, 64 * kKib, 128 * kKib, kKib, 0};
constexpr int64_t kFusedBytes[kScopes] = {0, 256 * kKib, 1024 * kKib, 64 * kKib, 64 * kKib, 256 * kKib, 0, 0};
constexpr int kFusedArch = 2002;

}  // namespace

}  // namespace mco::asc

using mco::asc::alone;

extern "C" {

void* mco_asc_gm_alloc(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 512, (bytes + 31) / 32 * 32 + 32)) return nullptr;
  auto& a = alone();
  std::lock_guard<std::mutex> lock(a.mutex);
  a.memory[memory] = bytes;
  return memory;
}

void mco_asc_gm_free(void* memory) {
  auto& a = alone();
  std::lock_guard<std::mutex> lock(a.mutex);
  if (a.memory.erase(memory)) std::free(memory);
}

void mco_asc_set_tiling_key(uint64_t key) { alone().tiling_key = key; }
void mco_asc_set_kernel_mode(int mode) { alone().mode = mode; }

void mco_asc_run_alone(void (*entry)(const void* const* args), const void* const* args, int64_t blocks, int kind,
                       int arch) {
  auto& a = alone();
  std::vector<mco_asc_memory> memory;
  {
    std::lock_guard<std::mutex> lock(a.mutex);
    for (const auto& each : a.memory)
      memory.push_back({each.first, int64_t(each.second), "memory of GmAlloc", 0, 0, 0});
  }
  const bool fused = arch == mco::asc::kFusedArch;
  mco_asc_launch launch{};
  launch.struct_size = sizeof launch;
  launch.abi = MCO_ASC_ABI;
  launch.entry[0] = launch.entry[1] = entry;
  launch.args = args;
  launch.memory = memory.data();
  launch.memories = int32_t(memory.size());
  launch.strict = !memory.empty();  // a program that takes its memory elsewhere is not checked
  launch.blocks = int32_t(blocks);
  launch.kind = a.mode == 2 ? 0 : a.mode == 1 ? 1 : kind;
  launch.tiling_key = a.tiling_key;
  launch.scope_bytes = fused ? mco::asc::kFusedBytes : mco::asc::kSplitBytes;
  launch.saturate = fused;
  launch.split = !fused;
  launch.arch = arch;
  char error[4096];
  if (blocks < 1 || blocks > 65535) {
    std::fprintf(stderr, "a launch of %lld blocks; accepted: 1 to 65535\n", static_cast<long long>(blocks));
    std::exit(1);
  }
  if (!mco_asc_run(&launch, error, sizeof error)) return;
  std::fprintf(stderr, "%s\n", error);
  std::exit(1);
}

}  // extern "C"
