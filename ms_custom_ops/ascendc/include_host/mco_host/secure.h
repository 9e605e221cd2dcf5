// SPDX-License-Identifier: Apache-2.0
// memcpy_s and its kin: 0 when done, another number when the target is too small or a pointer is null.
#ifndef MCO_HOST_SECURE_H_
#define MCO_HOST_SECURE_H_

#include <cstddef>
#include <cstring>

using errno_t = int;
#ifndef EOK
#define EOK 0
#endif

inline errno_t memcpy_s(void* to, size_t capacity, const void* from, size_t count) {
  if (!to || !from || count > capacity) return 22;
  std::memcpy(to, from, count);
  return EOK;
}
inline errno_t memset_s(void* to, size_t capacity, int value, size_t count) {
  if (!to || count > capacity) return 22;
  std::memset(to, value, count);
  return EOK;
}
inline errno_t strcpy_s(char* to, size_t capacity, const char* from) {
  return from ? memcpy_s(to, capacity, from, std::strlen(from) + 1) : 22;
}

#endif  // MCO_HOST_SECURE_H_
