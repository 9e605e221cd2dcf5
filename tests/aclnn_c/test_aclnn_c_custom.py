# SPDX-License-Identifier: Apache-2.0
"""A project's own aclnn: libcust_opapi.so of the example, built and run as its page says, every kind of parameter."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import compile_program, need_library, run_program
from calling import allocate, on_device, opened
from click.testing import CliRunner, Result

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.cli import main
from ms_custom_ops.commands.aclnn import root

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "aclnn_custom"
MIXED = ROOT / "tests" / "data" / "ascendc" / "mixed"


def built(project: Path, out: Path) -> Result:
    need_library()
    return CliRunner().invoke(main, ["aclnn", "--project", str(project), "--out", str(out)])


def shared_kernels(folder: Path) -> Path:
    """A program cache of its own, where compiled kernels are those of other tests."""
    (folder / "cache").mkdir()
    compiler.store().mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "ascendc").symlink_to(compiler.store())
    return folder / "cache"


def test_a_program_written_after_the_samples_of_msopgen_runs(tmp_path):
    made = built(EXAMPLE / "AddCustom", tmp_path / "opp")
    assert made.exit_code == 0, made.output
    api = tmp_path / "opp" / "vendors" / "customize" / "op_api"
    assert {path.name for path in api.rglob("*") if path.is_file()} == {"aclnn_add_custom.h", "libcust_opapi.so"}
    cache, program = shared_kernels(tmp_path), tmp_path / "build" / "add_custom"
    if shutil.which("cmake") is None:
        program.parent.mkdir()
        flags = [f"-I{api / 'include'}", f"-L{api / 'lib'}", "-lcust_opapi", f"-Wl,-rpath,{api / 'lib'}"]
        compile_program(EXAMPLE / "main.cpp", program, *flags)
    else:
        environ = {**os.environ, "ASCEND_HOME_PATH": str(root()), "ASCEND_OPP_PATH": str(tmp_path / "opp")}
        for command in (["-S", str(EXAMPLE), "-B", str(program.parent)], ["--build", str(program.parent)]):
            done = subprocess.run(["cmake", *command], env=environ, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    refused = run_program(program, cache, python="off")
    assert refused.returncode == 1 and "561003 (find kernel): aclnn_cust_add_custom" in refused.stdout
    first = run_program(program, cache)
    assert (first.returncode, first.stdout) == (0, "0 of 4995 numbers are wrong\n"), first.stdout + first.stderr
    for variables in ({}, {"MS_CUSTOM_OPS_CHECK": "1"}, {"MS_CUSTOM_OPS_ACL_DELAY": "1"}):
        again = run_program(program, cache, python="off", PATH="/nowhere", **variables)
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stdout + again.stderr


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ctypes.CDLL, ctypes.CDLL, str]]:
    """The acl library, that of the project, and what its building said."""
    folder = tmp_path_factory.mktemp("mixed")
    made = built(MIXED, folder / "opp")
    assert made.exit_code == 0, made.output
    with opened(shared_kernels(folder)) as library:
        own = ctypes.CDLL(str(folder / "opp" / "vendors" / "customize" / "op_api" / "lib" / "libcust_opapi.so"))
        yield library, own, made.output


def run(ops: Any, name: str, *arguments: Any) -> tuple[int, str, list[np.ndarray]]:
    """Status, text, and all arrays of the call after both phases; lists are aclIntArray, tuples lists of tensors."""
    library, own, _ = ops
    given: list[Any] = []
    tensors = []

    def put(value: np.ndarray) -> Any:
        tensor, address = on_device(library, value)
        tensors.append((address, np.empty_like(value)))
        return tensor

    for value in arguments:
        if isinstance(value, np.ndarray):
            given.append(put(value))
        elif isinstance(value, tuple):
            given.append(tensor_list(library, [put(item) for item in value]))
        elif isinstance(value, list):
            made = library.aclCreateIntArray((ctypes.c_int64 * len(value))(*value), len(value))
            given.append(ctypes.c_void_p(made))
        else:
            given.append(ctypes.c_double(value) if isinstance(value, float) else value)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    status = getattr(own, f"aclnn{name}GetWorkspaceSize")(*given, ctypes.byref(size), ctypes.byref(executor))
    if not status:
        status = getattr(own, f"aclnn{name}")(allocate(library, size.value), size, executor, None)
    text = ctypes.string_at(library.aclGetRecentErrMsg()).decode() if status else ""
    for address, x in tensors:
        assert library.aclrtMemcpy(x.ctypes.data, x.nbytes, address, x.nbytes, 2) == 0
    return status, text, [x for _, x in tensors]


def tensor_list(library: ctypes.CDLL, tensors: list[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(library.aclCreateTensorList((ctypes.c_void_p * len(tensors))(*tensors), len(tensors)))


NULL = ctypes.c_void_p()
ROW = np.arange(41, dtype=np.float32)
X, Y, BIAS = (np.random.default_rng(k).standard_normal((3, 41)).astype(np.float32) for k in range(3))


@pytest.mark.parametrize("bias", [None, BIAS], ids=["without", "with"])
def test_an_optional_input_and_a_number(ops, bias):
    status, text, found = run(ops, "ScaleAdd", X, Y, NULL if bias is None else bias, 0.5, np.zeros_like(X))
    assert status == 0, text
    np.testing.assert_array_equal(found[-1], np.float32(0.5) * X + Y + (0 if bias is None else bias))


def test_a_tensor_that_is_read_and_written(ops):
    status, text, found = run(ops, "AddInto", X[0].copy(), Y[0])
    assert status == 0, text
    np.testing.assert_array_equal(found[0], X[0] + Y[0])
    np.testing.assert_array_equal(found[1], Y[0])


@pytest.mark.parametrize("count", [2, 17])
def test_integers_that_the_host_reads(ops, count):
    status, text, found = run(ops, "TakeFirst", X[0], [count], np.ones_like(X[0]))
    assert status == 0, text
    np.testing.assert_array_equal(found[1], np.where(np.arange(41) < count, X[0], 0))


@pytest.mark.parametrize("sizes", [(41,), (5, 63, 1), (17,) * 20], ids=str)
def test_lists_of_tensors(ops, sizes):
    x = tuple(np.random.default_rng(n).standard_normal(n).astype(np.float32) for n in sizes)
    status, text, found = run(ops, "ScaleAll", x, -1.5, tuple(np.zeros_like(one) for one in x))
    assert status == 0, text
    for given, result in zip(x, found[len(x) :], strict=True):
        np.testing.assert_array_equal(result, given * np.float32(-1.5))


def test_an_address_of_a_tensor_in_a_list(ops):
    library, own, _ = ops
    first, second, third = ROW, ROW + 1, ROW * 2
    sides = [[on_device(library, value)[0] for value in (first, second)] for _ in range(2)]
    x, y = (tensor_list(library, side) for side in sides)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    scale = ctypes.c_double(2.0)
    status = own.aclnnScaleAllGetWorkspaceSize(x, scale, y, ctypes.byref(size), ctypes.byref(executor))
    assert status == 0, ctypes.string_at(library.aclGetRecentErrMsg())
    other, result = on_device(library, third)[1], on_device(library, np.zeros_like(third))[1]
    index, zero = ctypes.c_size_t(1), ctypes.c_size_t(0)
    refused = (
        (library.aclSetInputTensorAddr, (zero, sides[0][0], other), "a list of tensors; accepted: the functions"),
        (library.aclSetDynamicInputTensorAddr, (zero, ctypes.c_size_t(2), x, other), "relativeIndex is 2; accepted: b"),
        (library.aclSetDynamicInputTensorAddr, (index, zero, x, other), "index is 1; accepted: below 1"),
        (library.aclSetDynamicInputTensorAddr, (zero, zero, executor, other), "the list was destroyed, or is none"),
    )
    for function, arguments, part in refused:
        assert function(executor, *arguments) == 161002
        assert part in ctypes.string_at(library.aclGetRecentErrMsg()).decode()
    assert library.aclSetDynamicInputTensorAddr(executor, zero, index, x, other) == 0
    assert library.aclSetDynamicTensorAddr(executor, index, index, y, result) == 0
    assert own.aclnnScaleAll(allocate(library, size.value), size, executor, None) == 0
    found = np.empty_like(third)
    assert library.aclrtMemcpy(found.ctypes.data, found.nbytes, result, found.nbytes, 2) == 0
    np.testing.assert_array_equal(found, third * 2)


REFUSED = {
    "null_list": (("ScaleAll", NULL, 1.0, (X[0],)), 161001, "ScaleAll: x is null; accepted: an aclTensorList"),
    "no_list": (("ScaleAll", X[0], 1.0, (X[0],)), 161002, "x is destroyed, or no aclTensorList; accepted: one of"),
    "empty_list": (("ScaleAll", (), 1.0, (X[0],)), 161002, "x is an empty list; accepted: one of aclCreateTensorList"),
    "long_list": (("ScaleAll", (X[0, :1],) * 254, 1.0, (X[0],)), 161002, "254 tensors; accepted: up to 253 tensors"),
    "list_of_out": (("ScaleAll", (X[0], X[1]), 1.0, (X[0],)), 161002, "y is a list of 1; accepted: a list of 2"),
    "shape_in_list": (("ScaleAll", (X[0], Y), 1.0, (X[0], X[1])), 161002, "y[1] is of shape (41,); accepted: (3, 41)"),
    "dtypes_of_list": (("ScaleAll", (X[0], X.astype(np.int8)), 1.0, (X[0],)), 161002, "a list of float32, int8; acc"),
    "null": (("ScaleAdd", NULL, Y, NULL, 1.0, X), 161001, "ScaleAdd: x is null; accepted: a tensor"),
    "no_array": (("TakeFirst", X[0], NULL, X[0]), 161001, "TakeFirst: count is null; accepted: an aclIntArray"),
    "dtype": (("ScaleAdd", X.astype(np.int8), Y, NULL, 1.0, X), 161002, "ScaleAdd: dtypes is x int8, y float32"),
    "shape_of_out": (("ScaleAdd", X, Y, NULL, 1.0, X[0]), 161002, "z is of shape (41,); accepted: (3, 41)"),
    "dtype_of_out": (("ScaleAdd", X, Y, NULL, 1.0, X.astype(np.float16)), 161002, "dtype of z is float16"),
    "tiling": (("Fails", X[0], b"status", X[0]), 561002, "it said: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(ops, name):
    arguments, code, part = REFUSED[name]
    status, text, _ = run(ops, *arguments)
    assert status == code and text.startswith(str(code)) and part in text, text


def test_what_c_cannot_call_is_left_out_by_name(ops):
    said = ops[2]
    assert "Lists: attribute rows is a list of lists; accepted: a number, a text, or a list of numbers" in said
    assert not hasattr(ops[1], "aclnnLists")


def test_a_project_needs_a_place(tmp_path):
    done = CliRunner().invoke(main, ["aclnn", "--project", str(MIXED)])
    assert done.exit_code == 2 and "--project and --out go together" in done.output
