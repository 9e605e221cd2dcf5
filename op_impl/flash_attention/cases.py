# SPDX-License-Identifier: Apache-2.0
"""Case data of flash_attention and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Maker, Symbols, lengths
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.op_impl.flash_attention.golden import flash_attention
from ms_custom_ops.op_impl.flash_attention.packed import row_bounds

_NO_RESULT = ("tiling_stgy_name", "high_precision")  # they change how, not what
_STATISTICS = ("attention_out", "softmax_max", "softmax_sum")
_GRADIENTS = ("d_attention_out", "d_softmax_max", "d_softmax_sum")


def _share(probability: float, pad: float) -> Maker:
    """0 or 1, 1 with ``probability``; ``pad`` behind the S2 real columns."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
        array = (rng.random(shape) < probability).astype(np.float64)
        array[..., symbols["S2"] :] = pad
        return array

    return make


def _query(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Mapping[str, Any]) -> np.ndarray:
    """Normal, times D**-0.5 where the call does not scale the scores: what attention over normal keys means."""
    return rng.standard_normal(shape) * (1.0 if "scale_value" in attrs else symbols["D"] ** -0.5)


def _bounds(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
    """Three sequences, causal; the last rows belong to none."""
    q_ends, kv_ends = (np.sort(rng.integers(0, symbols[name] + 1, 3)) for name in ("S1", "S2"))
    return row_bounds(q_ends, kv_ends, symbols["S1"], symbols["S2"], 0, symbols["S2"])[0]


def _arguments(arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> dict[str, Any]:
    """Masks and lengths without their padding; attributes that the golden knows."""
    cut = {}
    for name, array in arrays.items():
        if name in ("attn_mask", "real_shift", "drop_mask"):
            array = array[..., : symbols["S2"]]
            array = array if name == "real_shift" else array != 0
        elif name in ("actual_seq_qlen", "actual_seq_kvlen"):
            array = array[: symbols["B"]]
        cut[name] = array
    # At the primitive the factor is 1 unless given, in the golden it is D**-0.5.
    return {**cut, "scale_value": 1.0, **{n: v for n, v in attrs.items() if n not in _NO_RESULT}}


def _golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    return golden(**_arguments(arrays, attrs, symbols))


def _visible(outputs: Arrays, case: PlannedCase) -> Arrays:
    rows = case.symbols["S1"]
    return {n: x if n == "attention_out" else x[..., :rows] for n, x in outputs.items()}


def _forward(case: PlannedCase, rng: np.random.Generator, arrays: Arrays) -> None:
    """attention_out and its statistics, from the golden of the forward op."""
    inputs = {n: a.astype(np.float64) for n, a in arrays.items() if n not in _STATISTICS + _GRADIENTS}
    found = flash_attention(**_arguments(inputs, case.attrs, case.symbols))
    rows = arrays["softmax_max"].shape[-1] - case.symbols["S1"]
    for name, array in zip(_STATISTICS, found, strict=True):
        if name in case.fills:
            continue
        if name != "attention_out":
            array = np.pad(array, [(0, 0), (0, 0), (0, rows)])
        arrays[name] = array.astype(np.float32).astype(arrays[name].dtype)
    if not {"d_softmax_max", "d_softmax_sum"} & case.fills.keys():
        # A loss on the log-sum-exp. Any other asks which key holds the maximum, to the bit of the kernel's results.
        arrays["d_softmax_max"] = arrays["d_softmax_sum"] * arrays["softmax_sum"]


def _grad_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    rows = symbols["S1"]
    arrays = {n: a[..., :rows] if n in _GRADIENTS[1:] else a for n, a in arrays.items() if n not in _STATISTICS}
    given = _arguments(arrays, attrs, symbols)
    found = golden(d_out=given.pop("d_attention_out"), **given)
    return found if "real_shift" in arrays else (*found, np.zeros(0))


def _visible_grad(outputs: Arrays, case: PlannedCase) -> Arrays:
    columns = case.symbols["S2"]
    return {n: x[..., :columns] if n == "d_real_shift" else x for n, x in outputs.items()}


_MAKERS: dict[str, Maker] = {
    "query": _query, "attn_mask": _share(0.3, 1), "drop_mask": _share(0.75, 0),
    "actual_seq_qlen": lengths("S1"), "actual_seq_kvlen": lengths("S2"), "row_bounds": _bounds,
}  # fmt: skip

CASES = {
    "flash_attention": CaseData(_MAKERS, golden=_golden, visible=_visible),
    "flash_attention_grad": CaseData(_MAKERS, complete=_forward, golden=_grad_golden, visible=_visible_grad),
}
