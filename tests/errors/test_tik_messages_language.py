# SPDX-License-Identifier: Apache-2.0
"""Every message of the TIK front end about views, scalars, control flow, reductions, kernel arguments.

It names the API, the parameter, what was given, what is accepted, and the line. Each case is one call that breaks
one rule; the words are those a reader needs to repair the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tik_cases import Case, Kit, check_message

from ms_custom_ops import tik
from ms_custom_ops.errors import SocError, TikAlignError, TikError, TikOverflowError, TikScopeError, TikSupportError
from ms_custom_ops.soc import use_soc
from ms_custom_ops.tik.trace import trace


def _second_block_loop(k: Kit) -> None:
    for _ in range(2):
        with k.t.for_range(0, 2, block_num=2):
            pass


def _nested(outer: Any, inner: Any) -> Callable[[Kit], None]:
    def call(k: Kit) -> None:
        with outer(k), inner(k):
            pass

    return call


def _break_in_block_loop(k: Kit) -> None:
    with k.t.for_range(0, 2, block_num=2):
        k.t.tik_break()


def _without_sync(body: Callable[[Kit], None]) -> Callable[[Kit], None]:
    def call(k: Kit) -> None:
        with k.t.new_stmt_scope(disable_sync=True):
            body(k)

    return call


def _else_after_statement(k: Kit) -> None:
    with k.t.if_scope(k.s > 0):
        pass
    k.t.vec_exp(128, k.u, k.u, 1, 8, 8)
    with k.t.else_scope():
        pass


def _long_chain(k: Kit) -> None:
    with k.t.if_scope(k.s == 0):
        pass
    for n in range(400):
        with k.t.elif_scope(k.s == n):
            pass


def _in_block_loop(body: Callable[[Kit], None], blocks: int = 2) -> Callable[[Kit], None]:
    def call(k: Kit) -> None:
        space = k.t.Tensor("int64", (8,), tik.scope_gm, "space", is_workspace=True, is_atomic_add=True)
        with k.t.for_range(0, blocks, block_num=blocks):
            k.t.block_barrier(space) if body is None else body(k)

    return call


def _many_arguments(k: Kit) -> None:
    many = [k.t.Tensor("float16", (16,), tik.scope_gm, f"x{n}") for n in range(193)]
    k.t.BuildCCE("k", many, [])


def _same_names(k: Kit) -> None:
    pair = [k.t.Tensor("float16", (16,), tik.scope_gm, "twin") for _ in range(2)]
    k.t.BuildCCE("k", pair, [])


def _unlisted(k: Kit) -> None:
    k.t.data_move(k.u, k.gm, 0, 1, 1, 0, 0)
    k.t.BuildCCE("k", [k.gm32], [])


def _build_in_scope(k: Kit) -> None:
    with k.t.new_stmt_scope():
        k.t.BuildCCE("k", [], [])


def _workspace_argument(k: Kit) -> None:
    space = k.t.Tensor("float16", (16,), tik.scope_gm, "space", is_workspace=True)
    k.t.BuildCCE("k", [space], [])


def _scalar_first(k: Kit) -> None:
    k.t.BuildCCE("k", [k.t.InputScalar("int32", "n"), k.gm], [])


CASES = [
    # views
    Case(
        "index-rank", lambda k: k.u.reshape((2, 8, 64))[1, 2], ("tensor u: number of indices is 2", "1 or its rank 3")
    ),
    Case("index-bounds", lambda k: k.u[1024], ("tensor u: index in dimension 0 is 1024", "0..1023"), TikOverflowError),
    Case("index-type", lambda k: k.u["x"], ("tensor index is str", "int, Scalar")),
    Case(
        "slice-stop",
        lambda k: k.u[0:2000],
        ("tensor u: stop of slice in dimension 0 is 2000", "0..1024"),
        TikOverflowError,
    ),
    Case("slice-order", lambda k: k.u[8:4], ("tensor u: stop of slice in dimension 0 is 4", "start 8")),
    Case("slice-step", lambda k: k.u[0:8:0], ("tensor u: step of slice in dimension 0 is 0", ">= 1")),
    Case("slice-step-scalar", lambda k: k.u[0 : 8 : k.s], ("tensor u: step of slice", "a Python int")),
    Case("flat-index-of-slice", lambda k: k.u.reshape((32, 32))[:, 0:8][3], ("non-contiguous slice", "2 indices")),
    Case("reshape-size", lambda k: k.u.reshape((3, 3)), ("tensor u.reshape", "(3, 3) of 9 elements", "1024")),
    Case("reshape-slice", lambda k: k.u.reshape((32, 32))[:, 0:8].reshape((256,)), ("reshape", "non-contiguous")),
    Case("cast-dtype", lambda k: k.u.reinterpret_cast_to("half"), ("reinterpret_cast_to: dtype is half", "float16")),
    Case("cast-odd", lambda k: k.u[0:3].reinterpret_cast_to("float32"), ("last dimension", "is 3", "multiples of 2")),
    Case(
        "cast-offset",
        lambda k: k.u[3:5].reinterpret_cast_to("float32"),
        ("offset", "is 3", "multiples of 2 elements"),
        TikAlignError,
    ),
    Case("cast-slice", lambda k: k.u.reshape((32, 32))[:, 0:8].reinterpret_cast_to("int16"), ("non-contiguous",)),
    # scalars and expressions
    Case("python-if", lambda k: 1 if k.s > 0 else 2, ("no Python truth value", "if_scope", "tik.all")),
    Case("python-and", lambda k: k.s > 0 and k.s < 3, ("no Python truth value", "tik.any")),
    Case("python-range", lambda k: list(range(k.s)), ("cannot be used as a Python integer",)),
    Case(
        "float16-compare",
        lambda k: k.t.if_scope(k.h > 0.5),
        ("if_scope: dtype of comparison > on Ascend910A is float16", "float32"),
        TikSupportError,
    ),
    Case(
        "float32-compare-310",
        lambda k: k.t.if_scope(k.t.Scalar("float32", "x") > 0.5),
        ("comparison > on Ascend310 is float32", "integers"),
        TikSupportError,
        "Ascend310",
    ),
    Case(
        "bfloat16-arithmetic",
        lambda k: k.s.set_as(k.t.Scalar("bfloat16", "x") + 1),
        ("dtype of operator + is bfloat16", "astype"),
        TikSupportError,
        "Ascend910B1",
    ),
    Case("bitwise-float", lambda k: k.h & 1, ("operator & on float16", "integer dtypes")),
    Case(
        "division-by-zero",
        lambda k: k.s.astype("int32") + tik.Expr("const", "int32", value=4) // 0,
        ("division by zero",),
    ),
    Case("operand-type", lambda k: k.s + "x", ("scalar operand is str", "Scalar")),
    Case(
        "scalar-conversion-310",
        lambda k: k.t.Scalar("float32", "x").set_as(k.s),
        ("Scalar x.set_as: value on Ascend310 is int32", "float32"),
        TikSupportError,
        "Ascend310",
    ),
    Case("scalar-bad-dtype", lambda k: k.t.Scalar("bool", "x"), ("Scalar: dtype is bool", "int32")),
    Case("loop-variable", lambda k: k.t.for_range(0, 2, "k").__enter__().set_as(1), ("variable k cannot be assigned",)),
    Case("input-scalar", lambda k: k.t.InputScalar("int32", "n").set_as(1), ("InputScalar n cannot be assigned",)),
    Case("array-length", lambda k: k.t.ScalarArray("int32", 0, "a"), ("ScalarArray: length is 0", ">= 1")),
    Case(
        "array-index",
        lambda k: k.t.ScalarArray("int32", 2, "a")[2],
        ("ScalarArray a: index is 2", "0..1"),
        TikOverflowError,
    ),
    Case("array-values", lambda k: k.t.ScalarArray("int32", 2, "a").set_as([1, 2, 3]), ("length of values is 3", "2")),
    Case(
        "scalar-max-dtype",
        lambda k: k.t.scalar_max(k.h, k.h, k.h),
        ("scalar_max: dtype is float16 on Ascend910A", "int64"),
        TikSupportError,
    ),
    Case(
        "scalar-max-source",
        lambda k: k.t.scalar_max(k.t.Scalar("int64", "m"), k.s, 1),
        ("scalar_max: dtype of src0 is int32", "int64"),
    ),
    Case("scalar-max-dst", lambda k: k.t.scalar_max(3, k.s, k.s), ("scalar_max: dst is int", "a Scalar")),
    Case(
        "scalar-conv-pair",
        lambda k: k.t.scalar_conv("odd", k.s, k.t.Scalar("float32", "x")),
        ("scalar_conv: dtype is float32 to int32 with round_mode 'odd'",),
        TikSupportError,
    ),
    Case(
        "scalar-conv-310",
        lambda k: k.t.scalar_conv("round", k.s, k.h),
        ("scalar_conv: Ascend310 does not have", "910A"),
        TikSupportError,
        "Ascend310",
    ),
    Case("scalar-conv-dst", lambda k: k.t.scalar_conv("round", k.u, k.h), ("scalar_conv: dst is Tensor", "a Scalar")),
    Case(
        "scalar-max-bool",
        lambda k: k.t.scalar_max(k.t.Scalar("uint8", "m"), 1, 2),
        ("dtype is uint8",),
        TikSupportError,
    ),
    Case("scalar-conv-mode", lambda k: k.t.scalar_conv("up", k.s, k.h), ("scalar_conv: round_mode is 'up'", "'floor'")),
    Case(
        "store-extent",
        lambda k: k.b.set_as(1, dst_offset=64),
        ("tensor b.set_as: tensor b overflow", "there 0"),
        TikOverflowError,
    ),
    # control flow
    Case("range-order", lambda k: k.t.for_range(3, 2), ("for_range: range is [3, 2)", "begin <= end")),
    Case("range-dtype", lambda k: k.t.for_range(0, 2, dtype="float16"), ("for_range: dtype is float16", "int32")),
    Case("range-type", lambda k: k.t.for_range(0, 2.5), ("for_range: endt is 2.5", "an integer")),
    Case("thread-num", lambda k: k.t.for_range(0, 2, thread_num=5), ("for_range: thread_num is 5", "1..4")),
    Case("block-num-range", lambda k: k.t.for_range(0, 65536, block_num=65536), ("block_num is 65536", "1..65535")),
    Case("block-begin", lambda k: k.t.for_range(1, 2, block_num=2), ("begint is 1", "0")),
    Case("block-end", lambda k: k.t.for_range(0, 3, block_num=2), ("endt is 3", "block_num 2")),
    Case("block-scalar", lambda k: k.t.for_range(0, 3, block_num=k.s), ("endt is 3", "the Scalar given as block_num")),
    Case("block-threads", lambda k: k.t.for_range(0, 2, block_num=2, thread_num=2), ("thread_num is 2", "1")),
    Case("block-twice", _second_block_loop, ("a second loop with block_num", "one multi-core loop")),
    Case("sub-blocks", lambda k: k.t.for_range(0, 2, subblock_num=2), ("subblock_num is 2", "0")),
    Case("break-outside", lambda k: k.t.tik_break(), ("tik_break", "not inside a for_range")),
    Case("continue-outside", lambda k: k.t.tik_continue(), ("tik_continue", "not inside a for_range")),
    Case("break-in-block-loop", _break_in_block_loop, ("tik_break", "without block_num")),
    Case("else-alone", lambda k: k.t.else_scope(), ("else_scope", "does not directly follow an if_scope")),
    Case("else-after-statement", _else_after_statement, ("else_scope", "does not directly follow")),
    Case("chain-length", _long_chain, ("elif_scope: length of the chain is 401", "400")),
    Case("condition-type", lambda k: k.t.if_scope("x"), ("if_scope: cond is str", "a comparison")),
    Case("all-empty", lambda k: tik.all(), ("tik.all: number of conditions is 0", "at least 1")),
    Case(
        "disable-sync-nested",
        _nested(lambda k: k.t.new_stmt_scope(disable_sync=True), lambda k: k.t.new_stmt_scope(disable_sync=True)),
        ("cannot be nested",),
    ),
    Case(
        "disable-sync-type", lambda k: k.t.new_stmt_scope(disable_sync=None), ("disable_sync is None", "True or False")
    ),
    # synchronisation
    Case(
        "flag-outside",
        lambda k: k.t.set_flag("PIPE_V", "PIPE_MTE3", 0),
        ("set_flag", "outside a new_stmt_scope(disable_sync=True)"),
    ),
    Case(
        "block-barrier-outside",
        lambda k: k.t.block_barrier(
            k.t.Tensor("int64", (8,), tik.scope_gm, "w", is_workspace=True, is_atomic_add=True)
        ),
        ("block_barrier", "outside the for_range with block_num"),
    ),
    Case(
        "block-barrier-dtype",
        _in_block_loop(lambda k: k.t.block_barrier(k.gm)),
        ("block_barrier: dtype of sync_workspace is float16", "int64"),
    ),
    Case("block-barrier-cores", _in_block_loop(None, 64), ("block_num on Ascend910A is 64", "2..32")),
    Case("block-barrier-size", _in_block_loop(None, 4), ("bytes of sync_workspace is 64", "128 (32 per block)")),
    Case(
        "flag-pipe",
        _without_sync(lambda k: k.t.wait_flag("PIPE_V", "PIPE_X", 0)),
        ("wait_flag: trigger_pipe is PIPE_X", "PIPE_MTE3"),
    ),
    Case("barrier-pipe", _without_sync(lambda k: k.t.pipe_barrier("V")), ("pipe_barrier: pipe is V", "PIPE_ALL")),
    Case(
        "block-barrier-workspace",
        lambda k: k.t.block_barrier(k.t.Tensor("int64", (8,), tik.scope_gm, "w")),
        ("block_barrier: sync_workspace w", "is_atomic_add=True"),
    ),
    # select and reduce
    Case("select-mode", lambda k: k.t.vec_sel(128, 3, k.u, k.b, k.v, k.v, 1), ("vec_sel: mode is 3", "0, 1, 2")),
    Case(
        "select-mode-chip",
        lambda k: k.t.vec_sel(128, 2, k.u, k.b, k.v, k.v, 1),
        ("vec_sel: mode on Ascend910A is 2", "0"),
        TikSupportError,
    ),
    Case(
        "select-source",
        lambda k: k.t.vec_sel(128, 1, k.u, k.b, k.v, k.v, 1),
        ("vec_sel: src1 in mode 1 is Tensor", "a scalar"),
        TikError,
        "Ascend310P3",
    ),
    Case(
        "compare-dst",
        lambda k: k.t.vec_cmpv_lt(k.f, k.u, k.v, 1, 8, 8),
        ("vec_cmpv_lt: dtype of dst is float32", "uint8"),
    ),
    Case(
        "compare-chip",
        lambda k: k.t.vec_cmpv_eq(k.b, k.i, k.i, 1, 8, 8),
        ("vec_cmpv_eq: dtype is int32 on Ascend910A",),
        TikSupportError,
    ),
    Case(
        "cmpmask-type",
        lambda k: k.t.mov_cmpmask_to_tensor(k.b, k.b),
        ("mov_cmpmask_to_tensor: src_cmpmask is Tensor", "a compare mask"),
    ),
    Case(
        "work-tensor", lambda k: k.t.vec_reduce_add(64, k.f, k.f, k.f[1020:], 8, 8), ("vec_reduce_add",), TikAlignError
    ),
    Case(
        "work-size",
        lambda k: k.t.vec_reduce_add(64, k.f, k.f, k.f[1016:], 16, 8),
        ("vec_reduce_add: work_tensor (f) is too small", "needed 16", "given 8"),
        TikOverflowError,
    ),
    Case(
        "reduce-index-repeat",
        lambda k: k.t.vec_reduce_max(128, k.u, k.v, k.u, 512, 8, True),
        ("vec_reduce_max: repeat_times is 512", "1..511"),
    ),
    Case("reduce-stride", lambda k: k.t.vcadd(64, k.f, k.f, 2, 0, 1, 8), ("vcadd: dst_rep_stride is 0", "1..65535")),
    Case(
        "index-low",
        lambda k: k.t.vcmax(64, k.u, k.v, 1, 1, 1, 8, index_low=True),
        ("vcmax: index_low on Ascend910A is True", "False"),
    ),
    Case("reduce-dtypes", lambda k: k.t.vcadd(64, k.f, k.u, 1, 1, 1, 8), ("vcadd: dtype of src is float16", "float32")),
    Case(
        "reduce-work-dtype",
        lambda k: k.t.vec_reduce_add(64, k.f, k.f, k.u, 1, 8),
        ("vec_reduce_add: dtype of work_tensor is float16", "float32"),
    ),
    Case(
        "reduce-count-index",
        lambda k: k.t.vcmin(64, k.u, k.v, 1, 1, 1, 8, min_cnt_index=[k.s]),
        ("vcmin: max_cnt_index/min_cnt_index", "None"),
    ),
    # high precision
    Case(
        "newton-work",
        lambda k: k.t.vec_rec_high_preci(
            64,
            k.f,
            k.t.Tensor("float32", (512,), tik.scope_ubuf, "x"),
            k.t.Tensor("float32", (64,), tik.scope_ubuf, "w"),
            2,
            8,
            8,
        ),
        ("vec_rec_high_preci: work_tensor (w) is too small", "needed 256", "given 64"),
        TikOverflowError,
    ),
    Case(
        "newton-overlap",
        lambda k: k.t.vec_rec_high_preci(64, k.f, k.f, k.f[512], 2, 8, 8),
        ("vec_rec_high_preci: bytes of dst in tensor f is 0..511", "apart from src, 0..511"),
    ),
    Case(
        "newton-work-dtype",
        lambda k: k.t.vec_rsqrt_high_preci(64, k.u, k.v, k.i, 2, 8, 8),
        ("vec_rsqrt_high_preci: dtype of work_tensor is int32", "float32"),
    ),
    Case(
        "newton-dtype",
        lambda k: k.t.vec_rec_high_preci(64, k.u, k.f, k.f, 2, 8, 8),
        ("vec_rec_high_preci: dtype of src is float32", "float16"),
    ),
    Case(
        "newton-stride",
        lambda k: k.t.vec_rec_high_preci(64, k.u, k.v, k.f, 2, 8, 3),
        ("vec_rec_high_preci: src_rep_stride is 3", "0, 4..255"),
    ),
    # build
    Case("argument-count", _many_arguments, ("BuildCCE: number of arguments is 193", "x0", "x192", "at most 192")),
    Case("argument-names", _same_names, ("BuildCCE: argument names is twin more than once", "different names")),
    Case(
        "argument-twice",
        lambda k: k.t.BuildCCE("k", [k.gm, k.gm], []),
        ("BuildCCE: inputs is gm more than once", "each argument once"),
    ),
    Case(
        "argument-scope",
        lambda k: k.t.BuildCCE("k", [k.u], []),
        ("BuildCCE: scope of inputs[0] (u) is ub", "gm"),
        TikScopeError,
    ),
    Case("argument-type", lambda k: k.t.BuildCCE("k", [], [k.s]), ("BuildCCE: outputs[0] is Scalar", "a GM Tensor")),
    Case("argument-list", lambda k: k.t.BuildCCE("k", 3, []), ("BuildCCE: inputs is int", "a list")),
    Case("argument-order", _scalar_first, ("BuildCCE: inputs[1] is a tensor after an InputScalar",)),
    Case(
        "workspace-argument", _workspace_argument, ("BuildCCE: inputs and outputs is workspace space", "is_workspace")
    ),
    Case("unlisted", _unlisted, ("BuildCCE: GM tensors used but not listed is gm", "created at", "is_workspace=True")),
    Case("build-in-scope", _build_in_scope, ("BuildCCE", "open scope"), TikScopeError),
    Case("kernel-name", lambda k: k.t.BuildCCE("", [], []), ("BuildCCE: kernel_name is ''", "non-empty")),
    Case("config", lambda k: k.t.BuildCCE("k", [], [], config=[1]), ("BuildCCE: config is list", "a dict")),
    # debugger, methods, constructor
    Case("debugger-disabled", lambda k: k.t.tikdb.start_debug({}), ("debugger is disabled", "disable_debug=False")),
    Case(
        "debugger",
        lambda k: tik.Tik(disable_debug=False).tikdb.start_debug({}),
        ("tikdb.start_debug: no kernel was built", "BuildCCE"),
    ),
    Case(
        "refused",
        lambda k: k.t.call_module(None),
        ("call_module: it inlines a function of CANN's DSL", "instead"),
        TikSupportError,
    ),
    Case("error-level", lambda k: tik.Tik(err_msg_level=2), ("Tik: err_msg_level is 2", "0, 1")),
    Case("block-size", lambda k: tik.Tik(block_size=16), ("Tik: block_size is 16", "32")),
    Case(
        "profile", lambda k: tik.Dprofile("v900", "x"), ("Dprofile: architecture is ('v900', 'x')", "('v100', 'mini')")
    ),
    Case("debug-print", lambda k: k.t.tikdb.debug_print("u"), ("tikdb.debug_print: expr is 'u'", "evaluates")),
    Case(
        "buffer-query",
        lambda k: tik.Dprofile().buffer_size_query("local.XX"),
        ("buffer_size_query: buffer_scope is local.XX", "local.UB"),
    ),
    Case("buffer-scope", lambda k: k.t.get_available_buffer_size("local.XX"), ("buffer_scope is local.XX", "local.UB")),
]


@pytest.mark.parametrize("case", CASES, ids=[c.id for c in CASES])
def test_message(case: Case) -> None:
    check_message(case, __file__)


def test_ids_are_unique() -> None:
    assert len({c.id for c in CASES}) == len(CASES)


@pytest.mark.parametrize("kind", [SystemExit, RuntimeError])
def test_kernels_may_catch_either_class(kind: type[BaseException]) -> None:
    with use_soc("Ascend910A"), pytest.raises(kind):
        tik.Tik().Tensor("float16", (0,), tik.scope_ubuf, "z")


def test_unknown_method_is_an_attribute_error() -> None:
    with use_soc("Ascend910A"), pytest.raises(AttributeError, match="no method 'vec_addd'"):
        tik.Tik().vec_addd  # noqa: B018


def build(*names: str) -> None:
    for name in names:
        tik.Tik().BuildCCE(name, [], [])


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: None, ("built no kernel", "no Tik instance")),
        (lambda: tik.Tik() and None, ("built no kernel", "not finished")),
        (lambda: build("first", "second"), ("built 2 kernels", "first, second", "once")),
        (lambda: tik.Tik().BuildCCE("one", [], []).BuildCCE("other", [], []), ("built 2 kernels", "one, other")),
    ],
    ids=["none", "unfinished", "two", "one-instance"],
)
def test_trace_wants_exactly_one_kernel(kernel: Callable[[], None], words: tuple[str, ...]) -> None:
    with pytest.raises(TikError) as caught:
        trace(kernel, soc="Ascend910A")
    assert all(word in str(caught.value) for word in words)


def test_trace_refuses_an_unknown_chip() -> None:
    with pytest.raises(SocError, match="Ascend999"):
        trace(lambda: build("k"), soc="Ascend999")
