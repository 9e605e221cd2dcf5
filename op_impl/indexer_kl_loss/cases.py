# SPDX-License-Identifier: Apache-2.0
"""Case data of sparse_lightning_indexer_grad_kl_loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Maker, Symbols
from ms_custom_ops.op_impl.sparse.data import SparseCall, complete, heads_only, latent_query, single_rows


def _per_head(symbol: str) -> Maker:
    """Normal times the symbol's size to the power -0.5."""
    return lambda rng, shape, symbols, attrs: rng.standard_normal(shape) * symbols[symbol] ** -0.5


def _kl_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """row_loss: the golden's loss of each row alone, 8 times."""
    call = SparseCall(arrays, attrs, symbols)
    given = call.same("query", "key", "query_index", "key_index", "weights", "sparse_indices", "query_rope",
                      "key_rope", "actual_seq_lengths_query", "actual_seq_lengths_kv")  # fmt: skip
    more = {"scale_value": attrs.get("scale_value", 1.0), "layout": call.layout,
            "sparse_mode": attrs.get("sparse_mode", 3)}  # fmt: skip
    found = golden(**given, **more)
    indices = given.pop("sparse_indices")
    loss = np.zeros((*indices.shape[:-2], 8))
    for place, alone in single_rows(indices):
        loss[place] = golden(**given, **more, sparse_indices=alone).loss
    outputs = (found.d_query_index, found.d_key_index, found.d_weights, loss)
    return tuple(call.batched(x) for x in outputs)


_MAKERS = {
    "query": latent_query,
    "query_rope": latent_query,
    "query_index": _per_head("DI"),
    "weights": _per_head("NI"),
}

CASES = {
    "sparse_lightning_indexer_grad_kl_loss": CaseData(_MAKERS, complete=complete, golden=_kl_golden, visible=heads_only)
}
