// SPDX-License-Identifier: Apache-2.0
// The chip: platform_ascendc::PlatformAscendC.
#pragma once

#include "mco_host/platform_infos.h"
