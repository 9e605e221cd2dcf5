# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops run``: arguments, feeds, outputs and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ms_custom_ops import compat
from ms_custom_ops.cli import main
from ms_custom_ops.commands.run import parse_value

KERNEL = """
from te import tik
from tbe.common.utils import para_check
from helper import round_up


@para_check.check_op_params(para_check.REQUIRED_INPUT, para_check.REQUIRED_ATTR_FLOAT, para_check.KERNEL_NAME)
def scale(x, factor, kernel_name="scale"):
    t = tik.Tik(tik.Dprofile())
    shape, dtype = x["shape"], x["dtype"]
    source = t.Tensor(dtype, shape, name="x", scope=tik.scope_gm)
    target = t.Tensor(dtype, shape, name="y", scope=tik.scope_gm)
    times = t.InputScalar("int32", "times")
    ub = t.Tensor(dtype, (round_up(shape[0]),), name="ub", scope=tik.scope_ubuf)
    t.data_move(ub, source, 0, 1, shape[0] // 16, 0, 0)
    with t.for_range(0, times) as i:
        t.vec_muls(shape[0], ub, ub, factor, 1, 8, 8)
        t.printf("pass %d\\n", i)
    t.data_move(target, ub, 0, 1, shape[0] // 16, 0, 0)
    t.BuildCCE(kernel_name=kernel_name, inputs=[source], outputs=[target], flowtable=[times])


def nothing():
    pass


def refuse(reason="no reason"):
    raise ValueError(reason)


def wrong():
    t = tik.Tik()
    t.Tensor("float16", (0,), name="x", scope=tik.scope_gm)
"""


@pytest.fixture(autouse=True)
def uninstalled() -> Iterator[None]:
    yield
    compat.uninstall()


@pytest.fixture()
def kernel(tmp_path: Path) -> str:
    (tmp_path / "helper.py").write_text("def round_up(n):\n    return -(-n // 16) * 16\n")
    path = tmp_path / "scale.py"
    path.write_text(KERNEL)
    return str(path)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def saved(folder: Path, **arrays: np.ndarray) -> list[str]:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [str(folder / f"{name}.npy") for name in arrays]


X = np.arange(32, dtype=np.float16)
ARGS = ("--arg", "float16[32]", "--arg", "0.5", "--soc", "Ascend910A")


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_run(kernel: str, tmp_path: Path, engine: str) -> None:
    (x,) = saved(tmp_path, x=X)
    out = tmp_path / "results" / "deep"
    result = run(f"{kernel}:scale", *ARGS, "--feed", x, "--feed", "times=2", "--engine", engine, "--out", out)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(out / "y.npy"), X * np.float16(0.25))
    assert f"scale on Ascend910A, {engine} engine" in result.output
    assert "y: float16[32] min 0 max 7.75 mean 3.875" in result.output
    assert ("pass 0\npass 1\n" in result.output) == (engine == "reference")


@pytest.mark.parametrize(
    "feed",
    [["x={x}", "times=2"], ["{x}", "2"], ["2", "x={x}"], ["times=2", "{x}"], ["{npz}", "2"], ["{npz}", "times=2"]],
    ids=["names", "order", "number-first", "mixed", "npz", "npz-name"],
)
def test_forms_of_a_feed(kernel: str, tmp_path: Path, feed: list[str]) -> None:
    (x,) = saved(tmp_path, x=X)
    npz = tmp_path / "all.npz"
    np.savez(npz, x=X)
    options = [part for f in feed for part in ("--feed", f.format(x=x, npz=npz))]
    result = run(f"{kernel}:scale", *ARGS, *options, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), X * np.float16(0.25))


def test_keyword_arguments_and_text(kernel: str, tmp_path: Path) -> None:
    (x,) = saved(tmp_path, x=X)
    arguments = ["--arg", "x=float16[32]", "--arg", "factor=2.0", "--arg", "kernel_name=renamed"]
    result = run(f"{kernel}:scale", *arguments, "--feed", x, "--feed", "0", "--soc", "Ascend310P3", "--text")
    assert result.exit_code == 0, result.output
    assert 'program "renamed" soc="Ascend310P3"' in result.output and "vmuls" in result.output
    assert "y: float16[32] min 0 max 31" in result.output


