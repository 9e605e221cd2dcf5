# SPDX-License-Identifier: Apache-2.0
"""The faces of a public function accept and refuse the same random calls, with the same text, and give the same bits:
MindSpore in both modes, NumPy, and the two-phase interface."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

import mindspore as ms
from mindspore import Tensor, nn

import ms_custom_ops as mco
from ms_custom_ops import aclnn
from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.lower.run import run_public
from ms_custom_ops.lower.steps import lower_call
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Operand
from ms_custom_ops.soc import use_soc

pytestmark = pytest.mark.usefixtures("program_folder")
Rng = np.random.Generator
Made = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(autouse=True)
def chip() -> Iterator[None]:
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with use_soc("Ascend910B1"):
        yield
    ms.set_context(mode=mode)


def values(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.3
    if dtype in ("uint8", "int32", "int64"):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def flash_attention(rng: Rng) -> Made:
    b, n2, s1, s2, d = (int(rng.integers(low, high)) for low, high in ((0, 3), (1, 3), (1, 20), (1, 20), (1, 70)))
    n1 = n2 * int(rng.integers(1, 3))
    dv = int(rng.integers(1, 70)) if rng.random() < 0.3 else d
    if rng.random() < 0.25:
        return packed_attention(rng, n1, n2, s1, s2, d, dv)
    given: dict[str, Any] = dict(
        query=values(rng, (b, n1, s1, d), "float16"),
        key=values(rng, (b, n2, s2, d), "float16"),
        value=values(rng, (b, n2, s2, dv), "float16"),
    )
    if rng.random() < 0.5:
        given["attn_mask"] = values(rng, ((b, 1, s1, s2), (s1, s2), (1, s2))[rng.integers(3)], "bool")
    if rng.random() < 0.3:
        given["real_shift"] = values(rng, (1, n1, 1, s2), "float32")
    if rng.random() < 0.5:
        given["actual_seq_kvlen"] = [int(n) for n in rng.integers(0, s2 + 1, b)]
    if rng.random() < 0.3:
        given["actual_seq_qlen"] = rng.integers(0, s1 + 1, b)
    attrs: dict[str, Any] = {"sparse_mode": int(rng.choice([0, 3]))}
    if rng.random() < 0.3:
        attrs |= {"keep_prob": 0.5, "seed": 3}  # without a seed, MindSpore draws one
    return given, attrs


def packed_attention(rng: Rng, n1: int, n2: int, t1: int, t2: int, d: int, dv: int) -> Made:
    given: dict[str, Any] = dict(
        query=values(rng, (t1, n1, d), "float16"),
        key=values(rng, (t2, n2, d), "float16"),
        value=values(rng, (t2, n2, dv), "float16"),
    )
    for name, most in (("actual_seq_qlen", t1), ("actual_seq_kvlen", t2)):
        ends = np.sort(rng.integers(0, most + 1, 3))
        given[name] = [int(n) for n in ends] if rng.random() < 0.5 else ends
    return given, {"layout": "TND", "sparse_mode": int(rng.choice([0, 3]))}


def packed(rng: Rng, b: int, s: int, given: dict[str, Any]) -> int | None:
    """Bounds of sequences for half of the calls; how many sequences."""
    if b != 1 or rng.random() < 0.5:
        return None
    bounds = [0, *sorted(int(n) for n in rng.integers(0, s + 1, 2)), s]
    given["cu_seqlens"] = bounds if rng.random() < 0.5 else np.array(bounds)
    return 3


def segment_sums(matrices: tuple[str, ...], vectors: tuple[str, ...], half: bool = False) -> Callable[[Rng], Made]:
    def make(rng: Rng) -> Made:
        b, h, s, chunk = (
            int(rng.integers(0, 3)),
            int(rng.integers(1, 3)),
            int(rng.integers(1, 40)),
            int(rng.integers(3, 20)),
        )
        given = {name: values(rng, (b, h, s), "float32") * np.float32(0.1) for name in vectors}
        sequences = packed(rng, b, s, given)
        slots = -(-s // chunk) if sequences is None else s // chunk + sequences
        dtype = "float16" if half and rng.random() < 0.5 else "float32"
        tiles = {name: values(rng, (b, h, slots, chunk, chunk), dtype) * np.array(0.1, dtype) for name in matrices}
        return {**tiles, **given}, {"chunk_size": chunk}

    return make


def trapezoid(rng: Rng) -> Made:
    b, h, s = int(rng.integers(0, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 40))
    dtypes = ("float32", "float16")
    given = {name: values(rng, (b, h, s), dtypes[rng.integers(2)]) for name in ("trap", "dt", "dfactor", "dgamma_diag")}
    packed(rng, b, s, given)
    return given, {}


def mamba2(rng: Rng) -> Made:
    b, s, g, p, n = (int(rng.integers(low, high)) for low, high in ((1, 3), (0, 40), (1, 3), (1, 20), (1, 20)))
    given: dict[str, Any] = {
        "x": values(rng, (b, s, 2 * g, p), "float16"),
        "da": -rng.random((b, 2 * g, s), np.float32),
    }
    given |= {name: values(rng, (b, s, g, n), "float16") for name in ("B", "C")}
    sequences = packed(rng, b, s, given)
    if rng.random() < 0.5:
        given["initial_states"] = values(rng, (sequences or b, 2 * g, p, n), "float32")
    return given, {"chunk_size": int(rng.integers(1, 40))}


def mamba3(rng: Rng) -> Made:
    b, s, r, p, n = (int(rng.integers(low, high)) for low, high in ((1, 3), (0, 20), (1, 4), (1, 20), (1, 20)))
    given: dict[str, Any] = {name: values(rng, (b, s, r, 1, n), "float16") for name in ("q", "k")}
    given["v"] = values(rng, (b, s, r, 2, p), "float16")
    given["da"] = -rng.random((b, 2, s), np.float32)
    given |= {name: values(rng, (b, 2, s), "float32") for name in ("dt", "trap")}
    packed(rng, b, s, given)
    return given, {"chunk_size": int(rng.integers(1, 20))}


def lengths(rng: Rng, given: dict[str, Any], names: tuple[str, str], sizes: tuple[int, int], packed_rows: bool) -> None:
    """Counts of one batch entry for some calls; of TND always inclusive sums of two sequences."""
    if not packed_rows and rng.random() < 0.5:
        return
    for name, most in zip(names, sizes, strict=True):
        found = [int(rng.integers(0, most + 1)), most] if packed_rows else [int(rng.integers(0, most + 1))]
        given[name] = found if rng.random() < 0.5 else np.array(found)


def sparse_tensors(rng: Rng, dims: dict[str, tuple[int, ...]], packed_rows: bool) -> dict[str, np.ndarray]:
    """float16 tensors of a batch of one, without its axis in TND."""
    return {name: values(rng, shape if packed_rows else (1, *shape), "float16") for name, shape in dims.items()}


def sparse_attention(rng: Rng) -> Made:
    s1, s2, n1 = int(rng.integers(1, 5)), int(rng.integers(1, 30)), int(rng.integers(1, 9))
    packed_rows = bool(rng.random() < 0.5)
    dims = {"query": (s1, n1, 16), "key": (s2, 1, 16), "value": (s2, 1, 32)}
    if rng.random() < 0.5:
        dims |= {"query_rope": (s1, n1, 16), "key_rope": (s2, 1, 16)}
    if rng.random() < 0.3:
        del dims["value"]
    given: dict[str, Any] = sparse_tensors(rng, dims, packed_rows)
    ids = rng.integers(-1, s2, (s1, 1, 5)).astype(np.int32)
    given["sparse_indices"] = ids if packed_rows else ids[None]
    lengths(rng, given, ("actual_seq_lengths_query", "actual_seq_lengths_kv"), (s1, s2), packed_rows)
    if rng.random() < 0.3:
        given["sinks"] = values(rng, (n1,), "float32")
    layout = "TND" if packed_rows else "BSND"
    attrs = {"scale_value": 0.2, "layout_query": layout, "layout_kv": layout}
    return given, {**attrs, "sparse_mode": 0, "return_softmax_lse": bool(rng.random() < 0.5)}


def indexer(rng: Rng) -> Made:
    s1, s2, n1 = int(rng.integers(1, 5)), int(rng.integers(1, 30)), int(rng.integers(1, 9))
    packed_rows = bool(rng.random() < 0.5)
    dims = {"query": (s1, n1, 32), "key": (s2, 1, 32), "weights": (s1, n1)}
    given: dict[str, Any] = sparse_tensors(rng, dims, packed_rows)
    lengths(rng, given, ("actual_seq_lengths_query", "actual_seq_lengths_key"), (s1, s2), packed_rows)
    layout = "TND" if packed_rows else "BSND"
    attrs = {"layout_query": layout, "layout_key": layout, "sparse_count": int(rng.integers(1, 20))}
    return given, {**attrs, "return_value": bool(rng.random() < 0.5)}


_TILES, _SUMS = ("dSSdA", "SSdA"), ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
FUNCTIONS: dict[str, Callable[[Rng], Made]] = {
    "flash_attention": flash_attention,
    "bwd_segsum_dadt": segment_sums(_TILES, ("ddt_out",), True),
    "dacs_segsum": segment_sums((), ("da",)),
    "segsum_decay": segment_sums((), ("da",)),
    "bwd_dadt_cumsum": segment_sums((), _SUMS),
    "bwd_dadt_fused": segment_sums(_TILES, _SUMS),
    "bwd_dtrap_ddt": trapezoid,
    "ssd_chunk_scan": mamba2,
    "mamba3_chunk_scan": mamba3,
    "sparse_flash_attention": sparse_attention,
    "lightning_indexer": indexer,
}
ROUNDED = ("mamba3_chunk_scan",)
"""Their functions compute weights before the primitive, in which MindSpore and NumPy round differently."""
WRONG_ATTRIBUTES = (-1, 0, 2.5, "text", 10**6, True)


def spoiled(rng: Rng, op: str, given: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Changes one thing of a valid call: a size, a rank, a dtype, a length, an attribute."""
    name = str(rng.choice(list(given)))
    kind = rng.integers(6)
    if kind == 5:
        public = get_op(op).public
        assert public is not None
        if public.attributes:
            attrs[str(rng.choice([arg.name for arg in public.attributes]))] = WRONG_ATTRIBUTES[rng.integers(6)]
    elif isinstance(given[name], list):
        given[name] = given[name] + [int(rng.integers(0, 40))] if kind % 2 else [n + 15 for n in given[name]]
    elif kind == 0:
        given[name] = given[name][None]
    elif kind == 1:
        given[name] = given[name].astype(str(rng.choice(["float32", "float16", "int32", "uint8"])))
    else:
        axis = int(rng.integers(given[name].ndim))
        wider = [(0, int(i == axis) * int(rng.choice([1, 240]))) for i in range(given[name].ndim)]
        given[name] = np.pad(given[name], wider)


