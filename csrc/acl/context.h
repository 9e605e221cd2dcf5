// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common.h"

namespace mco_acl {

struct Context : Object {
  std::shared_ptr<Stream> stream;  // its own, that a null stream names
  uint64_t number = 0;
  int64_t options[2] = {};  // by aclSysParamOpt
};
// That of this thread; refused where there is none.
std::shared_ptr<Context> context();

}  // namespace mco_acl
