# SPDX-License-Identifier: Apache-2.0
"""Every op from C: its functions and headers, and the same bits as the Python face."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from building import need_library
from calling import call_c, opened

from ms_custom_ops import aclnn
from ms_custom_ops.aclnn import headers, interface_names, interface_of, plan
from ms_custom_ops.commands.aclnn import root

HALF, FLOAT = np.float16, np.float32


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    with opened(tmp_path_factory.mktemp("programs")) as found:
        yield found


def test_every_op_has_its_functions(library):
    for op in interface_names():
        name = interface_of(op).name
        text = (root() / "include" / "aclnnop" / f"aclnn_{interface_of(op).header or op}.h").read_text()
        for function in (f"aclnn{name}GetWorkspaceSize", f"aclnn{name}"):
            assert hasattr(library, function), function
            assert re.search(rf"aclnnStatus {function}\(", text), function


@pytest.mark.parametrize("language", ["c11", "c++11"])
def test_headers_are_c_and_old_cxx(tmp_path, language):
    need_library()
    names = [str(path.relative_to(root() / "include")) for path in sorted((root() / "include").rglob("*.h"))]
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    own = ["-x", "c" if language == "c11" else "c++", f"-std={language}", "-Wno-unused-variable"]
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", *own, "-I", str(root() / "include")]
    done = subprocess.run(["g++", *flags, str(source)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_header_and_one_of_no_op_are_found(tmp_path):
    headers.write(tmp_path)
    assert headers.drift(tmp_path) == ""
    folder = tmp_path / headers.HEADERS
    (folder / "aclnn_segsum_decay.h").write_text("// old\n")
    (folder / "aclnn_gone.h").write_text("\n")
    found = headers.drift(tmp_path)
    assert "-// old" in found and "aclnn_gone.h is the header of no op" in found
    assert {path.name for path in headers.write(tmp_path)} == {"aclnn_segsum_decay.h", "aclnn_gone.h"}
    assert headers.drift(tmp_path) == ""


RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = FLOAT) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(dtype)


def rows(count: int, keys: int, slots: int) -> np.ndarray:
    return np.stack([RNG.permutation(keys)[:slots] for _ in range(count)]).astype(np.int32)


def flash(n1: int, n2: int, s1: int, s2: int, d: int, dtype: Any = HALF, **more: Any) -> dict[str, Any]:
    q, k, v = normal(2, n1, s1, d, dtype=dtype), normal(2, n2, s2, d, dtype=dtype), normal(2, n2, s2, d, dtype=dtype)
    out = dict(attention_out=q, softmax_max=np.zeros((2, n1, s1), FLOAT), softmax_sum=np.zeros((2, n1, s1), FLOAT))
    return dict(query=q, key=k, value=v, scale_value=0.2) | more | {n: np.empty_like(x) for n, x in out.items()}


def packed_flash() -> dict[str, Any]:
    q, k = normal(25, 4, 24, dtype=HALF), normal(40, 2, 24, dtype=HALF)
    stats = np.zeros((4, 25), FLOAT)
    return dict(
        query=q,
        key=k,
        value=normal(40, 2, 24, dtype=HALF),
        actual_seq_qlen=[10, 25],
        actual_seq_kvlen=[15, 40],
        scale_value=0.2,
        layout="TND",
        sparse_mode=3,
        attention_out=np.empty_like(q),
        softmax_max=stats,
        softmax_sum=stats.copy(),
    )


def sparse(dtype: Any = HALF) -> dict[str, Any]:
    q, k = normal(1, 7, 6, 32, dtype=dtype), normal(1, 33, 1, 32, dtype=dtype)
    stats = np.zeros((1, 1, 7, 6), FLOAT)
    return dict(
        query=q,
        key=k,
        value=normal(1, 33, 1, 32, dtype=dtype),
        sparse_indices=rows(7, 33, 9).reshape(1, 7, 1, 9),
        scale_value=0.2,
        sparse_mode=0,
        attention_mode=2,
        return_softmax_lse=True,
        attention_out=np.empty_like(q),
        softmax_max=stats,
        softmax_sum=stats.copy(),
    )


def indexer(keys: int = 50) -> dict[str, Any]:
    return dict(
        query=normal(1, 5, 8, 128, dtype=HALF),
        key=normal(1, keys, 1, 128, dtype=HALF),
        weights=normal(1, 5, 8, dtype=HALF),
        sparse_count=12,
        sparse_mode=3,
        return_value=True,
        sparse_indices=np.zeros((1, 5, 1, 12), np.int32),
        sparse_values=np.zeros((1, 5, 1, 12), HALF),
    )


def segsum(steps: int, chunk: int, bounds: list[int] | None = None) -> dict[str, Any]:
    slots = -(-steps // chunk) if bounds is None else steps // chunk + len(bounds) - 1
    return dict(
        da=-np.abs(normal(2, 3, steps)),
        cu_seqlens=bounds,
        chunk_size=chunk,
        decay=np.zeros((2, 3, slots, chunk, chunk), FLOAT),
    )


def scan(dtype: Any = HALF, **more: Any) -> dict[str, Any]:
    states = np.zeros((2 if "cu_seqlens" in more else 1, 2, 20, 18), FLOAT)
    x = normal(1, 37, 2, 20, dtype=dtype)
    return (
        dict(
            x=x,
            da=-np.abs(normal(1, 2, 37)),
            B=normal(1, 37, 1, 18, dtype=dtype),
            C=normal(1, 37, 1, 18, dtype=dtype),
            chunk_size=16,
            y=np.empty_like(x),
            final_states=states,
        )
        | more
    )


def trapezoid() -> dict[str, Any]:
    given = {n: normal(1, 2, 21) for n in ("trap", "dt", "dfactor", "dgamma_diag")}
    return given | dict(ddt=np.zeros((1, 2, 21), FLOAT), dtrap=np.zeros((1, 2, 21), FLOAT))


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "flash_attention_odd": ("flash_attention", flash(4, 2, 17, 63, 40, attn_mask=RNG.random((17, 63)) < 0.2)),
    "segsum_decay_tail": ("segsum_decay", segsum(37, 8)),
    "lightning_indexer": ("lightning_indexer", indexer()),
}
NIGHTLY: dict[str, tuple[str, dict[str, Any]]] = {
    "flash_attention_bfloat16": ("flash_attention", flash(2, 2, 16, 16, 32, ml_dtypes.bfloat16)),
    "flash_attention_shift_of_one_batch": ("flash_attention", flash(2, 1, 15, 17, 16, real_shift=normal(1, 2, 1, 17))),
    "flash_attention_packed": ("flash_attention", packed_flash()),
    "sparse_flash_attention": ("sparse_flash_attention", sparse()),
    "lightning_indexer_without_keys": ("lightning_indexer", indexer(0)),
    "segsum_decay_packed": ("segsum_decay", segsum(37, 16, [0, 20, 37])),
    "ssd_chunk_scan": ("ssd_chunk_scan", scan()),
    "ssd_chunk_scan_bfloat16": ("ssd_chunk_scan", scan(ml_dtypes.bfloat16)),
    "ssd_chunk_scan_packed": ("ssd_chunk_scan", scan(cu_seqlens=[0, 20, 37])),
    "bwd_dtrap_ddt": ("bwd_dtrap_ddt", trapezoid()),
}


def same_bits(library: ctypes.CDLL, op: str, values: dict[str, Any]) -> None:
    """The outputs of C against those of the Python face."""
    wanted = {
        p.name: values[p.name].copy() for p in interface_of(op).parameters if p.kind == "output" and p.name in values
    }
    pair = aclnn.two_phase(op)
    status, size, executor = pair.get_workspace_size(**(values | wanted))
    assert status == 0, aclnn.get_recent_error()
    assert pair.execute(np.empty(size, np.uint8), size, executor) == 0, aclnn.get_recent_error()
    status, found = call_c(library, op, values)
    assert status == 0, ctypes.string_at(library.aclGetRecentErrMsg())
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        assert found[name].tobytes() == x.tobytes(), name


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("program_folder")
def test_the_bits_of_the_python_face(library, name):
    same_bits(library, *CALLS[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
@pytest.mark.usefixtures("program_folder")
def test_the_bits_of_the_python_face_everywhere(library, name):
    same_bits(library, *NIGHTLY[name])


def test_what_needs_python_in_each_call_is_refused(monkeypatch):
    """No op does; a lowering that computes a tensor from others in a way that C does not know would."""
    monkeypatch.setattr(plan, "_TRAPEZOID", "")
    tensors = ["float16[1,16,1,2,16]"] * 3 + ["float32[1,2,16]"] * 3
    outputs = ["float16[1,16,1,2,16]", "float32[1,2,16,16]"]
    values = ";".join([*tensors, "-", "-", "=16", *outputs])
    request = '{"aclnn":1,"op":"aclnn_mamba3_chunk_scan","soc":"Ascend910B1"}|' + values
    text = plan.make_plan(request, interface_of).text.decode()
    assert "status 561003 " in text
    assert "factor, gamma are computed from tensors by Python in each call; accepted from C: a call without" in text
