// SPDX-License-Identifier: Apache-2.0
// Launches of kernels of binaries: arguments are copied, addresses in them are looked at, the engine runs the blocks.
#include "kernel_launch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace mco_acl {
namespace {

constexpr uint32_t kMostBlocks = 65535;
constexpr size_t kErrorBytes = 16384, kAlign = 64;
constexpr uint64_t kMostHolders = 256;
constexpr double kMicroseconds = 1e6, kMostSeconds = 1e9;  // longer ones no clock can add

using Memory = std::unique_ptr<char, decltype(&std::free)>;

// The device's memory that one run may touch, and what is told of it.
class Reach {
 public:
  explicit Reach(const KernelLaunch& launch) : launch_(launch), blocks_(device_blocks()) {
    for (const DeviceBlock& block : blocks_) add(block.memory.get(), block.size, "memory of aclrtMalloc");
  }

  // Copies of the data of place holders; their addresses go into `bytes`.
  void place(std::string* bytes) {
    for (const PlaceHolder& holder : launch_.holders) {
      const size_t room = (holder.data.size() + kAlign - 1) / kAlign * kAlign;
      Memory copy(static_cast<char*>(std::aligned_alloc(kAlign, room)), &std::free);
      if (!copy) throw std::bad_alloc();
      std::memcpy(copy.get(), holder.data.data(), holder.data.size());
      const char* address = copy.get();
      std::memcpy(&(*bytes)[holder.at], &address, sizeof address);
      add(copy.get(), holder.data.size(), "data of a place holder");
      copies_.push_back(std::move(copy));
    }
  }

  // Refused for a pointer to what is no memory of the device.
  void check(const std::string& bytes) {
    for (size_t i = 0; i < launch_.kernel->params.size(); ++i) {
      const KernelParam& param = launch_.kernel->params[i];
      if (param.kind != 'p') continue;
      const char* address = nullptr;
      std::memcpy(&address, bytes.data() + param.offset, sizeof address);
      if (!address) continue;
      mco_asc_memory* found = nullptr;
      for (mco_asc_memory& memory : memory_) {
        const auto begin = uintptr_t(memory.data), at = uintptr_t(address);
        if (at >= begin && at - begin < uint64_t(memory.bytes)) found = &memory;
      }
      if (!found) {
        refuse(ACL_ERROR_RT_PARAM_INVALID,
               "%s: argument %zu is %p, which is no memory of aclrtMalloc, or was freed; accepted: an address of the "
               "device, or null",
               launch_.kernel->name.c_str(), i, static_cast<const void*>(address));
      }
      names_.push_back(text("argument %zu", i));
      found->name = names_.back().c_str();
    }
  }

  const std::vector<mco_asc_memory>& memory() const { return memory_; }

 private:
  void add(void* data, size_t size, const char* name) {
    if (size) memory_.push_back({data, int64_t(size), name, 0, 0, 0});
  }

  const KernelLaunch& launch_;
  std::vector<DeviceBlock> blocks_;
  std::vector<Memory> copies_;
  std::deque<std::string> names_;
  std::vector<mco_asc_memory> memory_;
};

void run(const KernelLaunch& launch) {
  const Kernel& kernel = *launch.kernel;
  std::string bytes = launch.bytes;
  if (launch.device) {
    const Held held = hold(launch.device);
    if (held.room < kernel.size) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: argsData is %p with %llu bytes; accepted: %zu bytes of aclrtMalloc",
             kernel.name.c_str(), launch.device, static_cast<unsigned long long>(held.room), kernel.size);
    }
    bytes.assign(static_cast<const char*>(launch.device), kernel.size);
  }
  Reach reach(launch);
  reach.place(&bytes);
  reach.check(bytes);
  std::vector<const void*> values;
  for (const KernelParam& param : kernel.params) values.push_back(bytes.data() + param.offset);
  values.push_back(nullptr);
  mco_asc_launch spec = kernel.launch;
  spec.scope_bytes = kernel.scopes;
  spec.blocks = int32_t(launch.blocks);
  spec.args = values.data();
  spec.memory = reach.memory().data();
  spec.memories = int32_t(reach.memory().size());
  if (launch.time_limit >= 0) spec.time_limit = launch.time_limit;
  std::string error(kErrorBytes, '\0');
  if (kernel.run(&spec, &error[0], error.size())) {
    refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "%s: %s", kernel.name.c_str(), error.c_str());
  }
}

