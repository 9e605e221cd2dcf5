# SPDX-License-Identifier: Apache-2.0
"""``tik_soc_manager`` and ``tik_get_soc_name``: which chip TIK code is compiled for."""

from __future__ import annotations

from ms_custom_ops.compat.choice import AIC, VEC, core_type
from ms_custom_ops.compat.platform import get_soc_spec
from ms_custom_ops.soc import current_soc
from ms_custom_ops.soc.current import unmodelled_soc


def get_soc_name() -> str:
    """Short name of the chip, e.g. Ascend910."""
    return get_soc_spec("SHORT_SOC_VERSION")


def get_soc_core_type() -> str:
    """ "AiCore" or "VectorCore"."""
    return core_type()


def _family(*families: str) -> bool:
    return unmodelled_soc() is None and current_soc().family in families


class TikSocManager:
    """Questions about the current chip, by the architecture names of TIK."""

    @staticmethod
    def is_v100_soc() -> bool:
        """Ascend310 or Ascend910A."""
        return _family("310", "910A")

    @staticmethod
    def is_v200_soc() -> bool:
        """Ascend310P."""
        return _family("310P")

    @staticmethod
    def is_aic_soc() -> bool:
        """The AI core of Ascend310P."""
        return _family("310P") and core_type() == AIC

    @staticmethod
    def is_vec_soc() -> bool:
        """The vector core of Ascend310P."""
        return _family("310P") and core_type() == VEC

    @staticmethod
    def is_v210_soc() -> bool:
        """No chip of that architecture is in the chip table."""
        return False

    @staticmethod
    def is_v220_soc() -> bool:
        """Ascend910B or Ascend910_93."""
        return _family("910B", "910_93")

    @staticmethod
    def is_v300_soc() -> bool:
        """No chip of that architecture is in the chip table."""
        return False
