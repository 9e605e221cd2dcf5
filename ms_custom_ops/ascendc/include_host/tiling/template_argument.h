// SPDX-License-Identifier: Apache-2.0
// Tiling keys that stand for template arguments.
#pragma once

#include "mco_host/template_key.h"
