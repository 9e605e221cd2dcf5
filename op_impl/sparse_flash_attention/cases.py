# SPDX-License-Identifier: Apache-2.0
"""Case data of sparse_flash_attention and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Symbols
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.op_impl.sparse.data import (
    SparseCall,
    attention_arguments,
    complete,
    forward_outputs,
    heads_only,
    latent_query,
    single_rows,
)

_D_STATISTICS = ("d_softmax_max", "d_softmax_sum")


def _attention_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    return forward_outputs(SparseCall(arrays, attrs, symbols), golden)


def _attention_grad_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """delta comes from the attention_out that the op is given. d_sinks is per row: the golden of each row alone."""
    call = SparseCall(arrays, attrs, symbols)
    given = {**attention_arguments(call), **call.same("attention_out"), "layout": call.layout}
    d_out = call.natural("d_out")
    heads = symbols["N1"] // symbols["N2"]
    d_statistics = {n: arrays[n][0] if call.packed else arrays[n] for n in _D_STATISTICS if n in arrays}
    d_statistics = {n: x[..., :heads] for n, x in d_statistics.items()}
    found = golden(**given, **d_statistics, d_out=d_out)
    d_value = np.zeros_like(call.natural("value")) if found.d_value is None else found.d_value
    outputs = [found.d_query, found.d_key, d_value, found.d_query_rope, found.d_key_rope]
    d_sinks = None
    if "sinks" in arrays:
        groups = (symbols["N2"], heads)
        rows = np.zeros((*d_out.shape[:-2], *groups))
        for place, alone in single_rows(given["sparse_indices"]):
            d_row = np.zeros_like(d_out)
            d_row[place] = d_out[place]
            d_rows = {n: np.zeros_like(x) for n, x in d_statistics.items()}
            for name, x in d_statistics.items():
                at = (*place[:-1], slice(None), place[-1])
                d_rows[name][at] = x[at]
            rows[place] = golden(**{**given, **d_rows, "sparse_indices": alone}, d_out=d_row).d_sinks.reshape(groups)
        d_sinks = np.moveaxis(call.batched(rows), 1, 2)
    return (*(None if x is None else call.batched(x) for x in outputs), d_sinks)


def _complete(case: PlannedCase, rng: np.random.Generator, arrays: Arrays) -> None:
    complete(case, rng, arrays)
    if "d_softmax_max" in arrays and not set(_D_STATISTICS) & case.fills.keys():
        # A loss on the log-sum-exp. Any other asks which key holds the maximum, to the bit of the kernel's results.
        arrays["d_softmax_max"] = arrays["d_softmax_sum"] * arrays["softmax_sum"]


_MAKERS = {"query": latent_query, "query_rope": latent_query}

CASES = {
    "sparse_flash_attention": CaseData(_MAKERS, complete=complete, golden=_attention_golden, visible=heads_only),
    "sparse_flash_attention_grad": CaseData(
        _MAKERS, complete=_complete, golden=_attention_grad_golden, visible=heads_only
    ),
}
