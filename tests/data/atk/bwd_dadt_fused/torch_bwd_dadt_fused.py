# SPDX-License-Identifier: Apache-2.0
"""Reference of bwd_dadt_fused: both parts."""

import torch
from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


@register("torch_bwd_dadt_fused")
class TorchApi(BaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        x = dict(input_data.kwargs)
        c = x["chunk_size"]
        z = (x["dSSdA"].double().transpose(-1, -2) * x["SSdA"].double().exp()).tril(-1)
        segments = (z.sum(-2) - z.sum(-1)).cumsum(-1)
        segments = torch.nn.functional.pad(segments, (1, -1))
        down, up = (
            (x["dd" + name].double() * x["d" + name].double().exp()).unflatten(-1, (-1, c))
            for name in ("A_cs", "A_cs_rev")
        )
        sums = down.flip(-1).cumsum(-1).flip(-1) + up.cumsum(-1) - up
        return (segments + sums).flatten(-2).float()


@register("triton_bwd_dadt_fused")
class TritonApi(TritonBaseApi):
    pass
