# SPDX-License-Identifier: Apache-2.0
# find_package(ASC) before project(NAME LANGUAGES ASC CXX): sources .asc, with kernels and <<<>>> beside plain C++, and
# sources of LANGUAGE ASC. Packages of ops (npu_op_package and its kind) are not built here: load_project takes them.
get_filename_component(_mco_asc_here "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
list(PREPEND CMAKE_MODULE_PATH "${_mco_asc_here}/modules")
set(ASC_FOUND TRUE)
