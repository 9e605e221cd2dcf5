# SPDX-License-Identifier: Apache-2.0
"""Reference of bwd_dadt_cumsum: a sum from behind and an exclusive one from the front."""

from atk.configs.dataset_config import InputDataset
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.api_execute.triton_base_api import TritonBaseApi


def sums_of_chunks(ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, chunk_size):
    down, up = (
        (grad.double() * exponent.double().exp()).unflatten(-1, (-1, chunk_size))
        for grad, exponent in ((ddA_cs, dA_cs), (ddA_cs_rev, dA_cs_rev))
    )
    return (down.flip(-1).cumsum(-1).flip(-1) + up.cumsum(-1) - up).flatten(-2)


@register("torch_bwd_dadt_cumsum")
class TorchApi(BaseApi):
    def __call__(self, input_data: InputDataset, with_output: bool = False):
        return sums_of_chunks(**input_data.kwargs).float()


@register("triton_bwd_dadt_cumsum")
class TritonApi(TritonBaseApi):
    pass
