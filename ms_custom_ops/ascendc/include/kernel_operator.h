// SPDX-License-Identifier: Apache-2.0
// Ascend C, as kernels include it.
#pragma once

#include "mco/abi.h"
#include "mco/types.h"
#include "mco/tensor.h"
#include "mco/issue.h"
#include "mco/pipe.h"
#include "mco/system.h"
#include "mco/vector.h"
#include "mco/copy.h"
#include "mco/cast.h"
#include "mco/reduce.h"
#include "mco/tiling.h"

namespace tik2 = AscendC;
