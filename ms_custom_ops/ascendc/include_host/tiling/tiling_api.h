// SPDX-License-Identifier: Apache-2.0
// Tilings of the library's functions, Matmul's among them.
#pragma once

#include "mco_host/library_tiling.h"
#include "mco_host/matmul_tiling.h"
#include "mco_host/op_host.h"
