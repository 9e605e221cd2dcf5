# SPDX-License-Identifier: Apache-2.0
"""``te.platform.cce_conf``: older queries of the chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.compat.cce_params import CUBE_MKN  # noqa: F401
from ms_custom_ops.compat.platform import (  # noqa: F401
    api_check_support,
    get_bit_len,
    get_soc_spec,
    intrinsic_check_support,
    set_current_compile_soc_info,
    te_set_version,
    te_update_version,
)
from ms_custom_ops.soc import Soc, current_soc

_VALUES: dict[str, Callable[[Soc], Any]] = {
    "Unified_Buffer": lambda soc: soc.ub_bytes,
    "L1_Buffer": lambda soc: soc.l1_bytes,
    "L0A_Buffer": lambda soc: soc.l0a_bytes,
    "L0B_Buffer": lambda soc: soc.l0b_bytes,
    "L0C_Buffer": lambda soc: soc.l0c_bytes,
    "L2_Buffer": lambda soc: soc.l2_bytes,
    "CORE_NUM": lambda soc: get_soc_spec("CORE_NUM"),
    "Compiler_arch": lambda soc: soc.arch,
}


def get_value(key: str) -> Any:
    """A size in bytes or a number by its older name; RuntimeError lists the names."""
    read = _VALUES.get(key)
    if read is None:
        raise RuntimeError(f"cce_conf.getValue: key is {key!r}; accepted: {', '.join(_VALUES)}")
    return read(current_soc())


getValue = get_value


class CceProductParams:
    """Sizes of the current chip as an object."""

    def getParams(self, key: str) -> Any:
        """:func:`get_value`."""
        return get_value(key)

    get_params = getParams


def set_status_check(flag: bool) -> None:
    """An option of the compiler without an effect here."""
    from ms_custom_ops.compat.buildcfg import set_current_build_config

    set_current_build_config("status_check", bool(flag))


def get_product() -> str:
    """Short name of the chip."""
    return get_soc_spec("SHORT_SOC_VERSION")


def get_kernel_meta_dir() -> str:
    """Folder a compiler would write its kernels to; nothing is written here."""
    return "kernel_meta"
