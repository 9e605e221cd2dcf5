// SPDX-License-Identifier: Apache-2.0
// Pipes, queues and buffers of a core.
#include <algorithm>

#include "asc_check.h"
#include "asc_run.h"

namespace mco::asc {

namespace {

constexpr int kMostBuffers = 64;

// Buffers of a memory, for an error that one more does not fit.
std::string list_of(const mco_asc_pipe& pipe, Scope scope, bool split) {
  std::string text;
  for (const Queue* q : pipe.queues) {
    if (q->blocks.empty() || scope_of(q->blocks[0]->position, split) != scope) continue;
    text += (text.empty() ? "" : ", ") + q->name() + ": " + std::to_string(q->blocks.size()) + " x " +
            std::to_string(q->block_bytes);
  }
  return text.empty() ? "none before it" : text;
}

enum Position { kGM, kA1, kA2, kB1, kB2, kC1, kC2, kCO1, kCO2, kVECIN, kVECOUT, kVECCALC, kSHM, kTSCM };
enum Pipe { kV = 1, kM, kMTE1, kMTE2, kMTE3, kFIX };

bool in_l1(int position) { return position == kA1 || position == kB1 || position == kC1 || position == kTSCM; }
bool in_l0(int position) { return position == kA2 || position == kB2 || position == kC2; }

// The pipes that the flags of a queue order: who fills its tensors, who uses them. A queue of one position is filled
// from the memory before it.
int producer_of(int from, int to) {
  if (in_l1(from)) return from == to ? kMTE2 : kMTE1;
  if (in_l0(from)) return from == to ? kMTE1 : kM;
  switch (from) {
    case kGM:
      return kMTE2;
    case kVECIN:
      return to == kVECCALC ? kV : kMTE2;
    case kCO1:
      return kM;
    default:
      return kV;
  }
}
int consumer_of(int from, int to, bool split) {
  if (in_l1(to)) return from == kVECOUT ? kMTE3 : kMTE1;
  if (in_l0(to)) return kM;
  switch (to) {
    case kGM:
      return from == kCO1 && split ? kFIX : kMTE3;
    case kCO1:
      return split ? kFIX : kV;
    case kCO2:
      return from == kCO1 ? (split ? kFIX : kV) : kMTE3;
    case kVECOUT:
      return kMTE3;
    default:
      return kV;
  }
}

Queue* make_queue(AscCore& core, const mco_asc_where& where, int position, int end, int depth, int number,
                  int64_t bytes, int64_t address) {
  Queue* const q = &core.made->queues.add();
  q->position = position;
  q->depth = depth;
  q->made = Place(where);
  q->block_bytes = bytes;
  q->producer = producer_of(position, end);
  q->consumer = consumer_of(position, end, core.info.split != 0);
  const Scope scope = scope_of(position, core.info.split != 0);
  for (int i = 0; i < number; ++i) {
    Home* home = core.new_home("", scope, position, address + i * bytes, bytes);
    home->queue = q;
    q->blocks.push_back(home);
    if (core.checker && home->base) core.checker->fresh(scope, home->address, bytes);
  }
  return q;
}

void check_block(AscCore& core, const mco_asc_where& where, const Queue& q, const Home* home) {
  if (home && home->queue == &q) return;
  const std::string given = home ? home->name() : std::string("no block of a queue");
  core.fail(where, Fault::QueueMisuse,
            "the tensor lies in " + given + "; accepted: a tensor that the " + q.name() + " gave by AllocTensor");
}

std::string states_of(const Queue& q) {
  std::string text;
  for (const Home* home : q.blocks) {
    text += (text.empty() ? "" : ", ") + std::string(home->state == Home::kTaken ? "taken at " : "queued at ") +
            home->since.text();
  }
  return text;
}

// Of a timed launch: a call of a queue; when all that a pipe was given is over, and its flag seen.
void queue_call(AscCore& core, const mco_asc_where& where) { core.time_call(where, core.timer->chip().queue_call); }
double over(const AscCore& core, int pipe) { return core.timer->mark(pipe) + core.timer->chip().handoff; }
}  // namespace

static Queue* init(AscCore& core, const mco_asc_where& where, mco_asc_pipe& pipe, int position, int end, int depth,
                   int number, int64_t bytes) {
  const bool split = core.info.split != 0;
  const Scope scope = scope_of(position, split);
  if (scope == GM) {
    core.fail(
        where, Fault::ParamRange,
        std::string("position is ") + position_name(position) + "; accepted: one in on-chip memory of " + "this chip");
  }
  if (number < 1 || bytes < 0) {
    core.fail(where, Fault::ParamRange,
              format("%d blocks of %lld bytes; accepted: 1 block or more", number, (long long)bytes));
  }
  if (depth >= 0 && number > kMostBuffers) {
    core.fail(where, Fault::Capacity,
              format("%d blocks; accepted: %d buffers at most in a kernel", number, kMostBuffers));
  }
  const int64_t block = round_up(bytes, kBlockBytes), room = core.launch.spec.scope_bytes[scope];
  const int64_t wanted = block * number;
  if (wanted > room - pipe.used[scope]) {
    core.fail(where, Fault::Capacity,
              format("%d x %lld bytes of %s, of which %lld of %lld are taken (", number, (long long)block,
                     kScopeName[scope], (long long)pipe.used[scope], (long long)room) +
                  list_of(pipe, scope, split) + "); accepted: buffers that fit");
  }
  pipe.buffers += number;
  if (pipe.buffers > kMostBuffers) {
    core.fail(where, Fault::Capacity,
              format("makes %d buffers; accepted: %d at most in a kernel", pipe.buffers, kMostBuffers));
  }
  Queue* const q = make_queue(core, where, position, end, depth, number, block, pipe.used[scope]);
  pipe.queues.push_back(q);
  pipe.used[scope] += wanted;
  q->pipe = &pipe;
  return q;
}

static void release(const mco_asc_where& where, Queue& q) {
  for (Home* home : q.blocks) {
    home->released = Place(where);
    home->given = home->name() + ", which was released";
    home->queue = nullptr;
  }
  for (Queue* part : q.parts) release(where, *part);
}

}  // namespace mco::asc

