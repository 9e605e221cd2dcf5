// SPDX-License-Identifier: Apache-2.0
// Initialisation, devices, contexts, handles, texts of failures.
#include <pthread.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <shared_mutex>
#include <unordered_map>

#include "context.h"

namespace mco_acl {
namespace {

thread_local std::string last_text, told_text;
thread_local bool has_text = false;
thread_local void* current = nullptr;  // handle of a context

struct Entry {
  Kind kind;
  std::shared_ptr<Object> object;
};

struct Handles {
  std::shared_mutex mutex;
  std::unordered_map<uint64_t, Entry> entries;
  uint64_t next = 0;
};

Handles& handles() {
  static Handles& only = *new Handles;  // never destroyed: programs may call from their own static destructors
  return only;
}

constexpr uint64_t kMark = 0x6d63ull << 48;  // no address of a program, so that following a handle ends at once

std::string formatted(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string out(size_t(size > 0 ? size : 0), '\0');
  if (size > 0) std::vsnprintf(&out[0], out.size() + 1, format, arguments);
  return out;
}

struct Process {
  std::mutex mutex;
  int initialised = 0;      // 0 not yet, 1 yes, 2 finalized
  void* context = nullptr;  // that of aclrtSetDevice
  int64_t uses = 0;         // calls of aclrtSetDevice without their aclrtResetDevice
  int64_t options[2] = {};
};

Process& process() {
  static Process& only = *new Process;
  return only;
}

void need_device(int32_t device) {
  if (device != 0) refuse(ACL_ERROR_RT_INVALID_DEVICEID, "device is %d; accepted: 0, the only device", device);
}

void* new_context() {
  auto context = std::make_shared<Context>();
  context->stream = std::make_shared<Stream>();
  void* handle = enroll(context, Kind::kContext);
  context->stream->context = context->number = uint64_t(uintptr_t(handle));
  return handle;
}

int64_t* option(int64_t* options, aclSysParamOpt opt) {
  if (opt != ACL_OPT_DETERMINISTIC && opt != ACL_OPT_ENABLE_DEBUG_KERNEL) {
    refuse(ACL_ERROR_INVALID_PARAM, "option is %d; accepted: ACL_OPT_DETERMINISTIC, ACL_OPT_ENABLE_DEBUG_KERNEL", opt);
  }
  return &options[opt];
}

int64_t flag(int64_t value) {
  if (value != 0 && value != 1) {
    refuse(ACL_ERROR_INVALID_PARAM, "value of the option is %lld; accepted: 0 or 1", static_cast<long long>(value));
  }
  return value;
}

}  // namespace

void refuse(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string out = formatted(format, arguments);
  va_end(arguments);
  throw Failure(code, out);
}

std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = formatted(format, arguments);
  va_end(arguments);
  return out;
}

void remember(const std::string& text) noexcept {
  try {
    last_text = text;
    has_text = true;
  } catch (...) {
    has_text = false;
  }
}

void* enroll(std::shared_ptr<Object> object, Kind kind) {
  Handles& h = handles();
  const std::lock_guard<std::shared_mutex> lock(h.mutex);
  const uint64_t number = kMark | ++h.next << 8 | uint64_t(kind);
  h.entries.emplace(number, Entry{kind, std::move(object)});
  return reinterpret_cast<void*>(uintptr_t(number));
}

std::shared_ptr<Object> look_up(const void* handle, Kind kind) {
  Handles& h = handles();
  const std::shared_lock<std::shared_mutex> lock(h.mutex);
  const auto it = h.entries.find(uint64_t(uintptr_t(handle)));
  return it != h.entries.end() && it->second.kind == kind ? it->second.object : nullptr;
}

std::shared_ptr<Object> withdraw(const void* handle, Kind kind) {
  Handles& h = handles();
  const std::lock_guard<std::shared_mutex> lock(h.mutex);
  const auto it = h.entries.find(uint64_t(uintptr_t(handle)));
  if (it == h.entries.end() || it->second.kind != kind) return nullptr;
  std::shared_ptr<Object> object = std::move(it->second.object);
  h.entries.erase(it);
  return object;
}

