// SPDX-License-Identifier: Apache-2.0
// Memory of the device and of the host, copies.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <shared_mutex>

#include "common.h"

namespace mco_acl {
namespace {

constexpr size_t kAlign = 64, kBehind = 32;    // bytes, as aclrtMalloc documents them
constexpr size_t kMostPoisoned = 64ull << 20;  // of one block: a workspace of gigabytes stays untouched

struct Block {
  std::shared_ptr<void> memory;
  size_t size;
  bool device;
};

struct Blocks {
  std::shared_mutex mutex;
  std::map<uintptr_t, Block> by_address;
};

Blocks& blocks() {
  static Blocks& only = *new Blocks;
  return only;
}

void allocate(const char* function, void** place, size_t size, bool device) {
  if (!place) refuse(ACL_ERROR_INVALID_PARAM, "%s: a null pointer; accepted: a place for the address", function);
  *place = nullptr;
  if (size == 0) refuse(ACL_ERROR_INVALID_PARAM, "%s: 0 bytes; accepted: at least 1", function);
  need_context();
  void* memory = nullptr;
  if (size < SIZE_MAX / 2) memory = std::aligned_alloc(kAlign, (size + kBehind + kAlign - 1) / kAlign * kAlign);
  if (!memory) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory for %zu bytes", function, size);
  std::shared_ptr<void> owned(memory, std::free);
  if (device && delayed()) std::memset(memory, kPoison, std::min(size, kMostPoisoned));
  Blocks& b = blocks();
  const std::lock_guard<std::shared_mutex> lock(b.mutex);
  b.by_address[uintptr_t(memory)] = {owned, size, device};
  *place = memory;
}

void release(const char* function, void* address, bool device) {
  if (!address) refuse(ACL_ERROR_INVALID_PARAM, "%s: null; accepted: an address of the call that took it", function);
  std::shared_ptr<void> last;  // goes outside of the lock
  Blocks& b = blocks();
  const std::lock_guard<std::shared_mutex> lock(b.mutex);
  const auto it = b.by_address.find(uintptr_t(address));
  if (it == b.by_address.end() || it->second.device != device) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not the address of %s, or was freed before", function, address,
           device ? "aclrtMalloc" : "aclrtMallocHost");
  }
  last = std::move(it->second.memory);
  b.by_address.erase(it);
}

struct Copy {
  const char* function;
  aclrtMemcpyKind kind;
  bool to_device() const { return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE; }
  bool from_device() const { return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE; }
};

// Holds the memory of one side of a copy; `bytes` of it are touched.
Held side(const Copy& c, const char* name, const void* address, uint64_t bytes, bool on_device) {
  if (!address) refuse(ACL_ERROR_INVALID_PARAM, "%s: %s is null; accepted: an address", c.function, name);
  Held held = hold(address);
  if (c.kind != ACL_MEMCPY_DEFAULT && on_device != (held.block != nullptr)) {
    refuse(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "%s: %s (%p) is %s; accepted with kind %d: memory of the %s", c.function,
           name, address, held.block ? "memory of the device" : "no memory of aclrtMalloc, or freed", c.kind,
           on_device ? "device" : "host");
  }
  if (held.block && bytes > held.room) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: %llu bytes at %s; accepted: the %llu bytes up to the end of its memory",
           c.function, static_cast<unsigned long long>(bytes), name, static_cast<unsigned long long>(held.room));
  }
  return held;
}

void check_kind(const Copy& c) {
  if (c.kind < ACL_MEMCPY_HOST_TO_HOST || c.kind > ACL_MEMCPY_DEFAULT) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: kind is %d; accepted: aclrtMemcpyKind, 0 to 4", c.function, int(c.kind));
  }
}

void copy(const Copy& c, void* dst, size_t destMax, const void* src, size_t count) {
  check_kind(c);
  if (count > destMax) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: count is %zu; accepted: at most destMax, %zu", c.function, count, destMax);
  }
  if (count == 0) refuse(ACL_ERROR_INVALID_PARAM, "%s: 0 bytes; accepted: at least 1", c.function);
  const Held to = side(c, "dst", dst, count, c.to_device()), from = side(c, "src", src, count, c.from_device());
  std::memmove(dst, src, count);
}

