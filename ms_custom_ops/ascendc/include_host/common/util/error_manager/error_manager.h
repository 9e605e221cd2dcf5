// SPDX-License-Identifier: Apache-2.0
// Reports of host code.
#pragma once

#include "mco_host/report_names.h"
