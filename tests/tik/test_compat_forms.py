# SPDX-License-Identifier: Apache-2.0
"""The forms in which public kernels write what the language takes: each one traces and computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import compat
from ms_custom_ops.engine import native as engine
from ms_custom_ops.tik.trace import trace

COUNT = 32


@pytest.fixture(autouse=True)
def served_names() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


def doubled(program: Any, count: int = COUNT) -> None:
    """The kernel computes y = x + x in float16."""
    x = np.arange(count, dtype=np.float16)
    (y,) = engine.run(program, [x], "reference")
    np.testing.assert_array_equal(y.reshape(-1), x + x)


def body(instance: Any, x: Any, y: Any) -> None:
    """y = x + x for tensors of COUNT elements."""
    from tbe import tik

    ub = instance.Tensor("float16", (COUNT,), name="ub", scope=tik.scope_ubuf)
    instance.data_move(ub, x, 0, 1, COUNT // 16, 0, 0)
    instance.vec_add(COUNT, ub, ub, ub, 1, 8, 8, 8)
    instance.data_move(y, ub, 0, 1, COUNT // 16, 0, 0)


def build(make: Callable[[], Any], finish: Callable[[Any, Any, Any], Any]) -> Any:
    """Program of a kernel with a given construction of Tik and call of BuildCCE."""
    from tbe import tik

    def kernel() -> Any:
        instance = make()
        x = instance.Tensor("float16", (COUNT,), name="x", scope=tik.scope_gm)
        y = instance.Tensor("float16", (COUNT,), name="y", scope=tik.scope_gm)
        body(instance, x, y)
        return finish(instance, x, y)

    return trace(kernel, soc="Ascend910A")


def plain() -> Any:
    from tbe import tik

    return tik.Tik()


def usual(instance: Any, x: Any, y: Any) -> Any:
    return instance.BuildCCE(kernel_name="double", inputs=[x], outputs=[y])


def _tik() -> Any:
    from tbe import tik

    return tik


TIK_FORMS: dict[str, Callable[[], Any]] = {
    "none": lambda: _tik().Tik(),
    "dprofile": lambda: _tik().Tik(_tik().Dprofile()),
    "dprofile-class": lambda: _tik().Tik(_tik().Dprofile),
    "dprofile-mini": lambda: _tik().Tik(_tik().Dprofile("v100", "mini")),
    "dprofile-cloud": lambda: _tik().Tik(_tik().Dprofile("v100", "cloud")),
    "dprofile-aic": lambda: _tik().Tik(_tik().Dprofile("v200", "aic")),
    "dprofile-vec": lambda: _tik().Tik(_tik().Dprofile("v200", "vec")),
    "dprofile-keywords": lambda: _tik().Tik(_tik().Dprofile(ai_core_arch="v100", ai_core_version="cloud")),
    "dprofile-ddk": lambda: _tik().Tik(_tik().Dprofile("v100", "mini", "1.60.T17.B830")),
    "keyword": lambda: _tik().Tik(profiling=_tik().Dprofile(), disable_debug=False),
    "levels": lambda: _tik().Tik(_tik().Dprofile(), disable_debug=True, err_msg_level=1),
    "positional": lambda: _tik().Tik(_tik().Dprofile(), False, 1),
}

BUILD_FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "keywords": usual,
    "positional": lambda t, x, y: t.BuildCCE("double", [x], [y]),
    "tuples": lambda t, x, y: t.BuildCCE("double", (x,), (y,)),
    "bare-tensors": lambda t, x, y: t.BuildCCE("double", x, y),
    "options": lambda t, x, y: t.BuildCCE("double", [x], [y], output_files_path="./kernel_meta", enable_l2=False),
    "enable-l2": lambda t, x, y: t.BuildCCE("double", [x], [y], enable_l2=True),
    "config": lambda t, x, y: t.BuildCCE(
        "double", [x], [y], config={"dynamic_tik": True, "double_buffer_non_reuse": True}
    ),
    "flowtable-empty": lambda t, x, y: t.BuildCCE("double", [x], [y], flowtable=[]),
    "flowtable-none": lambda t, x, y: t.BuildCCE("double", [x], [y], flowtable=None, evaluates=None),
    "evaluates": lambda t, x, y: t.BuildCCE("double", [x], [y], evaluates=[]),
    "twice": lambda t, x, y: (t.BuildCCE("double", [x], [y]), t.BuildCCE("double", [x], [y]))[1],
    "no-return": lambda t, x, y: (t.BuildCCE("double", [x], [y]), None)[1],
}


@pytest.mark.parametrize("form", TIK_FORMS)
def test_tik(form: str) -> None:
    doubled(build(TIK_FORMS[form], usual))


@pytest.mark.parametrize("form", BUILD_FORMS)
def test_build(form: str) -> None:
    doubled(build(plain, BUILD_FORMS[form]))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda t, s: t.Tensor("float16", (COUNT,), name="x", scope=s), id="name-scope"),
        pytest.param(lambda t, s: t.Tensor("float16", (COUNT,), scope=s, name="x"), id="scope-name"),
        pytest.param(lambda t, s: t.Tensor("float16", (COUNT,), s, "x"), id="positional"),
        pytest.param(lambda t, s: t.Tensor(dtype="float16", shape=[COUNT], scope=s, name="x"), id="keywords"),
        pytest.param(lambda t, s: t.Tensor("float16", [COUNT], s, name="x"), id="mixed"),
        pytest.param(lambda t, s: t.Tensor("float16", [1, 1, COUNT], name="x", scope=s), id="rank3"),
        pytest.param(lambda t, s: t.Tensor("float16", (np.int64(COUNT),), name="x", scope=s), id="numpy-dim"),
    ],
)
def test_tensor(make: Callable[[Any, str], Any]) -> None:
    from te import tik

    def kernel() -> None:
        t = tik.Tik(tik.Dprofile())
        x, y = make(t, tik.scope_gm), t.Tensor("float16", (COUNT,), name="y", scope=tik.scope_gm)
        body(t, x, y)
        usual(t, x, y)

    program = trace(kernel, soc="Ascend910A")
    shape = program.buffers[program.inputs[0]].shape
    x = np.arange(COUNT, dtype=np.float16).reshape(shape)
    (y,) = engine.run(program, [x], "reference")
    np.testing.assert_array_equal(y, (x + x).reshape(-1))


def test_output_repeats_an_input() -> None:
    from te import tik

    def kernel() -> Any:
        t = tik.Tik()
        x = t.Tensor("float16", (COUNT,), name="x", scope=tik.scope_gm)
        body(t, x, x)
        return t.BuildCCE("in_place", inputs=[x], outputs=[x])

    doubled(trace(kernel, soc="Ascend910A"))


def test_outputs_may_be_empty() -> None:
    """A kernel without outputs gets the one that the compiler makes up: float16, one element."""
    from te import tik

    def kernel() -> Any:
        t = tik.Tik()
        x = t.Tensor("float16", (COUNT,), name="x", scope=tik.scope_gm)
        body(t, x, x)
        return t.BuildCCE("in_place", inputs=[x], outputs=[])

    program = trace(kernel, soc="Ascend910A")
    x = np.arange(COUNT, dtype=np.float16)
    wanted = x + x
    engine.run(program, [x], "reference")
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("flag", [True, False, np.bool_(True), 1], ids=repr)
def test_if_scope_on_a_plain_bool(flag: Any) -> None:
    from te import tik

    def kernel() -> Any:
        t = tik.Tik()
        y = t.Tensor("int32", (8,), name="y", scope=tik.scope_gm)
        ub = t.Tensor("int32", (8,), name="ub", scope=tik.scope_ubuf)
        with t.if_scope(flag):
            t.vec_dup(8, ub, 7, 1, 8)
        with t.else_scope():
            t.vec_dup(8, ub, 3, 1, 8)
        t.data_move(y, ub, 0, 1, 1, 0, 0)
        return t.BuildCCE("branch", inputs=[], outputs=[y])

    (y,) = engine.run(trace(kernel, soc="Ascend910A"), [], "reference")
    assert y.tolist() == [7 if flag else 3] * 8


def test_integer_stores() -> None:
    from te import tik

    def kernel() -> Any:
        t = tik.Tik()
        y = t.Tensor("int32", (2, 8), name="y", scope=tik.scope_gm)
        ub = t.Tensor("int32", (2, 8), name="ub", scope=tik.scope_ubuf)
        t.vec_dup(16, ub, 0, 1, 8)
        i = t.Scalar("int32", "i", 1)
        ub[0, 3] = 5
        ub[i, 2] = i + 6
        ub[9].set_as(4)
        ub.__setitem__(15, 9)
        t.data_move(y, ub, 0, 1, 2, 0, 0)
        return t.BuildCCE("stores", inputs=[], outputs=[y])

    (y,) = engine.run(trace(kernel, soc="Ascend910A"), [], "reference")
    assert y.tolist() == [[0, 0, 0, 5, 0, 0, 0, 0], [0, 4, 7, 0, 0, 0, 0, 9]]


def test_flowtable_scalars_and_tensors() -> None:
    """A dynamic kernel: number of blocks of 16 from an InputScalar, tiling data from a tensor."""
    from te import tik

    def kernel() -> Any:
        t = tik.Tik()
        x = t.Tensor("float16", (COUNT,), name="x", scope=tik.scope_gm)
        y = t.Tensor("float16", (COUNT,), name="y", scope=tik.scope_gm)
        tiling = t.Tensor("int32", (8,), name="tiling", scope=tik.scope_gm)
        count = t.InputScalar("int32", "count")
        tiling_ub = t.Tensor("int32", (8,), name="tiling_ub", scope=tik.scope_ubuf)
        t.data_move(tiling_ub, tiling, 0, 1, 1, 0, 0)
        step = t.Scalar("int32", "step")
        step.set_as(tiling_ub[2])
        with t.for_range(0, count) as i:
            ub = t.Tensor("float16", (16,), name="ub", scope=tik.scope_ubuf)
            t.data_move(ub, x[i * step], 0, 1, 1, 0, 0)
            t.vec_add(16, ub, ub, ub, 1, 8, 8, 8)
            t.data_move(y[i * step], ub, 0, 1, 1, 0, 0)
        return t.BuildCCE("dynamic", inputs=[x], outputs=[y], flowtable=[tiling, count], config={"dynamic_tik": True})

    x = np.arange(COUNT, dtype=np.float16)
    tiling = np.array([0, 0, 16, 0, 0, 0, 0, 0], np.int32)
    program = trace(kernel, soc="Ascend910A")
    (y,) = engine.run(program, {"x": x, "tiling": tiling, "count": 2}, "reference")
    np.testing.assert_array_equal(y, x + x)


def test_a_constant_in_gm_that_is_no_argument() -> None:
    """A GM tensor with init_value is none of the kernel's arguments unless BuildCCE lists it."""
    from tbe import tik

    def kernel(listed: bool) -> Any:
        t = tik.Tik()
        x, y = (t.Tensor("float16", (COUNT,), name=name, scope=tik.scope_gm) for name in "xy")
        ones = t.Tensor("float16", (COUNT,), name="ones", scope=tik.scope_gm, init_value=1.5)
        a, b = (t.Tensor("float16", (COUNT,), name=name, scope=tik.scope_ubuf) for name in "ab")
        for ub, gm in ((a, x), (b, ones)):
            t.data_move(ub, gm, 0, 1, COUNT // 16, 0, 0)
        t.vec_add(COUNT, a, a, b, 1, 8, 8, 8)
        t.data_move(y, a, 0, 1, COUNT // 16, 0, 0)
        return t.BuildCCE("constants", [x, ones] if listed else [x], [y])

    x = np.arange(COUNT, dtype=np.float16)
    program = trace(kernel, False, soc="Ascend910A")
    assert len(program.inputs) == 1 and len(program.workspaces) == 1
    for run in (engine.run, lambda *args: engine.run(*args, "reference")):
        (y,) = run(program, {"x": x})
        np.testing.assert_array_equal(y, x + np.float16(1.5))
    assert len(trace(kernel, True, soc="Ascend910A").inputs) == 2


def test_input_scalars_without_a_name() -> None:
    from tbe import tik

    def kernel() -> Any:
        t = tik.Tik()
        x, y = (t.Tensor("float16", (COUNT,), name=name, scope=tik.scope_gm) for name in "xy")
        first, second = t.InputScalar("int32"), t.InputScalar(dtype="int32")
        with t.new_scope():
            a = t.Tensor("float16", (COUNT,), name="a", scope=tik.scope_ubuf)
            t.vec_dup(COUNT, a, first - second, 1, 8)
            t.data_move(y, a, 0, 1, COUNT // 16, 0, 0)
        return t.BuildCCE("scalars", [x, first, second], [y])

    program = trace(kernel, soc="Ascend910A")
    (y,) = engine.run(program, {"x": np.zeros(COUNT, np.float16), "input_scalar": 9, "input_scalar_1": 2})
    assert (y == 7).all()


def test_trace_takes_an_operator_as_it_is() -> None:
    """Dict arguments, a kernel_name default, checks by decorator, the chip set for the call only."""
    from tbe import tik
    from tbe.common import platform
    from tbe.common.utils import para_check

    before = platform.get_soc_spec("FULL_SOC_VERSION")

    @para_check.check_op_params(
        para_check.REQUIRED_INPUT, para_check.REQUIRED_OUTPUT, para_check.OPTION_ATTR_INT, para_check.KERNEL_NAME
    )
    def double(x: dict, y: dict, repeat: int = 1, kernel_name: str = "double") -> None:
        seen.append((platform.get_soc_spec("CORE_NUM"), platform.get_soc_spec("UB_SIZE")))
        t = tik.Tik(tik.Dprofile())
        source = t.Tensor(x["dtype"], x["shape"], name="x", scope=tik.scope_gm)
        target = t.Tensor(y.get("dtype"), y.get("shape"), name="y", scope=tik.scope_gm)
        body(t, source, target)
        t.BuildCCE(kernel_name=kernel_name, inputs=[source], outputs=[target])

    seen: list[tuple[int, int]] = []
    d = {"shape": (COUNT,), "dtype": "float16", "format": "ND"}
    program = trace(double, d, d, soc="Ascend310P3")
    assert (program.name, program.soc, seen) == ("double", "Ascend310P3", [(8, 262144)])
    assert platform.get_soc_spec("FULL_SOC_VERSION") == before
    doubled(program)
