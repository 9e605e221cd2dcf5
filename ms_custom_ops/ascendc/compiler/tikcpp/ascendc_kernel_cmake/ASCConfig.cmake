# SPDX-License-Identifier: Apache-2.0
# The other place where build files look for it.
get_filename_component(_mco_here "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
include("${_mco_here}/../../../tools/tikcpp/ascendc_kernel_cmake/ASCConfig.cmake")
