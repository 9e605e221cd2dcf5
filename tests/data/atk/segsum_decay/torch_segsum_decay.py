# SPDX-License-Identifier: Apache-2.0
"""Reference of segsum_decay: exp of differences of running sums."""

import torch
from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


@register("torch_segsum_decay")
class TorchApi(BaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        da, chunk = input_data.kwargs["da"].double(), input_data.kwargs["chunk_size"]
        assert input_data.kwargs["is_ragged"] == (da.shape[2] % chunk != 0)
        padded = torch.nn.functional.pad(da, (0, -da.shape[2] % chunk)).unflatten(-1, (-1, chunk))
        sums = padded.cumsum(-1)
        return (sums[..., :, None] - sums[..., None, :]).clamp(max=0).exp().tril(-1).float()


@register("triton_segsum_decay")
class TritonApi(TritonBaseApi):
    pass
