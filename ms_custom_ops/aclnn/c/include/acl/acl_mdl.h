// SPDX-License-Identifier: Apache-2.0
// Models are not part of this library.
#ifndef MCO_ACL_ACL_MDL_H_
#define MCO_ACL_ACL_MDL_H_

#include "acl/acl_base.h"

#endif  // MCO_ACL_ACL_MDL_H_
