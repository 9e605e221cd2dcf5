// SPDX-License-Identifier: Apache-2.0
// Faults of kernel code that no check sees: a division by zero, a pointer to nowhere, a stack that overflows. The core
// ends with an error that names the line; the process goes on.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

#include "asc_run.h"

extern char** environ;

namespace mco::asc {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT, SIGURG};
constexpr int kCount = int(sizeof kSignals / sizeof kSignals[0]);
constexpr size_t kStackBytes = size_t(1) << 17;

std::mutex handlers_mutex;
int handlers_users = 0;
struct sigaction handlers_old[kCount];
thread_local const void* throwing = nullptr;  // where the last throw left the library of the kernel

const char* reason_of(int signal, const siginfo_t* info, const AscCore& core) {
  const auto* at = static_cast<const uint8_t*>(info->si_addr);
  switch (signal) {
    case SIGFPE:
      return "divides an integer by zero";
    case SIGABRT:  // of the C or C++ library, which found that something is wrong
      return "is ended by std::terminate or by abort";
    case SIGILL:
      return "runs into code that the compiler takes as impossible";
    default:
      if (core.seat && core.seat->fibre.holds(at)) {
        return "uses more than 1 MiB of stack";
      }
      return at < reinterpret_cast<const uint8_t*>(4096) ? "reads or writes through a null pointer"
                                                         : "reads or writes memory that is not there";
  }
}

const void* interrupted(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(machine.pc);
#else
  (void)machine;
  return nullptr;
#endif
}

// The first instruction of the call chain that lies in the library of the kernel; its callers there go to the core.
const void* place_in_kernel(AscCore& core, const void* pc) {
  Dl_info kernel, found;
  const void* entry = reinterpret_cast<const void*>(core.launch.spec.entry[core.info.is_cube ? 0 : 1]);
  if (!dladdr(entry, &kernel)) return nullptr;
  void* chain[64];
  const int n = backtrace(chain, 64);
  const void* first = nullptr;
  size_t callers = 0;
  for (int i = 0; i < n && callers < std::size(core.fault_callers); ++i) {
    if (!dladdr(chain[i], &found) || found.dli_fbase != kernel.dli_fbase || chain[i] == throwing) continue;
    // A return address is behind its call.
    const void* at = chain[i] == pc ? pc : static_cast<const char*>(chain[i]) - 1;
    first ? core.fault_callers[callers++] = at : first = at;
  }
  return first;
}

// Where the code of the kernels of this launch lies: nothing else may be left in the middle.
struct Code {
  uintptr_t first = 0, end = 0;
};

Code code_of(const void* function) {
  Code found;
  Dl_info library;
  if (!dladdr(function, &library)) return found;
  struct Wanted {
    uintptr_t base;
    Code* found;
  } wanted{reinterpret_cast<uintptr_t>(library.dli_fbase), &found};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const auto& w = *static_cast<Wanted*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const uintptr_t first = info->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || !(part.p_flags & PF_X) || info->dlpi_addr != w.base) continue;
          *w.found = {first, first + part.p_memsz};
        }
        return 0;
      },
      &wanted);
  return found;
}

void on_alarm(AscCore& core, const void* pc) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(pc);
  if (at < core.launch.code[0] || at >= core.launch.code[1]) return;  // a call of the API, which looks itself
  core.error = core.title() + ": kernel code still runs after the time limit; accepted: a kernel that ends before it";
  core.fault_at = pc;
  core.failed = true;
  core.leave();
}

void on_fault(int signal, siginfo_t* info, void* context) {
  AscCore* core = current();
  if (signal == SIGURG) {
    if (core) on_alarm(*core, interrupted(context));
    return;
  }
  if (!core) {  // not ours
    for (int i = 0; i < kCount; ++i) {
      if (kSignals[i] == signal) sigaction(signal, &handlers_old[i], nullptr);
    }
    return;
  }
  const void* at = place_in_kernel(*core, interrupted(context));
  pthread_sigmask(SIG_SETMASK, &core->worker->mask, nullptr);
  if (signal == SIGABRT) {  // perhaps in the middle of an exception: nobody will end it
    std::memset(static_cast<void*>(abi::__cxa_get_globals()), 0, sizeof(void*) + sizeof(unsigned));
  }
  core->error = core->title() + ": " + reason_of(signal, info, *core);
  core->fault_at = at;
  core->failed = true;
  core->leave();
}

}  // namespace

