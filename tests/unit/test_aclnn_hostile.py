# SPDX-License-Identifier: Apache-2.0
"""Whatever is passed to a two-phase call ends in a status; every smoke case of every op runs through both phases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import aclnn
from ms_custom_ops.aclnn.interface import Interface
from ms_custom_ops.aclnn.two_phase import build
from ms_custom_ops.cases.data import make_arrays, numpy_dtype
from ms_custom_ops.cases.generate import smoke_cases
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.compiler import describe_call
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.soc import use_soc

pytestmark = pytest.mark.usefixtures("program_folder")


@pytest.fixture(autouse=True)
def chip() -> Iterator[None]:
    with use_soc("Ascend910B1"):
        yield


def segsum(**changes: Any) -> dict[str, Any]:
    """A valid call of BwdSegsumDadt with changes."""
    zeros = lambda *shape: np.zeros(shape, np.float32)  # noqa: E731
    base = dict(dSSdA=zeros(1, 1, 1, 16, 16), SSdA=zeros(1, 1, 1, 16, 16), ddt_out=zeros(1, 1, 16), chunk_size=16)
    return {**base, "ddt": zeros(1, 1, 16), **changes}


def sparse(**changes: Any) -> dict[str, Any]:
    half = lambda *shape: np.zeros(shape, np.float16)  # noqa: E731
    stats = np.ones((1, 3, 8), np.float32)
    inputs = dict(query=half(3, 8, 16), key=half(9, 1, 16), value=half(9, 1, 16),
                  sparse_indices=np.zeros((3, 1, 8), np.int32),
                  d_out=half(3, 8, 16), out=half(3, 8, 16), softmax_max=stats, softmax_sum=stats,
                  actual_seq_q=[3], actual_seq_kv=[9], layout="TND")  # fmt: skip
    outputs = {f"d_{name}": np.zeros_like(inputs[name]) for name in ("query", "key", "value")}
    return {**inputs, **outputs, **changes}


def read_only() -> np.ndarray:
    array = np.zeros((1, 1, 16), np.float32)
    array.flags.writeable = False
    return array


class Strange:
    """Everything asked of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")


CALLS: dict[str, tuple[str, Callable[[], dict[str, Any]], int, str]] = {
    "text": ("BwdSegsumDadt", lambda: segsum(SSdA="text"), 161002, "SSdA is a str; accepted: a NumPy array"),
    "none": ("BwdSegsumDadt", lambda: segsum(ddt_out=None), 161001, "ddt_out is None"),
    "none_attribute": ("BwdSegsumDadt", lambda: segsum(chunk_size=None), 161002, "chunk_size is"),
    "nan_attribute": ("BwdSegsumDadt", lambda: segsum(chunk_size=float("nan")), 161002, "chunk_size is nan (float)"),
    "huge_attribute": ("BwdSegsumDadt", lambda: segsum(chunk_size=2**80), 561002, "chunk_size"),
    "read_only_output": ("BwdSegsumDadt", lambda: segsum(ddt=read_only()), 161002, "ddt is read-only; accepted"),
    "big_endian": ("BwdSegsumDadt", lambda: segsum(ddt_out=np.zeros((1, 1, 16), ">f4")), 161002,
                   "dtype of ddt_out is float32 of foreign byte order; accepted"),
    "big_endian_output": ("BwdSegsumDadt", lambda: segsum(ddt=np.zeros((1, 1, 16), ">f4")), 161002, "byte order"),
    "objects": ("BwdSegsumDadt", lambda: segsum(ddt_out=np.full((1, 1, 16), None)), 161002, "is object"),
    "records": ("BwdSegsumDadt", lambda: segsum(ddt_out=np.zeros((1, 1, 16), "f4,f4")), 161002, "is void"),
    "strange": ("BwdSegsumDadt", lambda: segsum(ddt_out=Strange()), 361001, "RuntimeError: no "),
    "lengths_text": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_q="3"), 161002, "actual_seq_q is a str"),
    "lengths_texts": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_q=["3"]), 161002, "integers of shape (B,)"),
    "lengths_ragged": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_q=[[1], [1, 2]]), 161002, "integers of"),
    "lengths_nan": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_kv=[float("nan")]), 161002, "integers of"),
    "lengths_wrap": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_q=[2**62] * 4 + [3]), 561002, "tokens"),
    "lengths_huge": ("SparseFlashAttentionGrad", lambda: sparse(actual_seq_q=[2**70]), 161002, "integers of"),
    "layout_number": ("SparseFlashAttentionGrad", lambda: sparse(layout=3), 161002, "layout is 3 (int)"),
    "scale_text": ("SparseFlashAttentionGrad", lambda: sparse(scale_value="1"), 161002, "scale_value is '1' (str)"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "make", "code", "text"), CALLS.values(), ids=CALLS.keys())
