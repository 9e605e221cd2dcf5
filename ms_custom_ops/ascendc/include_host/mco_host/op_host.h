// SPDX-License-Identifier: Apache-2.0
// Everything that op_host sources get from the headers of the vendor's names.
#ifndef MCO_HOST_OP_HOST_H_
#define MCO_HOST_OP_HOST_H_

// What those headers bring along and public sources rely on.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "mco_host/contexts.h"
#include "mco_host/ge_shape.h"
#include "mco_host/log.h"
#include "mco_host/op_def.h"
#include "mco_host/platform_infos.h"
#include "mco_host/registry.h"
#include "mco_host/shape.h"
#include "mco_host/tiling_data.h"
#include "mco_host/types.h"

// The one check that sources call with no header of checks among their own.
#ifndef OPS_CHECK_NULL_WITH_CONTEXT
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer)                                                        \
  do {                                                                                                       \
    if ((pointer) == nullptr) {                                                                              \
      ::mco_host::Log(::mco_host::kError, __FILE__, __LINE__, "%s: %s is nullptr", (context)->GetNodeName(), \
                      #pointer);                                                                             \
      return ge::GRAPH_FAILED;                                                                               \
    }                                                                                                        \
  } while (0)
#endif

#endif  // MCO_HOST_OP_HOST_H_