TimeLimit::TimeLimit(Launch& launch) : launch_(launch) {
  if (launch.spec.time_limit <= 0) return;
  const Code code = code_of(reinterpret_cast<const void*>(launch.spec.entry[1]));
  launch.code[0] = code.first;
  launch.code[1] = code.end;
  thread_ = std::thread([this] { wait(); });
}

void TimeLimit::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  auto next = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                     std::chrono::duration<double>(launch_.spec.time_limit));
  while (!changed_.wait_until(lock, next, [this] { return over_; })) {
    launch_.alarm();
    next = std::chrono::steady_clock::now() + std::chrono::milliseconds(Watch::kPollMilliseconds);
  }
}

TimeLimit::~TimeLimit() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

FaultHandlers::FaultHandlers() {
  std::lock_guard<std::mutex> lock(handlers_mutex);
  if (handlers_users++) return;
  void* chain[1];
  backtrace(chain, 1);  // loads what it needs, which a handler must not
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &action, &handlers_old[i]);
}

FaultHandlers::~FaultHandlers() {
  std::lock_guard<std::mutex> lock(handlers_mutex);
  if (--handlers_users) return;
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &handlers_old[i], nullptr);
}

FaultStack::FaultStack() {
  memory_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw Error("out of memory: the stack of a signal handler");
  stack_t fresh{};
  fresh.ss_sp = memory_;
  fresh.ss_size = kStackBytes;
  sigaltstack(&fresh, &old_);
}

FaultStack::~FaultStack() {
  sigaltstack(&old_, nullptr);
  munmap(memory_, kStackBytes);
}

// The output of addr2line, or nothing.
static std::string ask_addr2line(const char* file, uintptr_t address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return "";
  char number[32];
  snprintf(number, sizeof number, "0x%zx", size_t(address));
  char program[] = "addr2line", option[] = "-e", inlined[] = "-i";
  char* const argv[] = {program, inlined, option, const_cast<char*>(file), number, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, program, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; !failed && (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(ends[0]);
  if (!failed) waitpid(child, nullptr, 0);
  return text;
}

static bool in_headers(const std::string& line) {
  return line.find("/ascendc/include/") != std::string::npos || line.find("/usr/include/") != std::string::npos ||
         line.find("/include/c++/") != std::string::npos;
}

std::string fault_place(const AscCore& core) {
  std::string place = code_place(core.fault_at);
  for (const void* caller : core.fault_callers) {  // where what the headers hold is not part of the user's function
    if (!caller || !in_headers(place)) break;
    const std::string outer = code_place(caller);
    if (!in_headers(outer)) place = outer;
  }
  return place;
}

std::string code_place(const void* pc) {
  Dl_info found;
  if (!pc || !dladdr(pc, &found)) return "?";
  const uintptr_t base = reinterpret_cast<uintptr_t>(found.dli_fbase), at = reinterpret_cast<uintptr_t>(pc) - base;
  const std::string text = ask_addr2line(found.dli_fname, at);
  std::string first;
  for (size_t begin = 0; begin < text.size();) {  // from the innermost inlined function outwards
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    line = line.substr(0, line.find(" (discriminator"));
    begin = end + 1;
    if (line.empty() || line[0] == '?') continue;
    if (first.empty()) first = line;
    if (!in_headers(line)) return line;
  }
  return first.empty() ? format("%s+0x%zx", found.dli_fname, size_t(at)) : first;
}

}  // namespace mco::asc

void mco_asc_end(const char* call, const char* text, const void* at) {
  mco::asc::AscCore* core = mco::asc::current();
  if (!core) mco::asc::nowhere(call);
  const void* place = at ? at : core->thrown_at;
  core->fault_at = place ? static_cast<const char*>(place) - 1 : nullptr;  // a return address is behind its call
  core->error = core->title() + ": " + call + ": " + text;
  core->failed = true;
  core->leave();
}

void mco_asc_throw(void* thrown, void* type, void (*destroy)(void*), const void* at) {
  if (mco::asc::AscCore* core = mco::asc::current()) {
    core->thrown_at = at;
    mco::asc::throwing = __builtin_return_address(0);
  }
  abi::__cxa_throw(thrown, static_cast<std::type_info*>(type), destroy);
}
