// SPDX-License-Identifier: Apache-2.0
// What programs of a kernel's own ask of the runtime: memory, copies, streams. Device and host are one here.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "mco/types.h"

typedef int aclError;
typedef uint16_t aclFloat16;
typedef void* aclrtStream;
typedef void* aclrtContext;
typedef struct mco_acl_event {
  std::chrono::steady_clock::time_point at;
}* aclrtEvent;
typedef enum { ACL_DEVICE, ACL_HOST } aclrtRunMode;
typedef enum { ACL_DDR_MEM, ACL_HBM_MEM } aclrtMemAttr;
typedef enum { ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY } aclrtMemMallocPolicy;
typedef enum {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE
} aclrtMemcpyKind;
static const int ACL_SUCCESS = 0;
static const int ACL_ERROR_NONE = 0;

inline aclError aclInit(const char*) { return 0; }
inline aclError aclFinalize() { return 0; }
inline aclError aclrtSetDevice(int32_t) { return 0; }
inline aclError aclrtResetDevice(int32_t) { return 0; }
inline aclError aclrtGetDevice(int32_t* device) { return *device = 0; }
inline aclError aclrtCreateContext(aclrtContext* context, int32_t) { return *context = nullptr, 0; }
inline aclError aclrtDestroyContext(aclrtContext) { return 0; }
inline aclError aclrtCreateStream(aclrtStream* stream) { return *stream = nullptr, 0; }
inline aclError aclrtDestroyStream(aclrtStream) { return 0; }
inline aclError aclrtSynchronizeStream(aclrtStream) { return 0; }
inline aclError aclrtSynchronizeDevice() { return 0; }
inline aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy) {
  return *memory = mco_asc_gm_alloc(bytes), *memory || !bytes ? 0 : 1;
}
inline aclError aclrtFree(void* memory) { return mco_asc_gm_free(memory), 0; }
inline aclError aclrtMallocHost(void** memory, size_t bytes) {
  return *memory = mco_asc_gm_alloc(bytes), *memory || !bytes ? 0 : 1;
}
inline aclError aclrtFreeHost(void* memory) { return mco_asc_gm_free(memory), 0; }
inline aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind) {
  return bytes > room ? 1 : (std::memcpy(to, from, bytes), 0);
}
inline aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind, aclrtStream) {
  return bytes > room ? 1 : (std::memcpy(to, from, bytes), 0);
}
inline aclError aclrtMemset(void* to, size_t room, int32_t value, size_t bytes) {
  return bytes > room ? 1 : (std::memset(to, value, bytes), 0);
}
inline float aclFloat16ToFloat(aclFloat16 value) { return mco_asc::half_to_float(value); }
inline aclFloat16 aclFloatToFloat16(float value) { return mco_asc::float_to_half(value); }

inline aclError aclrtResetDeviceForce(int32_t) { return 0; }
inline aclError aclrtGetDeviceCount(uint32_t* count) { return *count = 1, 0; }
inline aclError aclrtGetRunMode(aclrtRunMode* mode) { return *mode = ACL_HOST, 0; }
inline aclError aclrtSetCurrentContext(aclrtContext) { return 0; }
inline aclError aclrtGetCurrentContext(aclrtContext* context) { return *context = nullptr, 0; }
inline aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) { return *stream = nullptr, 0; }
inline aclError aclrtSynchronizeStreamWithTimeout(aclrtStream, int32_t) { return 0; }
inline aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return 0; }
inline aclError aclrtMallocCached(void** memory, size_t bytes, aclrtMemMallocPolicy policy) {
  return aclrtMalloc(memory, bytes, policy);
}
inline aclError aclrtMemsetAsync(void* to, size_t room, int32_t value, size_t bytes, aclrtStream) {
  return aclrtMemset(to, room, value, bytes);
}
inline const char* aclrtGetSocName() { return __NPU_ARCH__ == 2201 ? "Ascend910B1" : "Ascend310P3"; }
inline const char* aclGetRecentErrMsg() { return nullptr; }

// Time between events is that of this machine, not of a chip.
inline aclError aclrtCreateEvent(aclrtEvent* event) { return *event = new mco_acl_event(), 0; }
inline aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
inline aclError aclrtRecordEvent(aclrtEvent event, aclrtStream) {
  return event->at = std::chrono::steady_clock::now(), 0;
}
inline aclError aclrtSynchronizeEvent(aclrtEvent) { return 0; }
inline aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return 0; }
inline aclError aclrtResetEvent(aclrtEvent, aclrtStream) { return 0; }
inline aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent begin, aclrtEvent end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return 0;
}
inline aclError aclrtDestroyEvent(aclrtEvent event) {
  delete event;
  return 0;
}
