// SPDX-License-Identifier: Apache-2.0
// Runs a host function of a project so that its exceptions and crashes become a failure of that call.
#ifndef MCO_HOST_GUARD_H_
#define MCO_HOST_GUARD_H_

#include <functional>

#include "mco_host/api.h"

namespace mco_host {

// Returns 0, or 1 with `failure` filled in. `work` answers a graph status; what it logged is in the failure's text.
// A crash is left by a jump: what the function had locked or allocated stays so.
int Guarded(const std::function<uint32_t()>& work, const void* function, mco_host_failure* failure);

// The offset of an address into this library, or 0.
uint64_t OffsetOf(const void* address);

}  // namespace mco_host

#endif  // MCO_HOST_GUARD_H_
