// SPDX-License-Identifier: Apache-2.0
// Compiled Ascend C kernels as bytes, as ms_custom_ops/ascendc/binary.py writes them.
#pragma once

#include <cstring>
#include <map>

#include "../../ms_custom_ops/ascendc/include/mco/abi.h"
#include "common.h"

namespace mco_acl {

// The number in an enum of a caller, which may be none of its values.
template <class T>
uint32_t number_in(const T& given) {
  static_assert(sizeof given == sizeof(uint32_t), "an enum of another size");
  uint32_t number;
  std::memcpy(&number, &given, sizeof number);
  return number;
}

// A parameter of a kernel, and where it lies in the arguments: in order, each at a multiple of its alignment.
struct KernelParam {
  char kind;  // as of mco_asc_argument
  uint32_t bytes;
  size_t offset;
};

// A kernel of a binary. Its code stays mapped until the process ends.
struct Kernel {
  std::string name;
  std::vector<KernelParam> params;
  size_t size = 0;  // bytes of the arguments
  int64_t scopes[8] = {};
  mco_asc_launch launch{};  // without blocks, arguments and memory
  decltype(&mco_asc_run) run = nullptr;
};

struct Binary : Object {
  std::vector<std::shared_ptr<const Kernel>> kernels;
  std::mutex mutex;
  std::map<std::string, void*> functions;                 // handles that were given, by name
  std::vector<std::pair<void*, Kind>> handles;            // of functions and arguments, which end with it
  void* keep(std::shared_ptr<Object> object, Kind kind);  // its handle
};

struct Function : Object {
  std::shared_ptr<const Kernel> kernel;
  std::weak_ptr<Binary> binary;
};
// Refused (107017) where there is none.
std::shared_ptr<Function> function_of(const char* call, aclrtFuncHandle handle);

// Refused with `status` for what is no binary of this version.
std::shared_ptr<Binary> read_binary(const char* call, int status, const char* data, size_t size);

}  // namespace mco_acl
