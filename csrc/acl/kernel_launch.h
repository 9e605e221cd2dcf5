// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "binary.h"

namespace mco_acl {

// Data of the host that a kernel gets the address of.
struct PlaceHolder {
  size_t at;  // in the arguments: where its address goes
  std::string data;
};

// Arguments that are put together one by one.
struct KernelArguments : Object {
  std::shared_ptr<const Kernel> kernel;
  std::weak_ptr<Binary> binary;
  std::mutex mutex;
  std::string bytes;  // those of the kernel
  size_t count = 0;   // parameters that have come
  bool whole = false;
  struct Buffer {
    size_t param;
    std::unique_ptr<char[]> data;  // null: not asked for yet
    size_t size;
  };
  std::vector<Buffer> buffers;
};

// One launch, with all that it needs. Arguments of the device are read when it starts.
struct KernelLaunch {
  std::shared_ptr<const Kernel> kernel;
  uint32_t blocks = 0;
  double time_limit = -1;  // seconds, 0 none; -1: that of the environment
  const void* device = nullptr;
  std::string bytes;
  std::vector<PlaceHolder> holders;
};

}  // namespace mco_acl
