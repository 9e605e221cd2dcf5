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
#include "mco_host/op_def.h"
#include "mco_host/platform_infos.h"
#include "mco_host/registry.h"
#include "mco_host/shape.h"
#include "mco_host/tiling_data.h"
#include "mco_host/types.h"

#endif  // MCO_HOST_OP_HOST_H_
