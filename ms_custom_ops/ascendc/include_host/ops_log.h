// SPDX-License-Identifier: Apache-2.0
// Logs and checks of host code.
#pragma once

#include "mco_host/check_names.h"
