# SPDX-License-Identifier: Apache-2.0
"""The served checks of operator parameters check; shape helpers, error makers, registers and contexts work."""

from __future__ import annotations

from typing import Any

import pytest

from ms_custom_ops.compat import buildcfg, context, op_errors, para_check, param_kinds, register, shape_util

X = {"shape": (2, 3), "dtype": "float16", "format": "ND", "ori_shape": (2, 3), "ori_format": "ND"}


@para_check.check_op_params(
    para_check.REQUIRED_INPUT,
    para_check.OPTION_INPUT,
    para_check.DYNAMIC_INPUT,
    para_check.REQUIRED_OUTPUT,
    para_check.REQUIRED_ATTR_INT,
    para_check.OPTION_ATTR_LIST_FLOAT,
    para_check.KERNEL_NAME,
)
def operator(x: Any, bias: Any, many: Any, y: Any, axis: Any, scales: Any = None, kernel_name: str = "op") -> str:
    return "ran"


GOOD: dict[str, Any] = {"x": X, "bias": None, "many": [X, X], "y": X, "axis": 1}


@pytest.mark.parametrize(
    "change",
    [{}, {"bias": X}, {"scales": [1.0, 2]}, {"kernel_name": "op_1"}, {"x": {**X, "shape": [-1, 3]}}, {"axis": -1}],
    ids=["plain", "optional", "list", "name", "dynamic", "negative"],
)
def test_good_call(change: dict[str, Any]) -> None:
    assert operator(**{**GOOD, **change}) == "ran"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"x": None}, "E80001", "op: x is None; accepted: a value"),
        ({"x": [2, 3]}, "E80003", "op: type of x is list; accepted: dict with shape and dtype"),
        ({"x": {"shape": (2,)}}, "E80003", "op: x is a dict without dtype; accepted: a dict with shape and dtype"),
        ({"x": {**X, "shape": 5}}, "E80003", "op: shape of x is 5; accepted: a list of int"),
        ({"x": {**X, "shape": (2.0,)}}, "E80003", r"op: shape of x is \(2.0,\); accepted: a list of int"),
        ({"x": {**X, "shape": (-3,)}}, "E80003", r"op: shape of x is \[-3\]; accepted: dimensions of at least -1"),
        ({"x": {**X, "dtype": "half"}}, "E80003", "op: dtype of x is half; accepted: float16, "),
        ({"x": {**X, "format": 3}}, "E80003", "op: format of x is 3; accepted: a string"),
        ({"bias": 3}, "E80003", "op: type of bias is int; accepted: dict"),
        ({"many": []}, "E80003", r"op: many is \[\]; accepted: a list of at least one tensor"),
        ({"many": [X, {}]}, "E80003", r"op: many\[1\] is a dict without shape, dtype"),
        ({"axis": None}, "E80001", "op: axis is None; accepted: a value"),
        ({"axis": 1.5}, "E80003", "op: axis is 1.5; accepted: an int"),
        ({"axis": 1.0}, "E80003", "op: axis is 1.0; accepted: an int"),
        ({"scales": [1.0, "2"]}, "E80003", r"op: scales is \[1.0, '2'\]; accepted: a list of numbers"),
        ({"kernel_name": "1op"}, "E80009", "kernel_name is '1op'; accepted: letters, digits and _"),
        ({"kernel_name": "a" * 201}, "E80009", "at most 200 characters"),
    ],
)
def test_bad_call(change: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message) as caught:
        operator(**{**GOOD, **change})
    assert caught.value.args[0]["errCode"] == code


def test_missing_and_unknown_arguments() -> None:
    with pytest.raises(
        RuntimeError, match="operator: arguments: missing a required argument: 'axis'; accepted: x, bias"
    ):
        operator(X, None, [X], X)
    with pytest.raises(RuntimeError, match="operator: arguments: got an unexpected keyword argument 'axes'"):
        operator(X, None, [X], X, 1, axes=3)


def test_a_required_output_left_at_its_default_none_is_absent() -> None:
    """Public operators give ``y`` the default None and are called without it; None itself is refused."""

    @para_check.check_op_params(para_check.REQUIRED_INPUT, para_check.OPTION_INPUT, para_check.REQUIRED_OUTPUT)
    def sliced(x: Any, strides: Any = None, y: Any = None) -> str:
        return "ran"

    assert sliced(X) == sliced(X, X) == "ran"
    with pytest.raises(RuntimeError, match="sliced: y is None; accepted: a value"):
        sliced(X, None, None)
    with pytest.raises(RuntimeError, match="sliced: type of y is int; accepted: dict"):
        sliced(X, y=3)


