# SPDX-License-Identifier: Apache-2.0
"""Unit test of dacs_segsum in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.dacs_segsum import dacs_segsum
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


@pytest.mark.parametrize(("steps", "chunk"), [(32, 16), (40, 16), (24, 8)])
def test_dacs_segsum(steps, chunk):
    torch.manual_seed(0)
    da = -torch.rand(2, 3, steps, device=DEVICE)
    da_cs, da_cs_rev, segsum = dacs_segsum(da, chunk)
    assert segsum.shape == (2, 3, -(-steps // chunk), chunk, chunk)
    first = da[..., :chunk]
    assert_close("da_cs", first.cumsum(-1), da_cs[..., :chunk], 1e-5)
    assert_close("da_cs_rev", first.sum(-1, keepdim=True) - first.cumsum(-1), da_cs_rev[..., :chunk], 1e-5)
    assert_close("segsum", first[..., 1:4].sum(-1), segsum[..., 0, 3, 0], 1e-5)
