// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "objects.h"
#include "ops.h"

namespace mco_acl {

// 161001 for a null that is none of the optional ones.
void check_nulls(const Op& op, const Argument* arguments);
// The call as a text. `views` gets what the tensors are; 161002 for handles, formats and views that no op takes.
std::string request_of(const Op& op, const Argument* arguments, std::vector<View>* views);

}  // namespace mco_acl
