# SPDX-License-Identifier: Apache-2.0
"""Unit test of bwd_dtrap_ddt in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.bwd_dtrap_ddt import bwd_dtrap_ddt
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


def test_bwd_dtrap_ddt():
    torch.manual_seed(3)
    trap, dt, dfactor, dgamma = (torch.randn(1, 2, 24, device=DEVICE) for _ in range(4))
    ddt, dtrap = bwd_dtrap_ddt(trap, dt, dfactor, dgamma, 8)
    s, own = torch.sigmoid(trap), dfactor + dgamma
    before = torch.nn.functional.pad(dfactor[..., :-1], (1, 0))
    assert_close("ddt", before * (1 - s) + own * s, ddt, 1e-5)
    assert_close("dtrap", (own - before) * dt * s * (1 - s), dtrap, 1e-5)
