# SPDX-License-Identifier: Apache-2.0
"""Reference of dacs_segsum: sums by cumsum of whole chunks."""

import torch
from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


@register("torch_dacs_segsum")
class TorchApi(BaseApi):
    def init_by_input_data(self, input_data: InputDataset):
        self.da, self.chunk = input_data.args

    def __call__(self, input_data: InputDataset, with_output: bool = False):
        b, h, s = self.da.shape
        padded = torch.nn.functional.pad(self.da.double(), (0, -s % self.chunk)).reshape(b, h, -1, self.chunk)
        sums = padded.cumsum(-1)
        segsum = (sums[..., :, None] - sums[..., None, :]).tril(-1)
        whole = (sums, sums[..., -1:] - sums)
        cs, rev = (x.clamp(max=0).reshape(b, h, -1)[..., :s].float() for x in whole)
        return cs, rev, segsum.clamp(max=0).float()


@register("triton_dacs_segsum")
class TritonApi(TritonBaseApi):
    pass
