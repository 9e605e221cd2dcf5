# SPDX-License-Identifier: Apache-2.0
# find_package(ms_custom_ops): the target ms_custom_ops::ascendc compiles and links a program that launches Ascend C
# kernels by ICPU_RUN_KF or ACLRT_LAUNCH_KERNEL; ms_custom_ops::ascendc_npu one whose sources take the way of the chip.
#   ascendc_library(NAME STATIC|SHARED|OBJECT SOURCES...)  a library of kernels, with the function aclrtlaunch_KERNEL of
#   each and its header; launches kernel<<<...>>> are read
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
  add_library(ms_custom_ops::engine UNKNOWN IMPORTED GLOBAL)  # by its path: its name does not begin with lib
  set_target_properties(ms_custom_ops::engine PROPERTIES IMPORTED_LOCATION "${_mco_engine}")
  foreach(_mco_target ascendc ascendc_npu)
    add_library(ms_custom_ops::${_mco_target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(ms_custom_ops::${_mco_target} INTERFACE "${_mco_ascendc}/include"
                               "${_mco_ascendc}/include_host")
    target_compile_features(ms_custom_ops::${_mco_target} INTERFACE cxx_std_17)
    target_compile_options(ms_custom_ops::${_mco_target} INTERFACE -fno-strict-aliasing -ffp-contract=off
                           -Wno-narrowing "SHELL:-include mco/launch.h")
    target_link_libraries(ms_custom_ops::${_mco_target} INTERFACE ms_custom_ops::engine Threads::Threads
                          -Wl,--unresolved-symbols=ignore-in-shared-libs)
  endforeach()
  target_compile_definitions(ms_custom_ops::ascendc INTERFACE ASCENDC_CPU_DEBUG=1 __CCE_KT_TEST__=1)
  target_compile_definitions(ms_custom_ops::ascendc_npu INTERFACE MCO_ASC_AS_ON_CHIP)
endif()
set(_mco_kernels_as ms_custom_ops::ascendc)  # ascendc.cmake has the other one
set(_mco_kernels_in "")

# Of each kernel of a source: its header, and what the source is compiled with for aclrtlaunch_KERNEL to be there.
function(_mco_launches source folder result)
  file(READ "${source}" text)
  string(REGEX REPLACE "\\\\\r?\n" " " text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" "\n" text "${text}")
  string(REGEX MATCHALL
         "[^;{}]*__global__[^;{}()]*void[ \t\r\n]+[A-Za-z_0-9]+[ \t\r\n]*\\([^(){};]*\\)[ \t\r\n]*{" kernels "${text}")
  set(functions "")
  set(names "")
  foreach(kernel IN LISTS kernels)
    if(kernel MATCHES "template[ \t\r\n]*<")
      continue()
    endif()
    string(REGEX MATCH "extern[ \t\r\n]+\"C\"" c "${kernel}")
    string(REGEX MATCH "(__global__[^(]*void[ \t\r\n]+([A-Za-z_0-9]+)[ \t\r\n]*\\(([^()]*)\\))" found "${kernel}")
    set(declaration "${c} ${CMAKE_MATCH_1}")
    set(name "${CMAKE_MATCH_2}")
    set(parameters "${CMAKE_MATCH_3}")
    if(name IN_LIST names)  # one for each choice of the preprocessor
      continue()
    endif()
    list(APPEND names "${name}")
    string(REGEX MATCHALL "[A-Za-z_0-9]+[ \t\r\n]*(,|$)" values "${parameters}")
    string(JOIN " " values ${values})
    if(NOT values STREQUAL "")
      set(parameters ", ${parameters}")
      set(values ", ${values}")
    endif()
    file(GENERATE OUTPUT "${folder}/aclrtlaunch_${name}.h" CONTENT "// declared in ${source}
#pragma once
#include \"mco/launch.h\"
${declaration};
template <class... Values>
inline uint32_t aclrtlaunch_${name}(uint32_t blocks, void*, Values... values) {
  return mco_asc::launch_as(&${name}, blocks, values...), 0;
}
")
    string(APPEND functions "extern \"C\" uint32_t aclrtlaunch_${name}(uint32_t mco_blocks, void*${parameters}) {
  return mco_asc::launch_as(&${name}, mco_blocks${values}), 0;
}
")
  endforeach()
  set(${result} "${functions}" PARENT_SCOPE)
endfunction()

function(ascendc_library name type)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_launch")
  set(sources "")
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    get_filename_component(home "${path}" DIRECTORY)
    get_filename_component(stem "${path}" NAME_WE)
    string(MD5 mark "${path}")
    string(SUBSTRING "${mark}" 0 8 mark)
    set(compiled "${folder}/${stem}_${mark}.cpp")
    set(read "${path}")
    file(READ "${path}" text)
    if(text MATCHES "<<<")
      set(read "${folder}/${stem}_${mark}_read.cpp")
      find_program(_mco_python NAMES python3 python REQUIRED)
      add_custom_command(OUTPUT "${read}" DEPENDS "${path}" VERBATIM
                         COMMAND "${_mco_python}" "${_mco_ascendc}/rewrite.py" "${path}" "${read}")
    endif()
    _mco_launches("${path}" "${folder}" functions)
    file(GENERATE OUTPUT "${compiled}" CONTENT "#include \"${read}\"\n#include \"mco/launch.h\"\n${functions}")
    set_property(SOURCE "${compiled}" APPEND PROPERTY INCLUDE_DIRECTORIES "${home}")
    set_property(SOURCE "${compiled}" APPEND PROPERTY OBJECT_DEPENDS "${read}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    list(APPEND sources "${compiled}")
  endforeach()
  add_library(${name} ${type} ${sources})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE CXX)
  if(_mco_kernels_in)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${_mco_kernels_in}"
                          ARCHIVE_OUTPUT_DIRECTORY "${_mco_kernels_in}")
  endif()
  target_compile_options(${name} PRIVATE -w)
  target_link_libraries(${name} PUBLIC ${_mco_kernels_as})
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
