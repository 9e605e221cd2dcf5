// SPDX-License-Identifier: Apache-2.0
// Operators by name are not part of this library.
#ifndef MCO_ACL_ACL_OP_COMPILER_H_
#define MCO_ACL_ACL_OP_COMPILER_H_

#include "acl/acl_op.h"

#endif  // MCO_ACL_ACL_OP_COMPILER_H_
