// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "fpenv.h"
#include "number.h"
#include "pool.h"

namespace mco {

namespace {

constexpr int64_t kMaxBlocks = 1 << 20;
constexpr int64_t kMaxBarrierBlocks = 128;  // each of them needs a thread of its own

}  // namespace

Run::Run(const Program& program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
         const mco_options& options)
    : program_(program),
      gm_(program.buffers.size()),
      deterministic_(options.deterministic != 0),
      threads_(options.threads > 0 ? options.threads : ThreadPool::instance().threads()) {
  const size_t wanted = program.input_scalars.size();
  if (ns < 0 || size_t(ns) != wanted || (ns > 0 && !scalars)) {
    fail("%s: input scalars are %d values; accepted: %zu", program.name.c_str(), ns, wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    const DType t = program.registers[program.input_scalars[i]].dtype;
    Value v;
    if (is_float(t)) {
      v.f = round_to_dtype(scalars[i].f, t);
    } else {
      v.i = wrap_int(scalars[i].i, t);
    }
    scalars_.push_back(v);
  }
  find_blocks();
  bind(tensors, n);
  make_workspaces();
}

Run::~Run() {
  for (auto& w : workspaces_) give_workspace(std::move(w.second), w.first);
}

void Run::bind(const mco_tensor* tensors, int n) {
  const Program& p = program_;
  const size_t wanted = p.inputs.size() + p.outputs.size();
  if (n < 0 || size_t(n) != wanted || (n > 0 && !tensors)) {
    fail("%s: %d tensors were given; accepted: %zu inputs and %zu outputs", p.name.c_str(), n, p.inputs.size(),
         p.outputs.size());
  }
  for (size_t i = 0; i < wanted; ++i) {
    const bool input = i < p.inputs.size();
    const uint32_t index = input ? p.inputs[i] : p.outputs[i - p.inputs.size()];
    const Buffer& b = p.buffers[index];
    const mco_tensor& t = tensors[i];
    const char* role = input ? "input" : "output";
    if (t.bytes < 0 || (b.size_bytes >= 0 && t.bytes != b.size_bytes)) {
      fail("%s: %s %s has %lld bytes; accepted: %lld", p.name.c_str(), role, b.name.c_str(), (long long)t.bytes,
           (long long)std::max<int64_t>(b.size_bytes, 0));
    }
    if (!t.data && t.bytes) fail("%s: %s %s has no memory", p.name.c_str(), role, b.name.c_str());
    const View fed = gm_[index];
    gm_[index] = {static_cast<uint8_t*>(t.data), t.bytes};
    if (input) continue;
    if (std::find(p.inputs.begin(), p.inputs.end(), index) == p.inputs.end()) {
      initialise(b, gm_[index]);
    } else if (fed.base != gm_[index].base) {  // an output that is also an input starts as a copy of it
      if (fed.size != t.bytes) {
        fail("%s: output %s has %lld bytes; accepted: %lld, as the input", p.name.c_str(), b.name.c_str(),
             (long long)t.bytes, (long long)fed.size);
      }
      if (t.bytes) std::memmove(gm_[index].base, fed.base, size_t(t.bytes));
    }
  }
}

void Run::initialise(const Buffer& b, View v) const {
  if (!v.size) return;
  if (b.kind == Kind::Workspace && b.has_init) {
    Value init;
    init.f = b.init_value;
    uint8_t raw[8];
    const int size = value_to_bits(convert_value(init, F32, b.dtype), b.dtype, raw);
    for (int64_t i = 0; i + size <= v.size; i += size) std::memcpy(v.base + i, raw, size_t(size));
  } else if (b.atomic_init) {
    std::memset(v.base, 0, size_t(v.size));
  }
}

void Run::make_workspaces() {
  for (uint32_t index : program_.workspaces) {
    Buffer b = program_.buffers[index];
    b.kind = Kind::Workspace;
    auto memory = take_workspace(b.size_bytes);
    gm_[index] = {memory->reserve(b.size_bytes), b.size_bytes};
    workspaces_.emplace_back(b.size_bytes, std::move(memory));
    initialise(b, gm_[index]);
  }
}

void Run::set_inputs(Registers& registers) const {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    registers.value[program_.input_scalars[i]] = scalars_[i];
    registers.set[program_.input_scalars[i]] = 1;
  }
}

// The number of blocks is a function of the input scalars.
void Run::find_blocks() {
  const Statement* s = program_.block_loop;
  if (s) {
    Registers registers;
    registers.value.assign(program_.registers.size(), Value{0});
    registers.set.assign(program_.registers.size(), 0);
    set_inputs(registers);
    int64_t end = 0;
    try {
      begin_ = program_.exprs.eval(s->a, registers).i;
      end = program_.exprs.eval(s->b, registers).i;
    } catch (const EvalError& e) {
      fail_scalar(program_, e, s->loc);
    }
    const Wide count = Wide(end) - begin_;
    if (count > kMaxBlocks) {
      fail("for: the multi-core loop has %lld blocks; accepted: 0 to %lld [%s]",
           (long long)std::min<Wide>(count, INT64_MAX), (long long)kMaxBlocks, program_.location(s->loc).c_str());
    }
    blocks_ = count < 0 ? 0 : int64_t(count);
  }
  if (program_.has_barrier && blocks_ > kMaxBarrierBlocks) {
    fail("block_barrier: %s has %lld blocks; accepted with a barrier: 0 to %lld", program_.name.c_str(),
         (long long)blocks_, (long long)kMaxBarrierBlocks);
  }
  order_ = std::make_unique<BlockOrder>(blocks_, program_.saturate);
}

void Run::execute() {
  if (program_.has_barrier && blocks_ > 1) {
    run_with_barrier();
  } else {
    std::atomic<int64_t> next{0};
    const int64_t helpers = std::min<int64_t>(threads_, blocks_) - 1;
    ThreadPool::instance().run(int(std::max<int64_t>(helpers, 0)), [&] { run_claimed(next); });
  }
  if (error_block_ != INT64_MAX) throw Error(error_);
}

// Takes blocks in ascending order until none is left. Every lower block is then done or on a thread, so that waiting
// for its turn never waits for a block that nobody runs.
void Run::run_claimed(std::atomic<int64_t>& next) {
  int64_t block = next.fetch_add(1);
  if (block >= blocks_) return;
  FloatingPointDefaults defaults;
  auto arena = take_arena();
  try {
    Machine machine(program_, *this, *arena, gm_);
    for (; block < blocks_; block = next.fetch_add(1)) run_one(machine, block);
  } catch (const std::exception& e) {  // the machine could not be made
    for (; block < blocks_; block = next.fetch_add(1)) {
      note_error(block, e.what());
      AtomicLog nothing;
      order_->end(block, nothing);
    }
  }
  give_arena(std::move(arena));
}

void Run::run_one(Machine& machine, int64_t block) {
  if (!cancelled(block)) {
    try {
      machine.run_block(block, begin_ + block);
    } catch (const Aborted&) {
      // another block has an error to report
    } catch (const std::exception& e) {
      note_error(block, e.what());
    }
  }
  machine.end_block(block);
}

void Run::run_with_barrier() {
  auto job = [this](int64_t block) {
    std::atomic<int64_t> one{block};
    FloatingPointDefaults defaults;
    auto arena = take_arena();
    try {
      Machine machine(program_, *this, *arena, gm_);
      run_one(machine, block);
    } catch (const std::exception& e) {
      note_error(block, e.what());
    }
    give_arena(std::move(arena));
  };
  std::vector<std::thread> threads;
  try {
    for (int64_t block = 1; block < blocks_; ++block) threads.emplace_back(job, block);
  } catch (const std::system_error& e) {
    note_error(int64_t(threads.size()) + 1, format("block_barrier: no thread for block %zu of %s: %s",
                                                   threads.size() + 1, program_.name.c_str(), e.what()));
  }
  job(0);
  for (std::thread& t : threads) t.join();
}

void Run::note_error(int64_t block, const std::string& text) {
  {
    std::lock_guard<std::mutex> lock(error_mutex_);
    if (block < error_block_) {
      error_block_ = block;
      error_ = text;
    }
  }
  if (program_.has_barrier) order_->abort();
}

// Blocks above the lowest one that failed need not run.
bool Run::cancelled(int64_t block) {
  std::lock_guard<std::mutex> lock(error_mutex_);
  return block > error_block_;
}

}  // namespace mco
