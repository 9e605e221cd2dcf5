# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.platform``: which chip kernels are compiled for, its sizes, and what it supports.

The chip is the one of :mod:`ms_custom_ops.soc`: a call of set_current_compile_soc_info sets the chip of the
process, and a chip given to ``trace(..., soc=)`` wins over it while that call lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.compat import cce_params
from ms_custom_ops.compat.cce_params import *  # noqa: F403
from ms_custom_ops.compat.cce_params import CUBE_MKN
from ms_custom_ops.compat.choice import AIC, CORE_TYPES, VEC, Choice, choose, chosen
from ms_custom_ops.compat.support import api_check_support, intrinsic_check_support  # noqa: F401
from ms_custom_ops.errors import SocError
from ms_custom_ops.soc import Soc, current_soc, get_soc, scoped_soc, set_soc
from ms_custom_ops.soc.current import set_unmodelled, unmodelled_soc
from ms_custom_ops.soc.table import BLOCK_BYTES, KIB
from ms_custom_ops.tik.scopes import SMASK_BYTES

ASCEND_310 = "Ascend310"
ASCEND_310B = "Ascend310B"
ASCEND_310P = "Ascend310P"
ASCEND_610 = "Ascend610"
ASCEND_710 = "Ascend710"
ASCEND_910 = "Ascend910"
ASCEND_910B = "Ascend910B"
ASCEND_910_93 = "Ascend910_93"
ASCEND_910_95 = "Ascend910_95"
# Chips that kernels name and the chip table does not have.
ASCEND_615, SD3403, BS9SX1A, BS9SX2A, AS31XM1 = "Ascend615", "SD3403", "BS9SX1A", "BS9SX2A", "AS31XM1"
ASCEND_910H, ASCEND_910M, ASCEND_910P = "Ascend910H", "Ascend910M", "Ascend910P"
ASCEND_SD = "SD3403"
HI3796CV300ES = "Hi3796CV300ES"
HI3796CV300CS = "Hi3796CV300CS"
_UNMODELLED = (ASCEND_310B, ASCEND_610, ASCEND_615, ASCEND_910H, ASCEND_910M, ASCEND_910P, ASCEND_910_95, SD3403,
               BS9SX1A, BS9SX2A, AS31XM1, HI3796CV300ES, HI3796CV300CS)  # fmt: skip
# A chip and its core type in one word.
AIC_310P, AIC_610, AIC_615 = (f"Ascend{n}{AIC}" for n in ("310P", "610", "615"))
VEC_310P, VEC_610, VEC_615 = (f"Ascend{n}{VEC}" for n in ("310P", "610", "615"))
HI3796CV300ESAIC, HI3796CV300CSAIC = f"{HI3796CV300ES}{AIC}", f"{HI3796CV300CS}{AIC}"
SD3403AIC = ASCEND_SD_AIC = f"{SD3403}{AIC}"

_SHORT = {"910A": ASCEND_910, "910_93": ASCEND_910_93, "910B": ASCEND_910B, "310P": ASCEND_310P, "310": ASCEND_310}
_FIXPIPE_BYTES = (2 * KIB, KIB, 2 * KIB, 2 * KIB)


def set_current_compile_soc_info(
    soc_version: str, core_type: str = AIC, aicore_num: Any = None, l1_fusion: Any = None
) -> str:
    """Make ``soc_version`` the chip kernels are compiled for. ``aicore_num`` (1 .. cores of the chip) limits
    CORE_NUM. A chip that exists and is not modelled can be named and compared with; what needs more of it is refused.
    Returns "success"; RuntimeError for an unknown core type or number, and for a name that is no chip where no
    ``trace(..., soc=)`` says which one to use."""
    if core_type not in CORE_TYPES:
        raise RuntimeError(
            f"set_current_compile_soc_info: core_type is {core_type!r}; accepted: {', '.join(CORE_TYPES)}"
        )
    try:
        soc = get_soc(soc_version)
    except SocError as error:
        if scoped_soc() is not None:
            return "success"  # trace(..., soc=) says the chip, whatever the kernel asks for
        if not _unmodelled_family(soc_version):
            raise RuntimeError(f"set_current_compile_soc_info: {error}") from None
        set_unmodelled(soc_version)
        choose(Choice(core_type, None, l1_fusion))
        return "success"
    cores = _cores(soc, core_type)
    number = None
    if aicore_num not in (None, ""):
        text = str(aicore_num)
        number = int(text) if text.isdigit() else 0
        if not 1 <= number <= cores:
            raise RuntimeError(
                f"set_current_compile_soc_info: aicore_num is {aicore_num!r}; accepted: 1..{cores} on {soc.name}"
            )
    set_soc(soc.name)
    choose(Choice(core_type, number, l1_fusion))
    return "success"


def te_set_version(soc_version: str, core_type: str = AIC, aicore_num: Any = None, l1_fusion: Any = None) -> str:
    """Older name of :func:`set_current_compile_soc_info`."""
    return set_current_compile_soc_info(soc_version, core_type, aicore_num, l1_fusion)


te_update_version = te_set_version


def reset() -> None:
    """Core type AiCore and no limit of cores, as before any call; the chip stays if it is one of the table."""
    choose(Choice())
    set_unmodelled(None)


def _unmodelled_family(name: Any) -> str:
    """Family of a chip that kernels name and the table does not have, "" for others."""
    found = [family for family in _UNMODELLED if isinstance(name, str) and name.startswith(family)]
    return max(found, key=len, default="")


def _cores(soc: Soc, kind: str) -> int:
    return soc.vector_core_count if kind == VEC else soc.cube_core_count


