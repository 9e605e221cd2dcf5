# SPDX-License-Identifier: Apache-2.0
"""``te.tvm.topi.cce.util`` (``topi.cce.util``): older checks and the product query."""

from __future__ import annotations

from ms_custom_ops.compat.para_check import *  # noqa: F403
from ms_custom_ops.compat.platform import get_bit_len  # noqa: F401
from ms_custom_ops.compat.shape_util import (  # noqa: F401
    axis_check,
    compare_tensor_dict_key,
    produce_shapes,
    refine_shapes_for_broadcast,
    scalar2tensor_one,
    shape_refine,
    shape_to_list,
    simplify_axis_shape,
)
from ms_custom_ops.soc import current_soc

VERSION_CLOUD = "cloud"
VERSION_MINI = "mini"
VERSION_AIC = "aic"


def get_product_version() -> str:
    """VERSION_MINI on Ascend310, VERSION_CLOUD on 910A, VERSION_AIC on 310P, the family's name on later chips."""
    family = current_soc().family
    return {"310": VERSION_MINI, "910A": VERSION_CLOUD, "310P": VERSION_AIC}.get(family, family)


def is_mini_version() -> bool:
    """Whether the chip is Ascend310."""
    return get_product_version() == VERSION_MINI


def is_cloud_version() -> bool:
    """Whether the chip is an Ascend910A."""
    return get_product_version() == VERSION_CLOUD
