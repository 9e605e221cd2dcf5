# SPDX-License-Identifier: Apache-2.0
# The other place where build files look for it.
include("${CMAKE_CURRENT_LIST_DIR}/../../../tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake")
