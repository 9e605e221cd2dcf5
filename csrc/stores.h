// SPDX-License-Identifier: Apache-2.0
// Scalar stores of constants to constant places in on-chip memory that follow each other: what they write is put
// together once, while a Program is loaded, and copied at once where nothing looks on. A kernel that fills a table lane
// by lane has a hundred of them.
#pragma once

#include "program.h"

namespace mco {

void join_stores(Program& p);

}  // namespace mco
