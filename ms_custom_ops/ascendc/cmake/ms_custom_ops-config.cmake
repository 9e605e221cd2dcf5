# SPDX-License-Identifier: Apache-2.0
# find_package(ms_custom_ops): the target ms_custom_ops::ascendc compiles and links a program that launches Ascend C
# kernels by ICPU_RUN_KF or ACLRT_LAUNCH_KERNEL.
get_filename_component(_mco_ascendc "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(GLOB _mco_engine "${_mco_ascendc}/../_engine.*.so")
if(NOT _mco_engine)
  set(ms_custom_ops_FOUND FALSE)
  set(ms_custom_ops_NOT_FOUND_MESSAGE "the native engine of ms_custom_ops was not built")
  return()
endif()
list(GET _mco_engine 0 _mco_engine)
if(NOT TARGET ms_custom_ops::ascendc)
  find_package(Threads REQUIRED)
  add_library(ms_custom_ops::ascendc INTERFACE IMPORTED)
  target_include_directories(ms_custom_ops::ascendc INTERFACE "${_mco_ascendc}/include")
  target_compile_features(ms_custom_ops::ascendc INTERFACE cxx_std_17)
  target_compile_options(ms_custom_ops::ascendc INTERFACE -fno-strict-aliasing -ffp-contract=off -include mco/launch.h)
  target_compile_definitions(ms_custom_ops::ascendc INTERFACE ASCENDC_CPU_DEBUG=1 __CCE_KT_TEST__=1)
  target_link_libraries(ms_custom_ops::ascendc INTERFACE "${_mco_engine}" Threads::Threads
                        -Wl,--unresolved-symbols=ignore-in-shared-libs)
endif()
