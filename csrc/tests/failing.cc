// SPDX-License-Identifier: Apache-2.0
// Runs program files while memory and threads fail, through the C interface of a built engine:
//   failing ENGINE_LIBRARY FILE...
// For n = 1, 2, 3 ... the n-th request of a load or a run fails, alone or with all that follow it, until a run makes
// fewer than n. A run must end with what it computes without failures or with a text; it must not end the process. Each
// runs in a child, which has no thread and no memory kept from another run.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../capi.h"

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);

namespace {

std::atomic<long> countdown{0};  // 0: nothing fails
std::atomic<bool> onwards{false}, fired{false};

bool fails() {
  if (countdown.load() <= 0) return false;
  const long left = countdown.fetch_sub(1);
  if (left != 1) return false;
  fired = true;
  if (onwards) countdown = 1;
  return true;
}

}  // namespace

extern "C" void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
extern "C" void* calloc(size_t n, size_t size) { return fails() ? nullptr : __libc_calloc(n, size); }
extern "C" void* realloc(void* at, size_t size) { return fails() ? nullptr : __libc_realloc(at, size); }
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*start)(void*), void* arg) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return fails() ? EAGAIN : real(thread, attr, start, arg);
}

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int kErrorBytes = 4096;
constexpr long kMostRequests = 100000;

struct Engine {
  explicit Engine(const char* path) : library(dlopen(path, RTLD_LAZY | RTLD_LOCAL)) {
    if (!library) die("%s", dlerror());
    get(load, "mco_load");
    get(run, "mco_run");
    get(free_program, "mco_free");
    get(counts, "mco_program_counts");
    get(io, "mco_program_io");
  }
  template <class... A>
  [[noreturn]] static void die(const char* text, A... a) {
    std::fprintf(stderr, text, a...);
    std::fprintf(stderr, "\n");
    std::exit(1);
  }
  template <class F>
  void get(F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(library, name));
    if (!f) die("%s: no function of the library", name);
  }
  void* library;
  decltype(&mco_load) load;
  decltype(&mco_run) run;
  decltype(&mco_free) free_program;
  decltype(&mco_program_counts) counts;
  decltype(&mco_program_io) io;
};

struct Case {
  const Engine& engine;
  const char* name;
  const Bytes& bytes;
  int threads;
  std::vector<Bytes> memory;  // of the tensors
  int inputs = 0;

  void prepare(const mco_program* p) {
    int outputs = 0, scalars = 0;
    engine.counts(p, &inputs, &outputs, &scalars);
    for (int i = 0; i < inputs + outputs; ++i) {
      mco_io io;
      engine.io(p, i, &io);
      memory.emplace_back(size_t(io.bytes));
    }
  }
  // Loads and runs with the n-th request failing (0: none). Returns whether it computed something; err has the text.
  bool attempt(long n, bool all, char* err, std::vector<Bytes>& outputs) {
    std::vector<mco_tensor> tensors;
    for (size_t i = 0; i < memory.size(); ++i) {
      for (size_t k = 0; k < memory[i].size(); ++k) memory[i][k] = int(i) < inputs ? uint8_t(k * 37 + 11) % 61 : 0xFF;
      tensors.push_back({memory[i].data(), int64_t(memory[i].size())});
    }
    mco_options options{};
    options.struct_size = sizeof options;
    options.threads = threads;
    options.deterministic = 1;
    err[0] = 0;
    mco_program* p = nullptr;
    fired = false;
    onwards = all;
    countdown = n;
    int failed = engine.load(bytes.data(), bytes.size(), &p, err, kErrorBytes);
    if (!failed) {
      failed = engine.run(p, tensors.data(), int(tensors.size()), nullptr, 0, &options, err, kErrorBytes);
    }
    countdown = 0;
    engine.free_program(p);
    if (failed && !err[0]) Engine::die("%s: request %ld of %d threads failed without a text", name, n, threads);
    outputs.assign(memory.begin() + inputs, memory.end());
    return !failed;
  }
};

enum { kRan = 32, kText, kOther, kQuiet = 8 };  // kQuiet is a bit: nothing was asked for that failed

int child(Case& c, long n, bool all, const std::vector<Bytes>& want) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) Engine::die("fork: %s", strerror(errno));
  if (pid == 0) {
    alarm(60);
    char err[kErrorBytes];
    std::vector<Bytes> got;
    const bool ran = c.attempt(n, all, err, got);
    _exit((!ran ? kText : got == want ? kRan : kOther) | (fired ? 0 : kQuiet));
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) Engine::die("waitpid: %s", strerror(errno));
  if (!WIFEXITED(status)) {
    Engine::die("%s: request %ld of %d threads ended the process: %s", c.name, n, c.threads,
                strsignal(WTERMSIG(status)));
  }
  return WEXITSTATUS(status);
}

void sweep(const Engine& engine, const char* name, const Bytes& bytes, int threads, bool all) {
  char err[kErrorBytes];
  mco_program* p = nullptr;
  if (engine.load(bytes.data(), bytes.size(), &p, err, sizeof err)) Engine::die("%s: %s", name, err);
  Case c{engine, name, bytes, threads, {}};
  c.prepare(p);
  engine.free_program(p);
  std::vector<Bytes> want;
  if (!c.attempt(0, false, err, want)) Engine::die("%s: %s", name, err);
  long texts = 0, ran = 0, quiet = 0;
  for (long n = 1; quiet < 3 && n < kMostRequests; ++n) {
    const int result = child(c, n, all, want);
    const int ending = result & ~kQuiet;
    const bool fired = ending == result;
    quiet = fired ? 0 : quiet + 1;
    if (ending != kRan && ending != kText) {
      Engine::die("%s: request %ld of %d threads: other results", name, n, threads);
    }
    if (fired) ++(ending == kRan ? ran : texts);
  }
  if (!texts || quiet < 3) Engine::die("%s: %ld errors, %ld runs: nothing was tested", name, texts, ran);
  std::printf("%s, %d threads, %s: %ld errors, %ld runs\n", name, threads, all ? "all fail" : "one fails", texts, ran);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Engine::die("usage: failing ENGINE_LIBRARY FILE...");
  alarm(300);
  const Engine engine(argv[1]);
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (int threads : {1, 4}) {
      for (bool all : {false, true}) sweep(engine, argv[i], bytes, threads, all);
    }
  }
  return 0;
}
