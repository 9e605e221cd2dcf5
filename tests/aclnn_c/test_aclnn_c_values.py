# SPDX-License-Identifier: Apache-2.0
"""Every op from C against its golden: real values, odd sizes, the optional tensors and lists of its document."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calling import call_c, opened
from click.testing import CliRunner

from ms_custom_ops.aclnn import interface_names, interface_of
from ms_custom_ops.cases import smoke_cases
from ms_custom_ops.cases.base import case_data, golden_outputs
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.cli import main
from ms_custom_ops.compiler import describe_call
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.op_impl.flash_attention.golden import flash_attention, flash_attention_grad
from ms_custom_ops.registry import get_op, resolve
from ms_custom_ops.testing import assert_rms

SOC = "Ascend910B1"
HALF, FLOAT = np.float16, np.float32
Call = tuple[dict[str, Any], dict[str, np.ndarray]]
"""Arguments by name, and the outputs that the golden wants."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    with opened(tmp_path_factory.mktemp("programs")) as found:
        yield found


def golden(op: str) -> Callable[..., Any]:
    return resolve(get_op(op).impl.golden)


def normal(rng: np.random.Generator, *shape: int, dtype: Any = FLOAT, scale: float = 0.5) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(dtype)


def wide(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: x if x.dtype.kind in "iub" else x.astype(np.float64) for name, x in arrays.items()}


def results(op: str, found: Any) -> dict[str, np.ndarray]:
    spec = get_op(op)
    names = [ret.name for ret in (spec.public or spec).returns]
    return dict(zip(names, found if isinstance(found, tuple) else (found,), strict=False))


