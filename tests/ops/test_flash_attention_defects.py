# SPDX-License-Identifier: Apache-2.0
"""Defects of the public TIK flash attention that must not exist here, and properties the kernels promise."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.engine import native as engine
from ms_custom_ops.op_impl.flash_attention import golden
from ms_custom_ops.testing import assert_rms

sys.path.insert(0, str(Path(__file__).parent))
from flash_cases import LIMIT, Case, attributes_of, prepare, run_golden, run_kernel, tensors_of
from kernel_trace import traced

SOCS = ("Ascend910A", "Ascend910B1")


def compare(case: Case, soc: str, names: tuple[str, ...]) -> None:
    t = tensors_of(case)
    actual, expected = run_kernel(case, t, soc), run_golden(case, t)
    for name in names:
        assert_rms(name, actual[name].astype(np.float64), expected[name], LIMIT[case.dtype])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("lengths", ((144, 272), (272, 144)), ids=lambda s: f"S{s[0]}x{s[1]}")
def test_gradients_with_different_query_and_key_lengths(lengths: tuple[int, int], soc: str) -> None:
    """a: strides of dQ, dK and dV taken from the wrong length."""
    compare(Case(*lengths, 64), soc, ("d_query", "d_key", "d_value"))


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("s2", (129, 200, 255, 300))
def test_row_sums_with_a_ragged_last_key_block(s2: int, soc: str) -> None:
    """b: row sums of the last block were undefined when S2 is no multiple of 128."""
    compare(Case(64, s2, 32), soc, ("softmax_sum", "attention_out"))


@pytest.mark.parametrize("soc", SOCS)
def test_alibi_reaches_the_right_elements(soc: str) -> None:
    """c: the bias was added in row-major order to a fractal tile. A steep bias makes any permutation visible."""
    case = Case(50, 150, 32, "shift", n1=2)
    t = tensors_of(case)
    t["real_shift"] = (np.arange(150) % 7 * 2.0 - 6).astype(np.float16)[None, None, None].repeat(2, 1)
    actual, expected = run_kernel(case, t, soc), run_golden(case, t)
    for name in ("attention_out", "d_query", "d_key", "d_value"):
        assert_rms(name, actual[name].astype(np.float64), expected[name], LIMIT["float16"])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("mode", ("dropout", "drop_mask"))
def test_dropout_is_element_wise_aligned(mode: str, soc: str) -> None:
    """d: the dropout tile was permuted against the scores; here it agrees element by element with its definition."""
    compare(Case(70, 150, 32, mode), soc, ("attention_out", "d_query", "d_key", "d_value"))


@pytest.mark.parametrize("soc", SOCS)
def test_dtypes_are_the_declared_ones(soc: str) -> None:
    """e: documentation and registration disagreed; gradients have the dtype of the inputs, statistics are float32."""
    result = run_kernel(Case(17, 33, 16), tensors_of(Case(17, 33, 16)), soc)
    kinds = {name: str(value.dtype) for name, value in result.items()}
    assert kinds == dict(
        attention_out="float16",
        softmax_max="float32",
        softmax_sum="float32",
        d_query="float16",
        d_key="float16",
        d_value="float16",
    )


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("mode", ("none", "causal,dropout", "lengths"))
def test_results_do_not_depend_on_the_number_of_threads(mode: str, soc: str) -> None:
    case = Case(200, 130, 64, mode, batch=2, n1=4, n2=2)
    t, results = tensors_of(case), []
    before = engine.get_num_threads()
    try:
        for threads in (1, 2, 5):
            engine.set_num_threads(threads)
            results.append(run_kernel(case, t, soc))
    finally:
        engine.set_num_threads(before)
    for name, value in results[0].items():
        for other in results[1:]:
            assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("mode, rows", [("causal", 128), ("band", 128), ("blocks", 128)])
def test_excluded_blocks_are_not_computed(mode: str, rows: int, soc: str) -> None:
    """NaN keys in blocks that the first query block does not see would turn its scores into NaN if they were used."""
    case = Case(512, 512, 32, mode, n1=1, n2=1)
    case = replace(case, attrs=dict(pre_tokens=64, next_tokens=64)) if mode == "band" else case
    t = tensors_of(case)
    for name in ("key", "value"):
        t[name][:, :, 256:] = np.nan
    out = run_kernel(case, t, soc)["attention_out"][:, :, :rows]
    clean = {n: np.nan_to_num(x.astype(np.float64)) for n, x in t.items()}
    expected, _, _ = golden.flash_attention(clean["query"], clean["key"], clean["value"], **attributes_of(case))
    assert_rms("attention_out", out.astype(np.float64), expected[:, :, :rows], LIMIT["float16"])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("mode", ("causal", "band", "causal,dropout"))
def test_no_quadratic_tensor_in_gm(mode: str, soc: str) -> None:
    case = Case(2048, 2048, 64, mode, n1=1, n2=1)
    p = prepare(case, tensors_of(case))
    program = traced("flash_attention", [p[n] for n in ("query", "key", "value")], attributes_of(case), soc)
    gm = [b for b in program.buffers if b.scope == "gm"]
    per_core = 24 if soc == "Ascend910B1" else 1  # exchange tiles of every core on split-core chips
    assert all(b.size_bytes < 2048 * 2048 or b.size_bytes <= per_core * 128 * 128 * 4 for b in gm), [
        (b.name, b.size_bytes) for b in gm
    ]


@pytest.mark.parametrize("soc", SOCS)
def test_fully_masked_rows_are_zero_everywhere(soc: str) -> None:
    case = Case(40, 60, 32, "mask_batch", batch=1)
    t = tensors_of(case)
    t["attn_mask"][:] = False
    t["attn_mask"][:, :, 5:9] = True
    result = run_kernel(case, t, soc)
    for name in ("attention_out", "softmax_max", "softmax_sum", "d_query"):
        assert not result[name][:, :, 5:9].any(), name
        assert np.isfinite(result[name].astype(np.float32)).all(), name
