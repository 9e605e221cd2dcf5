// SPDX-License-Identifier: Apache-2.0
// A name of the vendor's package that op_host sources include.
#pragma once

#include "mco_host/op_host.h"
