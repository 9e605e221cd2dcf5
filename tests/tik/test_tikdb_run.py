# SPDX-License-Identifier: Apache-2.0
"""tikdb.start_debug without a prompt: feeds, outputs, in-place results, prints, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops import tik
from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError, TikError
from ms_custom_ops.soc import use_soc


@pytest.fixture(autouse=True)
def chip() -> Any:
    with use_soc("Ascend910B1"):
        yield


def scaled(count: int = 32, dtype: str = "float16", in_place: bool = False, **options: Any) -> Any:
    """y = x * factor + block number, two blocks of ``count`` / 2 elements."""
    t = tik.Tik(disable_debug=False, **options)
    half = count // 2
    x = t.Tensor(dtype, (2, half), tik.scope_gm, "x")
    y = x if in_place else t.Tensor(dtype, (2, half), tik.scope_gm, "y")
    factor = t.InputScalar("int32", "factor")
    with t.for_range(0, 2, block_num=2) as i:
        ub = t.Tensor(dtype, (half,), tik.scope_ubuf, "ub")
        blocks = half * 2 // 32
        t.data_move(ub, x[i, 0], 0, 1, blocks, 0, 0)
        real = t.Scalar(dtype, "real")
        real.set_as(factor)
        t.vec_muls(half, ub, ub, real, 1, 8, 8)
        real.set_as(i)
        t.vec_adds(half, ub, ub, real, 1, 8, 8)
        t.data_move(y[i, 0], ub, 0, 1, blocks, 0, 0)
    t.BuildCCE("scaled", inputs=[x, factor], outputs=[y])
    return t


def test_outputs() -> None:
    x = np.arange(32, dtype=np.float16).reshape(2, 16)
    (y,) = scaled().tikdb.start_debug({"x": x, "factor": 3}, interactive=False)
    np.testing.assert_array_equal(y, x * 3 + np.array([[0], [1]], np.float16))


def test_agrees_with_the_native_engine() -> None:
    t = scaled()
    x = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float16)
    (y,) = t.tikdb.start_debug({"x": x, "factor": -2}, interactive=False)
    (z,) = engine.run(t.programs[-1], {"x": x, "factor": -2})
    np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
def test_in_place_results_go_into_the_given_array(layout: str) -> None:
    store = np.zeros((2, 16, 2), np.float16)
    x = np.zeros((2, 16), np.float16) if layout == "contiguous" else store[..., 1]
    x[...] = np.arange(32).reshape(2, 16)
    wanted = x * np.float16(3) + np.array([[0], [1]], np.float16)
    (y,) = scaled(in_place=True).tikdb.start_debug({"x": x, "factor": 3}, interactive=False)
    assert y is x
    np.testing.assert_array_equal(x, wanted)
    assert not store[..., 0].any()


def test_several_outputs_in_order_and_atomic_ones_zeroed() -> None:
    t = tik.Tik(disable_debug=False)
    x = t.Tensor("float32", (8,), tik.scope_gm, "x")
    plain = t.Tensor("float32", (8,), tik.scope_gm, "plain")
    untouched = t.Tensor("float32", (15,), tik.scope_gm, "untouched")
    total = t.Tensor("float32", (8,), tik.scope_gm, "total", is_atomic_add=True)
    with t.for_range(0, 3, block_num=3):
        ub = t.Tensor("float32", (8,), tik.scope_ubuf, "ub")
        t.data_move(ub, x, 0, 1, 1, 0, 0)
        t.data_move(plain, ub, 0, 1, 1, 0, 0)
        t.set_atomic_add(1)
        t.data_move(total, ub, 0, 1, 1, 0, 0)
        t.set_atomic_add(0)
    t.BuildCCE("sums", inputs=[x], outputs=[total, untouched, plain])
    x = np.arange(8, dtype=np.float32)
    outputs = t.tikdb.start_debug({"x": x}, interactive=False)
    assert [o.shape for o in outputs] == [(8,), (15,), (8,)]
    np.testing.assert_array_equal(outputs[0], 3 * x)
    assert np.isnan(outputs[1]).all()
    np.testing.assert_array_equal(outputs[2], x)


def test_bfloat16() -> None:
    t = tik.Tik(disable_debug=False)
    x = t.Tensor("bfloat16", (16,), tik.scope_gm, "x")
    y = t.Tensor("float32", (16,), tik.scope_gm, "y")
    ub, wide = t.Tensor("bfloat16", (16,), tik.scope_ubuf, "ub"), t.Tensor("float32", (16,), tik.scope_ubuf, "wide")
    t.data_move(ub, x, 0, 1, 1, 0, 0)
    t.vec_conv(16, "", wide, ub, 1, 8, 4)
    t.data_move(y, wide, 0, 1, 2, 0, 0)
    t.BuildCCE("widen", inputs=[x], outputs=[y])
    x = np.arange(16).astype(ml_dtypes.bfloat16)
    (y,) = t.tikdb.start_debug({"x": x}, interactive=False)
    np.testing.assert_array_equal(y, np.arange(16, dtype=np.float32))


X = np.zeros((2, 16), np.float16)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ([X], "feed_dict is list; accepted: a dict of argument name to array"),
        ({"x": X}, "feed_dict is without factor; accepted: x, factor"),
        ({"x": X, "factor": 1, "z": 1}, "feed_dict is with unknown z; accepted: x, factor"),
        ({"factor": 1, "z": 1}, "feed_dict is without x and with unknown z"),
        ({"x": [0] * 32, "factor": 1}, "x is list; accepted: a NumPy array"),
        ({"x": X.astype(np.float32), "factor": 1}, "dtype of x is float32; accepted: float16"),
        ({"x": X.ravel(), "factor": 1}, r"shape of x is \[32\]; accepted: \[2, 16\]"),
        ({"x": X, "factor": "1"}, r"factor is '1'; accepted: one number \(int32\)"),
        ({"x": X, "factor": 1.5}, "factor is 1.5; accepted: an integer of -2147483648..2147483647"),
        ({"x": X, "factor": 2**31}, "factor is 2147483648; accepted: an integer"),
    ],
    ids=["type", "missing", "unknown", "both", "list", "dtype", "shape", "text", "fraction", "range"],
)
def test_refused_feeds(feed: Any, message: str) -> None:
    with pytest.raises(TikError, match=f"tikdb.start_debug.*{message}"):
        scaled().tikdb.start_debug(feed, interactive=False)


def test_refuses_a_read_only_array_the_kernel_writes() -> None:
    x = X.copy()
    x.flags.writeable = False
    with pytest.raises(TikError, match="x, which the kernel writes, is read-only; accepted: a writeable array"):
        scaled(in_place=True).tikdb.start_debug({"x": x, "factor": 1}, interactive=False)
    assert scaled().tikdb.start_debug({"x": x, "factor": 1}, interactive=False)[0].shape == (2, 16)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_disabled_debugger_says_how_to_enable_it(error: type[BaseException]) -> None:
    t = tik.Tik()
    with pytest.raises(error, match=r"debugger is disabled; accepted: tik.Tik\(disable_debug=False\)"):
        t.tikdb.start_debug({}, interactive=False)


def test_before_build() -> None:
    with pytest.raises(TikError, match="no kernel was built; accepted: a call after tik_instance.BuildCCE"):
        tik.Tik(disable_debug=False).tikdb.start_debug({}, interactive=False)


def test_failing_kernel_names_its_line() -> None:
    t = tik.Tik(disable_debug=False)
    y = t.Tensor("float16", (16,), tik.scope_gm, "y")
    s = t.InputScalar("int32", "s")
    ub = t.Tensor("float16", (16,), tik.scope_ubuf, "ub")
    t.data_move(y[s], ub, 0, 1, 1, 0, 0)
    t.BuildCCE("beyond", inputs=[s], outputs=[y])
    with pytest.raises(
        EngineError, match=r"data_move: dst needs bytes \[34, 66\) of y, it has 32 \[.*test_tikdb_run.py"
    ):
        t.tikdb.start_debug({"s": 17}, interactive=False)


def dynamic() -> Any:
    """y = x for a number of blocks of 16 elements known at run time only."""
    t = tik.Tik(disable_debug=False)
    n = t.InputScalar("int32", "n")
    x = t.Tensor("float16", (n, 16), tik.scope_gm, "x")
    y = t.Tensor("float16", (n, 16), tik.scope_gm, "y")
    with t.for_range(0, n) as i:
        ub = t.Tensor("float16", (16,), tik.scope_ubuf, "ub")
        t.data_move(ub, x[i * 16], 0, 1, 1, 0, 0)
        t.data_move(y[i * 16], ub, 0, 1, 1, 0, 0)
    t.BuildCCE("copy", inputs=[x], outputs=[y], flowtable=[n])
    return t


def test_shape_known_at_run_time() -> None:
    x = np.arange(48, dtype=np.float16).reshape(3, 16)
    (y,) = dynamic().tikdb.start_debug({"x": x, "n": 3}, interactive=False, desc_tensor={"y": (3, 16)})
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (None, r"shape of output y is \[-1, 16\] \(known at run time only\); accepted: desc_tensor=\{'y': \[...\]\}"),
        ({"y": (3, 15)}, r"shape of y is \[3, 15\]; accepted: \[-1, 16\]"),
    ],
    ids=["missing", "wrong"],
)
def test_output_shape_must_be_given(shapes: Any, message: str) -> None:
    x = np.zeros((3, 16), np.float16)
    with pytest.raises(TikError, match=message):
        dynamic().tikdb.start_debug({"x": x, "n": 3}, interactive=False, desc_tensor=shapes)


def printing(make: Any, **options: Any) -> Any:
    """A kernel of two blocks that prints in a loop of three; ``make(t, i, j, s, ub)`` records the print."""
    t = tik.Tik(disable_debug=False, **options)
    y = t.Tensor("int32", (2, 8), tik.scope_gm, "y")
    with t.for_range(0, 2, block_num=2) as i:
        ub = t.Tensor("int32", (2, 4), tik.scope_ubuf, "ub")
        s = t.Scalar("float32", "s", 0.5)
        with t.for_range(0, 3, name="j") as j:
            t.vec_dup(8, ub, i * 10 + j, 1, 8)
            s.set_as(s + 1.0)
            make(t, i, j, s, ub)
        t.data_move(y[i, 0], ub, 0, 1, 1, 0, 0)
    t.BuildCCE("printing", inputs=[], outputs=[y])
    return t


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    t = printing(lambda t, i, j, s, ub: t.printf("%d/%02d %.2f 100%% %s %d\n", i, j, s, ub[0, 1:3], ub[7]))
    (y,) = t.tikdb.start_debug({}, interactive=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{i}/0{j} {j + 1.5:.2f} 100% [[{i * 10 + j} {i * 10 + j}]] {i * 10 + j}".replace("  ", " ")
                     for i in range(2) for j in range(3)]  # fmt: skip
    assert y.tolist() == [[2] * 8, [12] * 8]


def test_prints_are_no_statements(capsys: pytest.CaptureFixture[str]) -> None:
    """The Program is the one without prints, for every other engine too."""
    without = printing(lambda t, i, j, s, ub: None).programs[-1]
    with_print = printing(lambda t, i, j, s, ub: t.printf("%d\n", i)).programs[-1]
    assert without.text() == with_print.text()
    engine.run(with_print, [])
    assert capsys.readouterr().out == ""


def test_printf_in_a_branch_and_before_the_first_statement(capsys: pytest.CaptureFixture[str]) -> None:
    t = tik.Tik(disable_debug=False)
    t.printf("start\n")
    y = t.Tensor("int32", (8,), tik.scope_gm, "y")
    n = t.InputScalar("int32", "n")
    ub = t.Tensor("int32", (8,), tik.scope_ubuf, "ub")
    t.vec_dup(8, ub, 1, 1, 8)
    with t.if_scope(n > 3):
        t.printf("large %d\n", n)
    with t.else_scope():
        t.printf("small %d\n", n)
        t.vec_dup(8, ub, 2, 1, 8)
        t.printf("%s\n", ub[0:2])
    with t.if_scope(False):
        t.printf("never\n")
    t.data_move(y, ub, 0, 1, 1, 0, 0)
    t.BuildCCE("branches", inputs=[n], outputs=[y])
    t.tikdb.start_debug({"n": 5}, interactive=False)
    t.tikdb.start_debug({"n": 2}, interactive=False)
    assert capsys.readouterr().out == "start\nlarge 5\nstart\nsmall 2\n[2 2]\n"


def test_printf_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "printed.txt"

    def make(t: Any, i: Any, j: Any, s: Any, ub: Any) -> None:
        t.set_printf_params(single_print_length=6, is_printf_to_screen=False, printf_file_path=str(path))
        t.printf("%d%d long text\n", i, j)

    printing(make).tikdb.start_debug({}, interactive=False)
    assert capsys.readouterr().out == ""
    assert path.read_text() == "".join(f"{i}{j} lon" for i in range(2) for j in range(3))


def test_debug_print(capsys: pytest.CaptureFixture[str]) -> None:
    def make(t: Any, i: Any, j: Any, s: Any, ub: Any) -> None:
        t.tikdb.debug_print("ub[0, 0:2]")
        t.tikdb.debug_print(s)

    printing(make).tikdb.start_debug({}, interactive=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert lines[0].endswith("block 0: ub[0, 0:2] = [[0, 0]]") and "test_tikdb_run.py:" in lines[0]
    assert lines[11].endswith("block 1: s = 3.5")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t, i, j, s, ub: t.printf(3), "printf: format_string is int; accepted: a string"),
        (lambda t, i, j, s, ub: t.printf("%d"), "printf: number of values is 0; accepted: 1 for '%d'"),
        (lambda t, i, j, s, ub: t.printf("x", i), "printf: number of values is 1; accepted: 0 for 'x'"),
        (lambda t, i, j, s, ub: t.printf("%y", i), "printf: format_string is %y; accepted: %d, %i"),
        (lambda t, i, j, s, ub: t.printf("50% "), "printf: format_string is a % without a conversion"),
        (lambda t, i, j, s, ub: t.printf("%d", [i]), "printf: value is list; accepted: a tensor, Scalar"),
        (
            lambda t, i, j, s, ub: t.tikdb.debug_print("nothing[0]"),
            "expr is 'nothing.0.'; accepted: an expression that",
        ),
        (
            lambda t, i, j, s, ub: t.set_printf_params(is_printf_to_screen=False),
            "set_printf_params: printf_file_path is None; accepted: a path when is_printf_to_screen is False",
        ),
        (
            lambda t, i, j, s, ub: t.set_printf_params(single_print_length=0),
            "set_printf_params: single_print_length is 0; accepted: an int of at least 1",
        ),
    ],
    ids=["format", "few", "many", "conversion", "stray", "value", "name", "path", "length"],
)
def test_refused_prints(make: Any, message: str) -> None:
    with pytest.raises(TikError, match=message):
        printing(make)
