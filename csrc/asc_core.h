// SPDX-License-Identifier: Apache-2.0
// A core that runs an Ascend C kernel: a fibre of its own with registers, memories, pipes and flags of its own.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../ms_custom_ops/ascendc/include/mco/abi.h"
#include "asc_fibre.h"
#include "asc_site.h"
#include "checker.h"
#include "core.h"
#include "few.h"
#include "gm_order.h"
#include "timer.h"

namespace mco::asc {

constexpr int kCrossFlags = 16, kCrossModes = 3;

class Checked;
class Directory;
class Timed;
class Launch;
struct Worker;

// A line of the user's source; the text lives in the library of the kernel.
struct Place {
  const char* file = nullptr;
  uint32_t line = 0;
  Place() = default;
  explicit Place(const mco_asc_where& w) : file(w.file), line(w.line) {}
  std::string text() const;
};

class AscCore;
struct Home;

struct Queue {
  mco_asc_pipe* pipe = nullptr;
  int position = 0, depth = 0;  // depth -1: a buffer without queue
  int64_t block_bytes = 0;
  Few<Home*, 2> blocks;
  size_t next = 0;  // to try first
  Few<Home*, 2> waiting;
  Place made;
  int producer = 1, consumer = 1;  // the pipes that its flags order
  // Of a pool: what its buffers have taken, and they.
  int64_t used = 0;
  std::vector<Queue*> parts;
  std::string name() const;
};

}  // namespace mco::asc

struct mco_asc_pipe {
  mco::asc::Place made;
  int64_t used[mco::kScopes] = {};
  mco::Few<mco::asc::Queue*, 16> queues;  // since the last Reset
  int buffers = 0;
  bool alive = true;
};

namespace mco::asc {

// A block of on-chip memory, or a tensor in GM.
struct Home : mco_asc_home {
  int64_t address = 0;  // in its memory
  Queue* queue = nullptr;
  bool placed = false;        // by its address
  mutable std::string given;  // its name, empty: made of where it lies when somebody asks
  const std::string& name() const;
  Name lazy_name() const {
    return {[](const void* home) { return static_cast<const Home*>(home)->name().c_str(); }, this};
  }
  enum State : uint8_t { kFree, kTaken, kQueued } state = kFree;
  Place since;     // of the call that made the state
  Place released;  // where its pipe or its pool was reset
  // Of a checked launch: its number; what its last EnQue and its last FreeTensor have ordered; GM that holds nothing.
  mutable uint32_t number = kNone;
  AscCore* owner = nullptr;  // null: memory in GM
  Pipes::Clock queued{}, freed{};
  double queued_at = 0, freed_at = 0;  // the same of a timed launch: times
  int64_t fresh = 0;
  bool output = false;
};

// Things of a core, which stay where they are.
template <class T>
class Chunks {
 public:
  T& add() {
    if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique<T[]>(kChunk));
    T& thing = (*this)[size_++];
    thing = T();
    return thing;
  }
  void restart() { size_ = 0; }  // for the next core
  size_t size() const { return size_; }
  T& operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }

 private:
  static constexpr size_t kChunk = 16;
  size_t size_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

// What a core has made. A kernel may name it until the core ends, also what a Reset has released.
struct Made {
  Chunks<Home> homes;
  Chunks<Queue> queues;
  Chunks<mco_asc_pipe> pipes;
  void restart() {
    homes.restart();
    queues.restart();
    pipes.restart();
  }
};

// Flags of pairs of pipes.
class PipeFlags {
 public:
  static constexpr int kPairs = 64, kIds = 8;
  struct Flag {
    int balance = 0;  // set minus waited
    bool taken = false;
    Place first_wait;  // without a set
  };
  Flag* of(int pair) {
    used |= uint64_t(1) << pair;
    return flags_[pair];
  }
  void clear() {
    for (; used; used &= used - 1) std::fill_n(flags_[__builtin_ctzll(used)], kIds, Flag());
  }
  uint64_t used = 0;  // a bit for each pair

 private:
  Flag flags_[kPairs][kIds];
};

// What a core takes from the thread that runs it, and gives back; kept for later launches.
struct Seat {
  Fibre fibre;
  PipeFlags events;
  // Of the call that is issued.
  static constexpr int kMostOperands = 32;
  DirectOperand places[kMostOperands];
  Value values[kMostOperands];
  int64_t attrs[kMostOperands];
  std::unique_ptr<Core> core;
  Sites sites;                    // of calls that it issued
  Made made;                      // of one core after the other
  int64_t touched[kScopes] = {};  // bytes of its memories that may hold something
};

class AscCore {
 public:
  AscCore(Launch& launch, int number, bool cube);

