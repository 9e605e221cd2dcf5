// SPDX-License-Identifier: Apache-2.0
// Tensors that a lowering makes of the values of others.
#pragma once

#include "plan.h"

namespace mco_acl {

// Factor and gamma (B, H, rows) of `trap` and `dt` (B, H, steps), as ms_custom_ops/op_impl/ssd_chunk_scan/public.py
// makes them; `places` is null where rows are steps. Refused (561000) when they do not fit.
std::vector<Shaped> trapezoid(const Weights& about, const Shaped& trap, const Shaped& dt, const Shaped* places);

}  // namespace mco_acl
