// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.h"

namespace mco {

const Kernels* neon_kernels();  // null on other processors than aarch64

}  // namespace mco
