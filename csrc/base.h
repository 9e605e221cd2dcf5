// SPDX-License-Identifier: Apache-2.0
// What every part of the engine shares: the error type, data types, overflow-safe extents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace mco {

// Ends a load or a run; becomes the error text of the C interface.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Codes of the binary form (ms_custom_ops/program/dtypes.py).
enum DType : uint8_t { F16, BF16, F32, I8, U8, I16, U16, I32, U32, I64, U64, BOOL, kDTypes };

constexpr uint8_t kSize[kDTypes] = {2, 2, 4, 1, 1, 2, 2, 4, 4, 8, 8, 1};
constexpr const char* kDTypeName[kDTypes] = {"float16", "bfloat16", "float32", "int8",  "uint8",  "int16",
                                             "uint16",  "int32",    "uint32",  "int64", "uint64", "bool"};

constexpr bool is_float(DType t) { return t <= F32; }
constexpr bool is_signed(DType t) { return t == I8 || t == I16 || t == I32 || t == I64; }

enum Scope : uint8_t { GM, UB, L1, L0A, L0B, L0C, BT, SMASK, kScopes };
constexpr const char* kScopeName[kScopes] = {"gm", "ub", "l1", "l0a", "l0b", "l0c", "bt", "smask"};

constexpr int64_t kVectorBytes = 256;
constexpr int64_t kBlockBytes = 32;
constexpr int64_t kCmpMaskBytes = 16;  // of the compare-mask register: a bit for each of 128 lanes
constexpr int64_t kFractalElements = 256;
constexpr int64_t kFractalBytes = 512;
constexpr int64_t kFractalSide = 16;

using Wide = __int128;  // no product of two int64 overflows it

// a * b, kept far from the ends of the type where a third factor would overflow; such an extent fits no tensor.
inline Wide wide_product(Wide a, Wide b) {
  constexpr Wide kFar = Wide(1) << 120;
  Wide product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kFar : -kFar;
  return product > kFar ? kFar : product < -kFar ? -kFar : product;
}

inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
inline int64_t ceil_div(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// A register or expression value: `i` for integers (wrapped to the dtype; uint64 as its bit pattern), `f` for floats
// (rounded to the dtype).
union Value {
  int64_t i;
  double f;
};

}  // namespace mco