def _short(soc: Soc) -> str:
    return _SHORT[soc.family]


def _fixpipe(index: int) -> Callable[[Soc], int]:
    return lambda soc: _FIXPIPE_BYTES[index] if soc.split_core else 0


_KEYS: dict[str, Callable[[Soc], Any]] = {
    "SOC_VERSION": _short,
    "SHORT_SOC_VERSION": _short,
    "FULL_SOC_VERSION": lambda soc: soc.name,
    "AICORE_TYPE": lambda soc: chosen().core_type,
    "CORE_NUM": lambda soc: chosen().aicore_num or _cores(soc, chosen().core_type),
    "CUBE_CORE_CNT": lambda soc: soc.cube_core_count,
    "VECTOR_CORE_CNT": lambda soc: soc.vector_core_count,
    "UB_SIZE": lambda soc: soc.ub_bytes,
    "L2_SIZE": lambda soc: soc.l2_bytes,
    "L1_SIZE": lambda soc: soc.l1_bytes,
    "L0A_SIZE": lambda soc: soc.l0a_bytes,
    "L0B_SIZE": lambda soc: soc.l0b_bytes,
    "L0C_SIZE": lambda soc: soc.l0c_bytes,
    "CUBE_SIZE": lambda soc: [cce_params.BLOCK_IN, cce_params.BLOCK_REDUCE, cce_params.BLOCK_OUT],
    "SMASK_SIZE": lambda soc: SMASK_BYTES if soc.family == "310" else 0,
    "UNZIP": lambda soc: 0,
    "VREG_SIZE": lambda soc: 0,
    "AREG_SIZE": lambda soc: 0,
    "PREG_SIZE": lambda soc: 0,
    "UREG_SIZE": lambda soc: 0,
    "WREG_SIZE": lambda soc: 0,
    "CUBE_VECTOR_SPLIT": lambda soc: soc.split_core,
    "COMPILER_ARCH": lambda soc: soc.arch,
    "BT_SIZE": lambda soc: soc.bt_bytes,
    "CORE_TYPE_LIST": lambda soc: ",".join(CORE_TYPES if soc.split_core or soc.family == "310P" else CORE_TYPES[:1]),
    "ubblock_size": lambda soc: BLOCK_BYTES,
    "cube_m_size": lambda soc: cce_params.BLOCK_IN,
    "cube_k_size": lambda soc: cce_params.BLOCK_REDUCE,
    "cube_n_size": lambda soc: cce_params.BLOCK_OUT,
    **{f"FB{k}_SIZE": _fixpipe(k) for k in range(len(_FIXPIPE_BYTES))},
}

# Kernels name the keys by constants of the module.
SOC_VERSION, SHORT_SOC_VERSION, FULL_SOC_VERSION = "SOC_VERSION", "SHORT_SOC_VERSION", "FULL_SOC_VERSION"
AICORE_TYPE, CORE_NUM, CUBE_CORE_CNT, VECTOR_CORE_CNT = "AICORE_TYPE", "CORE_NUM", "CUBE_CORE_CNT", "VECTOR_CORE_CNT"
UB_SIZE, L2_SIZE, L1_SIZE = "UB_SIZE", "L2_SIZE", "L1_SIZE"
L0A_SIZE, L0B_SIZE, L0C_SIZE, BT_SIZE = "L0A_SIZE", "L0B_SIZE", "L0C_SIZE", "BT_SIZE"
CUBE_SIZE, SMASK_SIZE, UNZIP, CUBE_VECTOR_SPLIT = "CUBE_SIZE", "SMASK_SIZE", "UNZIP", "CUBE_VECTOR_SPLIT"
COMPILER_ARCH, CORE_TYPE_LIST = "COMPILER_ARCH", "CORE_TYPE_LIST"
FB0_SIZE, FB1_SIZE, FB2_SIZE, FB3_SIZE = (f"FB{k}_SIZE" for k in range(4))


def get_soc_spec(key: str) -> Any:
    """Property ``key`` of the current chip: str, int, bool or list of int; sizes in bytes. CORE_NUM counts
    cores of the current core type. RuntimeError for an unknown key lists the keys."""
    read = _KEYS.get(key)
    if read is None:
        raise RuntimeError(f"Unsupported Key Value of get_soc_spec(): {key}; accepted: {', '.join(_KEYS)}")
    name = unmodelled_soc()
    if name is not None:  # what kernels compare with
        known = {"FULL_SOC_VERSION": name, "AICORE_TYPE": chosen().core_type}
        known.update(dict.fromkeys(("SOC_VERSION", "SHORT_SOC_VERSION"), _unmodelled_family(name)))
        if key in known:
            return known[key]
    return read(current_soc())


def get_bit_len(dtype: str) -> int:
    """Bits of an element; a bool takes a byte. RuntimeError for a name without a width."""
    if dtype == "bool":
        return 8
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz") if isinstance(dtype, str) else ""
    if not digits.isdigit():
        raise RuntimeError(f"get_bit_len: dtype is {dtype!r}; accepted: names that end in a width, e.g. float16")
    return int(digits)


def get_block_size() -> int:
    """Bytes of a UB block."""
    return BLOCK_BYTES


def get_cube_mkn(dtype: str = "float16") -> list[int]:
    """Rows, depth and columns of one step of the cube."""
    return list(CUBE_MKN[dtype]["mac"])


get_type_bits = get_bit_len


def get_const(value: Any) -> int:
    """Python int of a constant."""
    return int(getattr(value, "value", value))


def is_lhisi_version() -> bool:
    """Whether the chip is one of the small HiSilicon chips; none of them is in the chip table."""
    return False
