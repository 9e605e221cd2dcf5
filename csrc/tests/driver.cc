// SPDX-License-Identifier: Apache-2.0
// Runs program files and damaged copies of them through the C interface, for a build with sanitizers:
//   driver SEED COUNT FILE...
// Every file runs whole at every SIMD level and then COUNT times with bytes flipped, cut or copied over. A damaged
// program may be refused, may fail with a text or may loop for ever, but must not touch memory that is not its own.
// Each runs in a process of its own, which ends after kMostMilliseconds.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "../capi.h"

// A buffer that is too large is an error of the engine with a text, not of the sanitizer.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeader = 24;
constexpr int64_t kMostBytes = 1 << 24;  // of one fed tensor
constexpr int kErrorBytes = 4096;
constexpr int kMostMilliseconds = 300;
constexpr int kTimedOut = 3;
constexpr int kExit = 40;  // plus the result: a sanitizer ends a process with status 1, which must not look like one

uint32_t crc32(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? 0xEDB88320u ^ (crc >> 1) : crc >> 1;
  }
  return ~crc;
}

// Makes header and content agree, so that damage reaches the decoder and not only the checksum.
void seal(Bytes& b) {
  if (b.size() < kHeader) return;
  const uint64_t length = b.size() - kHeader;
  const uint32_t crc = crc32(b.data() + kHeader, length);
  std::memcpy(b.data() + 8, &length, sizeof length);
  std::memcpy(b.data() + 16, &crc, sizeof crc);
}

// Exactly the bytes asked for, so that one byte too many is found.
struct Memory {
  explicit Memory(int64_t bytes) : data(static_cast<uint8_t*>(std::malloc(size_t(bytes ? bytes : 1)))), bytes(bytes) {
    for (int64_t i = 0; i < bytes; ++i) data[i] = uint8_t(i * 37 + 11);
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint8_t* data;
  int64_t bytes;
};

// 0 ran, 1 failed with a text, 2 refused.
int run(const Bytes& program) {
  char err[kErrorBytes] = "";
  mco_program* p = nullptr;
  if (mco_load(program.data(), program.size(), &p, err, sizeof err)) {
    if (!err[0]) std::abort();
    return 2;
  }
  int inputs = 0, outputs = 0, scalars = 0;
  mco_program_counts(p, &inputs, &outputs, &scalars);
  std::vector<mco_tensor> tensors;
  std::vector<Memory*> memory;
  bool small = true;
  for (int i = 0; i < inputs + outputs; ++i) {
    mco_io io;
    if (mco_program_io(p, i, &io)) std::abort();
    const int64_t bytes = io.bytes < 0 ? 4096 : io.bytes;
    if (bytes > kMostBytes) small = false;
    memory.push_back(new Memory(small ? bytes : 0));
    tensors.push_back({memory.back()->data, memory.back()->bytes});
  }
  std::vector<mco_scalar> values(size_t(scalars), mco_scalar{3, 3.0});
  int result = 2;
  if (small) {
    result = mco_run(p, tensors.data(), int(tensors.size()), values.data(), scalars, nullptr, err, sizeof err);
    if (result && !err[0]) std::abort();
  }
  for (Memory* m : memory) delete m;
  mco_free(p);
  return result;
}

// Replaces a small 64-bit integer, most of which are constants of expressions, sizes and attributes.
void change_number(Bytes& b, std::mt19937& random) {
  static const int64_t kNumbers[] = {
      0,         1,         -1,  2,      31, 33, 4095, 65536, INT32_MAX, INT64_C(1) << 32, INT64_C(1) << 62,
      INT64_MAX, INT64_MIN, -32, 1000003};
  for (int tries = 0; tries < 400 && b.size() > kHeader + 8; ++tries) {
    const size_t at = kHeader + random() % (b.size() - kHeader - 8);
    int64_t v;
    std::memcpy(&v, b.data() + at, sizeof v);
    if (v <= 0 || v > 1 << 20) continue;
    const int64_t fresh = random() % 2 ? kNumbers[random() % (sizeof kNumbers / 8)] : v + int64_t(random() % 64) - 32;
    std::memcpy(b.data() + at, &fresh, sizeof fresh);
    return;
  }
}

void damage(Bytes& b, std::mt19937& random) {
  const auto below = [&](size_t n) { return size_t(random() % n); };
  const int kind = int(below(8));
  if (kind == 0 && b.size() > kHeader) {
    b.resize(kHeader + below(b.size() - kHeader));
  } else if (kind == 1 && b.size() > kHeader + 16) {
    const size_t from = kHeader + below(b.size() - kHeader - 8), to = kHeader + below(b.size() - kHeader - 8);
    std::memmove(b.data() + to, b.data() + from, 8);
  } else if (kind < 6) {
    change_number(b, random);
  } else {
    static const uint8_t kExtreme[] = {0x00, 0xFF, 0x7F, 0x80, 0x01};
    const int flips = 1 + int(below(4));
    for (int i = 0; i < flips && b.size() > kHeader; ++i) {
      uint8_t& byte = b[kHeader + below(b.size() - kHeader)];
      byte = kind < 7 ? uint8_t(byte ^ (1u << below(8))) : kExtreme[below(sizeof kExtreme)];
    }
  }
  if (below(64) != 0) seal(b);
}

// As run(), in a child; a child that dies of anything but its time ends the driver.
int run_apart(const Bytes& program) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    itimerval limit{};
    limit.it_value.tv_usec = kMostMilliseconds * 1000;
    setitimer(ITIMER_REAL, &limit, nullptr);
    _exit(kExit + run(program));
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) std::abort();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return kTimedOut;
  const int result = WIFEXITED(status) ? WEXITSTATUS(status) - kExit : -1;
  if (result >= 0 && result < kTimedOut) return result;
  std::ofstream("damaged.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(program.data()), std::streamsize(program.size()));
  std::fprintf(stderr, "a damaged program ended the process with status %d; it is kept in damaged.bin\n", status);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: driver SEED COUNT FILE...\n");
    return 2;
  }
  std::mt19937 random(uint32_t(std::strtoul(argv[1], nullptr, 10)));
  const long count = std::strtol(argv[2], nullptr, 10);
  mco_set_threads(2);
  long results[4] = {};
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const Bytes whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (const char* level : {"generic", "avx2", "avx512"}) {
      char err[kErrorBytes];
      if (mco_set_isa(level, err, sizeof err)) continue;
      if (run(whole) != 0) {
        std::fprintf(stderr, "%s: does not run as it is at level %s\n", argv[i], level);
        return 1;
      }
    }
    for (long n = 0; n < count; ++n) {
      Bytes broken = whole;
      damage(broken, random);
      ++results[run_apart(broken)];
    }
  }
  std::printf("damaged programs: %ld ran, %ld failed, %ld refused, %ld timed out\n", results[0], results[1], results[2],
              results[3]);
  return 0;
}
