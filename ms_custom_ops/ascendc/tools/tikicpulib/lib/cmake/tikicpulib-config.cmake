# SPDX-License-Identifier: Apache-2.0
# find_package(tikicpulib): the targets tikicpulib::CHIP, by which kernels and programs are built as the CPU twin has them.
get_filename_component(_mco_here "${CMAKE_CURRENT_LIST_DIR}" REALPATH)  # it may be a link in a toolkit
include("${_mco_here}/../../../../cmake/toolkit.cmake")
foreach(_mco_chip IN LISTS MCO_CHIPS)
  if(NOT TARGET tikicpulib::${_mco_chip})
    add_library(tikicpulib::${_mco_chip} INTERFACE IMPORTED GLOBAL)
    mco_chip_definitions("${_mco_chip}" _mco_definitions)
    set_target_properties(tikicpulib::${_mco_chip} PROPERTIES INTERFACE_LINK_LIBRARIES ms_custom_ops::ascendc
                          INTERFACE_COMPILE_DEFINITIONS "${_mco_definitions}")
  endif()
endforeach()
