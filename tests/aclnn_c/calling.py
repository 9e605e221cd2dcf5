# SPDX-License-Identifier: Apache-2.0
"""Calls of the acl library from Python: arrays in device memory, both phases of an op, its outputs."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import LIBRARY

from ms_custom_ops.aclnn import headers, interface_of

ACL = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 12, "bfloat16": 27}
POINTERS = ("kInput", "kOutput", "kInts", "kText")


@contextlib.contextmanager
def opened(folder: Path, python: str = sys.executable) -> Iterator[ctypes.CDLL]:
    """The acl library in this process, with a context and a cache of its own."""
    if not LIBRARY.is_file():
        pytest.skip(f"{LIBRARY} was not built")
    found = ctypes.CDLL(str(LIBRARY))
    found.aclCreateTensor.restype = found.aclCreateIntArray.restype = found.aclGetRecentErrMsg.restype = ctypes.c_void_p
    found.aclCreateTensor.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_void_p,
    ]
    found.aclCreateIntArray.argtypes = found.aclCreateTensorList.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    found.aclCreateTensorList.restype = ctypes.c_void_p
    found.aclrtMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    found.aclrtMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(folder))
        patch.setenv("MS_CUSTOM_OPS_PYTHON", python)
        assert found.aclrtSetDevice(0) == 0
        yield found
        assert found.aclrtResetDevice(0) == 0


def allocate(library: ctypes.CDLL, size: int) -> ctypes.c_void_p:
    address = ctypes.c_void_p()
    assert library.aclrtMalloc(ctypes.byref(address), max(size, 1), 0) == 0
    return address


def on_device(library: ctypes.CDLL, x: np.ndarray) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """(tensor, address) of a contiguous array."""
    address, dims = allocate(library, x.nbytes), (ctypes.c_int64 * x.ndim)(*x.shape)
    if x.nbytes:
        assert library.aclrtMemcpy(address, x.nbytes, x.ctypes.data, x.nbytes, 1) == 0
    made = library.aclCreateTensor(dims, x.ndim, ACL[x.dtype.name], None, 0, 2, dims, x.ndim, address)
    assert made is not None
    return ctypes.c_void_p(made), address


def call_c(library: ctypes.CDLL, op: str, values: dict[str, Any]) -> tuple[int, dict[str, np.ndarray]]:
    """Status of the first phase, and outputs by name after both."""
    interface = interface_of(op)
    arguments: list[Any] = []
    outputs: dict[str, tuple[ctypes.c_void_p, np.ndarray]] = {}
    for p in interface.parameters:
        value, mark = values.get(p.name, p.default), headers._mark(interface, p)
        if mark in POINTERS and value is None:
            arguments.append(ctypes.c_void_p())
        elif mark in ("kInput", "kOutput"):
            tensor, address = on_device(library, value)
            arguments.append(tensor)
            if mark == "kOutput":
                outputs[p.name] = address, np.empty_like(value)
        elif mark == "kInts":
            made = library.aclCreateIntArray((ctypes.c_int64 * len(value))(*value), len(value))
            arguments.append(ctypes.c_void_p(made))
        else:
            kind = {"kInt": ctypes.c_int64, "kFloat": ctypes.c_double, "kBool": ctypes.c_bool}.get(mark)
            arguments.append(ctypes.c_char_p(value.encode()) if kind is None else kind(value))
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    first = getattr(library, f"aclnn{interface.name}GetWorkspaceSize")
    status = first(*arguments, ctypes.byref(size), ctypes.byref(executor))
    if status:
        return status, {}
    second = getattr(library, f"aclnn{interface.name}")
    status = second(allocate(library, size.value), size, executor, None)
    assert status == 0, ctypes.string_at(library.aclGetRecentErrMsg())
    for address, x in outputs.values():
        assert not x.nbytes or library.aclrtMemcpy(x.ctypes.data, x.nbytes, address, x.nbytes, 2) == 0
    return 0, {name: x for name, (_, x) in outputs.items()}
