# SPDX-License-Identifier: Apache-2.0
"""bwd_segsum_dadt as a Triton kernel, for Triton's interpreter: an own port of the formula, one program per
chunk.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(d_ptr, s_ptr, in_ptr, out_ptr, C: tl.constexpr):
    chunk = tl.program_id(0)
    step = tl.arange(0, C)
    query, key = step[:, None], step[None, :]
    log_decay = tl.load(s_ptr + chunk * C * C + query * C + key)
    d_decay = tl.load(d_ptr + chunk * C * C + key * C + query)
    product = tl.where(query > key, d_decay * tl.exp(log_decay), 0.0)
    later = tl.cumsum(product, 0, reverse=True)
    added = tl.sum(tl.where(query > key, later, 0.0), 1)
    tl.store(out_ptr + chunk * C + step, tl.load(in_ptr + chunk * C + step) + added)


def bwd_segsum_dadt(d_decay: torch.Tensor, log_decay: torch.Tensor, ddt: torch.Tensor, chunk: int) -> torch.Tensor:
    """ddt plus the gradient; matrices (B, H, N, C, C), ddt (B, H, N*C), C a power of two."""
    out = torch.empty_like(ddt)
    _kernel[(ddt.numel() // chunk,)](d_decay, log_decay, ddt, out, C=chunk)
    return out
