// SPDX-License-Identifier: Apache-2.0
#include "mco_host/guard.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include "mco_host/log.h"

namespace mco_host {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT};
constexpr int kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);
constexpr int kMaxFrames = 64;

struct Landing {
  sigjmp_buf place;
  int signal_number = 0;
  void* frames[kMaxFrames];
  int frame_count = 0;
};
thread_local Landing* landing = nullptr;
struct sigaction previous[kSignalCount];

void OnSignal(int number) {
  Landing* here = landing;
  if (!here) {  // of another thread, which is none of ours: its own handler comes next
    for (int i = 0; i < kSignalCount; i++) {
      if (kSignals[i] == number) sigaction(number, &previous[i], nullptr);
    }
    raise(number);
    return;
  }
  here->signal_number = number;
  here->frame_count = backtrace(here->frames, kMaxFrames);
  siglongjmp(here->place, 1);
}

// A stack of its own for the handler: a function that recurses without end has used up the thread's.
struct SignalStack {
  stack_t before;
  std::vector<char> memory;
  SignalStack() : memory(64 * 1024) {
    stack_t mine = {};
    mine.ss_sp = memory.data();
    mine.ss_size = memory.size();
    sigaltstack(&mine, &before);
  }
  ~SignalStack() { sigaltstack(&before, nullptr); }
};

void Text(mco_host_failure* failure, const std::string& text) {
  std::snprintf(failure->text, sizeof(failure->text), "%s", text.c_str());
}

void Crashed(const Landing& here, mco_host_failure* failure) {
  failure->kind = 3;
  failure->signal_number = here.signal_number;
  failure->address_count = 0;
  for (int i = 0; i < here.frame_count && failure->address_count < 16; i++) {
    const uint64_t offset = OffsetOf(here.frames[i]);
    if (offset) failure->addresses[failure->address_count++] = offset;
  }
  Text(failure, CurrentLog().text);
}

}  // namespace

uint64_t OffsetOf(const void* address) {
  static const void* base = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&OffsetOf), &info) ? info.dli_fbase : nullptr;
  }();
  Dl_info info;
  if (!address || !dladdr(const_cast<void*>(address), &info) || info.dli_fbase != base) return 0;
  return static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(base));
}

int Guarded(const std::function<uint32_t()>& work, const void* function, mco_host_failure* failure) {
  static std::mutex* one_at_a_time = new std::mutex;  // signal handlers belong to the whole process
  std::lock_guard<std::mutex> lock(*one_at_a_time);
  void* warm[1];
  backtrace(warm, 1);  // its first call allocates, which a handler must not
  std::memset(failure, 0, sizeof(*failure));
  CurrentLog() = {true, ""};
  SignalStack stack;
  Landing here;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  if (sigsetjmp(here.place, 1) == 0) {
    landing = &here;
    for (int i = 0; i < kSignalCount; i++) sigaction(kSignals[i], &action, &previous[i]);
    failure->addresses[0] = OffsetOf(function);
    failure->address_count = 1;
    try {
      const uint32_t status = work();
      if (status != 0) {
        failure->kind = 1;
        Text(failure, CurrentLog().text);
      }
    } catch (const std::exception& error) {
      failure->kind = 2;
      Text(failure, error.what());
    } catch (...) {
      failure->kind = 2;
      Text(failure, "something that is no std::exception");
    }
  } else {
    Crashed(here, failure);
  }
  landing = nullptr;
  for (int i = 0; i < kSignalCount; i++) sigaction(kSignals[i], &previous[i], nullptr);
  CurrentLog().kept = false;
  return failure->kind != 0;
}

}  // namespace mco_host
