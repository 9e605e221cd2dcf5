# SPDX-License-Identifier: Apache-2.0
"""Unit test of segsum_decay in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.segsum_decay import segsum_decay
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


@pytest.mark.parametrize("chunk", [8, 16, 64])
def test_segsum_decay(chunk):
    da = torch.full((1, 2, 2 * chunk), -0.5, device=DEVICE)
    i = torch.arange(chunk)
    wanted = torch.exp(-0.5 * (i[:, None] - i[None, :]).clamp(min=0).float()).tril(-1)
    assert_close("decay", wanted.expand(1, 2, 2, chunk, chunk), segsum_decay(da, chunk_size=chunk), 1e-5)
