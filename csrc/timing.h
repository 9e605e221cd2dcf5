// SPDX-License-Identifier: Apache-2.0
// What the blocks of a timed run share: the chip, the costs of rows, who touches which page of GM, and the results.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "instruction.h"
#include "run.h"

namespace mco {

struct Chip {
#define V(name) double name = 0;
#include "chip_values.inc"
#undef V
};
// Names of the numbers, in their order.
const std::vector<const char*>& chip_value_names();

// Lanes of a timeline: the pipes, and those that a split core has twice. Numbers up to kFix are those of PIPES.
enum Lane : int { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kCubeMte2, kCubeMte3, kCubeS, kLanes };

// Why an instruction did not start when its pipe was free, or took longer than alone.
enum Stall : int { kDispatch, kRaw, kWar, kWaw, kFlag, kBarrier, kQueue, kBandwidth, kBank, kBlocks, kCores, kStalls };

struct RowCost {
  int pipe = -1;          // -1: by the route
  double startup = 0;     // cycles until the first result
  double cycles[3] = {};  // per repeat of 256 bytes, by widest operand of 1, 2, 4 bytes
};

struct Costs {
  Chip chip;
  std::unordered_map<const OpInfo*, RowCost> rows;
  int route[kScopes][kScopes];  // [dst][src] -> pipe, -1: none
  const RowCost& of(const OpInfo* op) const;
};

// Sums are kept in 1/kUnit cycles, so that their order does not matter.
constexpr double kUnit = 256;
inline int64_t units(double cycles) { return int64_t(cycles * kUnit + 0.5); }

struct StepSum {
  int64_t count = 0, busy = 0, wait = 0, bytes = 0;
};

struct TimeSpan {
  int32_t step, lane, reason, block;
  double start, end, wait, bytes;
};

struct BlockSum {
  int64_t end = 0;
  std::array<int64_t, kLanes> busy{}, count{};
  std::array<std::array<int64_t, kStalls>, kLanes> stall{};
  std::array<std::array<int64_t, kScopes>, kScopes> bytes{}, busy_on{};  // [dst][src]
  int64_t gm_read = 0, gm_written = 0, l2_bytes = 0;                     // behind L2; in all
  int64_t macs = 0, cube = 0, vector_bytes = 0;  // products, cycles of them alone, bytes of vector results
  int64_t unpaired = 0;                          // waits for a flag that nobody set
};

constexpr int64_t kPage = 4096;

// Which instructions are executed: those that only execution tells the bytes of; also those with integer results, on
// memory that starts as zeros; all.
enum class Execute { Few, Integers, All };

class Timing : public ObserverSource {
 public:
  // `direct`: the blocks are cores of a launch whose front end runs its kernel while it reads it, all on one thread;
  // the program is its directory, which grows.
  Timing(const Program& program, Costs costs, int64_t blocks, Execute execute, int64_t traced_blocks,
         int64_t traced_slices, bool direct = false);
  std::unique_ptr<Observer> make() override;

  // The first of two runs finds the pages, the second one the times.
  void begin_timing();
  bool timing() const { return timing_; }
  Execute execute() const { return execute_; }

  void note_page(uint32_t buffer, int64_t page);  // a block touches it for the first time
  double sharers(uint32_t buffer, int64_t page) const { return std::max<double>(pages_[buffer][size_t(page)], 1); }
  int64_t pages_of(uint32_t buffer) const { return int64_t(pages_[buffer].size()); }
  void size_pages(uint32_t buffer, int64_t bytes);
  bool fits_l2() const { return unique_pages_ * double(kPage) <= costs.chip.l2_bytes; }
  // Bytes of all cores for one of this core, as far as they are different ones.
  double spread() const { return spread_; }
  // A core's part of what the chip moves: of a direct front end by what it moves, else all the same.
  double part(int64_t block) const { return parts_.empty() ? 1 / active_ : parts_[size_t(block)]; }
  // Bytes that a core of a direct front end touches in GM, in the first run.
  void note_bytes(int64_t block, double bytes) { bytes_[size_t(block)] += bytes; }

  void add(int64_t block, const BlockSum& sum, const std::vector<StepSum>& steps, std::vector<TimeSpan>& slices);
  // The time at which the blocks of the last stage arrived.
  double barrier(int64_t stage) const { return stage < int64_t(barriers_.size()) ? barriers_[size_t(stage)] : 0; }
  void arrive(int64_t stage, double time);

  const Program& program;
  const Costs costs;
  const bool direct;
  const int64_t traced_blocks, traced_slices;

  std::vector<BlockSum> blocks;
  std::vector<StepSum> steps;
  std::vector<TimeSpan> slices;

 private:
  const Execute execute_;
  bool timing_ = false;
  double unique_pages_ = 0, touched_pages_ = 0, spread_ = 1, active_ = 1;
  std::vector<std::vector<uint16_t>> pages_;  // blocks that touch a page, by buffer
  std::vector<double> barriers_;
  std::vector<double> parts_, bytes_;
  mutable std::mutex mutex_;
};

// Whether the steps of a program and their order do not depend on data in memory, so that instructions need not be
// executed to time them.
bool needs_data(const Program& program);

}  // namespace mco
