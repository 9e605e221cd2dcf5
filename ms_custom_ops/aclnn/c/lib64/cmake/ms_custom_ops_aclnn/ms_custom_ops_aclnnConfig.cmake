# SPDX-License-Identifier: Apache-2.0
# find_package(ms_custom_ops_aclnn): the target ms_custom_ops::aclnn. Found by CMAKE_PREFIX_PATH=$(ms-custom-ops aclnn
# --cmake); nothing here is found where nobody asks for it, so that a real CANN is never taken for this package or the
# other way round.
get_filename_component(_mco_lib64 "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_mco_root "${_mco_lib64}/.." ABSOLUTE)
if(NOT EXISTS "${_mco_lib64}/libascendcl.so")
  set(ms_custom_ops_aclnn_FOUND FALSE)
  set(ms_custom_ops_aclnn_NOT_FOUND_MESSAGE
      "${_mco_lib64}/libascendcl.so was not built: install a C++17 compiler and install ms_custom_ops again")
  return()
endif()
if(NOT TARGET ms_custom_ops::aclnn)
  add_library(ms_custom_ops::aclnn SHARED IMPORTED)
  set_target_properties(ms_custom_ops::aclnn PROPERTIES
    IMPORTED_LOCATION "${_mco_lib64}/libascendcl.so"
    IMPORTED_SONAME "libascendcl.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_mco_root}/include")
endif()
unset(_mco_lib64)
unset(_mco_root)
