// SPDX-License-Identifier: Apache-2.0
// A name of the vendor's package for the tiling of Matmul.
#pragma once

#include "mco_host/op_host.h"
#include "mco_host/matmul_tiling.h"
