# SPDX-License-Identifier: Apache-2.0
"""Unit test of bwd_dadt_fused in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.bwd_dadt_fused import bwd_dadt_fused
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


def test_bwd_dadt_fused_is_the_sum_of_its_parts():
    from mindspeed_ops.api.triton.bwd_dadt_cumsum_fused import bwd_dadt_cumsum_fused
    from mindspeed_ops.api.triton.bwd_segsum_dadt import bwd_segsum_dadt

    torch.manual_seed(2)
    dssda, ssda = torch.randn(1, 2, 2, 16, 16, device=DEVICE), -torch.rand(1, 2, 2, 16, 16, device=DEVICE)
    sums = [-torch.rand(1, 2, 32, device=DEVICE) for _ in range(4)]
    parts = bwd_segsum_dadt(dssda, ssda, bwd_dadt_cumsum_fused(*sums, 16), 16)
    assert_close("dadt", parts, bwd_dadt_fused(dssda, ssda, *sums, 16), 1e-5)
