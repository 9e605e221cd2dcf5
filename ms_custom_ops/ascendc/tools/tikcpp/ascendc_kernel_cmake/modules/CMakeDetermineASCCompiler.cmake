# SPDX-License-Identifier: Apache-2.0
# The compiler of the language ASC: g++ behind a script that reads <<<>>>.
get_filename_component(_mco_ascendc "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
find_program(_mco_python NAMES python3 python REQUIRED)
set(CMAKE_ASC_COMPILER "${CMAKE_PLATFORM_INFO_DIR}/asc")
file(WRITE "${CMAKE_ASC_COMPILER}" "#!/bin/sh\nexec '${_mco_python}' '${_mco_ascendc}/asc_compiler.py' \"$@\"\n")
execute_process(COMMAND chmod +x "${CMAKE_ASC_COMPILER}")
set(CMAKE_ASC_COMPILER_ENV_VAR "ASC")
configure_file("${CMAKE_CURRENT_LIST_DIR}/CMakeASCCompiler.cmake.in" "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake"
               @ONLY)
