// SPDX-License-Identifier: Apache-2.0
// Kernels in Ascend C, compiled to libraries of their own, in place of Programs.
#include <dlfcn.h>

#include <cstdlib>

#include "plan.h"

namespace mco_acl {
namespace {

constexpr size_t kErrorBytes = 4096;
constexpr size_t kSystemWorkspace = size_t(16) << 20;  // in front of the kernel's own, as ascendc/kernel.py has it
constexpr int kUnknownKind = -1;

// The handle stays open: kernels run until the process ends.
void* opened(const std::string& path, std::string* reason) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle) *reason = dlerror();
  return handle;
}

template <class F>
F symbol(void* handle, const char* name, std::string* reason) {
  F found = reinterpret_cast<F>(dlsym(handle, name));
  if (!found) *reason = text("the kernel's library has no %s", name);
  return found;
}

int64_t bytes_of(mco::DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = mco::kSize[dtype];
  for (const int64_t n : shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace

void configure_launch(void* handle, mco_asc_launch* launch) {
  const std::string threads = variable("MS_CUSTOM_OPS_NUM_THREADS"), limit = variable("MS_CUSTOM_OPS_TIME_LIMIT");
  char* end = nullptr;
  if (!threads.empty()) {
    const long count = std::strtol(threads.c_str(), &end, 10);
    if (*end || count < 1 || count > INT32_MAX) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "MS_CUSTOM_OPS_NUM_THREADS is %s; accepted: an integer of at least 1",
             threads.c_str());
    }
    launch->threads = int32_t(count);
  }
  if (!limit.empty()) {
    const double seconds = std::strtod(limit.c_str(), &end);
    if (*end || !(seconds > 0)) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "MS_CUSTOM_OPS_TIME_LIMIT is %s; accepted: a number of seconds above 0",
             limit.c_str());
    }
    launch->time_limit = seconds;
  }
  if (variable("MS_CUSTOM_OPS_CHECK") == "1") {
    if (auto set = reinterpret_cast<decltype(&mco_set_check)>(dlsym(handle, "mco_set_check"))) set(1);
  }
}

bool load_launch(Plan& plan, const std::string& key, std::string* reason) {
  Launch& l = *plan.launch;
  mco_asc_launch launch{};
  launch.struct_size = sizeof launch, launch.abi = MCO_ASC_ABI;
  launch.strict = 1, launch.kind = kUnknownKind;
  launch.blocks = int32_t(l.blocks), launch.tiling_key = l.key;
  launch.scope_bytes = l.scopes, launch.saturate = l.saturate, launch.split = l.split, launch.arch = l.arch;
  void* handle = nullptr;
  for (size_t i = 0; i < l.libraries.size(); ++i) {
    handle = opened(l.libraries[i], reason);
    if (!handle) return false;
    auto entry = symbol<const mco_asc_entry_info* (*)()>(handle, "mco_asc_entry", reason);
    if (!entry) return false;
    const mco_asc_entry_info* info = entry();
    if (info->abi != MCO_ASC_ABI || info->count != l.slots.size() + 2) {
      *reason = l.libraries[i] + " was built by another version of this package";
      return false;
    }
    if (i == 0) launch.entry[0] = info->call, launch.kind = info->kind;
    launch.entry[1] = info->call;
  }
  auto put = symbol<decltype(&mco_launch_put)>(handle, "mco_launch_put", reason);
  auto find = symbol<decltype(&mco_launch_find)>(handle, "mco_launch_find", reason);
  l.run = symbol<decltype(&mco_launch_run)>(handle, "mco_launch_run", reason);
  if (!put || !find || !l.run) return false;
  configure_launch(handle, &launch);
  std::vector<int64_t> bytes;
  for (const Chain& chain : plan.inputs) bytes.push_back(bytes_of(chain.dtype, chain.shape));
  for (const Result& result : plan.results) bytes.push_back(bytes_of(result.dtype, result.shape));
  mco_launch out{};
  out.struct_size = sizeof out, out.inputs = l.inputs, out.outputs = l.outputs, out.name = "kernel";
  out.launch = launch, out.bytes = bytes.data();
  out.slots = l.slots.data(), out.slot_count = int32_t(l.slots.size()), out.copies = l.copies.data();
  out.list_tensors = l.list_tensors.data(), out.list_words = l.list_words.data(), out.words = l.words.data();
  out.tiling = reinterpret_cast<const uint8_t*>(l.tiling.data()), out.tiling_size = l.tiling.size();
  out.system_workspace = kSystemWorkspace, out.user_workspace = size_t(l.workspace);
  char error[kErrorBytes] = "";
  if (put(key.c_str(), &out, error, sizeof error)) {
    refuse(ACLNN_ERR_INNER, "a plan whose launch cannot be taken: %s; accepted: ms-custom-ops cache clear", error);
  }
  l.ready = find(key.c_str());
  return true;
}

}  // namespace mco_acl