def of_numpy(op: str, given: dict[str, Any], attrs: dict[str, Any]) -> dict[str, np.ndarray]:
    return run_public(op, given, attrs)


def asked(flag: str | None, attrs: dict[str, Any]) -> bool:
    """Whether a return that goes with ``flag`` is wanted."""
    return flag is None or attrs.get(flag) is True


def of_mindspore(op: str, given: dict[str, Any], attrs: dict[str, Any]) -> dict[str, np.ndarray]:
    tensors = {name: Tensor(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    public = get_op(op).public
    assert public is not None
    tensors = {**{arg.name: None for arg in public.args if arg.optional}, **tensors}
    found = getattr(mco.ops, op)(**tensors, **attrs)
    outputs = found if isinstance(found, tuple) else (found,)
    found = {ret.name: x.asnumpy() for ret, x in zip(public.returns, outputs, strict=True)}
    return {ret.name: found[ret.name] for ret in public.returns if asked(ret.present_if, attrs)}


GRAPH = """\
from mindspore import nn

class Graph(nn.Cell):
    def __init__(self, function, fixed):
        super().__init__()
        self.function, self.fixed = function, fixed

    def construct(self, {names}):
        return self.function({given}, **self.fixed)
"""


def graph_of(op: str, names: list[str], fixed: dict[str, Any]) -> nn.Cell:
    """A call with its tensors as inputs; what else it is given are constants. The compiler reads a source file."""
    stem = f"graph_{'_'.join(names)}"
    path = Path.cwd() / f"{stem}.py"
    path.write_text(GRAPH.format(names=", ".join(names), given=", ".join(f"{n}={n}" for n in names)))
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None and spec.loader is not None
    sys.modules[stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cell: nn.Cell = module.Graph(getattr(mco.ops, op), fixed)
    return cell


def of_graph(op: str, given: dict[str, Any], attrs: dict[str, Any]) -> dict[str, np.ndarray]:
    public = get_op(op).public
    assert public is not None
    arrays = {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
    fixed = {arg.name: given.get(arg.name) for arg in public.args if arg.optional and arg.name not in arrays}
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        found = graph_of(op, list(arrays), {**fixed, **attrs})(*(Tensor(x) for x in arrays.values()))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    outputs = found if isinstance(found, tuple) else (found,)
    named = {ret.name: x.asnumpy() for ret, x in zip(public.returns, outputs, strict=True)}
    return {ret.name: named[ret.name] for ret in public.returns if asked(ret.present_if, attrs)}


class Status(MsCustomOpsError):
    """A status that is not 0."""


def of_aclnn(op: str, given: dict[str, Any], attrs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Outputs of the shapes that a call of the op would have; of a refused one, of some shape."""
    operands = {
        n: Operand(None, None, tuple(x)) if isinstance(x, list) else Operand(x.shape, x.dtype.name)
        for n, x in given.items()
    }
    public = get_op(op).public
    assert public is not None
    try:
        returns = lower_call(op, operands, attrs)[0].returns()
    except MsCustomOpsError:
        returns = {ret.name: ((1,), "float32") for ret in public.returns if asked(ret.present_if, attrs)}
    outputs = {n: np.zeros(found[0], numpy_dtype(found[1])) for n, found in returns.items() if found is not None}
    pair = aclnn.two_phase(op)
    code, size, executor = pair.get_workspace_size(**given, **attrs, **outputs)
    if code == 0:
        code = pair.execute(np.empty(size, np.uint8), size, executor)
    if code:
        raise Status(aclnn.get_recent_error())
    return outputs


def result(
    face: Callable[..., dict[str, np.ndarray]], op: str, given: dict[str, Any], attrs: dict[str, Any]
) -> dict[str, np.ndarray] | str:
    """Outputs, or the text of the refusal behind the name of the op."""
    try:
        return face(op, given, attrs)
    except MsCustomOpsError as error:
        text = str(error)
        start = text.find(f"{op}: ")
        return text[start:] if start >= 0 else text


def compare(
    face: Callable[..., dict[str, np.ndarray]],
    expected: dict[str, np.ndarray] | str,
    op: str,
    given: dict[str, Any],
    attrs: dict[str, Any],
) -> None:
    found = result(face, op, given, attrs)
    call = {n: x if isinstance(x, list) else (x.shape, x.dtype) for n, x in given.items()}
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, (face.__name__, call, attrs)
        return
    for name, array in expected.items():
        what = (face.__name__, name, call, attrs)
        if op in ROUNDED:
            np.testing.assert_allclose(found[name], array, 2e-2, 2e-2, err_msg=str(what))
        else:
            assert found[name].tobytes() == array.tobytes(), what


IN_GRAPHS = ("flash_attention", "segsum_decay")  # of the others at night: every call is a graph of its own


@pytest.mark.parametrize(
    "op", [op if op in IN_GRAPHS else pytest.param(op, marks=pytest.mark.nightly) for op in FUNCTIONS]
)
def test_a_graph_agrees(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng, left = np.random.default_rng(11), {"accepted": 2, "refused": 1}
    while any(left.values()):
        given, attrs = FUNCTIONS[op](rng)
        if not left["accepted"]:
            spoiled(rng, op, given, attrs)
        expected = result(of_numpy, op, given, attrs)
        kind = "refused" if isinstance(expected, str) else "accepted"
        if left[kind]:
            left[kind] -= 1
            compare(of_graph, expected, op, given, attrs)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_faces_agree(op: str) -> None:
    rng = np.random.default_rng(7)
    accepted = refused = 0
    for turn in range(60):
        given, attrs = FUNCTIONS[op](rng)
        if turn % 3:
            spoiled(rng, op, given, attrs)
        expected = result(of_numpy, op, given, attrs)
        for face in (of_mindspore, of_aclnn):
            compare(face, expected, op, given, attrs)
        refused += isinstance(expected, str)
        accepted += not isinstance(expected, str)
    assert accepted >= 15 and refused >= 15, (accepted, refused)
