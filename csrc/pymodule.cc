// SPDX-License-Identifier: Apache-2.0
// Lets the shared library be imported as ms_custom_ops._engine. Its functions are used through ctypes, so that the
// same file serves every Python version and MindSpore.
#include <Python.h>

#include "capi.h"

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

// What a signal handler of Python raised while a run was asked to go on, until the call is back in Python.
PyObject *raised_type = nullptr, *raised_value = nullptr, *raised_trace = nullptr;

}  // namespace

extern "C" {

// For mco_options.poll, on Python's main thread, whose call gave up the interpreter lock.
MCO_API int mco_python_signals(void) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const int failed = PyErr_CheckSignals();
  if (failed) PyErr_Fetch(&raised_type, &raised_value, &raised_trace);
  PyGILState_Release(state);
  return failed;
}

// Raises it; called with the lock.
MCO_API PyObject* mco_python_raise(void) {
  PyErr_Restore(raised_type, raised_value, raised_trace);
  raised_type = raised_value = raised_trace = nullptr;
  return nullptr;
}

}  // extern "C"

PyMODINIT_FUNC PyInit__engine(void) { return PyModule_Create(&definition); }
