# SPDX-License-Identifier: Apache-2.0
"""The Mamba-3 scan: the kernels of ssd_chunk_scan with weights; a row is one (step, rank)."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.ssd_chunk_scan.base import problem_of
from ms_custom_ops.op_impl.ssd_chunk_scan.bwd import ScanBackward
from ms_custom_ops.op_impl.ssd_chunk_scan.fwd import ScanForward
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.ssd_chunk_scan import ScanProblem, plan_backward, plan_forward

_MAMBA2 = {"v": "x", "k": "b", "q": "c", "o": "y", "d_o": "dy", "d_v": "d_x", "d_k": "d_b", "d_q": "d_c"}
"""Names of Mamba-3 -> those of Mamba-2."""


class Mamba3Forward(ScanForward):
    """v, da, factor, gamma, k, q, initial_states -> o in the dtype of v, final_states float32."""

    gm_names = _MAMBA2


class Mamba3Backward(ScanBackward):
    """Inputs of the forward, d_o and d_final_states -> gradients in the order and the dtypes of the inputs."""

    gm_names = _MAMBA2


def _problem(call: KernelCall) -> ScanProblem:
    return problem_of(call, "v", "k", rank=call.attrs["rank"], weighted=True)


def mamba3_chunk_scan(call: KernelCall) -> Any:
    """Entry of the forward kernel."""
    return Mamba3Forward(call, plan_forward(_problem(call), call.soc)).build()


def mamba3_chunk_scan_grad(call: KernelCall) -> Any:
    """Entry of the backward kernel."""
    return Mamba3Backward(call, plan_backward(_problem(call), call.soc)).build()
