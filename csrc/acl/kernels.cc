// SPDX-License-Identifier: Apache-2.0
// Loading of binaries, functions in them, arguments of functions.
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "kernel_launch.h"

namespace mco_acl {
namespace {

constexpr size_t kMostFile = size_t(1) << 30, kMostBuffer = size_t(64) << 20;

void check_options(const char* call, const aclrtBinaryLoadOptions* options) {
  if (!options || !options->numOpt) return;
  if (!options->options) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: options is null; accepted: the %zu options", call, options->numOpt);
  }
  for (size_t i = 0; i < options->numOpt; ++i) {
    const aclrtBinaryLoadOption& option = options->options[i];
    const uint32_t type = number_in(option.type), magic = option.value.magic;
    if (type == ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD && option.value.isLazyLoad <= 1) continue;
    if (type == ACL_RT_BINARY_LOAD_OPT_MAGIC &&
        (magic == ACL_RT_BINARY_MAGIC_ELF_AICORE || magic == ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE ||
         magic == ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE)) {
      continue;
    }
    if (type == ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE) {
      refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: a kernel for the AI CPU; accepted: kernels for the AI core", call);
    }
    refuse(ACL_ERROR_RT_PARAM_INVALID,
           "%s: option %zu is of type %u with value %u; accepted: LAZY_LOAD of 0 or 1, MAGIC of an "
           "ACL_RT_BINARY_MAGIC_ELF_*",
           call, i, type, magic);
  }
}

std::string content(const char* call, const char* path) {
  struct stat about;
  std::ifstream file;
  if (stat(path, &about) == 0 && S_ISREG(about.st_mode)) file.open(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.is_open() ? std::streamoff(file.tellg()) : -1;
  if (size < 0) refuse(ACL_ERROR_INVALID_FILE, "%s: %s cannot be read; accepted: a file", call, path);
  if (uint64_t(size) > kMostFile) {
    refuse(ACL_ERROR_INVALID_FILE, "%s: %s has %lld bytes; accepted: up to %zu", call, path,
           static_cast<long long>(size), kMostFile);
  }
  std::string bytes(size_t(size), '\0');
  file.seekg(0);
  if (size && !file.read(&bytes[0], size)) {
    refuse(ACL_ERROR_INVALID_FILE, "%s: %s cannot be read; accepted: a file", call, path);
  }
  return bytes;
}

// What aclrtCreateBinary was given.
struct Given : Object {
  std::string bytes;
};

std::shared_ptr<Given> given_of(const char* call, aclrtBinary handle) {
  auto found = find<Given>(handle, Kind::kBytes);
  if (!found) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE, "%s: binary is none, or was destroyed; accepted: what aclrtCreateBinary gave",
           call);
  }
  return found;
}

void need_bytes(const char* call, const void* data, size_t size) {
  if (!data || !size) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: data is %p with %zu bytes; accepted: a binary", call, data, size);
  }
}

std::shared_ptr<Binary> binary_of(const char* call, aclrtBinHandle handle) {
  auto found = find<Binary>(handle, Kind::kBinary);
  if (!found) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE, "%s: binHandle is none, or was unloaded; accepted: what a load gave", call);
  }
  return found;
}

template <class T>
void need_place(const char* call, T** place, const char* name) {
  if (!place) refuse(ACL_ERROR_INVALID_PARAM, "%s: %s is null; accepted: a place for the handle", call, name);
  *place = nullptr;
}

aclrtFuncHandle function_handle(const char* call, const std::shared_ptr<Binary>& binary, const char* name) {
  auto fresh = std::make_shared<Function>();
  std::string there;
  for (const auto& kernel : binary->kernels) {
    if (kernel->name == name) fresh->kernel = kernel;
    there += (there.empty() ? "" : ", ") + kernel->name;
  }
  if (!fresh->kernel) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: kernelName is '%s'; accepted: %s", call, name, there.c_str());
  }
  fresh->binary = binary;
  {
    const std::lock_guard<std::mutex> lock(binary->mutex);
    const auto known = binary->functions.find(name);
    if (known != binary->functions.end()) return known->second;
  }
  void* handle = binary->keep(fresh, Kind::kFunction);
  const std::lock_guard<std::mutex> lock(binary->mutex);
  return binary->functions.emplace(name, handle).first->second;
}

// A parameter that was appended.
struct KernelArgument : Object {
  std::weak_ptr<KernelArguments> arguments;
  size_t param = 0;
  bool holder = false;
};

std::shared_ptr<KernelArguments> arguments_of(const char* call, aclrtArgsHandle handle) {
  auto found = find<KernelArguments>(handle, Kind::kArguments);
  if (!found) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE,
           "%s: argsHandle is none, or its binary was unloaded; accepted: what aclrtKernelArgsInit gave", call);
  }
  return found;
}

