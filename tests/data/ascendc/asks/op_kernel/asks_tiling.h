// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

struct AsksTilingData {
    int32_t count;
    float numbers[32];
};