def test_first_phase(name: str, make: Callable[[], dict[str, Any]], code: int, text: str) -> None:
    result = getattr(aclnn, name + "GetWorkspaceSize")(**make())
    assert result == (code, 0, None), aclnn.get_recent_error()
    assert text in aclnn.get_recent_error()


def test_the_unchanged_calls_pass() -> None:
    assert aclnn.BwdSegsumDadtGetWorkspaceSize(**segsum())[0] == 0, aclnn.get_recent_error()
    assert aclnn.SparseFlashAttentionGradGetWorkspaceSize(**sparse())[0] == 0, aclnn.get_recent_error()


SIZES: dict[str, tuple[Any, str]] = {
    "nan": (float("nan"), "workspace_size is nan; accepted: at least"),
    "text": ("8", "workspace_size is '8'; accepted: at least"),
    "none": (None, "workspace_size is None; accepted: at least"),
}


@pytest.mark.parametrize(("size", "text"), SIZES.values(), ids=SIZES.keys())
def test_workspace_sizes(size: Any, text: str) -> None:
    _, _, executor = aclnn.BwdSegsumDadtGetWorkspaceSize(**segsum())
    assert aclnn.BwdSegsumDadt(None, size, executor) == 361001
    assert text in aclnn.get_recent_error()


@pytest.mark.parametrize("workspace", ["text", -1, 1.5, True, [1], Strange()], ids=lambda x: type(x).__name__)
def test_workspaces(workspace: Any) -> None:
    _, size, executor = aclnn.SparseFlashAttentionGradGetWorkspaceSize(**sparse())
    assert aclnn.SparseFlashAttentionGrad(workspace, size, executor) == 361001
    assert aclnn.get_recent_error()


def test_outputs_changed_between_the_phases() -> None:
    """Each time the second phase fails, and its executor runs when the tensor is as it was."""
    ddt = np.zeros((1, 1, 16), np.float32)
    code, size, executor = aclnn.BwdSegsumDadtGetWorkspaceSize(
        **segsum(ddt=ddt, ddt_out=np.ones((1, 1, 16), np.float32))
    )
    assert code == 0, aclnn.get_recent_error()
    ddt.flags.writeable = False
    assert aclnn.BwdSegsumDadt(np.empty(size, np.uint8), size, executor) == 361001
    assert "ddt is read-only; accepted: a writeable tensor" in aclnn.get_recent_error()
    ddt.flags.writeable = True
    ddt.resize((1, 1, 8), refcheck=False)
    assert aclnn.BwdSegsumDadt(np.empty(size, np.uint8), size, executor) == 361001
    assert "ddt is float32 of shape (1, 1, 8) in the second phase; accepted" in aclnn.get_recent_error()
    ddt.resize((1, 1, 16), refcheck=False)
    assert aclnn.BwdSegsumDadt(np.empty(size, np.uint8), size, executor) == 0, aclnn.get_recent_error()
    assert (ddt == 1).all()
    assert aclnn.BwdSegsumDadt(np.empty(size, np.uint8), size, executor) == 361001


def test_an_input_changed_between_the_phases() -> None:
    start = np.zeros((1, 1, 16), np.float32)
    _, size, executor = aclnn.BwdSegsumDadtGetWorkspaceSize(**segsum(ddt_out=start))
    start.resize((4,), refcheck=False)
    assert aclnn.BwdSegsumDadt(np.empty(size, np.uint8), size, executor) == 361001
    assert "ddt_out is float32 of shape (4,) in the second phase" in aclnn.get_recent_error()


SMOKE = [case for op in list_ops() for case in smoke_cases(get_op(op), "Ascend910B1")]


@pytest.mark.parametrize("case", SMOKE, ids=lambda case: f"{case.op.name}-{case.name}")
def test_every_smoke_case_runs_through_both_phases(case: PlannedCase) -> None:
    """With the bits of the engine alone. Smoke cases are calls of the primitive."""
    arrays = make_arrays(case)
    call = describe_call(case.op, case.shapes, case.dtypes, case.attrs, "Ascend910B1")
    outputs = {name: np.zeros(shape, numpy_dtype(dtype)) for name, shape, dtype in call.outputs}
    pair = build(Interface(dataclasses.replace(case.op, public=None)))
    code, size, executor = pair.get_workspace_size(**arrays, **case.attrs, **outputs)
    assert code == 0, aclnn.get_recent_error()
    assert pair.execute(np.empty(size, np.uint8), size, executor) == 0, aclnn.get_recent_error()
    for name, array in run_primitive(call, arrays).items():
        assert outputs[name].tobytes() == array.tobytes(), name
