// SPDX-License-Identifier: Apache-2.0
// Logging of host code.
#pragma once

#include "mco_host/log_names.h"