using mco::asc::AscCore;
using mco::asc::here;
using mco::asc::Home;
using mco::asc::Place;
using mco::asc::Queue;

namespace {

Queue& need(AscCore& core, const mco_asc_where& where, mco_asc_queue* queue) {
  if (!queue)
    core.fail(where, mco::Fault::QueueMisuse,
              "the queue or buffer was not initialised; accepted: one that InitBuffer was called for");
  return *reinterpret_cast<Queue*>(queue);
}

Home* home_of(const mco_asc_home* home) { return const_cast<Home*>(static_cast<const Home*>(home)); }

}  // namespace

extern "C" {

mco_asc_pipe* mco_asc_pipe_new(const mco_asc_where* where) {
  auto& core = here("TPipe");
  mco_asc_pipe& pipe = core.made->pipes.add();
  pipe.made = Place(*where);
  return &pipe;
}

void mco_asc_pipe_end(mco_asc_pipe* pipe) {
  pipe->alive = false;
  AscCore* core = mco::asc::current();
  if (core && core->checker) core->checker->pipes().barrier(mco::kAllPipes);
  if (core && core->timer) core->timer->rest();
}

void mco_asc_pipe_reset(const mco_asc_where* where, mco_asc_pipe* pipe) {
  auto& core = here(where->call);
  if (core.checker) core.checker->pipes().barrier(mco::kAllPipes);
  if (core.timer) core.timer->drain(mco::kAllPipes);
  for (Queue* q : pipe->queues) mco::asc::release(*where, *q);
  pipe->queues = {};
  for (int64_t& used : pipe->used) used = 0;
  pipe->buffers = 0;
  for (uint64_t left = core.seat->events.used; left; left &= left - 1) {
    mco::asc::PipeFlags::Flag* ids = core.seat->events.of(__builtin_ctzll(left));
    for (int id = 0; id < mco::asc::PipeFlags::kIds; ++id) ids[id].taken = false;
  }
}

mco_asc_queue* mco_asc_init_buffer(const mco_asc_where* where, mco_asc_pipe* pipe, int position, int end, int depth,
                                   int number, int64_t bytes) {
  auto& core = here(where->call);
  if (!pipe) core.fail(*where, mco::Fault::QueueMisuse, "the TPipe was destroyed; accepted: one that lives");
  return reinterpret_cast<mco_asc_queue*>(mco::asc::init(core, *where, *pipe, position, end, depth, number, bytes));
}

mco_asc_queue* mco_asc_pool_buffer(const mco_asc_where* where, mco_asc_queue* pool, int position, int end, int depth,
                                   int number, int64_t bytes) {
  auto& core = here(where->call);
  Queue& from = need(core, *where, pool);
  const int scope = mco::asc::scope_of(position, core.info.split != 0), own = from.blocks[0]->scope;
  if (scope != own) {
    core.fail(*where, mco::Fault::ParamRange,
              mco::format("position is %s; accepted: one in %s, where the pool lies", mco::asc::position_name(position),
                          mco::kScopeName[own]));
  }
  const int64_t block = mco::round_up(bytes, mco::kBlockBytes);
  if (number < 1 || bytes < 0 || block * number > from.block_bytes - from.used) {
    core.fail(*where, mco::Fault::Capacity,
              mco::format("%d x %lld bytes of a pool of %lld, of which %lld are taken; accepted: buffers that fit",
                          number, (long long)block, (long long)from.block_bytes, (long long)from.used));
  }
  from.parts.push_back(
      mco::asc::make_queue(core, *where, position, end, depth, number, block, from.blocks[0]->address + from.used));
  from.used += block * number;
  return reinterpret_cast<mco_asc_queue*>(from.parts.back());
}

void mco_asc_pool_reset(const mco_asc_where* where, mco_asc_queue* pool) {
  auto& core = here(where->call);
  Queue& from = need(core, *where, pool);
  for (Queue* part : from.parts) mco::asc::release(*where, *part);
  from.used = 0;
}

const mco_asc_home* mco_asc_whole(const mco_asc_where* where, mco_asc_queue* queue) {
  return need(here(where->call), *where, queue).blocks[0];
}

const mco_asc_home* mco_asc_alloc(const mco_asc_where* where, mco_asc_queue* queue) {
  auto& core = here(where->call);
  core.look(*where);
  Queue& q = need(core, *where, queue);
  for (size_t i = 0; i < q.blocks.size(); ++i) {
    Home* home = q.blocks[(q.next + i) % q.blocks.size()];
    if (home->state != Home::kFree) continue;
    q.next = (q.next + i + 1) % q.blocks.size();
    home->state = Home::kTaken;
    home->since = Place(*where);
    if (core.checker) {
      core.checker->pipes().join(q.producer, home->freed);
      if (home->base) core.checker->fresh(mco::Scope(home->scope), home->address, home->bytes);
    }
    if (core.timer) {
      mco::asc::queue_call(core, *where);
      core.timer->hold(q.producer, home->freed_at, mco::kFlag);
    }
    return home;
  }
  core.fail(*where, mco::Fault::QueueMisuse,
            mco::format("all %zu blocks of the ", q.blocks.size()) + q.name() + " are in use (" +
                mco::asc::states_of(q) + "); accepted: one FreeTensor for each AllocTensor before the next");
}

void mco_asc_enqueue(const mco_asc_where* where, mco_asc_queue* queue, const mco_asc_home* home, int hop) {
  auto& core = here(where->call);
  Queue& q = need(core, *where, queue);
  Home* block = home_of(home);
  mco::asc::check_block(core, *where, q, block);
  if (block->state != Home::kTaken) {
    core.fail(*where, mco::Fault::QueueMisuse,
              block->name() + (block->state == Home::kFree ? " was freed at " : " is in the queue since ") +
                  block->since.text() + "; accepted: a tensor between its AllocTensor and its FreeTensor");
  }
  const size_t depth = size_t(std::max(q.depth, 1));
  if (q.waiting.size() >= depth) {
    core.fail(*where, mco::Fault::QueueMisuse,
              mco::format("%zu tensors wait in the ", q.waiting.size()) + q.name() +
                  mco::format(", whose depth is %zu; accepted: a DeQue before the next EnQue", depth));
  }
  block->state = Home::kQueued;
  block->since = Place(*where);
  if (core.checker) {
    const int pipe = hop < 0 ? q.producer : mco::asc::producer_of(hop / 16, hop % 16);
    block->queued = core.checker->pipes().mark(pipe);
  }
  if (core.timer) {
    mco::asc::queue_call(core, *where);
    block->queued_at = mco::asc::over(core, hop < 0 ? q.producer : mco::asc::producer_of(hop / 16, hop % 16));
  }
  q.waiting.push_back(block);
}

const mco_asc_home* mco_asc_dequeue(const mco_asc_where* where, mco_asc_queue* queue, int hop) {
  auto& core = here(where->call);
  Queue& q = need(core, *where, queue);
  if (q.waiting.empty())
    core.fail(*where, mco::Fault::QueueMisuse, "the " + q.name() + " is empty; accepted: one EnQue before each DeQue");
  Home* block = q.waiting[0];
  q.waiting.pop_front();  // few wait at a time
  block->state = Home::kTaken;
  block->since = Place(*where);
  if (core.checker) {
    const int pipe = hop < 0 ? q.consumer : mco::asc::consumer_of(hop / 16, hop % 16, core.info.split != 0);
    core.checker->pipes().join(pipe, block->queued);
  }
  if (core.timer) {
    mco::asc::queue_call(core, *where);
    const int pipe = hop < 0 ? q.consumer : mco::asc::consumer_of(hop / 16, hop % 16, core.info.split != 0);
    core.timer->hold(pipe, block->queued_at, mco::kFlag);
  }
  return block;
}

void mco_asc_free(const mco_asc_where* where, mco_asc_queue* queue, const mco_asc_home* home) {
  auto& core = here(where->call);
  Queue& q = need(core, *where, queue);
  Home* block = home_of(home);
  mco::asc::check_block(core, *where, q, block);
  if (block->state != Home::kTaken) {
    core.fail(*where, mco::Fault::QueueMisuse,
              block->name() + (block->state == Home::kFree ? " was freed before, at " : " is in the queue since ") +
                  block->since.text() + "; accepted: one FreeTensor for each AllocTensor");
  }
  block->state = Home::kFree;
  block->since = Place(*where);
  if (core.checker) block->freed = core.checker->pipes().mark(q.consumer);
  if (core.timer) {
    mco::asc::queue_call(core, *where);
    block->freed_at = mco::asc::over(core, q.consumer);
  }
}

void mco_asc_unspecified(const mco_asc_where* where, const mco_asc_home* home, const void* at, int64_t bytes) {
  auto& core = here(where->call);
  const Home* block = home_of(home);
  if (!core.checker || !block || !block->base) return;
  const int64_t start = static_cast<const uint8_t*>(at) - static_cast<const uint8_t*>(block->base);
  bytes = std::min(bytes, block->bytes - start);  // what lies beyond is a finding of the move
  if (start >= 0 && bytes > 0) core.checker->fresh(mco::Scope(block->scope), block->address + start, bytes);
}

int mco_asc_ask(const mco_asc_where* where, mco_asc_queue* queue, int what) {
  auto& core = here(where->call);
  Queue& q = need(core, *where, queue);
  if (what == MCO_ASC_QUEUED) return int(q.waiting.size());
  if (what == MCO_ASC_VACANT) return q.waiting.size() < size_t(std::max(q.depth, 1));
  return std::any_of(q.blocks.begin(), q.blocks.end(), [](const Home* home) { return home->state == Home::kFree; });
}

const mco_asc_home* mco_asc_rest(const mco_asc_where* where, int position) {
  auto& core = here(where->call);
  const mco::Scope scope = mco::asc::scope_of(position, core.info.split != 0);
  int64_t used = 0;
  for (size_t i = 0; i < core.made->pipes.size(); ++i) {
    const mco_asc_pipe& pipe = core.made->pipes[i];
    if (pipe.alive) used = std::max(used, pipe.used[scope]);
  }
  const std::string name = "the rest of " + std::string(mco::kScopeName[scope]);
  return core.new_home(name.c_str(), scope, position, used, core.launch.spec.scope_bytes[scope] - used);
}

}  // extern "C"