def test_values_that_are_not_finite_are_counted(kernel: str, tmp_path: Path) -> None:
    (x,) = saved(tmp_path, x=np.where(X < 3, np.nan, X).astype(np.float16))
    result = run(f"{kernel}:scale", *ARGS[:4], "--soc", "Ascend910B1", "--feed", x, "--feed", "1")
    assert "y: float16[32] min 1.5 max 15.5 mean 8.5, 3 not finite" in result.output


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("[1, 2]", [1, 2]),
        ("(1, 2)", (1, 2)),
        ("{'a': 1}", {"a": 1}),
        ("None", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("same", "same"),
        ("'3'", "3"),
        ("half[2]", "half[2]"),
        ("int8[]", {"shape": (), "dtype": "int8", "format": "ND", "ori_shape": (), "ori_format": "ND"}),
        (
            "float32[1, 63,2]",
            {"shape": (1, 63, 2), "dtype": "float32", "format": "ND", "ori_shape": (1, 63, 2), "ori_format": "ND"},
        ),
    ],
)
def test_values_of_arg(text: str, value: Any) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("entry", "arguments", "message"),
    [
        ("scale", (), "scale: arguments: missing a required argument: 'x'; accepted: x, factor, kernel_name"),
        ("scale", ("--arg", "int7[3]", "--arg", "1.0"), "--arg int7.3.: is no description of a tensor"),
        ("scale", (*ARGS[:4], "--soc", "Ascend999"), "soc is 'Ascend999'"),
        ("scale", ARGS, "--feed: given are no names and 0 unnamed values; accepted: one value for each of x, times"),
        ("scale", (*ARGS, "--feed", "1", "--feed", "2", "--feed", "3"), "no names and 3 unnamed values"),
        ("scale", (*ARGS, "--feed", "z=1", "--feed", "1", "--feed", "2"), "given are z and 2 unnamed values"),
        ("scale", (*ARGS, "--feed", "times=1", "--feed", "times=2"), "--feed times=2: times is given twice"),
        ("scale", (*ARGS, "--feed", "absent.npy"), "--feed absent.npy: .*accepted: a .npy or .npz file"),
        ("scale", (*ARGS, "--feed", "x=1", "--feed", "times=1"), "input x is a int; accepted: a NumPy array"),
        (
            "scale",
            ("--arg", "a=1", "--arg", "2"),
            "--arg 2: stands after NAME=VALUE; accepted: positional values first",
        ),
        ("scale", ("--arg", "a=1", "--arg", "a=2"), "--arg a=2: a is given twice; accepted: once"),
        ("nothing", (), "trace: nothing built no kernel .no Tik instance was made."),
        ("absent", (), "has no absent; accepted: .*scale"),
        ("wrong", (), r"Tensor x: shape is .*\(0,\); accepted: positive dimensions \[.*scale.py:\d+\]"),
    ],
)
def test_errors(kernel: str, entry: str, arguments: tuple[str, ...], message: str) -> None:
    result = run(f"{kernel}:{entry}", *arguments)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.output
    text = " ".join(result.output.split())
    assert re.search(message, text), text


def test_an_error_of_the_kernel_itself_is_one_line_with_its_place(kernel: str) -> None:
    result = run(f"{kernel}:refuse", "--arg", "reason=because of 3")
    assert result.exit_code == 1 and re.search(
        r"Error: refuse: ValueError: because of 3 \[.*scale.py:\d+\]\n", result.output
    )


def test_an_argument_too_few_names_the_entry_and_its_parameters(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text("def two(x, y):\n    pass\n")
    result = run(f"{path}:two", "--arg", "1")
    assert result.exit_code == 1
    assert f"trace: two: arguments is 1, missing a required argument: 'y'; accepted: (x, y) [{path}:1]" in result.output


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kernel.py", "KERNEL: is 'kernel.py'; accepted: FILE.py:FUNCTION"),
        ("absent.py:f", "load_kernel: path is 'absent.py'; accepted: an existing .py file"),
    ],
)
def test_refused_kernels(spec: str, message: str) -> None:
    result = run(spec)
    assert result.exit_code in (1, 2) and message in result.output


def test_operator_of_a_package_called_impl(tmp_path: Path) -> None:
    folder = tmp_path / "impl"
    folder.mkdir()
    (folder / "shared.py").write_text("from tbe import tik\n")
    (folder / "one.py").write_text(
        "from impl.shared import tik\n\n\ndef one(y, kernel_name='one'):\n    t = tik.Tik()\n"
        "    out = t.Tensor(y['dtype'], y['shape'], name='y', scope=tik.scope_gm)\n"
        "    ub = t.Tensor(y['dtype'], y['shape'], name='ub', scope=tik.scope_ubuf)\n"
        "    t.vec_dup(8, ub, 1, 1, 8)\n    t.data_move(out, ub, 0, 1, 1, 0, 0)\n"
        "    t.BuildCCE(kernel_name, [], [out])\n"
    )
    result = run(f"{folder / 'one.py'}:one", "--arg", "int32[8]")
    assert result.exit_code == 0, result.output
    assert "y: int32[8] min 1 max 1 mean 1" in result.output


def test_help_lists_the_verb() -> None:
    assert "run" in CliRunner().invoke(main, ["--help"]).output
