# SPDX-License-Identifier: Apache-2.0
"""Whole Ascend C projects: op_host compiled, its inference and tiling run, its kernels called with arrays."""

from __future__ import annotations

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.ascendc.arguments import dtype_names, storage
from ms_custom_ops.ascendc.definition import snake_case
from ms_custom_ops.ascendc.host import Tensor
from ms_custom_ops.errors import AscendcBuildError, AscendcError, OpDtypeError

MIXED = Path(__file__).parents[1] / "data" / "ascendc" / "mixed"
HOST = MIXED / "op_host" / "mixed.cpp"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def ops() -> mco.ascendc.Project:
    return mco.ascendc.load_project(MIXED, soc="Ascend910B1")


def line_of(text: str, path: Path = HOST) -> str:
    """file:line of the first line with ``text``."""
    lines = path.read_text().splitlines()
    return f"{path}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("AddCustom", "add_custom"),
        ("TopKCustom", "top_k_custom"),
        ("GRUCell", "gru_cell"),
        ("Conv2DCustom", "conv2_d_custom"),
        ("ApplyRotaryPosEmbMS", "apply_rotary_pos_emb_ms"),
    ],
)
def test_file_name_of_an_op(op: str, name: str) -> None:
    assert snake_case(op) == name


def test_ops_are_found_by_the_names_of_their_definitions(ops) -> None:
    assert (
        list(ops) == ["ScaleAdd", "AddInto", "TakeFirst", "Fails", "Lists", "ScaleAll", "Answers"]
        and len(ops) == 7
        and "Lists" in ops
    )
    with pytest.raises(
        AscendcError, match="op is 'Scale'; accepted: AddInto, Answers, Fails, Lists, ScaleAdd, ScaleAll, TakeFirst"
    ):
        ops["Scale"]


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 100, 31)], ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_call_gives_new_arrays(ops, shape: tuple[int, ...], with_bias: bool) -> None:
    rng = np.random.default_rng(0)
    x, y, bias = (rng.standard_normal(shape).astype(np.float32) for _ in range(3))
    kept = x.copy(), y.copy(), bias.copy()
    z = ops["ScaleAdd"](x, y, bias if with_bias else None, scale=0.5)
    np.testing.assert_array_equal(z, np.float32(0.5) * x + y + (bias if with_bias else np.float32(0)))
    assert all((now == then).all() for now, then in zip((x, y, bias), kept, strict=True))


def test_dtypes_choose_the_kernel_and_strides_do_not_matter(ops) -> None:
    x = np.arange(64, dtype=np.float16).reshape(8, 8).T
    z = ops["ScaleAdd"](x, y=np.ones((8, 8), np.float16))
    assert z.dtype == np.float16 and (z == x + 1).all()


def test_an_output_of_an_input_s_name_is_its_changed_copy(ops) -> None:
    acc, x = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    assert (ops["AddInto"](acc, x) == acc + 1).all() and acc[0] == 0


NOTHING_OUT = {
    "op_host/negate_into.cpp": """
#include "register/op_def_registry.h"
static ge::graphStatus Tile(gert::TilingContext* context) {
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
namespace ops {
class NegateInto : public OpDef {
 public:
  explicit NegateInto(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->AICore().SetTiling(Tile).AddConfig("ascend910b");
  }
};
OP_ADD(NegateInto);
}  // namespace ops
""",
    "op_kernel/negate_into.cpp": """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void negate_into(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling) {
  for (int i = 0; i < 3; ++i) ((__gm__ float*)x)[i] *= -1;
}
""",
}


def test_an_op_without_outputs_runs_for_what_it_does_to_its_inputs(tmp_path) -> None:
    for name, text in NOTHING_OUT.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    x = np.array([1, 2, 3], np.float32)
    assert mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["NegateInto"](x) == ()
    np.testing.assert_array_equal(x, [-1, -2, -3])


def test_tiling_reads_the_values_it_says_it_reads(ops) -> None:
    x = np.arange(6, dtype=np.float32)
    for count in (2, 5):
        y = ops["TakeFirst"](x, np.array([count]))
        assert (y[:count] == x[:count]).all() and not y[count:].any()


def test_a_dynamic_input_is_a_list(ops) -> None:
    xs = [np.arange(size, dtype=np.float32) for size in (3, 40, 1)]
    ys = ops["ScaleAll"](xs, scale=2.0)
    assert [y.tolist() for y in ys] == [(x * 2).tolist() for x in xs]
    for given, what in ((xs[0], "a ndarray"), ([], "an empty list"), ([xs[0], np.ones(1, np.int32)], "a list of")):
        with pytest.raises(AscendcError, match=f"ScaleAll: input x is {what}"):
            ops["ScaleAll"](given)


