// SPDX-License-Identifier: Apache-2.0
// On-chip memory of the blocks: one set of buffers per running thread, kept for the next run.
#pragma once

#include <memory>
#include <vector>

#include "program.h"

namespace mco {

// 64-byte aligned memory that only grows. Its content is not kept when it grows.
class Block64 {
 public:
  Block64() = default;
  ~Block64();
  Block64(const Block64&) = delete;
  Block64& operator=(const Block64&) = delete;
  // At least `bytes` bytes, `kPadding` readable ones behind them and a 32-byte block before them. New memory is zero.
  uint8_t* reserve(int64_t bytes);

  int64_t bytes() const { return bytes_; }  // that it holds

  static constexpr int64_t kPadding = 128;  // inner loops read whole SIMD registers

 private:
  void* memory_ = nullptr;
  uint8_t* base_ = nullptr;  // first aligned address of it
  int64_t bytes_ = 0;
};

class Arena {
 public:
  // Makes room for the buffers of a program.
  void fit(const Program& p);
  uint8_t* base(Scope scope) const { return base_[scope]; }

  // Scratch of one instruction; number 0 to 3 are independent.
  uint8_t* scratch(int number, int64_t bytes) { return scratch_[number].reserve(bytes); }

 private:
  Block64 memory_[kScopes];
  uint8_t* base_[kScopes] = {};
  Block64 scratch_[4];
};

// Arenas and workspace memory that no run uses at the moment. Thread-safe.
std::unique_ptr<Arena> take_arena();
void give_arena(std::unique_ptr<Arena> arena) noexcept;

// Memory of one workspace, at least `bytes` long; content undefined.
std::unique_ptr<Block64> take_workspace(int64_t bytes);
void give_workspace(std::unique_ptr<Block64> memory) noexcept;

int64_t machine_bytes();  // of the memory of this machine

}  // namespace mco
