// SPDX-License-Identifier: Apache-2.0
// Tilings of the library's functions, Matmul's among them.
#pragma once

#include "mco_host/library_tiling.h"
#include "mco_host/matmul_tiling.h"
#include "mco_host/op_host.h"

#ifndef MCO_ASC_CONSTEXPR  // a source of op_host, which asks for sizeof(half); kernels have a class
struct half {
  uint16_t bits;
};
#endif
