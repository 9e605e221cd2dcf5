// SPDX-License-Identifier: Apache-2.0
// What a pointer of the C interface to timed runs points at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi.h"
#include "timing.h"

struct mco_timing {
  std::shared_ptr<mco::Timing> timing;
  // Of a launch of an Ascend C kernel: its calls by step, the cores of a block, and what its buffers take.
  struct Step {
    std::string call, file;
    uint32_t line;
  };
  std::vector<Step> steps;
  mco_launch_shape shape{};
};

namespace mco {

// Throws Error where a request does not fit this engine.
Costs costs_of(const mco_timing_request& request);

}  // namespace mco