void put_timeout(const char* call, KernelLaunch* launch, double seconds) {
  if (launch->time_limit >= 0) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: two timeouts; accepted: TIMEOUT or TIMEOUT_US", call);
  }
  launch->time_limit = std::min(seconds, kMostSeconds);
}

void apply_attribute(const char* call, const aclrtLaunchKernelAttr& attr, KernelLaunch* launch) {
  const auto need = [&](bool holds, const char* what, unsigned given, const char* accepted) {
    if (!holds) refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: %s is %u; accepted: %s", call, what, given, accepted);
  };
  switch (number_in(attr.id)) {
    case ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE:  // all blocks run in any case
      return need(attr.value.schemMode <= 1, "schemMode", attr.value.schemMode, "0 or 1");
    case ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE:
      return need(attr.value.dynUBufSize == 0, "dynUBufSize", attr.value.dynUBufSize, "0, of kernels without SIMT");
    case ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE:
      return need(number_in(attr.value.engineType) <= ACL_RT_ENGINE_TYPE_AIV, "engineType",
                  number_in(attr.value.engineType), "ACL_RT_ENGINE_TYPE_AIC or ACL_RT_ENGINE_TYPE_AIV");
    case ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET:
      return need(attr.value.blockDimOffset == 0, "blockDimOffset", attr.value.blockDimOffset, "0");
    case ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH:
      return need(attr.value.isBlockTaskPrefetch <= 1, "isBlockTaskPrefetch", attr.value.isBlockTaskPrefetch, "0 or 1");
    case ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP:
      return need(attr.value.isDataDump == 0, "isDataDump", attr.value.isDataDump, "0: there are no dumps");
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT:
      return put_timeout(call, launch, attr.value.timeout);
    case ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US: {
      const uint64_t us = uint64_t(attr.value.timeoutUs.timeoutHigh) << 32 | attr.value.timeoutUs.timeoutLow;
      return put_timeout(call, launch, double(us) / kMicroseconds);
    }
  }
  refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: an attribute of id %u; accepted: aclrtLaunchKernelAttrId, 1 to 8", call,
         number_in(attr.id));
}

void apply_config(const char* call, const aclrtLaunchKernelCfg* cfg, KernelLaunch* launch) {
  if (!cfg) return;
  if (cfg->numAttrs && !cfg->attrs) {
    refuse(ACL_ERROR_INVALID_PARAM, "%s: attrs of cfg is null; accepted: the %zu attributes", call, cfg->numAttrs);
  }
  for (size_t i = 0; i < cfg->numAttrs; ++i) apply_attribute(call, cfg->attrs[i], launch);
}

KernelLaunch prepared(const char* call, aclrtFuncHandle function, uint32_t blocks, const aclrtLaunchKernelCfg* cfg) {
  KernelLaunch launch;
  launch.kernel = function_of(call, function)->kernel;
  if (blocks < 1 || blocks > kMostBlocks) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: numBlocks is %u; accepted: 1 to %u", call, blocks, kMostBlocks);
  }
  launch.blocks = blocks;
  apply_config(call, cfg, &launch);
  return launch;
}

// The arguments' size, which may be rounded up to the words of the interface.
void check_size(const char* call, const Kernel& kernel, size_t size, bool data_behind) {
  constexpr size_t kWord = 8;
  const size_t most = (kernel.size + kWord - 1) / kWord * kWord;
  if (size >= kernel.size && (data_behind || size <= most)) return;
  refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: argsSize is %zu; accepted: %zu, the %zu parameters of %s", call, size,
         kernel.size, kernel.params.size(), kernel.name.c_str());
}

// Data of the host behind the arguments: each up to the next, the last up to the end.
void take_holders(const char* call, const char* host, size_t size, const aclrtPlaceHolderInfo* infos, size_t count,
                  KernelLaunch* launch) {
  const Kernel& kernel = *launch->kernel;
  if (count && !infos) refuse(ACL_ERROR_INVALID_PARAM, "%s: placeHolderArray is null", call);
  if (count > kMostHolders) refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: placeHolderNum is %zu", call, count);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = infos[i].addrOffset, from = infos[i].dataOffset;
    bool pointer = false;
    for (const KernelParam& param : kernel.params) pointer = pointer || (param.kind == 'p' && param.offset == at);
    if (!pointer) {
      refuse(ACL_ERROR_RT_PARAM_INVALID,
             "%s: addrOffset of place holder %zu is %zu; accepted: where a pointer of %s lies", call, i, at,
             kernel.name.c_str());
    }
    if (from < kernel.size || from >= size) {
      refuse(ACL_ERROR_RT_PARAM_INVALID,
             "%s: dataOffset of place holder %zu is %zu; accepted: %zu to %zu, behind the arguments", call, i, from,
             kernel.size, size - 1);
    }
    size_t end = size;
    for (size_t j = 0; j < count; ++j) {
      const size_t other = infos[j].dataOffset;
      if (other > from && other < end) end = other;
    }
    launch->holders.push_back({at, std::string(host + from, end - from)});
  }
}

