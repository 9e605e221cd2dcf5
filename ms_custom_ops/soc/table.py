# SPDX-License-Identifier: Apache-2.0
"""The chip table: what a kernel may rely on, one frozen row per chip.

Sizes and core counts are the values of the vendor's public platform configuration files for CANN 8.1; differences
between sources are noted beside the row. Nothing here was measured by this project.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ms_custom_ops.errors import SocError

KIB = 1024
BLOCK_BYTES = 32
"""Unit of UB and L1 addresses and of ``data_move``."""
VECTOR_REPEAT_BYTES = 256
"""Bytes of one operand that a vector instruction handles per repeat."""
MAX_REPEAT = 255
"""Largest immediate ``repeat_times`` of a vector instruction."""
CUBE_BLOCK = 16
"""Rows and columns of a cube fractal (M0 = N0)."""
FRACTAL_BYTES = 512
"""Bytes of one L0A/L0B fractal (16 rows of 32 bytes)."""


@dataclass(frozen=True, kw_only=True)
class Soc:
    """One chip. ``split_core``: cube and vector units are separate cores that exchange data through GM.
    ``saturate_default``: float16/bfloat16 overflow gives the largest finite value unless a kernel says otherwise.
    ``pipe_events``: events of set_flag between two pipes. ``barrier_within_pipe``: documented that an instruction may
    start before the one ahead of it in its own pipe has ended, so that memory is ordered by pipe_barrier only."""

    name: str
    family: str
    arch: str
    cube_core_count: int
    vector_core_count: int
    clock_mhz: int
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    bt_bytes: int
    l2_bytes: int
    split_core: bool
    saturate_default: bool
    pipe_events: int
    barrier_within_pipe: bool

    @property
    def core_count(self) -> int:
        """Blocks of a multi-core loop that run at once for a kernel with cube work: cube cores."""
        return self.cube_core_count

    @property
    def has_bf16(self) -> bool:
        """bfloat16 conversions and cube products exist."""
        return self.family in ("910B", "910_93")

    @property
    def scope_bytes(self) -> dict[str, int]:
        """Size of each on-chip buffer by its scope name in a Program."""
        return {
            "ub": self.ub_bytes,
            "l1": self.l1_bytes,
            "l0a": self.l0a_bytes,
            "l0b": self.l0b_bytes,
            "l0c": self.l0c_bytes,
            "bt": self.bt_bytes,
        }


_FAMILY = {
    # 248 KiB of the 256 KiB UB are usable on 310.
    "310": dict(
        arch="dav-m100",
        ub_bytes=248 * KIB,
        l1_bytes=1024 * KIB,
        l0c_bytes=256 * KIB,
        bt_bytes=0,
        split_core=False,
        saturate_default=True,
        pipe_events=4,
        barrier_within_pipe=False,
    ),
    "910A": dict(
        arch="dav-c100",
        ub_bytes=256 * KIB,
        l1_bytes=1024 * KIB,
        l0c_bytes=256 * KIB,
        bt_bytes=0,
        split_core=False,
        saturate_default=True,
        pipe_events=4,
        barrier_within_pipe=False,
    ),
    "310P": dict(
        arch="dav-m200",
        ub_bytes=256 * KIB,
        l1_bytes=1024 * KIB,
        l0c_bytes=256 * KIB,
        bt_bytes=0,
        split_core=False,
        saturate_default=True,
        pipe_events=8,
        barrier_within_pipe=False,
    ),
    # Saturation is a switch on 910B; frameworks run it in inf/NaN mode.
    "910B": dict(
        arch="dav-c220",
        ub_bytes=192 * KIB,
        l1_bytes=512 * KIB,
        l0c_bytes=128 * KIB,
        bt_bytes=KIB,
        split_core=True,
        saturate_default=False,
        pipe_events=8,
        barrier_within_pipe=True,
    ),
    "910_93": dict(
        arch="dav-c220",
        ub_bytes=192 * KIB,
        l1_bytes=512 * KIB,
        l0c_bytes=128 * KIB,
        bt_bytes=KIB,
        split_core=True,
        saturate_default=False,
        pipe_events=8,
        barrier_within_pipe=True,
    ),
}
FAMILIES = tuple(_FAMILY)

# name: (family, cube cores, vector cores, clock MHz, L2 MiB); a fused core counts once, as a cube core.
_ROWS = {
    "Ascend310": ("310", 2, 0, 680, 8),
    "Ascend310P1": ("310P", 10, 8, 1060, 16),
    "Ascend310P3": ("310P", 8, 7, 1060, 16),
    "Ascend910A": ("910A", 32, 0, 1000, 32),
    "Ascend910ProA": ("910A", 32, 0, 1100, 32),
    "Ascend910ProB": ("910A", 30, 0, 1150, 32),
    "Ascend910PremiumA": ("910A", 32, 0, 1220, 32),
    "Ascend910B1": ("910B", 24, 48, 1850, 192),
    "Ascend910B2": ("910B", 24, 48, 1800, 192),
    "Ascend910B3": ("910B", 20, 40, 1800, 192),
    "Ascend910B4": ("910B", 20, 40, 1500, 96),  # the vendor's profiler lists 1650 MHz
    "Ascend910_9391": ("910_93", 24, 48, 1850, 192),
    "Ascend910_9381": ("910_93", 24, 48, 1800, 192),
    "Ascend910_9372": ("910_93", 20, 40, 1800, 192),
    "Ascend910_9362": ("910_93", 20, 40, 1500, 168),
}

_TABLE = {
    name: Soc(
        name=name,
        family=family,
        cube_core_count=cube,
        vector_core_count=vector or cube,
        clock_mhz=clock,
        l2_bytes=l2 * KIB * KIB,
        l0a_bytes=64 * KIB,
        l0b_bytes=64 * KIB,
        **_FAMILY[family],  # type: ignore[arg-type]
    )
    for name, (family, cube, vector, clock, l2) in _ROWS.items()
}
_ALIASES = {
    "Ascend910": "Ascend910A",
    "Ascend310P": "Ascend310P3",
    "Ascend910B": "Ascend910B1",
    "Ascend910_93": "Ascend910_9391",
}


def list_socs() -> list[str]:
    """Names of the known chips."""
    return list(_TABLE)


def get_soc(name: str) -> Soc:
    """Row of chip ``name`` (aliases such as ``Ascend910`` included); SocError lists the known chips."""
    row = _TABLE.get(_ALIASES.get(name, name))
    if row is None:
        near = difflib.get_close_matches(name, list(_TABLE), 1)
        hint = f" (nearest: {near[0]})" if near else ""
        raise SocError(f"soc is {name!r}{hint}; accepted: {', '.join(_TABLE)}")
    return row
