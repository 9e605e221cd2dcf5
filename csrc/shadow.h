// SPDX-License-Identifier: Apache-2.0
// Shadow memory: for every byte that a kernel can touch, whether it holds something, and if not, why. Laid out like the
// memory itself, so that what moves bytes can move their shadows.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "access.h"
#include "machine.h"

namespace mco {

// A shadow byte: 0 for a byte with content, else the number of the origin of its lack.
using Mark = uint8_t;
constexpr Mark kHeld = 0;
constexpr Mark kNeverWritten = 1;
constexpr Mark kCarried = 2;  // written in an earlier round of a loop with thread_num, whose copy is another
constexpr Mark kFirstOrigin = 3;

// Who first read bytes without content; what was computed from them carries its number.
struct Origin {
  uint32_t loc = 0;
  uint32_t buffer = 0;
  bool carried = false;
};

// Whether all of n shadow bytes are of held bytes.
bool all_held(const Mark* at, int64_t n);

class GmShadow {
 public:
  // `all`: any tensor may be written, whatever the stream says.
  GmShadow(const Program& p, const std::vector<View>& gm, bool all);

  // Shadow of a GM tensor as long as it is; null for one that no step writes and whose content the caller gave.
  Mark* of(uint32_t buffer) const { return buffer < marks_.size() ? marks_[buffer].get() : nullptr; }
  // The same, or memory that says held and is only read.
  Mark* readable(uint32_t buffer, int64_t bytes);

  // The number of an origin; every one beyond 252 shares the last.
  Mark number_of(const Origin& origin);
  Origin origin(Mark number) const;

 private:
  struct Free {
    void operator()(Mark* p) const { std::free(p); }
  };
  using Marks = std::unique_ptr<Mark, Free>;
  static Marks zeros(int64_t bytes);

  std::vector<Marks> marks_, held_;
  mutable std::mutex mutex_;
  std::vector<Origin> origins_;
};

// Shadow of the on-chip memory of a block.
class ChipShadow {
 public:
  explicit ChipShadow(const Program& p);
  Mark* base(Scope scope) const { return base_[scope]; }
  void reset();  // nothing was written

 private:
  Block64 memory_[kScopes];
  Mark* base_[kScopes] = {};
  int64_t bytes_[kScopes] = {};
};

// Which GM buffers some step of the program writes.
std::vector<uint8_t> written_buffers(const Program& p);

}  // namespace mco
