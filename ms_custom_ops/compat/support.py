# SPDX-License-Identifier: Apache-2.0
"""``api_check_support`` and ``intrinsic_check_support``: look-ups in the front end's support table."""

from __future__ import annotations

import re

from ms_custom_ops.compat.choice import VEC, core_type
from ms_custom_ops.soc import current_soc
from ms_custom_ops.soc.support import SHORT, codes, column, known_instructions

# Names of methods whose instruction has another name.
_RENAMED = {
    "vrpsort16": "vbitsort",
    "vrpsort32": "vbitsort32",
    "vsort32": "vbitsort32",
    "vmrgch": "vmergech",
    "vmrgsort": "vmrgsort4v2",
    "vec_trans_scatter": "vnchwconv",
    "vec_trans": "vtranspose",
    "vec_dup": "vector_dup",
    "vbcb": "vbrcb",
    "vec_reduce_add": "vcadd",
    "vec_reduce_max": "vcmax",
    "vec_reduce_min": "vcmin",
    "h_cast": "vconv",
    "h_reduce_sum": "vcadd",
    "h_reduce_max": "vcmax",
    "h_reduce_argmax": "vcmax",
    "h_reduce_min": "vcmin",
    "h_reduce_argmin": "vcmin",
    "h_duplicate": "vector_dup",
    "h_data_move": "data_move",
    "broadcast_ub_to_l0c": "broadcast_ub_to_cc",
    "scalar_sqrt": "sqrt",
    "scalar_abs": "abs",
    "scalar_max": "max",
    "scalar_min": "min",
    "scalar_countbit0": "bcnt0",
    "scalar_countbit1": "bcnt1",
    "scalar_countleading0": "clz",
}
_FUSED = ("310", "910A", "310P")
_EVERY = ("310", "910A", "310P", "310PV", "910B")
# Methods that the support table does not list because they take every dtype: chip families that have them.
_ANY_DTYPE: dict[str, tuple[str, ...]] = {
    "data_move": _EVERY,
    "tensor_mov": _EVERY,
    "set_as": _EVERY,
    "load3dv1": _FUSED,
    "load_smask": ("310", "910A"),
    "mov_cmpmask_to_tensor": _EVERY,
    "mov_tensor_to_cmpmask": _EVERY,
}
_PAIR = re.compile(r"(?:(?:bf|f|s|u)(?:4|8|16|32|64)){2}")
_DSL_PREFIXES = ("te.lang.cce.", "tbe.dsl.")


def _family() -> str:
    family = column(current_soc())
    return "310PV" if family == "310P" and core_type() == VEC else family


def _instruction(method: str) -> str:
    known = known_instructions()
    if method in known or method in _ANY_DTYPE:
        return method
    if method in _RENAMED:
        return _RENAMED[method]
    for prefix in ("vec_", "h_"):
        if method.startswith(prefix):
            return f"v{method.removeprefix(prefix)}"
    return method


def api_check_support(api_name: str, dtype: str = "") -> bool:
    """Whether the current chip has a TIK method (``"tik.vadd"``) for a dtype ("" for any).

    Mixed operations take a code: ``f162f32`` or ``f162s32r`` for conversions, ``f16f16f32`` for products. A
    name of the TBE DSL answers for the instruction of that name; names nothing here knows give False.
    """
    method = api_name
    for prefix in ("tik.", *_DSL_PREFIXES):
        if api_name.startswith(prefix):
            method = api_name.removeprefix(prefix)
            break
    return _has(_instruction(method), dtype)


def intrinsic_check_support(intrinsic: str, dtype: str = "") -> bool:
    """Whether the current chip has ``"Intrinsic_<instruction>"`` for a dtype ("" for any)."""
    return _has(_instruction(intrinsic.removeprefix("Intrinsic_")), dtype)


def _has(instruction: str, dtype: str) -> bool:
    family = _family()
    if instruction in _ANY_DTYPE:
        return family in _ANY_DTYPE[instruction]
    have = codes(instruction, family)
    if not dtype:
        return bool(have)
    code = SHORT.get(dtype, dtype)
    # vmla, vaxpy and products may be asked for by result and operand only, e.g. f32f16.
    return code in have or bool(_PAIR.fullmatch(code)) and any(c.startswith(code) for c in have)
