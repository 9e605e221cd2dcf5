// SPDX-License-Identifier: Apache-2.0
// Tiling keys that stand for template arguments: the host says them, and a kernel is built for those of one key.
#pragma once

#include "mco_host/template_names.h"

#define ASCENDC_TPL_ARGS_DECL(...)
#define ASCENDC_TPL_SEL(...)
