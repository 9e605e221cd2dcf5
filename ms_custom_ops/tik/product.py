# SPDX-License-Identifier: Apache-2.0
"""``tik.set_product_version``: the chip of the kernels that follow, by product or chip name."""

from __future__ import annotations

from ms_custom_ops.errors import SocError, TikError, describe
from ms_custom_ops.soc import Soc, current_soc, get_soc, list_socs, set_soc
from ms_custom_ops.where import user_location

_PRODUCTS = {"mini": "Ascend310", "cloud": "Ascend910A", "aic": "Ascend310P3"}
_before: Soc | None = None


def set_product_version(version: str) -> None:
    """Make a product ("mini", "cloud", "aic") or a chip the one kernels are traced for; TikError if unknown."""
    global _before
    try:
        soc = get_soc(_PRODUCTS.get(version, version))
    except SocError:
        accepted = f"{', '.join(_PRODUCTS)}, or a chip: {', '.join(list_socs())}"
        raise TikError(describe("set_product_version", "version", repr(version), accepted), user_location()) from None
    if _before is None:
        _before = current_soc()
    set_soc(soc.name)


def unset_product_version() -> None:
    """Back to the chip that was in force before the first :func:`set_product_version`."""
    global _before
    if _before is not None:
        set_soc(_before.name)
    _before = None
