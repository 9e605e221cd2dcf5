# SPDX-License-Identifier: Apache-2.0
"""The Mamba-3 scan: the kernels of ssd_chunk_scan with weights; a row is one (step, rank).

The entries stand in this folder, since a Program is cached under the hash of its entry's folder.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.ssd_chunk_scan.base import problem_of
from ms_custom_ops.op_impl.ssd_chunk_scan.bwd import ScanBackward
from ms_custom_ops.op_impl.ssd_chunk_scan.fwd import ScanForward
from ms_custom_ops.soc import current_soc
from ms_custom_ops.tiling.ssd_chunk_scan import plan_backward, plan_forward


def mamba3_chunk_scan(
    v: dict,
    da: dict,
    factor: dict,
    gamma: dict,
    k: dict,
    q: dict,
    initial_states: dict,
    first_chunks: dict | None,
    o: dict,
    final_states: dict,
    chunk_size: int = 64,
    rank: int = 1,
    kernel_name: str = "mamba3_chunk_scan",
) -> Any:
    """Entry of the Mamba-3 forward kernel; tensors are TBE dicts {"shape", "dtype"} or None, as
    op_info states them."""
    problem = problem_of("mamba3_chunk_scan", v, k, chunk_size, first_chunks, initial_states, rank=rank, weighted=True)
    kernel = ScanForward(problem, plan_forward(problem, current_soc()))
    kernel.declare()
    return kernel.build(kernel_name)


def mamba3_chunk_scan_grad(
    v: dict,
    da: dict,
    factor: dict,
    gamma: dict,
    k: dict,
    q: dict,
    initial_states: dict,
    d_o: dict,
    d_final_states: dict,
    first_chunks: dict | None,
    d_v: dict,
    d_da: dict,
    d_factor: dict,
    d_gamma: dict,
    d_k: dict,
    d_q: dict,
    d_initial_states: dict,
    chunk_size: int = 64,
    rank: int = 1,
    kernel_name: str = "mamba3_chunk_scan_grad",
) -> Any:
    """Entry of the Mamba-3 backward kernel; tensors are TBE dicts {"shape", "dtype"} or None, as
    op_info states them."""
    problem = problem_of(
        "mamba3_chunk_scan_grad", v, k, chunk_size, first_chunks, initial_states, rank=rank, weighted=True
    )
    kernel = ScanBackward(problem, plan_backward(problem, current_soc()))
    kernel.declare()
    return kernel.build(kernel_name)
