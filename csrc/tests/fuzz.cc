// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target: loads a Program and runs it at one SIMD level. Built and run by scripts/fuzz.sh.
//
// The mutator knows no layout: the decoder tells (MCO_FUZZ in decode.h) which fields it reads, and those are what is
// changed, copied and swapped, under a header whose length and checksum are made to agree again. What a Program does
// may be refused or fail with a text; it must not touch memory that is not its own, nor be undefined, nor run past its
// time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../capi.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// An allocation that is too large is an error of the engine with a text, not of the sanitizer.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeader = 24;
constexpr int kErrorBytes = 4096;
constexpr int64_t kMostTensor = 1 << 22, kMostTensors = 1 << 23;  // bytes fed
constexpr double kSeconds = 0.1;
constexpr const char* kLevels[] = {"generic", "avx2", "avx512"};

struct Field {
  size_t at, bytes;
};
std::vector<Field>* reading = nullptr;
const uint8_t* reading_from = nullptr;

struct Counts {
  unsigned long refused = 0, failed = 0, ran[3] = {}, absent[3] = {}, large = 0;
} counts;

void Report() {
  std::fprintf(stderr, "programs: %lu refused, %lu failed, %lu too large", counts.refused, counts.failed, counts.large);
  for (int i = 0; i < 3; ++i) {
    std::fprintf(stderr, ", %lu ran at %s", counts.ran[i], kLevels[i]);
    if (counts.absent[i]) std::fprintf(stderr, " (not on this machine: %lu)", counts.absent[i]);
  }
  std::fprintf(stderr, "\n");
}

uint32_t Crc32(const uint8_t* data, size_t size) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> t(256);
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] & 1 ? 0xEDB88320u ^ (t[i] >> 1) : t[i] >> 1;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) crc = table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  return ~crc;
}

// Makes header and content agree, so that a change reaches the decoder and not only the checksum.
void Seal(uint8_t* data, size_t size) {
  const uint64_t length = size - kHeader;
  const uint32_t crc = Crc32(data + kHeader, length);
  std::memcpy(data + 8, &length, sizeof length);
  std::memcpy(data + 16, &crc, sizeof crc);
}

// The fields that the decoder reads, in order, up to where it refuses.
std::vector<Field> FieldsOf(const uint8_t* data, size_t size) {
  std::vector<Field> fields;
  char err[kErrorBytes];
  mco_program* program = nullptr;
  reading = &fields;
  reading_from = data;
  if (!mco_load(data, size, &program, err, sizeof err)) mco_free(program);
  reading = nullptr;
  return fields;
}

class Mutator {
 public:
  Mutator(uint8_t* data, size_t size, size_t most, unsigned seed)
      : data_(data), size_(size), most_(most), random_(seed) {}

  size_t Mutate() {
    const int times = Below(3) ? 1 : 1 + int(Below(5));
    for (int i = 0; i < times; ++i) Once();
    Seal(data_, size_);
    return size_;
  }

  // Puts statements, or whatever lies between two fields, of another program in the place of some of this one.
  size_t Cross(const uint8_t* other, size_t other_size) {
    const std::vector<Field> theirs = FieldsOf(other, other_size);
    if (!theirs.empty()) Place(Bytes(other, other + other_size), theirs);
    Seal(data_, size_);
    return size_;
  }

 private:
  size_t Below(size_t n) { return n ? size_t(random_()) % n : 0; }

  void Once() {
    fields_ = FieldsOf(data_, size_);
    const size_t kind = Below(10);
    if (fields_.empty() || kind == 0) {
      size_ = kHeader + LLVMFuzzerMutate(data_ + kHeader, size_ - kHeader, most_ - kHeader);
    } else if (kind < 3) {
      Place(Bytes(data_, data_ + size_), fields_);
    } else {
      ChangeField();
    }
  }

  // A statement begins with a byte and a location; other fields of that form are as good a place to cut.
  std::vector<size_t> Cuts(const std::vector<Field>& fields) const {
    std::vector<size_t> cuts;
    for (size_t i = 0; i + 1 < fields.size(); ++i) {
      if (fields[i].bytes == 1 && fields[i + 1].bytes == 4) cuts.push_back(fields[i].at);
    }
    return cuts;
  }

  void Place(const Bytes& from, const std::vector<Field>& fields) {
    const std::vector<size_t> theirs = Cuts(fields), ours = Cuts(FieldsOf(data_, size_));
    if (theirs.size() < 2 || ours.size() < 2) return;
    const size_t a = Below(theirs.size() - 1), a_end = a + 1 + Below(std::min<size_t>(3, theirs.size() - 1 - a));
    const size_t b = Below(ours.size() - 1), b_end = Below(4) ? b + 1 : b;  // in the place of one, or before it
    const size_t begin = theirs[a], length = theirs[a_end] - begin, tail = size_ - ours[b_end];
    if (ours[b] + length + tail > most_) return;
    std::memmove(data_ + ours[b] + length, data_ + ours[b_end], tail);
    std::memcpy(data_ + ours[b], from.data() + begin, length);
    size_ = ours[b] + length + tail;
  }

  int64_t Value(const Field& f) const {
    int64_t v = 0;
    std::memcpy(&v, data_ + f.at, f.bytes);
    return v;
  }

