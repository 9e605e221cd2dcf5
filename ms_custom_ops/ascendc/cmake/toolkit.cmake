# SPDX-License-Identifier: Apache-2.0
# What build files after CANN's samples find in ASCEND_CANN_PACKAGE_PATH, where that is the folder of `ms-custom-ops
# ascendc --root`: kernels are compiled for the chip SOC_VERSION, as the chip has them or, in RUN_MODE cpu, as the CPU twin.
include("${CMAKE_CURRENT_LIST_DIR}/ms_custom_ops-config.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/chip.cmake")
if(NOT _mco_engine)
  message(FATAL_ERROR "${ms_custom_ops_NOT_FOUND_MESSAGE}")
endif()
# Libraries of the vendor that programs name: what they have is in the headers and the engine.
foreach(_mco_name ascendcl c_sec tiling_api register platform ascendalog graph_base runtime)
  if(NOT TARGET ${_mco_name})
    add_library(${_mco_name} INTERFACE IMPORTED GLOBAL)
    set_property(TARGET ${_mco_name} PROPERTY INTERFACE_LINK_LIBRARIES ms_custom_ops::engine)
  endif()
endforeach()
