// SPDX-License-Identifier: Apache-2.0
// What the parts of the acl library share: failures, handles, memory, streams. The library is plain C outside; inside,
// nothing that a caller passes is trusted.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

namespace mco_acl {

// A call that ends in a status.
struct Failure : std::runtime_error {
  Failure(int status, const std::string& text) : std::runtime_error(text), code(status) {}
  int code;
};

[[noreturn]] void refuse(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Keeps a text for aclGetRecentErrMsg of this thread.
void remember(const std::string& text) noexcept;

// Runs `body`; what it throws becomes a status and the thread's text. `other`: for what is no Failure.
template <class F>
int guarded(int other, F body) noexcept {
  try {
    body();
    return 0;
  } catch (const Failure& failure) {
    remember(failure.what());
    return failure.code;
  } catch (const std::bad_alloc&) {
    remember("out of memory");
    return ACL_ERROR_BAD_ALLOC;
  } catch (const std::exception& error) {
    remember(error.what());
    return other;
  }
}

// Objects behind the handles of callers. Handles are numbers that are used once, and no addresses: one that was
// destroyed is never another object's.
enum class Kind : uint8_t {
  kContext = 1,
  kStream,
  kEvent,
  kTensor,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kTensorList,
  kScalarList,
  kExecutor,
  kBytes,
  kBinary,
  kFunction,
  kArguments,
  kArgument,
  kSource
};
struct Object {
  virtual ~Object() = default;
};
void* enroll(std::shared_ptr<Object> object, Kind kind);
// Null when `handle` is none of that kind, or was destroyed.
std::shared_ptr<Object> look_up(const void* handle, Kind kind);
// The object, which the handle is no longer one of; null as above.
std::shared_ptr<Object> withdraw(const void* handle, Kind kind);
std::vector<std::shared_ptr<Object>> all_of(Kind kind);
template <class T>
std::shared_ptr<T> find(const void* handle, Kind kind) {
  return std::static_pointer_cast<T>(look_up(handle, kind));
}

// Memory of the device. A held block stays until it is let go, also when it was freed meanwhile.
struct Held {
  std::shared_ptr<void> block;
  uint64_t room = 0;  // bytes from the address to the end of its block; 0: no memory of aclrtMalloc
};
Held hold(const void* address);
// All memory of the device as it is now, by address.
struct DeviceBlock {
  std::shared_ptr<void> memory;
  size_t size;
};
std::vector<DeviceBlock> device_blocks();

// What waits on a stream. In the delayed mode it runs at the synchronisation, else at once.
struct Stream : Object {
  uint64_t context = 0;
  std::deque<std::function<void()>> tasks;
  uint64_t pushed = 0, done = 0;
  int error = 0;
  std::string error_text;
  uint64_t reporter = 0;  // the thread that takes its callbacks, 0: none
  int blocked = 0;        // callbacks that it waits for (ACL_CALLBACK_BLOCK)
};
// MS_CUSTOM_OPS_ACL_DELAY=1: work is delayed to the synchronisation and fresh memory is poisoned.
bool delayed();
constexpr unsigned char kPoison = 0xFF;  // NaN of every float, -1 of integers
std::shared_ptr<Stream> stream_of(aclrtStream handle);
void submit(const std::shared_ptr<Stream>& stream, std::function<void()> task);
// Runs what waits, up to a number of tasks; a failure stays the stream's until it is told.
void drain(Stream& stream, uint64_t up_to);

// The context of this thread; refused where there is none.
void need_context();
// The deterministic switch of context or process.
bool deterministic_asked();
// An environment variable of this project, "" where it is not set.
std::string variable(const char* name);
const std::string& soc_name();

}  // namespace mco_acl
