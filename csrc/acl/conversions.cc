// SPDX-License-Identifier: Apache-2.0
// Sizes of dtypes, float16.
#include "../number.h"
#include "common.h"

extern "C" {

size_t aclDataTypeSize(aclDataType dataType) {
  switch (int(dataType)) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

float aclFloat16ToFloat(aclFloat16 value) { return mco::half_to_float(value); }
aclFloat16 aclFloatToFloat16(float value) { return mco::float_to_half(value); }

}  // extern "C"