def test_shapes_may_be_given_for_lists_too(ops) -> None:
    xs = [np.arange(n, dtype=np.float32) for n in (6, 4)]
    ys = ops["ScaleAll"](xs, scale=2.0, out_shapes=[[(2, 3), (4, 1)]])
    assert [y.shape for y in ys] == [(2, 3), (4, 1)]
    assert all((y.ravel() == 2 * x).all() for x, y in zip(xs, ys, strict=True))
    for given in ([(2, 3), (4, 1)], [[(2, -3)]], [], None, 3, [[(2, 3)], [(1,)]]):
        if given is not None:
            with pytest.raises(
                AscendcError, match=r"out_shapes is .*; accepted: a shape for each of y \(a list of sha"
            ):
                ops["ScaleAll"](xs, out_shapes=given)
    with pytest.raises(AscendcError, match=r"out_shapes is \[\(6,\), 2\]; accepted: a shape for each of z"):
        ops["ScaleAdd"](xs[0], xs[0], out_shapes=[(6,), 2])


def test_every_kind_of_attribute_reaches_the_host_functions(ops) -> None:
    op = ops["Lists"]
    for named, shape in (
        ({"sizes": [2, 3]}, (2, 3, 5, 7, 1, 3, 1)),
        (
            {"sizes": (), "size": 6, "seven": False, "parts": [1, 0.75], "rows": [[], [9]], "flags": [False]},
            (6, 8, 3, 9, 2),
        ),
    ):
        call = op._host.call(op.definition, "Ascend910B1")
        call.add_input(0, Tensor((3,), "bfloat16"))
        call.add_attributes(op.attribute_values(named))
        assert call.infer([(0, "int32")]) == [(shape, "int32")]


ANSWERS = {
    "defaults": ({}, [0, 3, 0.5, 4, 2, 0.25, 1, 3]),
    "given": (
        {"flag": True, "number": -7, "ratio": 1.5, "word": "seven77", "numbers": [9], "ratios": (2.5, 1.0),
         "flags": [True, False], "rows": [[5, 6]]},
        [1, -7, 1.5, 7, 9, 2.5, 0, 5],
    ),
}  # fmt: skip


@pytest.mark.parametrize("named", ANSWERS)
def test_every_kind_of_attribute_reaches_the_kernel(ops, named: str) -> None:
    given, numbers = ANSWERS[named]
    xs = [np.full(size, size, np.float32) for size in (1, 15, 200)]
    y = ops["Answers"](xs, np.array([63]), **given)
    assert y.tolist() == [*numbers, 63, 1, 15, 200]  # the value of an input behind a list is its own


