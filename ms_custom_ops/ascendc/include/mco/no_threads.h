// SPDX-License-Identifier: Apache-2.0
// What the headers of simt_api/ and of the C interface of registers come to here.
#pragma once
#error "AscendC: simt_api/ and c_api/ are not there: they exist on Ascend950 alone; accepted: kernel_operator.h, calls of 910B, 910_93, 310P"
