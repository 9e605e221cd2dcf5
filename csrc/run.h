// SPDX-License-Identifier: Apache-2.0
// One run of a program: its memory, its blocks on the threads, its first error.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "arena.h"
#include "atomics.h"
#include "capi.h"
#include "machine.h"

namespace mco {

[[noreturn]] void fail_scalar(const Program& p, const EvalError& e, uint32_t loc);

class Run {
 public:
  // Binds memory and scalars; throws Error when they do not fit the program.
  Run(const Program& program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
      const mco_options& options);
  ~Run();
  void execute();

  void set_inputs(Registers& registers) const;
  bool deterministic() const { return deterministic_; }
  BlockOrder& order() { return *order_; }

 private:
  void bind(const mco_tensor* tensors, int n);
  void make_workspaces();
  void initialise(const Buffer& b, View v) const;
  void find_blocks();
  void run_claimed(std::atomic<int64_t>& next);
  void run_one(Machine& machine, int64_t block);
  void run_with_barrier();
  void note_error(int64_t block, const std::string& text);
  bool cancelled(int64_t block);

  const Program& program_;
  std::vector<View> gm_;
  std::vector<std::pair<int64_t, std::unique_ptr<Block64>>> workspaces_;
  std::vector<Value> scalars_;
  const bool deterministic_;
  int threads_;
  int64_t begin_ = 0, blocks_ = 1;
  std::unique_ptr<BlockOrder> order_;

  std::mutex error_mutex_;
  int64_t error_block_ = INT64_MAX;
  std::string error_;
};

}  // namespace mco
