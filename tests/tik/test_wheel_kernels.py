# SPDX-License-Identifier: Apache-2.0
"""The TIK kernels of the installed MindSpore wheel, imported unmodified, against NumPy formulas."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

from wheel_cases import F16, F32, KERNELS, Case, batch_matmul, img2col, normal, tensor, wide

from ms_custom_ops import compat
from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError, TikOverflowError
from ms_custom_ops.tik.trace import trace

PACKAGE = "mindspore.ops._op_impl._custom_op."
SOC = "Ascend910A"


@pytest.fixture(scope="module", autouse=True)
def served_names() -> Iterator[None]:
    """The import names of CANN, and the root logger as it was (some of the kernels configure it)."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    compat.install()
    yield
    compat.uninstall()
    root.setLevel(level)
    root.handlers[:] = handlers


def traced(name: str, case: Case) -> Any:
    module, function, _ = KERNELS[name]
    entry = getattr(importlib.import_module(PACKAGE + module), function)
    return trace(entry, *case.args, soc=SOC, **case.kwargs)


def check(program: Any, case: Case, which: str) -> None:
    outputs = engine.run(program, case.inputs, which)
    rtol, atol = case.tolerance
    for got, want in zip(outputs, case.expected, strict=True):
        np.testing.assert_allclose(wide(got).reshape(want.shape), wide(want), rtol=rtol, atol=atol)


def data(name: str, label: str, seed: int = 0) -> Case:
    return KERNELS[name][2][label](np.random.default_rng(seed))


SHAPES = [(name, label) for name, (_, _, shapes) in KERNELS.items() for label in shapes]
# Kernels with a defect in every shape they support: a local tensor that is too small. The elements it needs.
TOO_SMALL = {
    "matmul_cube_dense_left": {"input_2_local_l1": 65536},
    "matmul_cube_dense_right": {"input_1_local_l11": 30976},
}


def test_all_fourteen_are_here() -> None:
    assert len(KERNELS) == 14
    assert all(len(shapes) >= 2 for name, (_, _, shapes) in KERNELS.items() if name not in TOO_SMALL)


@pytest.mark.parametrize(
    ("name", "label"), [pytest.param(n, s, id=f"{n}-{s}") for n, s in SHAPES if n not in TOO_SMALL]
)
def test_result(name: str, label: str) -> None:
    case = data(name, label)
    check(traced(name, case), case, "native")


@pytest.mark.parametrize(
    ("name", "label"),
    [pytest.param(n, s, id=f"{n}-{s}") for n, s in [("batch_matmul", "1x64"), ("cholesky_trsm", "64"),
     ("fused_abs_max1", "1x64"), ("matmul_cube_fracz_left_cast", "64x64"), ("matmul_cube_fracz_right_mul", "64x64"),
     ("matrix_combine", "1x64"), ("dsd", "b1h2s512")]],
)  # fmt: skip
def test_result_of_the_reference_engine(name: str, label: str) -> None:
    case = data(name, label)
    check(traced(name, case), case, "reference")


# ---- defects of kernels: what goes wrong unmodified, and that nothing else does ----


def test_dense_left_moves_more_than_its_l1_tensor_holds() -> None:
    case = data("matmul_cube_dense_left", "1008x2048")
    with pytest.raises(
        TikOverflowError, match=r"input_2_local_l1\) overflow: elements needed 65536, elements there 32768 \[.*:178\]"
    ):
        traced("matmul_cube_dense_left", case)


@pytest.mark.parametrize("which", ["native", "reference"])
def test_dense_right_reads_a_row_of_fractals_behind_its_l1_tensor(which: str) -> None:
    case = data("matmul_cube_dense_right", "1008x2048")
    program = traced("matmul_cube_dense_right", case)
    with pytest.raises(
        EngineError, match=r"load2d: src needs bytes \[7680, 61952\) of input_1_local_l11, it has 61440 \[.*:188\]"
    ):
        engine.run(program, case.inputs, which)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", TOO_SMALL)
def test_result_with_room(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is right but for the size of that tensor: declared with room, its results agree."""
    from te import tik

    class Roomy(tik.Tik):
        def Tensor(self, dtype: str, shape: Any, *args: Any, **kwargs: Any) -> Any:
            elements = TOO_SMALL[name].get(kwargs["name"])
            return super().Tensor(dtype, shape if elements is None else (elements,), *args, **kwargs)

    monkeypatch.setattr(tik, "Tik", Roomy)
    case = data(name, "1008x2048", seed)
    check(traced(name, case), case, "native")


def test_dense_left_takes_its_tik_path_for_one_shape_only() -> None:
    """Other shapes go to the DSL, which is named."""
    x = np.zeros((64, 64), F16)
    args = (tensor(x), tensor(x), None, tensor((4, 4, 16, 16), F16))
    with pytest.raises(compat.CannMissingError, match=r"te.tvm.target.cce.* needs a CANN installation"):
        traced("matmul_cube_dense_left", Case(args, {}, [], [], (0, 0)))


def test_fused_abs_max1_writes_a_block_into_an_output_of_one_element() -> None:
    """The second stage with the output shape of its operator: what lies behind the element is device memory's own."""
    x = normal(np.random.default_rng(0), (32, 64), F32)
    for elements in (1, 8):
        y = x.max(axis=0)[:elements]
        case = Case((tensor(x), tensor(y)), {"origin_shape": (-1, -1)}, [x], [y], (0, 0))
        check(traced("fused_abs_max1", case), case, "native")


def test_img2col_of_28x28_k3_takes_channels_0_for_all_of_them() -> None:
    """Of its nineteen shapes one fixes c1_index to 0 in the loop over C1: block 0 is right, the others repeat it."""
    case = img2col(np.random.default_rng(0), 8, 28, 3, 1)
    (got,) = engine.run(traced("img2col", case), case.inputs)
    first = case.expected[0][:9]
    np.testing.assert_array_equal(got, np.tile(first, (8, 1, 1, 1)))


@pytest.mark.parametrize("batch", [6, 24])
def test_batch_matmul_of_a_batch_that_does_not_divide_its_blocks(batch: int) -> None:
    """Block b of 32 multiplies with matrix b // (32 // batch) of x2: for the last block there is none."""
    case = batch_matmul(np.random.default_rng(0), batch, 128)
    size = batch * 128 * 128 * 4
    with pytest.raises(EngineError, match=rf"data_move: src needs bytes \[{size}, {size + 32768}\) of input2, it has"):
        engine.run(traced("batch_matmul", case), case.inputs)


def test_transpose02314_of_eight_channels_reads_sixteen() -> None:
    """Of the twelve shapes one has a loop over 16 where C1 is 8; it leaves both of its UB tensors."""
    x = np.zeros((32, 8, 56, 56, 16), F16)
    case = Case((tensor(x), tensor((32, 56, 56, 8, 16), F16)), {}, [x], [], (0, 0))
    with pytest.raises(EngineError, match=r"vadds: .* needs bytes .* of input_1_local_ub, it has 57344"):
        engine.run(traced("transpose02314", case), case.inputs)