  void ChangeField() {
    static const int64_t kNumbers[] = {0,
                                       1,
                                       -1,
                                       2,
                                       7,
                                       8,
                                       15,
                                       16,
                                       17,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       65,
                                       127,
                                       128,
                                       255,
                                       256,
                                       4095,
                                       65535,
                                       65536,
                                       1000003,
                                       INT32_MAX,
                                       INT32_MIN,
                                       1ll << 32,
                                       1ll << 48,
                                       1ll << 62,
                                       INT64_MAX,
                                       INT64_MIN,
                                       -31,
                                       -32,
                                       0x7FF0000000000000ll,   // infinity
                                       0x7FF8000000000001ll};  // not a number
    // Every other time in the second half, which expressions and statements take up.
    const size_t half = fields_.size() / 2;
    const Field f = fields_[Below(2) ? Below(fields_.size()) : half + Below(fields_.size() - half)];
    if (f.bytes != 1 && f.bytes != 2 && f.bytes != 4 && f.bytes != 8) {
      data_[f.at + Below(f.bytes)] ^= uint8_t(1u << Below(8));  // text
      return;
    }
    int64_t v = Value(f);
    switch (Below(6)) {
      case 0:
        v = kNumbers[Below(sizeof kNumbers / sizeof kNumbers[0])];
        break;
      case 1:
        v = int64_t(uint64_t(v) + Below(7) - 3);
        break;
      case 2:
        v = int64_t(uint64_t(v) ^ uint64_t(1) << Below(f.bytes * 8));
        break;
      case 3: {
        const Field& other = fields_[Below(fields_.size())];
        if (other.bytes <= sizeof v) v = Value(other);
        break;
      }
      case 4:
        v = int64_t(Below(f.bytes == 1 ? 40 : 200));
        break;
      default:
        v = int64_t(Below(2) ? uint64_t(v) * 2 : uint64_t(v) / 2);
    }
    std::memcpy(data_ + f.at, &v, f.bytes);
  }

  uint8_t* data_;
  size_t size_, most_;
  std::mt19937 random_;
  std::vector<Field> fields_;
};

// Exactly the bytes asked for, so that one byte too many is found.
struct Memory {
  explicit Memory(int64_t bytes) : data(static_cast<uint8_t*>(std::malloc(size_t(bytes ? bytes : 1)))) {
    for (int64_t i = 0; i < bytes; ++i) data[i] = uint8_t(i * 37 + 11 + (i >> 8));
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint8_t* data;
};

bool Feed(const mco_program* p, int operands, std::vector<Memory*>* memory, std::vector<mco_tensor>* tensors) {
  int64_t total = 0;
  for (int i = 0; i < operands; ++i) {
    mco_io io;
    if (mco_program_io(p, i, &io)) std::abort();
    const int64_t bytes = io.bytes < 0 ? 4096 : io.bytes;
    if (bytes > kMostTensor || (total += bytes) > kMostTensors) return false;
    memory->push_back(new Memory(bytes));
    tensors->push_back({memory->back()->data, bytes});
  }
  return true;
}

void Run(const mco_program* p, uint32_t choice) {
  int inputs = 0, outputs = 0, scalars = 0;
  mco_program_counts(p, &inputs, &outputs, &scalars);
  std::vector<Memory*> memory;
  std::vector<mco_tensor> tensors;
  char err[kErrorBytes] = "";
  const uint32_t level = choice % 3;
  if (!Feed(p, inputs + outputs, &memory, &tensors)) {
    ++counts.large;
  } else if (mco_set_isa(kLevels[level], err, sizeof err)) {
    ++counts.absent[level];
  } else {
    std::vector<mco_scalar> values(size_t(scalars), mco_scalar{3, 3.0});
    std::vector<int64_t> steps(size_t(mco_program_steps(p)));
    mco_options options{};
    options.struct_size = sizeof options;
    static const int32_t kModes[] = {MCO_MODE_COUNTED, MCO_MODE_CHECKED, MCO_MODE_CHECKED, MCO_MODE_FAST};
    options.mode = kModes[choice / 3 % 4];
    mco_findings* findings = nullptr;
    if (options.mode == MCO_MODE_CHECKED) options.findings = &findings;
    options.values = choice % 2;
    options.counts = options.mode == MCO_MODE_COUNTED ? steps.data() : nullptr;
    options.threads = choice / 12 % 8 == 0 ? 2 : 1;
    options.deterministic = choice / 96 % 4 != 0;
    options.time_limit = kSeconds;
    err[0] = 0;
    const int result =
        mco_run(p, tensors.data(), int(tensors.size()), values.data(), scalars, &options, err, sizeof err);
    if (result && !err[0]) std::abort();
    mco_finding finding;
    for (int64_t i = 0; i < mco_findings_count(findings); ++i) {
      if (mco_findings_get(findings, i, &finding)) std::abort();
    }
    mco_findings_free(findings);
    ++(result ? counts.failed : counts.ran[level]);
  }
  for (Memory* m : memory) delete m;
}

}  // namespace

// The decoder has read `bytes` bytes at `at`.
void mco_fuzz_field(const uint8_t* at, size_t bytes) {
  if (reading && bytes && at >= reading_from + kHeader) reading->push_back({size_t(at - reading_from), bytes});
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (size < kHeader || most <= kHeader) return LLVMFuzzerMutate(data, size, most);
  return Mutator(data, size, most, seed).Mutate();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size, const uint8_t* two, size_t two_size,
                                            uint8_t* out, size_t most, unsigned seed) {
  if (one_size < kHeader || one_size > most) return 0;
  std::memcpy(out, one, one_size);
  return Mutator(out, one_size, most, seed).Cross(two, two_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool once = [] { return std::atexit(Report) == 0; }();
  (void)once;
  const Bytes exact(data, data + size);  // libFuzzer's own buffer is longer
  char err[kErrorBytes] = "";
  mco_program* p = nullptr;
  if (mco_load(exact.data(), exact.size(), &p, err, sizeof err)) {
    if (!err[0]) std::abort();
    ++counts.refused;
    return 0;
  }
  Run(p, Crc32(data, size));
  mco_free(p);
  return 0;
}
