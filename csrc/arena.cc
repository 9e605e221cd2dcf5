// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "forksafe.h"

namespace mco {

namespace {

constexpr size_t kKeptArenas = 64;
constexpr size_t kKeptWorkspaces = 256;
constexpr int64_t kKeptWorkspaceBytes = int64_t(256) << 20;

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Block64>> workspaces;
  int64_t workspace_bytes = 0;
};

Pool& pool() { return fork_safe<Pool>(); }

// Memory for the next run is a convenience: where its list cannot grow, it is freed.
template <class T>
void keep(std::vector<std::unique_ptr<T>>& list, std::unique_ptr<T> memory) noexcept {
  try {
    list.push_back(std::move(memory));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

int64_t machine_bytes() {
  static const int64_t bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return bytes;
}

Block64::~Block64() { std::free(memory_); }

uint8_t* Block64::reserve(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  if (base_ && bytes <= bytes_) return base_;
  if (bytes > machine_bytes()) {
    fail("out of memory: a buffer of %lld bytes; this machine has %lld", (long long)bytes, (long long)machine_bytes());
  }
  void* fresh = std::calloc(size_t(bytes + kPadding + 2 * kAlignment), 1);
  if (!fresh) fail("out of memory: a buffer of %lld bytes", (long long)bytes);
  std::free(memory_);
  memory_ = fresh;
  base_ = static_cast<uint8_t*>(fresh) + 2 * kAlignment - reinterpret_cast<uintptr_t>(fresh) % kAlignment;
  bytes_ = bytes;
  return base_;
}

void Arena::fit(const Program& p) {
  for (int s = UB; s < kScopes; ++s) base_[s] = memory_[s].reserve(p.arena_bytes[s]);
}

std::unique_ptr<Arena> take_arena() {
  Pool& p = pool();
  std::lock_guard<std::mutex> lock(p.mutex);
  if (p.arenas.empty()) return std::make_unique<Arena>();
  auto arena = std::move(p.arenas.back());
  p.arenas.pop_back();
  return arena;
}

void give_arena(std::unique_ptr<Arena> arena) noexcept {
  Pool& p = pool();
  std::lock_guard<std::mutex> lock(p.mutex);
  if (p.arenas.size() < kKeptArenas) keep(p.arenas, std::move(arena));
}

// One that is not too large for what it is for: what it holds is what it occupies, whatever was asked for.
std::unique_ptr<Block64> take_workspace(int64_t bytes) {
  Pool& p = pool();
  {
    std::lock_guard<std::mutex> lock(p.mutex);
    for (std::unique_ptr<Block64>& w : p.workspaces) {
      if (w->bytes() < bytes || (w->bytes() - 4096) / 2 > bytes) continue;
      std::unique_ptr<Block64> memory = std::move(w);
      p.workspace_bytes -= memory->bytes();
      w = std::move(p.workspaces.back());
      p.workspaces.pop_back();
      return memory;
    }
  }
  return std::make_unique<Block64>();
}

void give_workspace(std::unique_ptr<Block64> memory) noexcept {
  Pool& p = pool();
  std::lock_guard<std::mutex> lock(p.mutex);
  const int64_t bytes = memory->bytes();
  if (p.workspaces.size() >= kKeptWorkspaces || p.workspace_bytes + bytes > kKeptWorkspaceBytes) return;
  const size_t before = p.workspaces.size();
  keep(p.workspaces, std::move(memory));
  if (p.workspaces.size() > before) p.workspace_bytes += bytes;
}

}  // namespace mco
