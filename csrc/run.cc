// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "counter.h"
#include "fpenv.h"
#include "limits.inc"
#include "number.h"
#include "pool.h"
#include "stopwatch.h"

namespace mco {

namespace {

Registers no_registers(const Program& p) {
  Registers r;
  r.value.assign(p.registers.size(), Value{0});
  r.set.assign(p.registers.size(), 0);
  return r;
}

// The events of the Program's chip and its rule of order within a pipe; of a chip that the table does not have, the
// defaults stay.
void take_pipe_rules(const Program& p, CheckOptions& options) {
  static constexpr struct {
    const char* soc;
    int64_t events;
    bool within_pipe;
  } kRules[] = {
#include "pipe_rules.inc"
  };
  for (const auto& rule : kRules) {
    if (p.strings.size() < 2 || p.strings[1] != rule.soc) continue;
    options.events = rule.events;
    options.within_pipe = rule.within_pipe;
  }
}

}  // namespace

Run::Run(const Program& program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
         const mco_options& options)
    : program_(program),
      gm_(program.buffers.size()),
      inputs_(no_registers(program)),
      options_(options),
      watch_(std::max(options.time_limit, 0.0), options.poll) {
  const size_t wanted = program.input_scalars.size();
  if (ns < 0 || size_t(ns) != wanted || (ns > 0 && !scalars)) {
    fail("%s: input scalars are %d values; accepted: %zu", program.name.c_str(), ns, wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    const uint32_t reg = program.input_scalars[i];
    const DType t = program.registers[reg].dtype;
    Value& v = inputs_.value[reg];
    if (is_float(t)) {
      v.f = round_to_dtype(scalars[i].f, t);
    } else {
      v.i = wrap_int(scalars[i].i, t);
    }
    inputs_.set[reg] = 1;
  }
  find_blocks();
  bind(tensors, n);
  make_workspaces();
}

Run::~Run() {
  for (auto& w : workspaces_) give_workspace(std::move(w));
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
      initialise(b, gm_[index], false);
    } else if (fed.base != gm_[index].base) {  // an output that is also an input starts as a copy of it
      if (fed.size != t.bytes) {
        fail("%s: output %s has %lld bytes; accepted: %lld, as the input", p.name.c_str(), b.name.c_str(),
             (long long)t.bytes, (long long)fed.size);
      }
      if (t.bytes) std::memmove(gm_[index].base, fed.base, size_t(t.bytes));
    }
  }
}

void Run::initialise(const Buffer& b, View v, bool workspace) const {
  if (!v.size || !(workspace || b.atomic_init)) return;
  if (!b.table.empty()) {
    std::memcpy(v.base, b.table.data(), size_t(std::min<int64_t>(v.size, int64_t(b.table.size()))));
  } else if (b.has_init) {
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
    const Buffer& b = program_.buffers[index];
    auto memory = take_workspace(b.size_bytes);
    gm_[index] = {memory->reserve(b.size_bytes), b.size_bytes};
    workspaces_.push_back(std::move(memory));
    initialise(b, gm_[index], true);
  }
}

// The number of blocks is a function of the input scalars.
void Run::find_blocks() {
  const Stream& stream = program_.stream;
  uint32_t loc = 0;
  if (stream.blocks != kNone) {
    const Step& s = stream.steps[stream.blocks];
    loc = s.loc;
    int64_t end = 0;
    try {
      begin_ = program_.exprs.eval(s.a, inputs_).i;
      end = program_.exprs.eval(s.b, inputs_).i;
    } catch (const EvalError& e) {
      fail_scalar(program_, e, s.loc);
    }
    const Wide count = Wide(end) - begin_;
    if (count > limits::kBlocks) {
      fail("for: the multi-core loop has %lld blocks; accepted: 0 to %lld [%s]",
           (long long)std::min<Wide>(count, INT64_MAX), (long long)limits::kBlocks, program_.location(s.loc).c_str());
    }
    blocks_ = count < 0 ? 0 : int64_t(count);
  }
  if (stream.has_barrier) check_barrier_blocks(loc);
  order_ = std::make_unique<BlockOrder>(blocks_, program_.saturate);
}

