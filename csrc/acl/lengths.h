// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops.h"
#include "plan.h"

namespace mco_acl {

// int32 as the kernel takes them; 561002 for values that are none.
Shaped lengths_of(const Op& op, const Lengths& about, const Shaped& given);

}  // namespace mco_acl
