// SPDX-License-Identifier: Apache-2.0
// Copies that check the size of where they write.
#pragma once

#include "mco_host/secure.h"
