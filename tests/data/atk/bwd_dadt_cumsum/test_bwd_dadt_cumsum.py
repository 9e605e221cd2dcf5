# SPDX-License-Identifier: Apache-2.0
"""Unit test of bwd_dadt_cumsum in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.bwd_dadt_cumsum import bwd_dadt_cumsum
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


@pytest.mark.parametrize(("steps", "chunk"), [(32, 16), (16, 8)])
def test_bwd_dadt_cumsum(steps, chunk):
    torch.manual_seed(1)
    ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev = (-torch.rand(1, 2, steps, device=DEVICE) for _ in range(4))
    result = bwd_dadt_cumsum(ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, chunk)
    down, up = (ddA_cs * dA_cs.exp())[..., :chunk], (ddA_cs_rev * dA_cs_rev.exp())[..., :chunk]
    wanted = torch.stack([down[..., k:].sum(-1) + up[..., :k].sum(-1) for k in range(chunk)], -1)
    assert_close("dadt", wanted, result[..., :chunk], 1e-5)
