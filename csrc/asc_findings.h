// SPDX-License-Identifier: Apache-2.0
// Findings of a checked launch as the C interface hands them out.
#pragma once

#include "asc_run.h"

namespace mco::asc {

mco_findings* findings_of(const Checked& checked);
// To the caller, or as the error of the launch; nothing where it was not checked.
void hand_over(const Launch& launch);

}  // namespace mco::asc
