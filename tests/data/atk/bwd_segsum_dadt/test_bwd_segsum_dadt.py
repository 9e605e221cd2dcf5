# SPDX-License-Identifier: Apache-2.0
"""Unit test of bwd_segsum_dadt in the form of the operators' home."""

import pytest
import torch
from mindspeed_ops.api.triton.bwd_segsum_dadt import bwd_segsum_dadt
from mindspeed_ops.api.triton.utils import get_available_device
from mindspeed_ops.utils import is_arch35
from tests.utils import assert_close

DEVICE = get_available_device()
pytestmark = pytest.mark.skipif(is_arch35(), reason="no kernel for arch35")


TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (1e-2, 5e-3), torch.float16: (1e-3, 5e-4)}
SHAPES = [(1, 1, 1, 8), (1, 2, 2, 16), (2, 4, 4, 32), (1, 1, 2, 64)]


def ref(dssda, ssda, ddt):
    z = (dssda.float().transpose(-1, -2) * torch.exp(ssda.float())).tril(-1)
    columns, rows = z.sum(-2), z.sum(-1)
    ddt_chunk = (columns - rows).cumsum(-1)
    return ddt.float() + torch.cat([torch.zeros_like(ddt_chunk[..., :1]), ddt_chunk[..., :-1]], -1).reshape(ddt.shape)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bwd_segsum_dadt(shape, dtype):
    torch.manual_seed(42)
    b, h, n, c = shape
    dssda, ssda = (torch.randn(b, h, n, c, c, device=DEVICE, dtype=dtype) for _ in range(2))
    ddt_out = torch.randn(b, h, n * c, device=DEVICE, dtype=dtype)
    wanted = ref(dssda, ssda, ddt_out)
    result = bwd_segsum_dadt(dssda, ssda, ddt_out, chunk_size=c)
    assert result.dtype == dtype
    assert torch.equal(result, ddt_out)
    ratio, atol = TOLERANCES[dtype]
    assert_close("ddt", wanted, result.float(), ratio, err_atol=atol)