std::shared_ptr<KernelArgument> argument_of(const char* call, const std::shared_ptr<KernelArguments>& arguments,
                                            aclrtParamHandle handle, bool holder) {
  auto found = find<KernelArgument>(handle, Kind::kArgument);
  if (!found || found->arguments.lock() != arguments) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE, "%s: paramHandle is none of argsHandle; accepted: what appending gave", call);
  }
  if (found->holder != holder) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: paramHandle is of %s; accepted: of %s", call,
           found->holder ? "aclrtKernelArgsAppendPlaceHolder" : "aclrtKernelArgsAppend",
           holder ? "aclrtKernelArgsAppendPlaceHolder" : "aclrtKernelArgsAppend");
  }
  return found;
}

// The parameter that comes next.
const KernelParam& next_param(const char* call, const KernelArguments& arguments) {
  const Kernel& kernel = *arguments.kernel;
  if (arguments.whole) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: the arguments are whole; accepted: before aclrtKernelArgsFinalize", call);
  }
  if (arguments.count >= kernel.params.size()) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: one more argument; accepted: the %zu of %s", call, kernel.params.size(),
           kernel.name.c_str());
  }
  return kernel.params[arguments.count];
}

void check_param(const char* call, const KernelArguments& arguments, size_t number, const void* value, size_t size) {
  const Kernel& kernel = *arguments.kernel;
  if (!value) refuse(ACL_ERROR_INVALID_PARAM, "%s: param is null; accepted: the address of the value", call);
  if (size != kernel.params[number].bytes) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: paramSize is %zu; accepted: %u, of argument %zu of %s", call, size,
           kernel.params[number].bytes, number, kernel.name.c_str());
  }
}

void* argument_handle(const std::shared_ptr<KernelArguments>& arguments, size_t param, bool holder) {
  auto fresh = std::make_shared<KernelArgument>();
  fresh->arguments = arguments, fresh->param = param, fresh->holder = holder;
  const auto binary = arguments->binary.lock();
  if (!binary) refuse(ACL_ERROR_RT_INVALID_HANDLE, "argsHandle: its binary was unloaded");
  return binary->keep(fresh, Kind::kArgument);
}

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions* options, aclrtBinHandle* binHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtBinaryLoadFromFile";
    need_place(call, binHandle, "binHandle");
    if (!binPath || !*binPath) refuse(ACL_ERROR_INVALID_PARAM, "%s: binPath is empty; accepted: a path", call);
    check_options(call, options);
    need_context();
    const std::string bytes = content(call, binPath);
    *binHandle = enroll(read_binary(call, ACL_ERROR_INVALID_FILE, bytes.data(), bytes.size()), Kind::kBinary);
  });
}

aclError aclrtBinaryLoadFromData(const void* data, size_t length, const aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* binHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtBinaryLoadFromData";
    need_place(call, binHandle, "binHandle");
    need_bytes(call, data, length);
    check_options(call, options);
    need_context();
    *binHandle =
        enroll(read_binary(call, ACL_ERROR_RT_PARAM_INVALID, static_cast<const char*>(data), length), Kind::kBinary);
  });
}

aclrtBinary aclrtCreateBinary(const void* data, size_t dataLen) {
  aclrtBinary handle = nullptr;
  guarded(ACL_ERROR_FAILURE, [&] {
    need_bytes("aclrtCreateBinary", data, dataLen);
    auto fresh = std::make_shared<Given>();
    fresh->bytes.assign(static_cast<const char*>(data), dataLen);
    handle = enroll(fresh, Kind::kBytes);
  });
  return handle;
}

aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle* binHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtBinaryLoad";
    need_place(call, binHandle, "binHandle");
    const auto given = given_of(call, binary);
    need_context();
    *binHandle =
        enroll(read_binary(call, ACL_ERROR_RT_PARAM_INVALID, given->bytes.data(), given->bytes.size()), Kind::kBinary);
  });
}

aclError aclrtDestroyBinary(aclrtBinary binary) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    given_of("aclrtDestroyBinary", binary);
    withdraw(binary, Kind::kBytes);
  });
}

aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char* name) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtGetFunctionName";
    const auto function = function_of(call, funcHandle);
    const std::string& own = function->kernel->name;
    if (!name) refuse(ACL_ERROR_INVALID_PARAM, "%s: name is null; accepted: a place for the name", call);
    if (maxLen <= own.size()) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: maxLen is %u; accepted: at least %zu", call, maxLen, own.size() + 1);
    }
    std::memcpy(name, own.c_str(), own.size() + 1);
  });
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const auto binary = binary_of("aclrtBinaryUnLoad", binHandle);
    withdraw(binHandle, Kind::kBinary);
    std::vector<std::pair<void*, Kind>> handles;
    {
      const std::lock_guard<std::mutex> lock(binary->mutex);
      handles.swap(binary->handles);
    }
    for (const auto& handle : handles) withdraw(handle.first, handle.second);
  });
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtBinaryGetFunction";
    need_place(call, funcHandle, "funcHandle");
    if (!kernelName) refuse(ACL_ERROR_INVALID_PARAM, "%s: kernelName is null; accepted: a name", call);
    *funcHandle = function_handle(call, binary_of(call, binHandle), kernelName);
  });
}

aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle, uint64_t, aclrtFuncHandle* funcHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    if (funcHandle) *funcHandle = nullptr;
    refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
           "aclrtBinaryGetFunctionByEntry: reserved by the manual; accepted: aclrtBinaryGetFunction");
  });
}

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle* argsHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsInit";
    need_place(call, argsHandle, "argsHandle");
    const auto function = function_of(call, funcHandle);
    const auto binary = function->binary.lock();
    if (!binary) refuse(ACL_ERROR_RT_INVALID_HANDLE, "%s: the binary of funcHandle was unloaded", call);
    auto fresh = std::make_shared<KernelArguments>();
    fresh->kernel = function->kernel, fresh->binary = binary;
    fresh->bytes.assign(fresh->kernel->size, '\0');
    *argsHandle = binary->keep(fresh, Kind::kArguments);
  });
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void* param, size_t paramSize,
                               aclrtParamHandle* paramHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsAppend";
    need_place(call, paramHandle, "paramHandle");
    const auto arguments = arguments_of(call, argsHandle);
    const std::lock_guard<std::mutex> lock(arguments->mutex);
    const KernelParam& next = next_param(call, *arguments);
    check_param(call, *arguments, arguments->count, param, paramSize);
    *paramHandle = argument_handle(arguments, arguments->count, false);
    std::memcpy(&arguments->bytes[next.offset], param, paramSize);
    ++arguments->count;
  });
}

aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle, aclrtParamHandle* paramHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsAppendPlaceHolder";
    need_place(call, paramHandle, "paramHandle");
    const auto arguments = arguments_of(call, argsHandle);
    const std::lock_guard<std::mutex> lock(arguments->mutex);
    if (next_param(call, *arguments).kind != 'p') {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: argument %zu of %s is a number; accepted: a pointer", call,
             arguments->count, arguments->kernel->name.c_str());
    }
    *paramHandle = argument_handle(arguments, arguments->count, true);
    arguments->buffers.push_back({arguments->count, nullptr, 0});
    ++arguments->count;
  });
}

aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, size_t dataSize,
                                             void** bufferAddr) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsGetPlaceHolderBuffer";
    need_place(call, bufferAddr, "bufferAddr");
    const auto arguments = arguments_of(call, argsHandle);
    const std::lock_guard<std::mutex> lock(arguments->mutex);
    const auto argument = argument_of(call, arguments, paramHandle, true);
    if (!dataSize || dataSize > kMostBuffer) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: dataSize is %zu; accepted: 1 to %zu", call, dataSize, kMostBuffer);
    }
    for (KernelArguments::Buffer& buffer : arguments->buffers) {
      if (buffer.param != argument->param) continue;
      if (buffer.data) refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: the place holder has its memory; accepted: once", call);
      buffer.data.reset(new char[dataSize]());
      buffer.size = dataSize;
      *bufferAddr = buffer.data.get();
    }
  });
}

aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, void* param,
                                   size_t paramSize) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsParaUpdate";
    const auto arguments = arguments_of(call, argsHandle);
    const std::lock_guard<std::mutex> lock(arguments->mutex);
    const auto argument = argument_of(call, arguments, paramHandle, false);
    check_param(call, *arguments, argument->param, param, paramSize);
    std::memcpy(&arguments->bytes[arguments->kernel->params[argument->param].offset], param, paramSize);
  });
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtKernelArgsFinalize";
    const auto arguments = arguments_of(call, argsHandle);
    const std::lock_guard<std::mutex> lock(arguments->mutex);
    if (arguments->count != arguments->kernel->params.size()) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu arguments; accepted: the %zu of %s", call, arguments->count,
             arguments->kernel->params.size(), arguments->kernel->name.c_str());
    }
    for (const KernelArguments::Buffer& buffer : arguments->buffers) {
      if (!buffer.data) {
        refuse(ACL_ERROR_RT_PARAM_INVALID,
               "%s: argument %zu is a place holder without memory; accepted: after aclrtKernelArgsGetPlaceHolderBuffer",
               call, buffer.param);
      }
    }
    arguments->whole = true;
  });
}

}  // extern "C"
