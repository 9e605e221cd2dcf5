// SPDX-License-Identifier: Apache-2.0
// What a pointer of the C interface to findings points at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi_program.h"
#include "findings.h"

struct mco_findings {
  std::vector<mco::Finding> list;
  int64_t dropped = 0;
  std::unique_ptr<mco::ProgramHeld> held;
  std::shared_ptr<const mco::Program> tables;  // of names and locations
  std::vector<std::string> cores;              // names of cores, where numbers do not say what they are
};

namespace mco {

// Findings as the error of a run.
[[noreturn]] void fail_with(const char* name, const Program& p, const std::vector<Finding>& found);

}  // namespace mco
