// SPDX-License-Identifier: Apache-2.0
// Ascend C, as kernels include it. One header for each area.
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
#include "mco/select.h"
#include "mco/expression.h"
#include "mco/gather.h"
#include "mco/sort.h"
#include "mco/misc.h"
#include "mco/builtin.h"
#include "mco/library.h"
#include "mco/functions.h"
#include "mco/reduce_pattern.h"
#include "mco/transpose.h"
#include "mco/fused.h"
#include "mco/normal.h"
#include "mco/softmax.h"
#include "mco/topk.h"
#include "mco/quant.h"
#include "mco/pad.h"
#include "mco/norms.h"
#include "mco/welford.h"
#include "mco/dropout.h"
#include "mco/antiquant.h"
#include "mco/cube.h"
#include "mco/load_repeat.h"
#include "mco/fixpipe.h"
#include "mco/tiling.h"
#include "mco/absent.h"

namespace tik2 {  // a namespace of its own: sources of its time put their classes into it
using namespace AscendC;
}

#ifdef MCO_ASC_REINTERPRET  // see compile.py
#define reinterpret_cast ::mco_asc::reinterpret
#endif
