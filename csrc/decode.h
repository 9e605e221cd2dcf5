// SPDX-License-Identifier: Apache-2.0
// Reading of untrusted bytes: every access is checked against what is left.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "program.h"

#ifdef MCO_FUZZ
void mco_fuzz_field(const uint8_t* at, size_t bytes);  // csrc/tests/fuzz.cc changes what is read here
#endif

namespace mco {

using Strings = std::vector<std::string>;

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }

  const uint8_t* bytes(size_t n) {
    if (n > size_ - at_) {
      fail("program bytes: %zu bytes wanted at offset %zu, %zu left: malformed program", n, at_, size_ - at_);
    }
    const uint8_t* at = data_ + at_;
#ifdef MCO_FUZZ
    mco_fuzz_field(at, n);
#endif
    at_ += n;
    return at;
  }

  // Number of entries of at least `entry` bytes each.
  uint32_t count(size_t entry) {
    const size_t at = at_;
    const uint32_t n = take<uint32_t>();
    if (n > left() / entry) {
      fail("program bytes: a table of %u entries at offset %zu is longer than the file", n, at);
    }
    return n;
  }

  const std::string& string(const Strings& strings) {
    const uint32_t index = take<uint32_t>();
    if (index >= strings.size()) fail("program bytes: string number %u; the table has %zu", index, strings.size());
    return strings[index];
  }

  // The next byte, left where it is; none at the end.
  int peek() const { return at_ < size_ ? data_[at_] : -1; }

  size_t left() const { return size_ - at_; }
  bool at_end() const { return at_ == size_; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

Operand read_operand(Reader& in, Program& p);
// Number of the compiled root of expression `index`.
uint32_t read_root(Program& p, uint32_t index);
// The buffer lies in its scope, which grows by it as far as it is used; throws Error.
void place_buffer(Program& p, Buffer& b);
void check_scope_bytes(Scope scope, int64_t bytes);
void read_body(Reader& in, const Strings& strings, Program& p);

}  // namespace mco
