# SPDX-License-Identifier: Apache-2.0
"""Reference of bwd_segsum_dadt: the double sum, written with a reverse scan."""

import torch
from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


def reference(dssda, ssda, ddt_out, chunk_size):
    z = dssda.float().transpose(-1, -2) * torch.exp(ssda.float())
    strictly = torch.ones(chunk_size, chunk_size, dtype=torch.bool).tril(-1)
    z = torch.where(strictly, z, torch.zeros(()))
    sums = z.flip(-2).cumsum(-2).flip(-2)  # [k, j]: sum over i >= k
    return ddt_out + torch.where(strictly, sums, torch.zeros(())).sum(-1).reshape(ddt_out.shape).to(ddt_out.dtype)


@register("torch_bwd_segsum_dadt")
class TorchApi(BaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        x = input_data.kwargs
        output = reference(x["dSSdA"], x["SSdA"], x["ddt_out"], x["chunk_size"])
        return output if with_output else None


@register("triton_bwd_segsum_dadt")
class TritonApi(TritonBaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        from mindspeed_ops.api.triton.bwd_segsum_dadt import bwd_segsum_dadt

        x = input_data.kwargs
        return bwd_segsum_dadt(x["dSSdA"], x["SSdA"], x["ddt_out"], x["chunk_size"])