  // Ends this core with an error; does not return.
  [[noreturn]] void fail(const char* text);
  [[noreturn]] void fail(const mco_asc_where& where, const std::string& text) { fail(where, Fault::kCount, text); }
  // The same; in a checked launch it is a finding, unless its kind is kCount.
  [[noreturn]] void fail(const mco_asc_where& where, Fault kind, const std::string& text);
  // Of a checked launch.
  void find(const mco_asc_where& where, Fault kind, const std::string& text);
  uint32_t place_of(const mco_asc_where& where);
  uint32_t number_of(const Home* home, const MemorySpan& memory);  // home: null where only the memory is known
  // Of a timed launch: what comes next stands there; it keeps the scalar unit for so many cycles.
  void time_call(const mco_asc_where& where, double cycles);
  double told = 0;  // of a timed launch: when it had ended
  GmOrder::Known tell(int pipe);
  GmOrder::Known all_done();
  void learn_all();
  void wait_for_all();
  void serve(void (*work)(void*), void* argument);
  void check_alive(const Home& home, uint32_t loc);
  [[noreturn]] void leave();
  // Rests until `ready`, which is asked under the lock of the launch; asked to take, it takes what it waited for.
  // `what` it waits for shows in a deadlock; both hold so little that they need no memory.
  using Ready = std::function<bool(bool take)>;
  using What = std::function<std::string()>;
  void wait(const mco_asc_where& where, What what, Ready ready);

  // Whether the launch wants this core to stop; asked now and then.
  void look(const mco_asc_where& where) {
    if ((++ticks & 255) == 0) look_now(where);
  }
  void look_now(const mco_asc_where& where);
  std::string title() const;  // "AIV core 3"
  int64_t scope_bytes(Scope scope) const;
  Home* new_home(const char* name, Scope scope, int position, int64_t address, int64_t bytes);
  // Memory of an operand, and how many bytes into it the operand lies.
  void locate(const mco_asc_operand& o, DirectOperand& place, const mco_asc_call& call, int number) {
    if (!o.home) return search(o, place, call, number);
    const Home* home = static_cast<const Home*>(o.home);
    if (!home->base && home->scope != GM) missing(*home, call);
    place.memory.base = home->base;
    place.memory.bytes = home->scope >= L0A && !checker ? cube_room(*home) : home->bytes;
    place.memory.address = home->address;
    place.memory.name = home->lazy_name();
    place.memory.scope = Scope(home->scope);
    place.offset = static_cast<uint8_t*>(o.at) - home->base;
  }
  // Bytes that an operand in L0A, L0B or L0C may have: its block, and what no buffer has behind the last one. Kernels
  // that use the cube for its own sake alone make their blocks smaller than what they give to Mmad.
  int64_t cube_room(const Home& home);
  // Memory that this kind of core lacks: an error, or the kernel is of the other kind.
  void missing(const Home& home, const mco_asc_call& call);
  void search(const mco_asc_operand& o, DirectOperand& place, const mco_asc_call& call, int number);

  Launch& launch;
  const int number;
  mco_asc_core info{};

  // Mask register.
  bool mask_counter = false;
  uint64_t mask[2] = {~uint64_t(0), ~uint64_t(0)};

  Made own_made;  // of a core that is looked at: what it had is named when it has ended
  Made* made = &own_made;
  std::vector<std::unique_ptr<uint8_t[]>> kept;
  Home* scratch = nullptr;
  int64_t touched[kScopes] = {};  // bytes of each memory that its buffers reach
  bool issued = false;
  uint32_t ticks = 0;

  // Cores of its block, or all of its kind: those that its flags of a mode reach are also those whose flags it waits
  // for.
  struct Peers {
    const int* first = nullptr;
    int count = 0;
    const int* begin() const { return first; }
    const int* end() const { return first + count; }
  };
  Peers peers[kCrossModes];
  int rank[kCrossModes] = {};  // among the peers of each of those
  // How often each of the peers has set a flag that was not waited for, and how many of them have not; under the lock
  // of the launch. Empty until the first does.
  struct CrossFlag {
    Few<int, 2> set;
    int missing = 0;
    bool ready() const { return !set.empty() && !missing; }
    int raise(int who) {
      missing -= set[size_t(who)] == 0;
      return ++set[size_t(who)];
    }
    void lower(int who) { missing += --set[size_t(who)] == 0; }
  };
  CrossFlag cross[kCrossFlags][kCrossModes];

  // Of the scheduler.
  std::unique_ptr<Seat> seat;
  Core* core = nullptr;
  GmOrder::Known last;         // of a checked launch: what others may know of it when it has ended
  Checker* checker = nullptr;  // null: nobody looks at what it does
  Timer* timer = nullptr;      // null: nobody takes its time
  uint8_t spare[64];           // what a scalar access that was left out reads
  Worker* worker = nullptr;
  bool ended = false, failed = false, found = false;  // failed with a finding
  Ready ready;                                        // null: it runs
  bool pauses = false;                                // it only lets others go on
  const char* waits_in = nullptr;
  What waits_for;
  Place waits_at;
  std::string error;
  const void* fault_at = nullptr;     // code that a signal came from, or that would have ended the process
  const void* fault_callers[6] = {};  // of that code, from the inside out
  const void* thrown_at = nullptr;    // the last throw
};

// The core that this thread runs at the moment, or null.
extern thread_local AscCore* running_core __attribute__((tls_model("initial-exec")));
inline AscCore*& current() { return running_core; }
[[noreturn]] void nowhere(const char* call);
// The same for a call of the API, which makes no sense outside of a kernel.
inline AscCore& here(const char* call) {
  if (__builtin_expect(!running_core, 0)) nowhere(call);
  return *running_core;
}

constexpr const char* kScratchName = "scratch of the library";
constexpr int64_t kScratchBytes = 16 << 10;  // behind the UB of the chip
Scope scope_of(int position, bool split);
const char* position_name(int position);

}  // namespace mco::asc
