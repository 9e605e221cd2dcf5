// SPDX-License-Identifier: Apache-2.0
// Conversions with every rounding mode, element by element.
#pragma once

#include "number.h"

namespace mco {

// n dense elements of dtype `src` as dtype `dst` by a rounding mode number of the instruction set. Integers saturate,
// NaN gives 0; `saturate` applies to 16-bit float results.
void convert_elements(uint8_t* to, DType dst, const uint8_t* from, DType src, int64_t n, int mode, bool saturate);

// x rounded to an integral value by a rounding mode number.
double round_to_integral(double x, int mode);

// As convert_elements into an integer dtype, keeping the low bits of the rounded value; NaN and inf give 0.
void convert_wrapping(uint8_t* to, DType dst, const uint8_t* from, DType src, int64_t n, int mode);

}  // namespace mco
