# SPDX-License-Identifier: Apache-2.0
"""Cases of context_worker.py in which the ranks disagree: every rank gets the same error, and the next case runs."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor

import ms_custom_ops as mco
from ms_custom_ops import soc
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.mindspore import context_check


def version(odd):
    context_check.__version__, kept = ("0.0.1" if odd else context_check.__version__), context_check.__version__
    try:
        mco.ops.check_ranks()
    finally:
        context_check.__version__ = kept


def chip(odd):
    with soc.use_soc("Ascend910A" if odd else "Ascend910B1"):
        mco.ops.check_ranks()


def shape(odd):
    mco.ops.check_ranks(query=Tensor(np.zeros((1, 2, 4 + odd, 16), np.float16)))


def dtype(odd):
    mco.ops.check_ranks(query=np.zeros((1, 2), np.float32 if odd else np.float16))


def attribute(odd):
    mco.nn.ContextParallelAttention(sparse_mode=0 if odd else 3)


def layer(odd):
    mco.nn.ContextParallelMamba2(24, 10, headdim=12, seed=1 + odd)


def several(odd):
    facts = dict(extra=1) if odd else {}
    mco.ops.check_ranks(seed=odd, same=1, **facts)


DISAGREE = {
    "version": (version, r"ms_custom_ops is '?\S+'? on rank.* and 0\.0\.1 on rank 1"),
    "chip": (chip, "chip is Ascend910B1 on rank.* and Ascend910A on rank 1"),
    "shape": (shape, r"query is float16 \(1, 2, 4, 16\) on rank.* and float16 \(1, 2, 5, 16\) on rank 1"),
    "dtype": (dtype, r"query is float16 \(1, 2\) on rank.* and float32 \(1, 2\) on rank 1"),
    "attribute": (attribute, r"nn.ContextParallelAttention is \(None, 1.0, 3, .* and \(None, 1.0, 0, .* on rank 1"),
    "layer": (layer, "nn.ContextParallelMamba2 is .*'seed': 1.* on rank.* and .*'seed': 2.* on rank 1"),
    "several": (several, "seed is 0 on rank.* and 1 on rank 1; extra is not given on rank.* and 1 on rank 1; accepted"),
}


def refusals(group):
    """kind -> text of the error on this rank, "" without one; and what is equal is accepted."""
    found = {}
    for kind, (call, _) in DISAGREE.items():
        try:
            call(int(group.rank == 1))
            found[kind] = ""
        except OpArgumentError as error:
            found[kind] = str(error)
    mco.ops.check_ranks(query=Tensor(np.zeros(3)), seed=1, mode=ms.get_context("mode"))
    return found