std::vector<std::shared_ptr<Object>> all_of(Kind kind) {
  Handles& h = handles();
  const std::shared_lock<std::shared_mutex> lock(h.mutex);
  std::vector<std::shared_ptr<Object>> found;
  for (const auto& entry : h.entries) {
    if (entry.second.kind == kind) found.push_back(entry.second.object);
  }
  return found;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const std::string& soc_name() {
  static const std::string& name = *new std::string([] {
    const std::string given = variable("MS_CUSTOM_OPS_SOC");
    return given.empty() ? std::string("Ascend910B1") : given;
  }());
  return name;
}

bool delayed() {
  static const bool on = variable("MS_CUSTOM_OPS_ACL_DELAY") == "1";
  return on;
}

std::shared_ptr<Context> context() {
  auto found = find<Context>(current, Kind::kContext);
  if (!found) {
    refuse(ACL_ERROR_RT_CONTEXT_NULL,
           "this thread has no context; accepted: a call after aclrtSetDevice, aclrtCreateContext or "
           "aclrtSetCurrentContext on the same thread");
  }
  return found;
}

void need_context() { context(); }

bool deterministic_asked() {
  if (const auto found = find<Context>(current, Kind::kContext)) {
    if (found->options[ACL_OPT_DETERMINISTIC]) return true;
  }
  Process& p = process();
  const std::lock_guard<std::mutex> lock(p.mutex);
  return p.options[ACL_OPT_DETERMINISTIC] != 0;
}

}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclInit(const char* configPath) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (configPath && *configPath && access(configPath, R_OK) != 0) {
      refuse(ACL_ERROR_INVALID_FILE, "aclInit: %s cannot be read; accepted: null, or a file", configPath);
    }
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (p.initialised == 1) refuse(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: called before; accepted: once");
    p.initialised = 1;
  });
}

aclError aclFinalize() {
  return guarded(ACL_ERROR_FAILURE, [&] {
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (p.initialised == 0) refuse(ACL_ERROR_UNINITIALIZE, "aclFinalize: before aclInit");
    if (p.initialised == 2) refuse(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: called before; accepted: once");
    p.initialised = 2;
  });
}

aclnnStatus aclnnInit(const char* configPath) {
  return guarded(ACLNN_ERR_RUNTIME_ERROR, [&] {
    if (configPath && *configPath && access(configPath, R_OK) != 0) {
      refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInit: %s cannot be read; accepted: null, or a file", configPath);
    }
  });
}

aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!majorVersion || !minorVersion || !patchVersion) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion: a null pointer; accepted: three places");
    }
    *majorVersion = ACL_MAJOR_VERSION, *minorVersion = ACL_MINOR_VERSION, *patchVersion = ACL_PATCH_VERSION;
  });
}

const char* aclrtGetSocName() { return soc_name().c_str(); }

const char* aclGetRecentErrMsg() {
  if (!has_text) return nullptr;
  has_text = false;
  told_text.swap(last_text);
  return told_text.c_str();
}

aclError aclrtSetDevice(int32_t deviceId) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    need_device(deviceId);
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (!p.context) p.context = new_context();
    ++p.uses;
    current = p.context;
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    need_device(deviceId);
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (p.uses == 0) return;  // only contexts were made
    if (--p.uses > 0) return;
    withdraw(p.context, Kind::kContext);
    if (current == p.context) current = nullptr;
    p.context = nullptr;
  });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!deviceId) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetDevice: a null pointer; accepted: a place for the number");
    need_context();
    *deviceId = 0;
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!count) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCount: a null pointer; accepted: a place for the count");
    *count = 1;
  });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!runMode) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetRunMode: a null pointer; accepted: a place for the mode");
    *runMode = ACL_HOST;
  });
}

aclError aclrtSetTsDevice(aclrtTsId tsId) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (tsId != ACL_TS_ID_AICORE && tsId != ACL_TS_ID_AIVECTOR) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtSetTsDevice: %d; accepted: ACL_TS_ID_AICORE or ACL_TS_ID_AIVECTOR", tsId);
    }
  });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!context)
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtCreateContext: a null pointer; accepted: a place for the context");
    need_device(deviceId);
    *context = current = new_context();
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!context) refuse(ACL_ERROR_INVALID_PARAM, "aclrtDestroyContext: null; accepted: a context");
    {
      Process& p = process();
      const std::lock_guard<std::mutex> lock(p.mutex);
      if (context == p.context) {
        refuse(ACL_ERROR_INVALID_PARAM, "aclrtDestroyContext: the device's own context; accepted: aclrtResetDevice");
      }
    }
    if (!withdraw(context, Kind::kContext)) {
      refuse(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyContext: no context, or destroyed before");
    }
    if (current == context) current = nullptr;
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!look_up(context, Kind::kContext)) {
      refuse(ACL_ERROR_INVALID_PARAM, "aclrtSetCurrentContext: no context, or destroyed before");
    }
    current = context;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!context) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetCurrentContext: a null pointer; accepted: a place for it");
    need_context();
    *context = current;
  });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return guarded(ACL_ERROR_FAILURE, [&] { *option(context()->options, opt) = flag(value); });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!value) refuse(ACL_ERROR_INVALID_PARAM, "aclrtCtxGetSysParamOpt: a null pointer; accepted: a place for it");
    *value = *option(context()->options, opt);
  });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    *option(p.options, opt) = flag(value);
  });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (!value) refuse(ACL_ERROR_INVALID_PARAM, "aclrtGetSysParamOpt: a null pointer; accepted: a place for it");
    Process& p = process();
    const std::lock_guard<std::mutex> lock(p.mutex);
    *value = *option(p.options, opt);
  });
}

}  // extern "C"
