# SPDX-License-Identifier: Apache-2.0
# include(${ASCENDC_CMAKE_DIR}/ascendc.cmake): ascendc_library and its kind, and the target host_intf_pub of programs.
get_filename_component(_mco_here "${CMAKE_CURRENT_LIST_DIR}" REALPATH)  # it may be a link in a toolkit
include("${_mco_here}/../../../cmake/toolkit.cmake")
if(NOT RUN_MODE STREQUAL "cpu")
  set(_mco_kernels_as ms_custom_ops::ascendc_npu)
endif()
set(_mco_kernels_in "${CMAKE_BINARY_DIR}/lib")  # where scripts look for the libraries of kernels
if(NOT TARGET host_intf_pub)
  add_library(host_intf_pub INTERFACE IMPORTED GLOBAL)
  set_property(TARGET host_intf_pub PROPERTY INTERFACE_LINK_LIBRARIES ${_mco_kernels_as})
  if(SOC_VERSION)
    mco_chip_definitions("${SOC_VERSION}" _mco_definitions)
    set_property(TARGET ms_custom_ops::ascendc ms_custom_ops::ascendc_npu APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
                 ${_mco_definitions})
  endif()
endif()
