# SPDX-License-Identifier: Apache-2.0
# find_package(ms_custom_ops): the target ms_custom_ops::ascendc compiles and links a program that launches Ascend C
# kernels by ICPU_RUN_KF or ACLRT_LAUNCH_KERNEL.
#   ascendc_library(NAME STATIC|SHARED|OBJECT SOURCES...)  a library of kernels, with the header aclrtlaunch_KERNEL.h of each
#   ascendc_include_directories(NAME ...), ascendc_compile_definitions(NAME ...), ascendc_compile_options(NAME ...)
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
  add_library(ms_custom_ops::engine UNKNOWN IMPORTED)  # by its path: its name does not begin with lib
  set_target_properties(ms_custom_ops::engine PROPERTIES IMPORTED_LOCATION "${_mco_engine}")
  add_library(ms_custom_ops::ascendc INTERFACE IMPORTED)
  target_include_directories(ms_custom_ops::ascendc INTERFACE "${_mco_ascendc}/include" "${_mco_ascendc}/include_host")
  target_compile_features(ms_custom_ops::ascendc INTERFACE cxx_std_17)
  target_compile_options(ms_custom_ops::ascendc INTERFACE -fno-strict-aliasing -ffp-contract=off -Wno-narrowing
                         "SHELL:-include mco/launch.h")
  target_compile_definitions(ms_custom_ops::ascendc INTERFACE ASCENDC_CPU_DEBUG=1 __CCE_KT_TEST__=1)
  target_link_libraries(ms_custom_ops::ascendc INTERFACE ms_custom_ops::engine Threads::Threads
                        -Wl,--unresolved-symbols=ignore-in-shared-libs)
endif()

# The header of each kernel of a source: its declaration, and the function that ACLRT_LAUNCH_KERNEL names.
function(_mco_launch_headers source folder)
  file(READ "${source}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "__global__[^;{}()]*void[ \t\r\n]+[A-Za-z_0-9]+[ \t\r\n]*\\([^(){};]*\\)[ \t\r\n]*{" kernels "${text}")
  foreach(kernel IN LISTS kernels)
    string(REGEX REPLACE "[ \t\r\n]*{$" "" declaration "${kernel}")
    string(REGEX REPLACE ".*void[ \t\r\n]+([A-Za-z_0-9]+)[ \t\r\n]*\\(.*" "\\1" name "${declaration}")
    file(GENERATE OUTPUT "${folder}/aclrtlaunch_${name}.h" CONTENT "// declared in ${source}
#pragma once
#include \"mco/launch.h\"
extern \"C\" ${declaration};
template <class... Values>
inline uint32_t aclrtlaunch_${name}(uint32_t blocks, void*, Values... values) {
  return mco_asc::launch_as(&${name}, blocks, values...), 0;
}
")
  endforeach()
endfunction()

function(ascendc_library name type)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_launch")
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    _mco_launch_headers("${path}" "${folder}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  endforeach()
  add_library(${name} ${type} ${ARGN})
  target_link_libraries(${name} PUBLIC ms_custom_ops::ascendc)
  target_include_directories(${name} INTERFACE "${folder}")
endfunction()

function(ascendc_include_directories name)
  target_include_directories(${name} ${ARGN})
endfunction()
function(ascendc_compile_definitions name)
  target_compile_definitions(${name} ${ARGN})
endfunction()
function(ascendc_compile_options name)
  target_compile_options(${name} ${ARGN})
endfunction()
