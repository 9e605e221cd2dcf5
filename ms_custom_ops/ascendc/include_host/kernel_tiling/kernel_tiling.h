// SPDX-License-Identifier: Apache-2.0
// Structs that a header shared by host and kernel holds.
#pragma once
#include "../../include/kernel_tiling/kernel_tiling.h"
