// SPDX-License-Identifier: Apache-2.0
// What both programs share: checks, tensors on the device, rounding, comparison.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    const int check_status = (call);                                                         \
    if (check_status != 0) {                                                                 \
      const char* check_text = aclGetRecentErrMsg();                                         \
      std::printf("%s: status %d: %s\n", #call, check_status, check_text ? check_text : ""); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

using Shape = std::vector<int64_t>;

inline int64_t elements(const Shape& shape) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  return count;
}

// Numbers as the device stores them, and as the golden takes them.
inline std::vector<aclFloat16> to_half(std::vector<double>& values) {
  std::vector<aclFloat16> out;
  for (double& value : values) {
    out.push_back(aclFloatToFloat16(static_cast<float>(value)));
    value = aclFloat16ToFloat(out.back());
  }
  return out;
}

// A tensor, its memory on the device and the shape.
struct DeviceTensor {
  void* address = nullptr;
  aclTensor* tensor = nullptr;
  Shape shape;
  size_t bytes = 0;
};

template <class T>
DeviceTensor make_tensor(const std::vector<T>& host, const Shape& shape, aclDataType dtype) {
  DeviceTensor made;
  made.shape = shape;
  made.bytes = host.size() * sizeof(T);
  CHECK(aclrtMalloc(&made.address, made.bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(made.address, made.bytes, host.data(), made.bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  Shape strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  made.tensor = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0, aclFormat::ACL_FORMAT_ND,
                                shape.data(), shape.size(), made.address);
  if (!made.tensor) {
    std::printf("aclCreateTensor: %s\n", aclGetRecentErrMsg());
    std::exit(1);
  }
  return made;
}

inline DeviceTensor half_tensor(std::vector<double>& values, const Shape& shape) {
  return make_tensor(to_half(values), shape, aclDataType::ACL_FLOAT16);
}

inline DeviceTensor empty_half(const Shape& shape) {
  return make_tensor(std::vector<aclFloat16>(elements(shape), 0), shape, aclDataType::ACL_FLOAT16);
}

template <class T>
std::vector<T> read_back(const DeviceTensor& from) {
  std::vector<T> host(from.bytes / sizeof(T));
  CHECK(aclrtMemcpy(host.data(), from.bytes, from.address, from.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  return host;
}

inline void destroy(const std::vector<DeviceTensor>& tensors) {
  for (const DeviceTensor& each : tensors) {
    CHECK(aclDestroyTensor(each.tensor));
    CHECK(aclrtFree(each.address));
  }
}

// The root of the mean square of the difference, relative to the golden's; at most `limit`.
inline bool close(const char* name, const std::vector<double>& found, const std::vector<double>& golden, double limit) {
  double wrong = 0, right = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    wrong += (found[i] - golden[i]) * (found[i] - golden[i]);
    right += golden[i] * golden[i];
  }
  const double rms = std::sqrt(wrong / right);
  const bool good = rms <= limit;  // false for NaN
  std::printf("%-12s rms %.2e of at most %.0e: %s\n", name, rms, limit, good ? "good" : "WRONG");
  return good;
}

inline std::vector<double> halves(const DeviceTensor& from) {
  std::vector<double> out;
  for (aclFloat16 bits : read_back<aclFloat16>(from)) out.push_back(aclFloat16ToFloat(bits));
  return out;
}

// Numbers between -1 and 1 that are the same everywhere.
class Random {
 public:
  std::vector<double> numbers(int64_t count, double scale = 1) {
    std::vector<double> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(scale * (static_cast<double>(next() >> 11) / (1ull << 52) - 1));
    return out;
  }
  uint64_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return state_ ^ state_ >> 29;
  }

 private:
  uint64_t state_ = 42;
};