def test_unknown_kind_is_refused_when_the_operator_is_defined() -> None:
    with pytest.raises(ValueError, match="check_op_params: kind is 'input'; accepted: required_input"):
        para_check.check_op_params("input")


def test_every_kind_has_a_constant() -> None:
    names = {getattr(param_kinds, kind.upper()) for kind in param_kinds.CHECKS}
    assert names == set(param_kinds.CHECKS)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("required_attr_int", 3, "3"),
        ("required_attr_float", 3.5, "3.5"),
        ("required_attr_float", 3, None),
        ("required_attr_str", "a", 1),
        ("required_attr_bool", False, 0),
        ("required_attr_type", "float16", 1.5),
        ("required_attr_list_int", (1, 2), [1.0]),
        ("required_attr_list_float", [1, 2.5], 1.0),
        ("required_attr_list_bool", [True], [1]),
        ("required_attr_list_str", ["a"], "a"),
        ("required_attr_list_list_int", [[1], [2, 3]], [1]),
        ("option_attr_int", None, 1.0),
        ("dynamic_output", [X], X),
    ],
)
def test_kinds(kind: str, good: Any, bad: Any) -> None:
    param_kinds.CHECKS[kind](param_kinds.OpParam("op", "value", good))
    with pytest.raises(RuntimeError, match="value"):
        param_kinds.CHECKS[kind](param_kinds.OpParam("op", "value", bad))


def test_check_input_type() -> None:
    @para_check.check_input_type(dict, (list, tuple), str, flag=bool)
    def function(x: Any, axes: Any, name: Any = "n", flag: Any = True) -> str:
        return "ran"

    assert function({}, (1,), flag=False) == "ran"
    with pytest.raises(RuntimeError, match="function: type of axes is int; accepted: list, tuple"):
        function({}, 1)
    with pytest.raises(RuntimeError, match="function: type of name is int; accepted: str"):
        function({}, [1], name=3)
    with pytest.raises(RuntimeError, match="function: type of flag is int; accepted: bool"):
        function({}, [1], flag=1)