def segment(rng: np.random.Generator, op: str) -> Call:
    """Sums over chunks: two sequences would be lists of bounds, here one, of whole chunks of an odd size."""
    b, h, s, c = 2, 3, 45, 15
    form = get_op(op).public
    assert form is not None
    decays = ("da", "dA_cs", "dA_cs_rev", "SSdA")
    given = {
        t.name: normal(rng, *((b, h, s // c, c, c) if "SSdA" in t.name else (b, h, s)))
        for t in form.tensors
        if t.name != "cu_seqlens"
    }
    given = {name: -np.abs(x) if name in decays else x for name, x in given.items()}
    return given | dict(chunk_size=c), results(op, golden(op)(**wide(given), chunk_size=c))


def trapezoid(rng: np.random.Generator, op: str) -> Call:
    given = {n: normal(rng, 1, 2, 21) for n in ("trap", "dt", "dfactor", "dgamma_diag")}
    bounds = [0, 6, 21]
    return given | dict(cu_seqlens=bounds), results(op, golden(op)(**wide(given), cu_seqlens=bounds))


def attention(rng: np.random.Generator, op: str) -> Call:
    q, k, v = (normal(rng, 2, n, s, 40, dtype=HALF, scale=1) for n, s in ((4, 17), (2, 63), (2, 63)))
    tensors = dict(query=q, key=k, value=v, attn_mask=(rng.random((17, 63)) < 0.2),
                   real_shift=normal(rng, 1, 4, 17, 63, dtype=HALF))  # fmt: skip
    lengths = dict(actual_seq_qlen=[15, 17], actual_seq_kvlen=[63, 40])
    found = golden(op)(**wide(tensors), **lengths, scale_value=0.2)
    return tensors | lengths | dict(scale_value=0.2), results(op, found)


def smoke(name: str) -> Callable[[np.random.Generator, str], Call]:
    """A case of an op whose interface is its own."""

    def make(rng: np.random.Generator, op: str) -> Call:
        case = next(case for case in smoke_cases(get_op(op), SOC) if case.name == name)
        arrays = make_arrays(case)
        wanted = dict(
            zip(
                (r.name for r in case.op.returns),
                golden_outputs(case.op, arrays, case.attrs, case.symbols),
                strict=False,
            )
        )
        call = describe_call(case.op, dict(case.shapes), dict(case.dtypes), case.attrs, SOC)
        shapes = {n: np.zeros(shape, numpy_dtype(dtype)) for n, shape, dtype in call.outputs}
        visible = case_data(case.op).visible
        cut = (lambda found: visible(found, case)) if visible else (lambda found: found)
        there = {n: x for n, x in wanted.items() if n in shapes and shapes[n].size}
        return {**arrays, **dict(call.attrs), "": cut, **shapes}, there

    return make


def indexer(rng: np.random.Generator, op: str) -> Call:
    given = dict(query=normal(rng, 1, 5, 8, 128, dtype=HALF), key=normal(rng, 1, 50, 1, 128, dtype=HALF),
                 weights=normal(rng, 1, 5, 8, dtype=HALF))  # fmt: skip
    attrs = dict(sparse_count=12, sparse_mode=3)
    found = golden(op)(**wide(given), **attrs)
    return given | attrs | dict(return_value=True), results(op, tuple(found))


def selected(rng: np.random.Generator, rows: int, keys: int, count: int) -> np.ndarray:
    return np.stack([rng.permutation(keys)[:count] for _ in range(rows)]).astype(np.int32).reshape(1, rows, 1, count)


def sparse_tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    q, k, v, qr, kr = (
        normal(rng, 1, s, n, d, dtype=HALF)
        for s, n, d in ((7, 8, 32), (33, 1, 32), (33, 1, 32), (7, 8, 16), (33, 1, 16))
    )
    return dict(query=q, key=k, value=v, sparse_indices=selected(rng, 7, 33, 9), query_rope=qr, key_rope=kr)


SPARSE = dict(scale_value=0.2, sparse_mode=3)


def sparse(rng: np.random.Generator, op: str) -> Call:
    given = sparse_tensors(rng)
    found = golden(op)(**wide(given), **SPARSE)
    lists = dict(actual_seq_lengths_query=[7], actual_seq_lengths_kv=[33])
    return given | SPARSE | lists | dict(return_softmax_lse=True), results(op, tuple(found))


def sparse_grad(version: int) -> Callable[[np.random.Generator, str], Call]:
    """The published interfaces: TND, lengths as tensors."""

    def make(rng: np.random.Generator, op: str) -> Call:
        given = {n: x[0] for n, x in sparse_tensors(rng).items()}
        d_out = normal(rng, 7, 8, 32, dtype=HALF)
        lengths = {n: np.array([x], np.int32) for n, x in (("actual_seq_q", 7), ("actual_seq_kv", 33))}
        own = {"actual_seq_lengths_query": lengths["actual_seq_q"], "actual_seq_lengths_kv": lengths["actual_seq_kv"]}
        out, top, total = golden("sparse_flash_attention")(**wide(given), **SPARSE, **own, layout_query="TND")
        back = golden("sparse_flash_attention_grad")
        grads = back(**wide(given), d_out=d_out.astype(np.float64), **SPARSE, **own, layout="TND")
        names = ("d_query", "d_key", "d_value", "d_query_rope", "d_key_rope")
        values = given | lengths | SPARSE | dict(
            d_out=d_out, out=np.asarray(out).astype(HALF), softmax_max=np.asarray(top).astype(FLOAT),
            softmax_sum=np.asarray(total).astype(FLOAT), layout="TND", deterministic=version == 2,
        )  # fmt: skip
        return values, {name: getattr(grads, name) for name in names}

    return make


def kl_loss(rng: np.random.Generator, op: str) -> Call:
    given = dict(
        query=normal(rng, 1, 5, 8, 32, dtype=HALF), key=normal(rng, 1, 33, 1, 32, dtype=HALF),
        query_index=normal(rng, 1, 5, 4, 16, dtype=HALF), key_index=normal(rng, 1, 33, 1, 16, dtype=HALF),
        weights=normal(rng, 1, 5, 4), sparse_indices=selected(rng, 5, 33, 9),
    )  # fmt: skip
    found = golden(op)(**wide(given), **SPARSE)
    main = {n: given[n] for n in ("query", "key", "sparse_indices")}
    _, top, total = golden("sparse_flash_attention")(**wide(main), value=None, **SPARSE)
    statistics = dict(softmax_max=np.asarray(top).astype(FLOAT), softmax_sum=np.asarray(total).astype(FLOAT))
    wanted = (found.d_query_index, found.d_key_index, found.d_weights, np.array([found.loss]))
    return given | statistics | SPARSE, results(op, wanted)


def scan(rng: np.random.Generator, op: str) -> Call:
    given = dict(x=normal(rng, 1, 37, 2, 20, dtype=HALF), da=-np.abs(normal(rng, 1, 2, 37)),
                 B=normal(rng, 1, 37, 1, 18, dtype=HALF), C=normal(rng, 1, 37, 1, 18, dtype=HALF),
                 initial_states=normal(rng, 2, 2, 20, 18))  # fmt: skip
    bounds = dict(cu_seqlens=[0, 20, 37])
    return given | bounds | dict(chunk_size=16), results(op, golden(op)(**wide(given), **bounds))


def mamba3(packed: bool) -> Callable[[np.random.Generator, str], Call]:
    def make(rng: np.random.Generator, op: str) -> Call:
        q, k = (normal(rng, 1, 37, 3, 1, 18, dtype=HALF) for _ in range(2))
        given = dict(
            q=q, k=k, v=normal(rng, 1, 37, 3, 2, 20, dtype=HALF), da=-np.abs(normal(rng, 1, 2, 37)),
            dt=np.abs(normal(rng, 1, 2, 37)), trap=normal(rng, 1, 2, 37),
            initial_states=normal(rng, 2 if packed else 1, 2, 20, 18),
        )  # fmt: skip
        bounds = dict(cu_seqlens=[0, 20, 37]) if packed else {}
        return given | bounds | dict(chunk_size=15), results(op, golden(op)(**wide(given), **bounds))

    return make


SEQUENCES = ((0, 10, 0, 15), (10, 25, 15, 40), (25, 25, 40, 47))  # first and last query, first and last key


def packed(grad: bool) -> Callable[[np.random.Generator, str], Call]:
    """Packed sequences, one without queries: each by the golden alone. Statistics lie as (N, T, 8)."""

    def make(rng: np.random.Generator, op: str) -> Call:
        q, dy = (normal(rng, 25, 4, 24, dtype=HALF, scale=1) for _ in range(2))
        k, v = (normal(rng, 47, 2, 24, dtype=HALF, scale=1) for _ in range(2))
        out, back, statistics = np.zeros(q.shape), [np.zeros(x.shape) for x in (q, k, v)], np.zeros((2, 4, 25))
        for q0, q1, k0, k1 in SEQUENCES:
            if q1 == q0:
                continue
            parts = [
                x[None, a:b].swapaxes(1, 2).astype(np.float64) for x, a, b in ((q, q0, q1), (k, k0, k1), (v, k0, k1))
            ]
            found = flash_attention(*parts, scale_value=0.2, sparse_mode=3)
            out[q0:q1] = found[0][0].swapaxes(0, 1)
            statistics[:, :, q0:q1] = found[1][0], found[2][0]
            d_out = dy[None, q0:q1].swapaxes(1, 2).astype(np.float64)
            grads = flash_attention_grad(*parts, d_out, scale_value=0.2, sparse_mode=3)
            for whole, part, a, b in zip(back, grads, (q0, k0, k0), (q1, k1, k1), strict=False):
                whole[a:b] = part[0].swapaxes(0, 1)
        rows = [np.repeat(x[..., None], 8, -1).reshape(25, 4, 8) for x in statistics]
        mask = np.triu(np.ones((2048, 2048), np.uint8), 1)
        attrs = dict(actual_seq_q_len=[10, 25, 25], actual_seq_kv_len=[15, 40, 47], scale_value=0.2, head_num=4,
                     input_layout="TND", sparse_mode=3, atten_mask=mask)  # fmt: skip
        if not grad:
            wanted = dict(softmax_max_out=rows[0], softmax_sum_out=rows[1], attention_out_out=out)
            return dict(query=q, key=k, value=v) | attrs, wanted
        given = dict(query=q, key_in=k, value=v, dy=dy, attention_in=out.astype(HALF),
                     softmax_max=rows[0].astype(FLOAT), softmax_sum=rows[1].astype(FLOAT))  # fmt: skip
        return given | attrs, dict(zip(("dq_out", "dk_out", "dv_out"), back, strict=True))

    return make


def rows_of(grad: bool) -> Callable[[np.random.Generator, str], Call]:
    """The published interfaces of attention, layout BSH."""

    def make(rng: np.random.Generator, op: str) -> Call:
        q, k, v, dy = (normal(rng, 2, n, s, 24, dtype=HALF, scale=1) for n, s in ((4, 17), (2, 31), (2, 31), (4, 17)))
        parts = [x.astype(np.float64) for x in (q, k, v)]
        out, top, total = flash_attention(*parts, scale_value=0.2)
        flat = [np.ascontiguousarray(x.swapaxes(1, 2)).reshape(2, x.shape[2], -1) for x in (q, k, v, dy, out)]
        rows = [np.repeat(x[..., None], 8, -1) for x in (top, total)]
        attrs = dict(scale_value=0.2, head_num=4, input_layout="BSH")
        if not grad:
            wanted = dict(softmax_max_out=rows[0], softmax_sum_out=rows[1], attention_out_out=flat[4])
            return dict(query=flat[0], key=flat[1], value=flat[2]) | attrs, wanted
        back = flash_attention_grad(*parts, dy.astype(np.float64), scale_value=0.2)[:3]
        given = dict(query=flat[0], key_in=flat[1], value=flat[2], dy=flat[3], attention_in=flat[4].astype(HALF),
                     softmax_max=rows[0].astype(FLOAT), softmax_sum=rows[1].astype(FLOAT))  # fmt: skip
        wanted = [x.swapaxes(1, 2).reshape(2, x.shape[2], -1) for x in back]
        return given | attrs, dict(zip(("dq_out", "dk_out", "dv_out"), wanted, strict=True))

    return make


CALLS: dict[str, tuple[str, Callable[[np.random.Generator, str], Call]]] = {
    "bwd_dadt_cumsum": ("", segment),
    "bwd_dadt_fused": ("", segment),
    "bwd_dtrap_ddt": ("", trapezoid),
    "bwd_segsum_dadt": ("", segment),
    "dacs_segsum": ("", segment),
    "flash_attention": ("", attention),
    "flash_attention_grad": ("", smoke("ragged")),
    "flash_attention_score": ("", rows_of(False)),
    "flash_attention_score_grad": ("", rows_of(True)),
    "flash_attention_unpadding_score_grad": ("", packed(True)),
    "flash_attention_var_len_score": ("", packed(False)),
    "lightning_indexer": ("", indexer),
    "mamba3_chunk_scan": ("", mamba3(False)),
    "mamba3_chunk_scan_packed": ("mamba3_chunk_scan", mamba3(True)),
    "mamba3_chunk_scan_grad": ("", smoke("packed")),
    "segsum_decay": ("", segment),
    "sparse_flash_attention": ("", sparse),
    "sparse_flash_attention_grad": ("", sparse_grad(1)),
    "sparse_flash_attention_grad_v2": ("", sparse_grad(2)),
    "sparse_lightning_indexer_grad_kl_loss": ("", kl_loss),
    "ssd_chunk_scan": ("", scan),
    "ssd_chunk_scan_grad": ("", smoke("packed")),
}
"""Name -> (op, "" where it is the name; what makes the call)."""


def test_every_op_has_a_call():
    assert {op or name for name, (op, _) in CALLS.items()} == set(interface_names())


@pytest.mark.parametrize("name", CALLS)
def test_values(library, name):
    op, make = CALLS[name]
    op = op or name
    values, wanted = make(np.random.default_rng(17), op)
    cut = values.pop("", lambda found: found)
    interface = interface_of(op)
    limit = 4e-3 if any(getattr(x, "dtype", None) == HALF for x in values.values()) else 1e-5
    for p in interface.parameters:
        if p.kind == "output" and wanted.get(p.name) is not None and p.name not in values:
            x = np.asarray(wanted[p.name])
            values[p.name] = np.full(x.shape, -1, output_dtype(interface, p.name, x, values))
    status, found = call_c(library, op, values)
    assert status == 0, ctypes.string_at(library.aclGetRecentErrMsg())
    found = cut(found)
    assert {output for output, x in found.items() if x.size} == {
        output for output, x in wanted.items() if x is not None
    }
    for output, x in found.items():
        if x.dtype.kind in "iu":
            np.testing.assert_array_equal(x, wanted[output])
        elif x.size:
            assert_rms(output, x.astype(np.float64), np.asarray(wanted[output]), limit)


def output_dtype(interface: Any, name: str, wanted: np.ndarray, values: dict[str, Any]) -> Any:
    """Of an output: that of the registry, of an argument, or (published interfaces) of query."""
    if wanted.dtype.kind in "iu":
        return np.int32
    form = interface.spec.public or interface.spec
    source = next((ret.dtype_from for ret in form.returns if ret.name == name), None)
    if source is None:
        return FLOAT if name.startswith("softmax") else values["query"].dtype
    return values[source].dtype if source in values else numpy_dtype(source)


def test_cases_run_without_python_after_compile(tmp_path):
    """In a process of its own, whose library knows no plan yet."""
    done = CliRunner().invoke(
        main, ["compile", "mamba3_chunk_scan", "segsum_decay", "--soc", SOC, "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    environ = {"MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path), "MS_CUSTOM_OPS_PYTHON": "off", "PATH": "/nowhere"}
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_aclnn_c_values as t; t.alone()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "(1, 2, 3, 50, 50) (1, 32, 1, 1, 16)\n"), done.stdout + done.stderr


def alone() -> None:
    """Calls with the sizes of two cases."""
    with opened(Path(os.environ["MS_CUSTOM_OPS_CACHE_DIR"]), python="off") as library:
        zeros = np.zeros((1, 2, 3, 50, 50), FLOAT)
        _, decay = call_c(library, "segsum_decay", dict(da=np.zeros((1, 2, 150), FLOAT), chunk_size=50, decay=zeros))
        assert (decay["decay"] == np.tril(np.ones((50, 50)), -1)).all()
        x, steps = np.zeros((1, 32, 1, 1, 16), HALF), np.zeros((1, 1, 32), FLOAT)
        state = np.zeros((1, 1, 16, 16), FLOAT)
        given = dict(q=x, k=x, v=x, da=steps, dt=steps, trap=steps, initial_states=state, chunk_size=16)
        status, scan = call_c(library, "mamba3_chunk_scan", given | dict(o=x - 1, final_states=state - 1))
        assert status == 0 and not scan["o"].any(), ctypes.string_at(library.aclGetRecentErrMsg())
        print(decay["decay"].shape, scan["o"].shape)
