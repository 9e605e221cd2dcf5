# SPDX-License-Identifier: Apache-2.0
"""Reference of bwd_dtrap_ddt: torch's own gradient of the trapezoid's factors."""

import torch
from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


@register("torch_bwd_dtrap_ddt")
class TorchApi(BaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        x = {name: value.double() for name, value in input_data.kwargs.items() if name != "chunk_size"}
        trap, dt = x["trap"].requires_grad_(), x["dt"].requires_grad_()
        gamma = torch.sigmoid(trap) * dt
        rest = (1 - torch.sigmoid(trap)) * dt
        factor = gamma + torch.nn.functional.pad(rest[..., 1:], (0, 1))
        ddt, dtrap = torch.autograd.grad((factor, gamma), (dt, trap), (x["dfactor"], x["dgamma_diag"]))
        return ddt.float(), dtrap.float()


@register("triton_bwd_dtrap_ddt")
class TritonApi(TritonBaseApi):
    pass
