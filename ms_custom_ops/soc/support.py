# SPDX-License-Identifier: Apache-2.0
"""Look-ups in the table of instructions, chips and dtypes."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikSupportError
from ms_custom_ops.soc.support_table import TABLE
from ms_custom_ops.where import user_location

FAMILIES = ("310", "910A", "310P", "310PV", "910B")
_COLUMN = {"910_93": "910B"}

SHORT = {
    "float16": "f16",
    "float32": "f32",
    "bfloat16": "bf16",
    "int8": "s8",
    "uint8": "u8",
    "int16": "s16",
    "uint16": "u16",
    "int32": "s32",
    "uint32": "u32",
    "int64": "s64",
    "uint64": "u64",
    "bool": "u8",
}
LONG = {short: name for name, short in SHORT.items() if name != "bool"}
ROUND_SUFFIX = {
    "": "",
    "none": "",
    "round": "r",
    "floor": "f",
    "ceil": "c",
    "ceiling": "c",
    "away-zero": "a",
    "to-zero": "z",
    "odd": "o",
}


def _parse(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    table: dict[str, dict[str, tuple[str, ...]]] = {}
    joined = text.replace("\n  ", " ")
    for line in joined.strip().splitlines():
        head, _, dtypes = line.partition(": ")
        name, families = head.split(" ")
        for family in families.split(","):
            table.setdefault(name, {})[family] = tuple(dtypes.split())
    return table


_TABLE = _parse(TABLE)


def column(soc: Any) -> str:
    """Column of the support table for a chip."""
    return _COLUMN.get(soc.family, soc.family)


def codes(instruction: str, family: str) -> tuple[str, ...]:
    """dtype codes an instruction has on a chip family; empty when the chip lacks it."""
    return _TABLE.get(instruction, {}).get(family, ())


def known_instructions() -> tuple[str, ...]:
    """Instructions of the table."""
    return tuple(_TABLE)


def conversion_code(src: str, dst: str, round_mode: str) -> str:
    """Code of a conversion, e.g. ``f162s32r``."""
    return f"{SHORT[src]}2{SHORT[dst]}{ROUND_SUFFIX[round_mode]}"


def families_with(instruction: str, code: str | None = None) -> list[str]:
    """Chip families that have an instruction (for a dtype code)."""
    return [f for f in FAMILIES if (code in codes(instruction, f) if code else codes(instruction, f))]


def unsupported(builder: Any, api: str, instruction: str, code: str, given: str) -> TikSupportError:
    """Error that names API, dtypes, chip and what the chip does have."""
    have = codes(instruction, builder.family)
    chip = builder.soc.name
    if not have:
        where = ", ".join(families_with(instruction)) or "no chip"
        return TikSupportError(
            f"{api}: {chip} does not have this instruction; chips that have it: {where}", user_location()
        )
    shown = ", ".join(LONG.get(c, c) for c in have)
    return TikSupportError(f"{api}: dtype is {given} on {chip}; accepted: {shown}", user_location())


def require(builder: Any, api: str, instruction: str, code: str, given: str) -> None:
    """Raise TikSupportError unless the chip has the instruction for a dtype code."""
    if code not in codes(instruction, builder.family):
        raise unsupported(builder, api, instruction, code, given)
