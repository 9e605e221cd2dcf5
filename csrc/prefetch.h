// SPDX-License-Identifier: Apache-2.0
// Hints: bytes that are soon read, or added to. No address is refused, whatever lies there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mco {

constexpr int64_t kCacheLine = 64;

inline void prefetch_lines(const void* at, size_t lines) {
  for (size_t i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(at) + i * kCacheLine);
}

inline void prefetch(const uint8_t* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i);
  __builtin_prefetch(at + bytes - 1);
}

inline void prefetch_to_write(const uint8_t* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i, 1);
  __builtin_prefetch(at + bytes - 1, 1);
}

}  // namespace mco
