// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lib/matmul_intf.h"
