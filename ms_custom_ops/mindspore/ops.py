# SPDX-License-Identifier: Apache-2.0
"""``ms_custom_ops.ops``: public functions; of an op without a public function of its own, the generated
one."""

from __future__ import annotations

import inspect

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.alibi import alibi_slopes
from ms_custom_ops.mindspore.flash_attention import flash_attention
from ms_custom_ops.mindspore.flash_attention_score import flash_attention_score
from ms_custom_ops.mindspore.segsum import (
    bwd_dadt_cumsum,
    bwd_dadt_fused,
    bwd_dtrap_ddt,
    bwd_segsum_dadt,
    dacs_segsum,
    segsum_decay,
)
from ms_custom_ops.mindspore.sparse_attention import (
    check_sparse_indices,
    counts_to_prefix_sums,
    dense_sparse_indices,
    indexer_kl_loss,
    lightning_indexer,
    prefix_sums_to_counts,
    sparse_flash_attention,
    sparse_flash_attention_grad,
    sparse_lightning_indexer_grad_kl_loss,
)
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan

__all__ = [
    "alibi_slopes",
    "bwd_dadt_cumsum",
    "bwd_dadt_fused",
    "bwd_dtrap_ddt",
    "bwd_segsum_dadt",
    "check_sparse_indices",
    "counts_to_prefix_sums",
    "dacs_segsum",
    "dense_sparse_indices",
    "flash_attention",
    "flash_attention_score",
    "indexer_kl_loss",
    "lightning_indexer",
    "mamba3_chunk_scan",
    "prefix_sums_to_counts",
    "segsum_decay",
    "sparse_flash_attention",
    "sparse_flash_attention_grad",
    "sparse_lightning_indexer_grad_kl_loss",
    "ssd_chunk_scan",
]

for _name, _value in list(vars(mco_generated_ops).items()):
    if inspect.isfunction(_value) and _value.__module__ == mco_generated_ops.__name__ and _name not in __all__:
        globals()[_name] = _value
        __all__ += [_name]
