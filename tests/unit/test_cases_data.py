# SPDX-License-Identifier: Apache-2.0
"""Case data of the ops: what an op asks of its inputs beyond their shapes, and comparisons that can fail."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.cases import file_cases, read_cases, run, run_case, smoke_cases
from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.op_impl.mamba3_chunk_scan.golden import trapezoid
from ms_custom_ops.op_impl.sparse_flash_attention.helpers import check_sparse_indices
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.soc import get_soc

CHIP = "Ascend910_9391"
seeds = pytest.mark.parametrize("seed", range(3))


pytestmark = pytest.mark.usefixtures("program_folder")


ATTENTION = "query key value sparse_indices"
LENGTHS = "actual_seq_lengths_query actual_seq_lengths_kv"
GIVEN = "d_out attention_out softmax_max softmax_sum"
MAIN = "query key query_index key_index weights sparse_indices softmax_max softmax_sum query_rope key_rope"
TND = {"layout_query": '"TND"', "layout_kv": '"TND"'}
TND_PAGED = {"layout_query": '"TND"', "layout_kv": '"PA_BSND"'}
FORWARD, BACKWARD, KL = "sparse_flash_attention", "sparse_flash_attention_grad", "sparse_lightning_indexer_grad_kl_loss"
SIZES = dict(B=3, BK=3, S1=5, S2=33, N1=8, N2=2, D=32, DV=48, K=16, BP=8)
PACKED = SIZES | dict(B=1, BK=1, S1=9, S2=60)
PAGES = dict(SIZES, B=2, BK=9, S2=32, BT=2, MP=8)
KEYS = dict(B=3, BK=3, S1=5, S2=300, N1=8, D=64, BP=8)
SCAN = dict(B=1, S=192, H=2, P=32, G=1, N=48, NS=4)
SCAN_INPUTS = "v da factor gamma k q initial_states"
#: id: (op, tensors, sizes, attributes and their values)
CALLS: dict[str, tuple[str, str, dict[str, int], dict[str, str]]] = {
    "lengths": (FORWARD, f"{ATTENTION} {LENGTHS} sinks", SIZES, {"sparse_block_size": "4, 1"}),
    "packed": (FORWARD, f"{ATTENTION} {LENGTHS} query_rope key_rope sinks", PACKED, {**TND, "rope_dim": "16"}),
    "paged": (FORWARD, f"{ATTENTION} block_table {LENGTHS}", PAGES, {"layout_kv": '"PA_BSND"', "sparse_mode": "0, 3"}),
    "packed_paged": (FORWARD, f"{ATTENTION} block_table {LENGTHS}", PAGES | {"B": 1, "BT": 3}, TND_PAGED),
    "merged": (FORWARD, ATTENTION, SIZES | {"DV": 32}, {"kv_merged": "true", "scale_value": "0.1"}),
    "grad": (BACKWARD, f"{ATTENTION} {GIVEN} sinks {LENGTHS}", SIZES, {"sparse_block_size": "4, 1"}),
    "grad_packed": (BACKWARD, f"{ATTENTION} {GIVEN} sinks {LENGTHS} query_rope key_rope", PACKED,
                    {"layout": '"TND"', "rope_dim": "16"}),
    "grad_merged": (BACKWARD, f"{ATTENTION} {GIVEN}", SIZES | {"DV": 32}, {"kv_merged": "true", "sparse_mode": "0"}),
    "indexer": ("lightning_indexer", "query key weights actual_seq_lengths_query actual_seq_lengths_key", KEYS,
                {"sparse_count": "100, 15"}),
    "indexer_packed_paged": (
        "lightning_indexer", "query key weights actual_seq_lengths_query actual_seq_lengths_key block_table",
        KEYS | dict(B=1, BK=9, S1=7, S2=32, BT=3, MP=8),
        {"layout_query": '"TND"', "layout_key": '"PA_BSND"', "sparse_count": "50"}),
    "kl": (KL, f"{MAIN} {LENGTHS}", SIZES | dict(N2=1, NI=17, DI=48, R=16), {}),
    "kl_packed": (KL, f"{MAIN} {LENGTHS}", PACKED | dict(N2=1, NI=3, DI=16, R=16), {"layout": '"TND"'}),
    "mamba3": ("mamba3_chunk_scan", f"{SCAN_INPUTS} first_chunks", SCAN, {"chunk_size": "32", "rank": "1, 16"}),
    "mamba3_grad": ("mamba3_chunk_scan_grad", f"{SCAN_INPUTS} d_o d_final_states first_chunks", SCAN,
                    {"chunk_size": "32", "rank": "4"}),
    "mamba3_grad_dense": ("mamba3_chunk_scan_grad", f"{SCAN_INPUTS} d_o d_final_states", SCAN | dict(B=2, NS=2),
                          {"chunk_size": "16, 64", "rank": "2"}),
}  # fmt: skip


def planned(name: str, folder: Path, seed: int = 0):
    """The cases of an entry of CALLS."""
    op, tensors, sizes, attrs = CALLS[name]
    used = {dim.symbol for arg in get_op(op).tensors if arg.name in tensors.split() for dim in arg.shape}
    sizes = {n: size for n, size in sizes.items() if n in used}
    lines = [f"name: {op}", "api: primitive", f"generate: {{symbols: [{', '.join(sizes)}], shapes: "
             f"[{list(sizes.values())}]}}", "inputs:", *(f"  - {{name: {n}}}" for n in tensors.split())]  # fmt: skip
    lines += [f"  - {{name: {n}, ranges: {{valid: {{values: [{v}]}}}}}}" for n, v in attrs.items()]
    path = folder / "cases.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return file_cases(read_cases(path), CHIP, seed)


@seeds
@pytest.mark.parametrize("name", CALLS)
def test_kernel_and_golden_agree_on_the_data(name, seed, tmp_path):
    for case in planned(name, tmp_path, seed):
        result = run_case(case, CHIP)
        assert result.verdict == "pass", f"{case.name}: {result.message}"


def counted(array: np.ndarray, case, key: bool) -> np.ndarray:
    """Lengths of the real sequences as tokens of each."""
    packed = "TND" in (case.attrs.get("layout"), case.attrs.get("layout_query"))
    paged = "block_table" in case.present
    real = len(array) if packed and not paged else case.shapes["block_table"][0] if packed else case.symbols["B"]
    return array[:real] if not packed or (key and paged) else np.diff(array[:real], prepend=0)


@seeds
@pytest.mark.parametrize("name", [n for n, call in CALLS.items() if "actual_seq" in call[1]])
def test_lengths_and_pages_fit_together(name, seed, tmp_path):
    for case in planned(name, tmp_path, seed):
        arrays = make_arrays(case)
        q = counted(arrays["actual_seq_lengths_query"], case, False)
        side = next(n for n in ("actual_seq_lengths_kv", "actual_seq_lengths_key") if n in arrays)
        k = counted(arrays[side], case, True)
        assert len(q) == len(k) and q.min() >= 0 and k.min() >= 0 and q.any() and k.any()
        packed = "TND" in (case.attrs.get("layout"), case.attrs.get("layout_query"))
        assert q.sum() == case.symbols["S1"] if packed else q.max() <= case.symbols["S1"]
        if "block_table" in arrays:
            table = arrays["block_table"]
            used = [row[: -(-n // case.symbols["S2"])] for row, n in zip(table, k, strict=True)]
            pages = np.concatenate(used)
            assert len(set(pages)) == len(pages) and pages.min() >= 0 and pages.max() < case.symbols["BK"]
        elif packed:
            assert k.sum() == case.symbols["S2"]
        else:
            assert k.max() <= case.symbols["S2"]


@seeds
@pytest.mark.parametrize("name", ["lengths", "packed", "grad", "grad_packed", "grad_merged", "merged", "kl"])
def test_index_rows_are_those_of_the_validator(name, seed, tmp_path):
    for case in planned(name, tmp_path, seed):
        arrays = make_arrays(case)
        packed = "TND" in (case.attrs.get("layout"), case.attrs.get("layout_query"))
        names = ("sparse_indices", "query", "key")
        indices, query, key = (arrays[n][0] if packed else arrays[n] for n in names)
        real = None if packed else case.symbols["B"]
        lengths = {n: arrays[n][:real] for n in LENGTHS.split() if n in arrays}
        block, mode = case.attrs.get("sparse_block_size", 1), case.attrs.get("sparse_mode", 3)
        check_sparse_indices(indices, query.shape, key.shape, sparse_block_size=block, sparse_mode=mode,
                             layout="TND" if packed else "BSND", **lengths)  # fmt: skip
        used = (indices >= 0).sum(-1)
        assert used.max() > 1 and len(np.unique(used)) > 1


@seeds
@pytest.mark.parametrize("name", ["mamba3", "mamba3_grad", "mamba3_grad_dense"])
def test_weights_are_those_of_a_trapezoid(name, seed, tmp_path):
    for case in planned(name, tmp_path, seed):
        arrays, rank = make_arrays(case), case.attrs["rank"]
        per_step = {n: arrays[n].reshape(*arrays[n].shape[:2], -1, rank) for n in ("da", "factor", "gamma")}
        factor, gamma = per_step["factor"][..., 0], per_step["gamma"][..., 0]
        assert not per_step["da"][..., 1:].any() and (per_step["da"][..., 0] < 0).all()
        assert (per_step["factor"] == factor[..., None]).all() and (per_step["gamma"] == gamma[..., None]).all()
        first = arrays["first_chunks"][: SCAN["NS"] + 1] if "first_chunks" in arrays else None
        bounds = [0, factor.shape[-1]] if first is None else list(first * case.attrs["chunk_size"] // rank)
        for start, stop in pairwise(bounds):
            if stop > start:
                s_dt, late = gamma[..., start:stop].astype(np.float64), (factor - gamma)[..., start : stop - 1]
                dt = s_dt + np.concatenate([s_dt[..., :1], late], -1)
                again = trapezoid(dt, np.log(s_dt / (dt - s_dt)))
                np.testing.assert_allclose(again[0], factor[..., start:stop], rtol=1e-6)
                np.testing.assert_allclose(again[1], s_dt, rtol=1e-6)


def test_scores_of_the_indexer_have_no_rounding():
    """The largest shape the op takes: every partial sum is a whole number of steps below 2**24."""
    op, shape = get_op("lightning_indexer"), {"N1": 128, "D": 256}
    makers, rng = case_data(op).makers, np.random.default_rng(0)
    most = {n: np.abs(makers[n](rng, (4096,), shape, {})).max() for n in ("query", "key", "weights")}
    assert most == {"query": 1.0, "key": 1.0, "weights": 2.0}
    assert shape["N1"] * shape["D"] * (1.0 / 0.25) ** 2 * (2.0 / 0.125) <= 2**24


@pytest.mark.parametrize("op", list_ops())
def test_a_wrong_value_in_any_output_fails(op, monkeypatch):
    chip = get_soc(list(get_op(op).target.soc)[-1]).name
    case = smoke_cases(get_op(op), chip)[0]
    right = run._engine(case, make_arrays(case), chip, "native")
    for name in right:
        wrong = dict(right)
        wrong[name] = right[name] + (0.05 * np.abs(right[name]).max() + 1).astype(right[name].dtype)
        monkeypatch.setattr(run, "_engine", lambda *_, found=wrong: found)
        result = run_case(case, chip)
        assert result.verdict == "fail" and result.message.startswith(f"{name}: "), (name, result.message)


def test_the_same_seed_gives_the_same_completed_data(tmp_path):
    first, again, other = (planned("grad_packed", tmp_path, seed)[0] for seed in (0, 0, 1))
    one, two, three = make_arrays(first), make_arrays(again), make_arrays(other)
    assert all(one[n].tobytes() == two[n].tobytes() for n in one)
    assert one["sparse_indices"].tobytes() != three["sparse_indices"].tobytes()
