// SPDX-License-Identifier: Apache-2.0
// Which tensor of a call an address is for.
#pragma once

#include "ops.h"

namespace mco_acl {

// Tensors are counted among inputs, outputs or both, a list as one.
struct Place {
  const char* function;
  bool inputs, outputs;
  size_t index;
  bool listed;
  size_t item;  // of the list
};
// The number of its parameter; refused where there is none.
int parameter_of(const Place& place, const Op& op);
// The handle of an entry of a list; refused where there is none.
const void* entry_of(const char* function, const aclTensorList* tensors, size_t item);

}  // namespace mco_acl
