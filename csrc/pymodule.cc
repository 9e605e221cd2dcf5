// SPDX-License-Identifier: Apache-2.0
// Lets the shared library be imported as ms_custom_ops._engine. Its functions are used through ctypes, so that the
// same file serves every Python version and MindSpore.
#include <Python.h>

namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_engine",
    "Native engine of ms_custom_ops; use ms_custom_ops.engine.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__engine(void) { return PyModule_Create(&definition); }
