# SPDX-License-Identifier: Apache-2.0
"""``ms_custom_ops.ops``: public functions; of an op without a public function of its own, the generated
one."""

from __future__ import annotations

import contextlib
from typing import Any

from ms_custom_ops.errors import OpInfoError, describe
from ms_custom_ops.mindspore.alibi import alibi_slopes
from ms_custom_ops.mindspore.context_attention import context_parallel_attention
from ms_custom_ops.mindspore.context_check import check_ranks
from ms_custom_ops.mindspore.context_parallel import ContextGroup, context_join, context_rows, context_split
from ms_custom_ops.mindspore.context_scan import context_parallel_mamba3_chunk_scan, context_parallel_ssd_chunk_scan
from ms_custom_ops.mindspore.flash_attention import flash_attention
from ms_custom_ops.mindspore.flash_attention_score import flash_attention_score
from ms_custom_ops.mindspore.functions import function_of
from ms_custom_ops.mindspore.rewriting import leave_functions
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
from ms_custom_ops.registry import OpPackage, packages

__all__ = [
    "ContextGroup",
    "alibi_slopes",
    "bwd_dadt_cumsum",
    "bwd_dadt_fused",
    "bwd_dtrap_ddt",
    "bwd_segsum_dadt",
    "check_ranks",
    "check_sparse_indices",
    "context_join",
    "context_parallel_attention",
    "context_parallel_mamba3_chunk_scan",
    "context_parallel_ssd_chunk_scan",
    "context_rows",
    "context_split",
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

for _spec in packages()[0].registry.ops.values():
    if _spec.function_name not in __all__:
        globals()[_spec.function_name] = function_of(_spec)
        __all__ += [_spec.function_name]


def add_functions(package: OpPackage) -> None:
    """Puts the functions of a user's package beside those that are here. The graph compiler reads the dictionaries of
    modules, so attributes that are only made when asked for do not do.

    Raises:
        OpInfoError: a name is taken; the generated file cannot be written.
    """
    for spec in package.registry.ops.values():
        function = function_of(spec)
        if globals().setdefault(spec.function_name, function) is not function:
            given = f"'{spec.function_name}' in {spec.location}"
            raise OpInfoError(describe("op_info", "function", given, "a name that ms_custom_ops.ops does not have"))


def __getattr__(name: str) -> Any:
    """What is said of an op that is broken or whose package is."""
    for package in packages()[1:]:
        if name in package.function_names() or name in package.registry.broken:
            return function_of(package.op_of_function(name))
    raise AttributeError(f"ms_custom_ops.ops has no {name!r}; it has {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for package in packages()[1:] for name in package.function_names())})


for _package in packages()[1:]:
    with contextlib.suppress(OpInfoError):  # raised when the function is asked for
        add_functions(_package)

leave_functions()