@pytest.mark.parametrize(
    ("shape", "bounds", "message"),
    [
        (7, {}, "type of x is int; accepted: list, tuple"),
        ([1, "2"], {}, "accepted: a list of int"),
        ([2, 3], {"min_rank": 3}, r"rank of x is 2; accepted: 3\.\.8"),
        ([1] * 9, {}, r"rank of x is 9; accepted: 0\.\.8"),
        ([2, 3], {"max_dim": 2}, r"dimension 1 of x is 3; accepted: 0\.\.2"),
        ([0, 3], {"min_dim": 1}, r"dimension 0 of x is 0; accepted: 1\.\."),
        ([2**31 - 1] * 3, {}, r"elements of x are \d+; accepted: 0\.\.9223372036854775807"),
        ([4, 4], {"max_size": 15}, r"elements of x are 16; accepted: 0\.\.15"),
    ],
)
def test_check_shape(shape: Any, bounds: dict[str, int], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        para_check.check_shape(shape, **bounds, param_name="x")


def test_good_shapes() -> None:
    para_check.check_shape((63, 200), min_rank=2, max_rank=2, param_name="x")
    para_check.check_shape([], param_name="x")
    para_check.check_shape([-1, 2**31 - 1, 5], param_name="x")
    para_check.check_dtype("INT32", "int32", "x")
    para_check.check_format("ND", "ND")
    para_check.check_shape_rule([1, 15], 1, 2, 17)
    para_check.check_shape_size([1, 15], 15)
    para_check.check_tensor_shape_size([17])
    para_check.check_elewise_shape_range([{"shape": (2, 3)}, {"shape": (1, 3)}], support_broadcast=True)
    para_check.check_range((-1, 5), ((1, None), (5, 5)), "x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: para_check.check_dtype("int8", ("float16", "float32"), "x"),
            "dtype of x is int8; accepted: float16, fl",
        ),
        (lambda: para_check.check_dtype(3, ("float16",), "x"), "dtype of x is 3; accepted: a string"),
        (lambda: para_check.check_dtype_rule("int8", ["float16"]), "dtype is int8; accepted: float16"),
        (lambda: para_check.check_format("NZ", ("ND",), "x"), "format of x is NZ; accepted: ND"),
        (lambda: para_check.check_shape_rule([0]), r"dimension 0 of shape is 0; accepted: 1\.\."),
        (lambda: para_check.check_shape_rule([1, 2, 3], 1, 2), r"rank of shape is 3; accepted: 1\.\.2"),
        (lambda: para_check.check_shape_size([4, 4], 15), "elements of shape are 16"),
        (lambda: para_check.check_kernel_name("a b"), "kernel_name is 'a b'"),
        (lambda: para_check.check_kernel_name(None), "kernel_name is None; accepted: a string"),
        (
            lambda: para_check.check_elewise_shape_range([{"shape": (2, 3)}, {"shape": (1, 3)}]),
            r"shapes are \(2, 3\) and \(1, 3\); accepted: shapes that agree",
        ),
        (lambda: para_check.check_range((7,), ((1, 6),), "x"), r"shape of x is \[7\]; accepted: \[\(1, 6\)\]"),
        (lambda: para_check.check_range((7, 1), ((1, 6),), "x"), "range of x has 1 entries; accepted: 2"),
        (lambda: shape_util.broadcast_shapes([2, 3], [4, 3], "op"), r"op: shapes of input1 and input2 are \[2, 3\]"),
        (lambda: shape_util.axis_check(2, 2), r"axis is 2; accepted: -2\.\.1"),
        (lambda: shape_util.compare_tensor_dict_key(X, {**X, "shape": (3, 2)}, "shape"), "shape of two tensors is"),
        (lambda: shape_util.compare_tensor_dict_key(X, {}, "dtype"), "dtype of the second tensor is missing"),
    ],
)
def test_checks_fail(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_shape_helpers() -> None:
    assert shape_util.broadcast_shapes([3], [2, 1]) == ([1, 3], [2, 1], [2, 3])
    assert shape_util.produce_shapes((2, 3), (2, 3))[2] == [2, 3]
    assert shape_util.scalar2tensor_one([]) == [1] and shape_util.scalar2tensor_one((2, 3)) == (2, 3)
    assert shape_util.axis_check(3, [-1, 0, 2]) == [0, 2] and shape_util.axis_check(3, -1) == 2
    assert shape_util.wrap_axes_to_positive([-1, 1], 3) == [2, 1]
    assert shape_util.shape_refine([1, 15, 1, 17]) == [15, 17]
    assert shape_util.shape_refine([1, 15, 1, 17], [1, 2]) == ([15, 17], [0])
    assert shape_util.simplify_axis_shape([2, 3, 4, 5], [1, 2]) == ([2, 12, 5], [1])
    assert shape_util.refine_shapes_for_broadcast([2, 3, 4], [2, 3, 1]) == ([6, 4], [6, 1])
    assert shape_util.refine_shapes_for_broadcast([17], [63, 17]) == ([1, 17], [63, 17])
    assert shape_util.shape_to_list((2, 3)) == [2, 3]
    shape_util.compare_tensor_dict_key(X, {**X, "dtype": "FLOAT16"}, "dtype")


@pytest.mark.parametrize(
    ("name", "facts", "code", "message"),
    [
        ("raise_err_input_value_invalid", ("x", 3, 4), "E80000", "op: x is 4; accepted: 3"),
        (
            "raise_err_input_dtype_not_supported",
            ("x", "float16", "int8"),
            "E80008",
            "op: dtype of x is int8; accepted: float16",
        ),
        ("raise_err_input_param_not_in_range", ("x", 1, 2, 3), "E80002", r"op: x is 3; accepted: 1\.\.2"),
        ("raise_err_input_shape_invalid", ("x", "too long"), "E80028", "op: shape of x: too long"),
        ("raise_err_input_format_invalid", ("x", "ND", "NZ"), "E80015", "op: format of x is NZ; accepted: ND"),
        ("raise_err_specific_reson", ("because",), "E61001", "op: because"),
        ("raise_err_some_new_reason", ("a", 3), "E60000", "op: some new reason: a, 3"),
    ],
)
def test_error_makers(name: str, facts: tuple, code: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message) as caught:
        getattr(op_errors, name)("op", *facts)
    assert caught.value.args[0]["errCode"] == code
    assert op_errors.get_error_message(caught.value.args[0]) == str(caught.value)


def test_error_maker_by_keyword_and_dict() -> None:
    with pytest.raises(RuntimeError, match="op: x is 4; accepted: 3"):
        op_errors.raise_err_input_value_invalid("op", param_name="x", expect_value=3, real_value=4)
    with pytest.raises(RuntimeError, match="op: param_name=x"):
        op_errors.raise_runtime_error({"errCode": "E80001", "op_name": "op", "param_name": "x"})
    with pytest.raises(AttributeError, match="no attribute 'complain'"):
        op_errors.complain("op")


def test_registers() -> None:
    @register.register_operator("Probe")
    def probe() -> str:
        return "operator"

    @register.register_op_compute("Probe", op_mode="static", support_fusion=True)
    def compute() -> str:
        return "compute"

    @register.fusion_manager.register("Fused")
    def fused() -> str:
        return "fused"

    @register.register_param_generalization("Probe")
    def generalize() -> str:
        return "general"

    assert register.get_operator("Probe") is probe and probe() == "operator"
    assert register.get_op_compute("Probe", "static") is compute and register.get_op_compute("Probe") is None
    assert register.fusion_manager.get_op_compute("fused") is None
    assert register.fusion_manager.get_op_compute("Fused") is fused
    assert register.get_param_generalization("Probe") is generalize


def test_context() -> None:
    outer = context.get_context()
    outer.add_compile_info("vars", {"core_num": 2})
    with context.OpContext("dynamic") as inner:
        assert context.get_context() is inner and inner.get_op_mode() == "dynamic"
        inner.add_addition("k", 1)
        inner.add_op_info(context.OpInfo("n", "T"))
        assert inner.get_addition("k") == 1 and inner.get_op_info()[0].op_type == "T"
    assert context.get_context() is outer and outer.get_compile_info()["vars"] == {"core_num": 2}
    context.clear()
    assert context.get_context().get_compile_info() == {}


def test_build_config() -> None:
    with buildcfg.build_config(double_buffer_non_reuse=False, mine=3):
        assert buildcfg.get_current_build_config("mine") == 3
        assert buildcfg.get_current_build_config("double_buffer_non_reuse") is False
    assert buildcfg.get_current_build_config("double_buffer_non_reuse") is True
    with pytest.raises(RuntimeError, match="get_current_build_config: key is 'mine'; accepted: enable_L1_fusion"):
        buildcfg.get_current_build_config("mine")
    buildcfg.set_L1_info("op_L1_space", 64)
    assert buildcfg.get_L1_info("op_L1_space") == 64


def test_a_parameter_of_one_of_several_kinds() -> None:
    either = (para_check.OPTION_ATTR_FLOAT, para_check.OPTION_ATTR_LIST_INT)

    @para_check.check_op_params(para_check.REQUIRED_INPUT, either, para_check.KERNEL_NAME)
    def operator(x, bias=1.0, kernel_name="operator"):
        return bias

    for value in (1, 0.5, [1, 2], None):
        assert operator(X, value) == value
    with pytest.raises(RuntimeError, match="operator: bias is 'no'; accepted: a number, or a list of int"):
        operator(X, "no")
    with pytest.raises(ValueError, match="check_op_params: kind is 'input'; accepted: required_input"):
        para_check.check_op_params((para_check.REQUIRED_INPUT, "input"))


def test_parameters_by_python_types() -> None:
    @para_check.check_op_params(dict, (list, int), str)
    def operator(x, axis=0, kernel_name="operator"):
        return axis

    assert operator(X, 1) == 1 and operator(X, [2]) == [2]
    with pytest.raises(RuntimeError, match="operator: type of x is list; accepted: dict"):
        operator([X])
    with pytest.raises(RuntimeError, match="operator: type of axis is str; accepted: list, or int"):
        operator(X, "0")


def test_forms_of_checks_that_public_operators_use() -> None:
    para_check.check_shape([2**20, 5120])
    para_check.check_dtype("float16", "float16, float32")
    with pytest.raises(RuntimeError, match="dtype is int8; accepted: float16, float32"):
        para_check.check_dtype("int8", "float16, float32")
    for kind, value in (("required_attr_int", True), ("option_attr_float", False)):
        param_kinds.CHECKS[kind](param_kinds.OpParam("op", "value", value))
    with context.OpContext() as inner:
        inner.add_build_res("pattern", "MatMul")
        assert (inner.get_build_res("pattern"), inner.get_build_res("other")) == ("MatMul", None)
