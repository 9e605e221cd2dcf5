// SPDX-License-Identifier: Apache-2.0
// Accesses of blocks to tensors in GM that some block writes, to find those that nothing orders: of two blocks, in the
// same stage (between two barriers), one at least a write, not both atomic adds.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "access.h"
#include "findings.h"

namespace mco {

// Rewrite: of the value that is there.
enum class GmUse : uint8_t { Read, Write, Rewrite, Add };

// What one block did in this stage.
class CoreLog {
 public:
  struct Entry {
    uint32_t buffer, loc;
    GmUse use;
    int64_t base;
    Box box;
  };
  void add(uint32_t buffer, GmUse use, uint32_t loc, int64_t base, const Touched& touched);
  bool full() const { return entries_.size() >= kMost; }

  std::vector<Entry>& entries() { return entries_; }

 private:
  static constexpr size_t kMost = 1 << 16;
  std::vector<Entry> entries_;
};

// What all blocks did in this stage: for each byte who wrote, and two blocks that read.
class Cores {
 public:
  Cores(const Program& p, std::vector<int64_t> bytes);

  bool watches(uint32_t buffer) const { return buffer < written_.size() && written_[buffer]; }
  // Takes over the log of a block.
  void take(int64_t block, CoreLog& log);
  // The stage is over: compares what was taken.
  void next_stage(Findings& found);

 private:
  struct Who {
    int64_t block;
    uint32_t loc;
    GmUse use;
  };
  struct Taken {
    int64_t block;
    std::vector<CoreLog::Entry> entries;
  };
  struct Bytes {  // numbers of Who + 1 of this stage; 0: nobody
    std::vector<uint32_t> writer, reader, other;
  };
  struct Tile {  // bytes of a tensor that are noted at a time
    int64_t lo, hi;
  };
  void paint(uint32_t buffer, const Tile& tile, Findings& found);
  void paint(const Taken& taken, const CoreLog::Entry& e, bool reads, const Tile& tile, Findings& found);
  void paint_early();
  bool apart(uint32_t buffer) const;
  std::vector<uint32_t> buffers() const;
  void sort_taken();
  uint32_t number_of(int64_t block, uint32_t loc, GmUse use);
  void clash(const Who& first, const Who& second, uint32_t buffer, int64_t lo, int64_t hi, Findings& found);

  static constexpr size_t kMostEntries = 1 << 19;
  static constexpr int64_t kTileBytes = 4 << 20;
  const Program& program_;
  std::vector<uint8_t> written_;
  std::vector<int64_t> bytes_;
  std::mutex mutex_;
  std::vector<Taken> taken_;
  size_t entries_ = 0;
  bool painted_early_ = false;
  std::vector<Bytes> of_;  // by buffer
  std::vector<Who> who_;
  std::map<std::tuple<int64_t, uint32_t, GmUse>, uint32_t> numbers_;
  Findings early_;  // of parts of a stage that were compared before its end
};

}  // namespace mco
