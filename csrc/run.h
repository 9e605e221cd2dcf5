// SPDX-License-Identifier: Apache-2.0
// One run of a program: its memory, its blocks on the threads, its first error.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "arena.h"
#include "atomics.h"
#include "capi.h"
#include "checker.h"
#include "machine.h"

namespace mco {

class Run {
 public:
  // Binds memory and scalars; throws Error when they do not fit the program.
  Run(const Program& program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
      const mco_options& options);
  ~Run();
  // Every block is watched by an observer of this source; null: by none.
  void observe(ObserverSource* source) { source_ = source; }
  int64_t blocks() const { return blocks_; }
  void execute();
  // After execute(), in the checked mode, also where that threw.
  const CheckRun* check() const { return check_.get(); }
  bool asked_to_stop() const { return watch_.stopped() == Watch::Stop::Asked; }

 private:
  // A machine with what looks on.
  struct Seat {
    std::unique_ptr<Observer> observer;
    std::unique_ptr<Machine> machine;
  };
  void bind(const mco_tensor* tensors, int n);
  void make_workspaces();
  void initialise(const Buffer& b, View v, bool workspace) const;
  void find_blocks();
  void check_barrier_blocks(uint32_t loc) const;
  Seat take_seat();
  void run_claimed(std::atomic<int64_t>& next) noexcept;
  void run_stages();
  void run_stage(std::atomic<int64_t>& next, std::vector<Seat>& seats) noexcept;
  void advance(Seat& seat, int64_t block, bool begins) noexcept;
  void share(const std::function<void()>& work);
  void note_error(int64_t block, const char* text) noexcept;
  bool cancelled(int64_t block) const;

  const Program& program_;
  std::vector<View> gm_;
  std::vector<std::unique_ptr<Block64>> workspaces_;
  Registers inputs_;  // what every block starts with
  const mco_options options_;
  ObserverSource* source_ = nullptr;
  Watch watch_;
  int64_t begin_ = 0, blocks_ = 1;
  std::unique_ptr<BlockOrder> order_;
  std::unique_ptr<CheckRun> check_;

  std::mutex error_mutex_;  // of the text, and of which block's it is
  std::atomic<int64_t> error_block_{INT64_MAX};
  char error_[1024];
};

}  // namespace mco