TILING = "static ge::graphStatus FailsTiling"
FAILURES = {
    "status": (TILING, "GRAPH_FAILED; accepted: GRAPH_SUCCESS; it said: {log}: 4 rows are too few"),
    "checked": (TILING, "GRAPH_FAILED; accepted: GRAPH_SUCCESS; it said: {check}: Fails: 4 rows are checked"),
    "absent": (TILING, "Fails: context->GetInputDesc(7) is nullptr"),
    "reported": (TILING, "op: rows"),
    "logged": (TILING, "op: much of rows"),
    "divide": ("8 / (dim - dim)", r"SIGFPE (a division of integers by zero); accepted"),
    "null": ("GetInputShape(7)", "SIGSEGV"),
    "throw": (TILING, "an exception; accepted: GRAPH_SUCCESS; it said: vector::_M_range_check"),
    "large": (TILING, "tiling data of 1048576 bytes; accepted: at most 65536"),
    "nothing": (TILING, "a block dim of 0; accepted: SetBlockDim with at least 1"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_host_function_that_fails_is_one_error_with_its_line(ops, how: str) -> None:
    place, text = FAILURES[how]
    with pytest.raises(AscendcError) as error:
        ops["Fails"](np.ones(4, np.float32), how=how)
    at = int(line_of(place).rpartition(":")[2])
    told = str(error.value)
    allowed = [f"{HOST}:{at + more}: " for more in (0, 1)]  # a function begins where its brace stands, for compilers
    assert told.startswith(tuple(allowed)), told
    text = text.format(log=line_of("ASC_CPU_LOG_ERROR"), check=line_of("OP_CHECK_IF"))
    assert "Fails: result of the tiling function is " in told and text in told
    assert (ops["AddInto"](np.ones(2, np.float32), np.ones(2, np.float32)) == 2).all()


def test_a_stop_by_abort_leaves_the_process_alive(ops) -> None:
    with pytest.raises(AscendcError, match="SIGABRT"):
        ops["Fails"](np.ones(4, np.float32), how="abort")


ONE = np.ones(2, np.float32)
BAD_CALLS = {
    "list": (([1.0],), {}, AscendcError, "input x is a list; accepted: a NumPy array"),
    "missing": ((ONE,), {}, AscendcError, "input y is missing; accepted: a NumPy array"),
    "many": ((None,) * 4, {}, AscendcError, "positional arguments is 4; accepted: at most 3: x, y, bias"),
    "twice": ((ONE,), {"x": 1}, AscendcError, "input x is twice; accepted: once"),
    "unknown": ((ONE, ONE), {"scal": 1}, AscendcError, "argument is scal; accepted: x, y, bias, scale"),
    "attribute": ((ONE, ONE), {"scale": "1"}, AscendcError, "attribute scale is '1'; accepted: float"),
    "dtypes": (
        (np.ones(2, np.int32),) * 2, {}, OpDtypeError,
        "dtypes is x int32, y int32, bias absent; accepted: x float16, y float16, bias float16; x float32, y float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_wrong_arguments(ops, name: str) -> None:
    args, named, kind, text = BAD_CALLS[name]
    with pytest.raises(kind) as error:
        ops["ScaleAdd"](*args, **named)
    assert f"ScaleAdd: {text}" in str(error.value)


def test_what_a_project_lacks(ops, tmp_path: Path) -> None:
    with pytest.raises(AscendcError, match=r"mixed.cpp:\d+: Lists: tiling function is missing; accepted: AICore"):
        ops["Lists"](np.ones(3, np.float32), sizes=[1])
    with pytest.raises(AscendcError, match="attribute sizes is missing; accepted: list of int"):
        ops["Lists"](np.ones(3, np.float32))
    with pytest.raises(AscendcBuildError, match=r"Fails: kernel is missing; accepted: op_kernel/fails.cpp"):
        ops["Fails"]._kernel({"x": "float32", "y": "float32"}, 0)
    with pytest.raises(AscendcBuildError, match=r"folder is .*; accepted: a folder with op_host/\*.cpp in it or below"):
        mco.ascendc.load_project(tmp_path)


def test_a_compile_error_of_op_host_names_the_line_first(tmp_path: Path) -> None:
    (tmp_path / "op_host").mkdir()
    source = tmp_path / "op_host" / "broken.cpp"
    source.write_text('#include "register/op_def_registry.h"\nint x = nothing;\n')
    with pytest.raises(AscendcBuildError) as error:
        mco.ascendc.load_project(tmp_path)
    assert str(error.value).startswith(f"{source}:2: ") and "nothing" in str(error.value)


def test_a_source_that_does_not_compile_leaves_the_ops_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "op_host"
    folder.mkdir()
    for name, body in (("Whole", ""), ("Broken", "nothing();")):
        (folder / f"{name.lower()}.cpp").write_text(
            '#include "register/op_def_registry.h"\nnamespace ops {\n'
            f"class {name} : public OpDef {{\n public:\n"
            f"  explicit {name}(const char* n) : OpDef(n) {{ {body} }}\n}};\nOP_ADD({name});\n}}\n"
        )
    with pytest.warns(RuntimeWarning, match=f"Broken cannot be used: {folder / 'broken.cpp'}:5: "):
        found = mco.ascendc.load_project(tmp_path)
    assert found["Whole"].name == "Whole" and list(found) == ["Broken", "Whole"]
    with pytest.raises(AscendcBuildError, match="broken.cpp:5: .*nothing"):
        found["Broken"]


def test_a_kernel_is_of_the_dtypes_of_its_definition(tmp_path: Path) -> None:
    """Not of those that its InferDataType gives: the compiler of the chip asks the definition alone."""
    for name, text in (
        ("op_host", """
#include "register/op_def_registry.h"
namespace ge {
static graphStatus Shape(gert::InferShapeContext* c) { return *c->GetOutputShape(0) = *c->GetInputShape(0), 0; }
static graphStatus Type(gert::InferDataTypeContext* c) { return c->SetOutputDataType(0, c->GetInputDataType(0)), 0; }
static graphStatus Tile(gert::TilingContext* c) { return c->SetBlockDim(1), 0; }
}
namespace ops {
class Halves : public OpDef {
 public:
  explicit Halves(const char* n) : OpDef(n) {
    Input("x").DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    Output("y").DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    SetInferShape(ge::Shape).SetInferDataType(ge::Type);
    AICore().SetTiling(ge::Tile);
    AICore().AddConfig("ascend910b");
  }
};
OP_ADD(Halves);
}
"""),
        ("op_kernel", """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void halves(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  for (int i = 0; i < 3; ++i) ((__gm__ DTYPE_Y*)y)[i] = DTYPE_Y(((__gm__ DTYPE_X*)x)[i]) / 2;
}
"""),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "halves.cpp").write_text(text)
    got = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Halves"](np.array([1, 2, 5], np.int32))
    assert got.dtype == np.float32 and (got == [0.5, 1, 2.5]).all()


def test_bfloat16_travels_as_bits_too() -> None:
    bits = np.zeros(2, np.uint16)
    assert dtype_names(bits) == ("uint16", "bfloat16") and storage("bfloat16", [bits]) == np.uint16
    assert storage("bfloat16", [None, np.zeros(2, np.float32)]) == ml_dtypes.bfloat16