void fill(const char* function, void* address, size_t most, int32_t value, size_t count) {
  const Copy c{function, ACL_MEMCPY_HOST_TO_DEVICE};
  if (count > most) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: count is %zu; accepted: at most maxCount, %zu", function, count, most);
  }
  const Held held = side(c, "devPtr", address, count, true);
  std::memset(address, value, count);
}

}  // namespace

Held hold(const void* address) {
  Held held;
  Blocks& b = blocks();
  const uintptr_t at = uintptr_t(address);
  const std::shared_lock<std::shared_mutex> lock(b.mutex);
  auto it = b.by_address.upper_bound(at);
  if (it == b.by_address.begin()) return held;
  --it;
  if (!it->second.device || at - it->first >= it->second.size) return held;
  held.block = it->second.memory;
  held.room = it->second.size - (at - it->first);
  return held;
}

std::vector<DeviceBlock> device_blocks() {
  Blocks& b = blocks();
  const std::shared_lock<std::shared_mutex> lock(b.mutex);
  std::vector<DeviceBlock> found;
  for (const auto& entry : b.by_address) {
    if (entry.second.device) found.push_back({entry.second.memory, entry.second.size});
  }
  return found;
}

}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return guarded(ACL_ERROR_FAILURE, [&] { allocate("aclrtMalloc", devPtr, size, true); });
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return guarded(ACL_ERROR_FAILURE, [&] { allocate("aclrtMallocCached", devPtr, size, true); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return guarded(ACL_ERROR_FAILURE, [&] { allocate("aclrtMallocAlign32", devPtr, size, true); });
}

aclError aclrtFree(void* devPtr) {
  return guarded(ACL_ERROR_FAILURE, [&] { release("aclrtFree", devPtr, true); });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return guarded(ACL_ERROR_FAILURE, [&] { allocate("aclrtMallocHost", hostPtr, size, false); });
}

aclError aclrtFreeHost(void* hostPtr) {
  return guarded(ACL_ERROR_FAILURE, [&] { release("aclrtFreeHost", hostPtr, false); });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    need_context();
    copy({"aclrtMemcpy", kind}, dst, destMax, src, count);
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const Copy c{"aclrtMemcpyAsync", kind};
    check_kind(c);
    if (count > destMax) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtMemcpyAsync: count is %zu; accepted: at most destMax, %zu", count, destMax);
    }
    const Held to = side(c, "dst", dst, count, c.to_device()), from = side(c, "src", src, count, c.from_device());
    submit(stream_of(stream), [=] { copy(c, dst, destMax, src, count); });
  });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    need_context();
    const Copy c{"aclrtMemcpy2d", kind};
    check_kind(c);
    if (width == 0 || height == 0 || width > dpitch || width > spitch) {
      refuse(ACL_ERROR_INVALID_PARAM,
             "aclrtMemcpy2d: width %zu, height %zu, pitches %zu and %zu; accepted: at least 1, and pitches that hold a "
             "row",
             width, height, dpitch, spitch);
    }
    unsigned long long far_to = 0, far_from = 0;
    if (__builtin_mul_overflow(dpitch, height - 1, &far_to) || __builtin_add_overflow(far_to, width, &far_to) ||
        __builtin_mul_overflow(spitch, height - 1, &far_from) || __builtin_add_overflow(far_from, width, &far_from)) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy2d: rows that no memory holds");
    }
    const Held to = side(c, "dst", dst, far_to, c.to_device()), from = side(c, "src", src, far_from, c.from_device());
    for (size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(dst) + row * dpitch, static_cast<const char*>(src) + row * spitch, width);
    }
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    need_context();
    fill("aclrtMemset", devPtr, maxCount, value, count);
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (count > maxCount) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtMemsetAsync: count is %zu; accepted: at most maxCount, %zu", count,
             maxCount);
    }
    const Held held = side({"aclrtMemsetAsync", ACL_MEMCPY_HOST_TO_DEVICE}, "devPtr", devPtr, count, true);
    submit(stream_of(stream), [=] { fill("aclrtMemsetAsync", devPtr, maxCount, value, count); });
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!free || !total) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: a null pointer; accepted: two places");
    if (attr < ACL_DDR_MEM || attr > ACL_HBM_MEM_NORMAL) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: attr is %d; accepted: aclrtMemAttr, 0 to 5", int(attr));
    }
    need_context();
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    *free = size_t(sysconf(_SC_AVPHYS_PAGES)) * page;
    *total = size_t(sysconf(_SC_PHYS_PAGES)) * page;
  });
}

}  // extern "C"
