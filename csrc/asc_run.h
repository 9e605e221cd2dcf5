// SPDX-License-Identifier: Apache-2.0
// One launch of an Ascend C kernel: its cores on the threads of the engine, who waits for whom, its first error.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>
#include <mutex>

#include "asc_check.h"
#include "asc_core.h"
#include "asc_seats.h"
#include "asc_time.h"
#include "watch.h"

namespace mco::asc {

struct Worker {
  explicit Worker(Launch& launch) : launch(launch) {}
  Launch& launch;
  Shore shore;
  std::deque<AscCore*> due;                     // of the block it has taken last: those that have not begun
  std::vector<AscCore*> cores;                  // that it has begun and not ended
  std::vector<std::unique_ptr<Seat>> seats[2];  // free ones of vector and of cube cores
  AscCore* running = nullptr;
  pthread_t thread{};
  sigset_t mask{};  // of its signals
};

class Launch {
 public:
  Launch(const mco_asc_launch& spec, int kind);
  ~Launch();

  void run();  // throws Error
  // Before it runs: its cores are timed.
  void time(Timed& t);
  const std::vector<std::unique_ptr<Home>>& gm() const { return gm_; }
  int cores_of_block(bool cube) const;
  void alarm();  // every thread looks whether it runs kernel code
  bool asked_to_stop() const { return watch.stopped() == Watch::Stop::Asked; }

  uintptr_t code[2] = {};  // of the kernels, under a time limit

  // A kernel that turns out to be of another kind than assumed; the launch starts again.
  int wanted_kind = -1;

  const Home* find_gm(const void* at) const;

  // Of a kernel that says nothing of its kind: memory that this kind of core lacks means it is of the other.
  void want_other_kind(const AscCore& core, Scope scope);

  const mco_asc_launch& spec;
  const int kind;
  bool guessed = false;              // the kind is an assumption
  std::unique_ptr<Checked> checked;  // null: the launch runs fast
  Timed* timed = nullptr;            // the same
  Directory& directory() const;      // of a launch that is looked at
  Watch watch;

  std::mutex mutex;
  std::condition_variable changed;
  // Cores lie one behind the other in memory of their own.
  struct Destroy {
    void operator()(AscCore* core) const { core->~AscCore(); }
  };
  struct Release {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  std::unique_ptr<void, Release> cores_memory;
  std::vector<std::unique_ptr<AscCore, Destroy>> cores;
  std::vector<int> members[3];  // cores by MCO_ASC_ALL_*

  // Barriers: those that have arrived in this round, by who takes part.
  struct Barrier {
    int arrived = 0, members = 0;
    int64_t round = 0;
  };
  std::map<std::pair<int, int>, Barrier> barriers;
  // Whether a flag between cores is there for one that waits; taking it takes one of each core that sets it.
  bool take_cross(AscCore& core, int id, bool take);
  // Work that vector cores have handed to the cube core of their block, in order.
  struct Work {
    void (*call)(void*);
    void* argument;
    GmOrder::Known known;  // of a checked launch: by who asks, then by who has done it
    double done_at = 0;    // of a timed launch: the same
    bool done = false;
  };
  std::map<int, std::deque<Work*>> handed;  // by cube core

  bool probing = true;  // until the first core shows what kind of kernel this is
  void end_probe();
  void note_error(int core, const std::string& text);
  bool stopping(int core);

 private:
  void make_cores();
  void set_peers(AscCore& core);
  void work();
  AscCore* take_ready(Worker& w, bool pauses);
  AscCore* take_due(Worker& w);
  AscCore* next_core(Worker& w, std::unique_lock<std::mutex>& lock);
  void begin(Worker& w, AscCore& core);
  void step(Worker& w, AscCore& core);
  void after(Worker& w, AscCore& core);
  void check_end(AscCore& core);
  void deadlock();
  void begin_checked();
  std::unique_ptr<Core> make_core(const AscCore& core);
  void abandon(Worker& w);
  void leave_seat(Worker& w, AscCore& core);
  SeatKind seat_kind(bool cube) const;

  std::vector<std::unique_ptr<Home>> gm_;  // by address
  size_t taken_ = 0, started_ = 0;         // cores that are some thread's, and those that have begun
  int running_ = 0;
  std::vector<Worker*> workers_;
  std::vector<std::unique_ptr<Seat>> left_[2];  // of threads that are through: a kernel may name what lies there
  int helpers_ = 0;                             // threads beside the caller's
  std::atomic<int> error_core_{INT32_MAX};
  std::string error_;
  bool stuck_ = false;  // the error is that no core can go on
  Place stuck_at_;
};

// Faults of a thread while it runs kernels become errors of the core (asc_fault.cc).
class FaultHandlers {
 public:
  FaultHandlers();
  ~FaultHandlers();
};
class FaultStack {
 public:
  FaultStack();
  ~FaultStack();

 private:
  void* memory_;
  stack_t old_;
};
// Ends cores whose kernel code runs on beyond the time limit without a call that would notice.
class TimeLimit {
 public:
  explicit TimeLimit(Launch& launch);
  ~TimeLimit();

 private:
  void wait();
  Launch& launch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};
// The source line of code in a library, or the library and its address there.
std::string code_place(const void* pc);
std::string fault_place(const AscCore& core);  // the user's line, where one can be found

}  // namespace mco::asc
