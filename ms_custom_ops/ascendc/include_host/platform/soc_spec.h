// SPDX-License-Identifier: Apache-2.0
// Generations of chips.
#pragma once

#include "mco_host/platform_infos.h"
