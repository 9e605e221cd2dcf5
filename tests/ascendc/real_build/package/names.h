// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
constexpr uint32_t kTriple = 3;