void Run::check_barrier_blocks(uint32_t loc) const {
  int64_t bytes = int64_t(sizeof(Machine) + program_.buffers.size() * sizeof(View) + inputs_.value.size() * 9);
  for (const int64_t scope : program_.arena_bytes) bytes += scope;
  const int64_t most = machine_bytes() / 2 / bytes;  // each keeps its on-chip memory while it waits
  if (blocks_ <= std::max<int64_t>(most, 1)) return;
  fail("block_barrier: %s has %lld blocks with %lld bytes each; accepted with a barrier: 0 to %lld blocks [%s]",
       program_.name.c_str(), (long long)blocks_, (long long)bytes, (long long)most, program_.location(loc).c_str());
}

void Run::execute() {
  if (options_.mode == MCO_MODE_CHECKED) {
    CheckOptions o;
    if (options_.events > 0) {
      o.events = options_.events;
      o.within_pipe = options_.within_pipe != 0;
    } else {
      take_pipe_rules(program_, o);
    }
    o.values = options_.values != 0;
    check_ = std::make_unique<CheckRun>(program_, gm_, o);
  }
  if (program_.stream.has_barrier) {
    run_stages();
  } else {
    std::atomic<int64_t> next{0};
    share([&] { run_claimed(next); });
  }
  if (check_) check_->finish(gm_, error_block_ == INT64_MAX);
  if (error_block_ != INT64_MAX) throw Error(error_);
}

void Run::share(const std::function<void()>& work) {
  const int64_t threads = options_.threads > 0 ? options_.threads : ThreadPool::threads();
  const int64_t helpers = std::max<int64_t>(std::min(threads, blocks_) - 1, 0);
  ThreadPool::instance().run(int(helpers), work, [this] { watch_.look(); });
}

Run::Seat Run::take_seat() {
  Seat seat;
  if (options_.mode == MCO_MODE_COUNTED) seat.observer = std::make_unique<Counter>(options_.counts);
  if (options_.mode == MCO_MODE_MEASURED) {
    const Measures measures{options_.counts, options_.nanoseconds, options_.work};
    seat.observer = std::make_unique<Stopwatch>(program_, measures);
  }
  if (check_) seat.observer = std::make_unique<Checker>(*check_, program_);
  if (source_) seat.observer = source_->make();
  const bool straight = !seat.observer || seat.observer->passive();
  const Shared shared{*order_, watch_, options_.deterministic != 0, false, straight};
  seat.machine = std::make_unique<Machine>(program_, shared, gm_, seat.observer.get());
  return seat;
}

// Takes blocks in ascending order until none is left. Every lower block is then done or on a thread, so that waiting
// for its turn never waits for a block that nobody runs.
void Run::run_claimed(std::atomic<int64_t>& next) noexcept {
  const FloatingPointDefaults defaults;
  Seat seat;
  for (int64_t block; (block = next.fetch_add(1)) < blocks_;) advance(seat, block, true);
}

// Blocks rest at a barrier and go on in the next stage, each on the thread that takes it then.
void Run::run_stages() {
  std::vector<Seat> seats;
  seats.resize(size_t(blocks_));
  do {
    std::atomic<int64_t> next{0};
    share([&] { run_stage(next, seats); });
    if (check_) check_->next_stage();
  } while (error_block_ == INT64_MAX && order_->next_stage(program_));
}

void Run::run_stage(std::atomic<int64_t>& next, std::vector<Seat>& seats) noexcept {
  const FloatingPointDefaults defaults;
  for (int64_t block; (block = next.fetch_add(1)) < blocks_;) {
    Seat& seat = seats[size_t(block)];
    advance(seat, block, !seat.machine);
  }
}

// Nothing that a block throws leaves its thread in another way than as the text of the run's error.
void Run::advance(Seat& seat, int64_t block, bool begins) noexcept {
  try {
    if (!cancelled(block)) {
      if (!seat.machine) seat = take_seat();
      if (begins) seat.machine->start(block, begin_ + block, inputs_);
      if (seat.machine->resume() == Outcome::AtBarrier) return seat.machine->arrive(block);
    }
  } catch (const std::bad_alloc&) {
    note_error(block, "out of memory");
  } catch (const std::exception& e) {
    note_error(block, e.what());
  } catch (...) {
    note_error(block, "unknown error");
  }
  if (seat.machine) return seat.machine->end(block);
  AtomicLog nothing;
  order_->end(block, nothing);
}

void Run::note_error(int64_t block, const char* text) noexcept {
  std::lock_guard<std::mutex> lock(error_mutex_);
  if (block >= error_block_) return;
  error_block_ = block;
  std::snprintf(error_, sizeof error_, "%s", text);
}

// Blocks above the lowest one that failed need not run.
bool Run::cancelled(int64_t block) const { return block > error_block_; }

}  // namespace mco