void start(KernelLaunch launch, aclrtStream stream) {
  const auto on = stream_of(stream);
  auto kept = std::make_shared<KernelLaunch>(std::move(launch));
  submit(on, [kept] { run(*kept); });
}

void launch_from_device(const char* call, aclrtFuncHandle function, uint32_t blocks, const void* args, size_t size,
                        const aclrtLaunchKernelCfg* cfg, aclrtStream stream) {
  KernelLaunch launch = prepared(call, function, blocks, cfg);
  if (launch.kernel->size && !args) refuse(ACL_ERROR_INVALID_PARAM, "%s: argsData is null; accepted: an address", call);
  check_size(call, *launch.kernel, size, false);
  if (launch.kernel->size) {
    const Held held = hold(args);
    if (held.room < size) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: argsData is %p with %llu bytes; accepted: %zu bytes of aclrtMalloc", call,
             args, static_cast<unsigned long long>(held.room), size);
    }
    launch.device = args;
  }
  start(std::move(launch), stream);
}

}  // namespace
}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void* argsData, size_t argsSize,
                           aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    launch_from_device("aclrtLaunchKernel", funcHandle, numBlocks, argsData, argsSize, nullptr, stream);
  });
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void* argsData, size_t argsSize,
                             aclrtLaunchKernelCfg* cfg, aclrtStream stream) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    launch_from_device("aclrtLaunchKernelV2", funcHandle, numBlocks, argsData, argsSize, cfg, stream);
  });
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                       aclrtLaunchKernelCfg* cfg, void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo* placeHolderArray, size_t placeHolderNum) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtLaunchKernelWithHostArgs";
    KernelLaunch launch = prepared(call, funcHandle, numBlocks, cfg);
    check_size(call, *launch.kernel, argsSize, placeHolderNum != 0);
    if (argsSize && !hostArgs) refuse(ACL_ERROR_INVALID_PARAM, "%s: hostArgs is null; accepted: an address", call);
    const char* host = static_cast<const char*>(hostArgs);
    if (host) launch.bytes.assign(host, launch.kernel->size);
    take_holders(call, host, argsSize, placeHolderArray, placeHolderNum, &launch);
    start(std::move(launch), stream);
  });
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                     aclrtLaunchKernelCfg* cfg, aclrtArgsHandle argsHandle, void* reserve) {
  return guarded(ACL_ERROR_FAILURE, [&] {
    const char* const call = "aclrtLaunchKernelWithConfig";
    KernelLaunch launch = prepared(call, funcHandle, numBlocks, cfg);
    if (reserve) refuse(ACL_ERROR_INVALID_PARAM, "%s: reserve is not null; accepted: null", call);
    const auto arguments = find<KernelArguments>(argsHandle, Kind::kArguments);
    if (!arguments) {
      refuse(ACL_ERROR_RT_INVALID_HANDLE,
             "%s: argsHandle is none, or its binary was unloaded; accepted: what aclrtKernelArgsInit gave", call);
    }
    if (arguments->kernel != launch.kernel) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "%s: argsHandle is of %s; accepted: one of %s", call,
             arguments->kernel->name.c_str(), launch.kernel->name.c_str());
    }
    {
      const std::lock_guard<std::mutex> lock(arguments->mutex);
      if (!arguments->whole) {
        refuse(ACL_ERROR_RT_PARAM_INVALID,
               "%s: arguments of %s that are not whole; accepted: after aclrtKernelArgsFinalize", call,
               launch.kernel->name.c_str());
      }
      launch.bytes = arguments->bytes;
      for (const KernelArguments::Buffer& buffer : arguments->buffers) {
        launch.holders.push_back(
            {launch.kernel->params[buffer.param].offset, std::string(buffer.data.get(), buffer.size)});
      }
    }
    start(std::move(launch), stream);
  });
}

}  // extern "C"
