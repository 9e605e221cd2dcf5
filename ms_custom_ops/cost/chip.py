# SPDX-License-Identifier: Apache-2.0
"""Numbers of the cost model for one chip, each with where it comes from (chips.json)."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from ms_custom_ops.errors import SocError, describe
from ms_custom_ops.soc import get_soc
from ms_custom_ops.soc.table import Soc

PROVENANCE = {
    "M": "measured on hardware and published",
    "V": "vendor document or configuration",
    "S": "vendor simulator",
    "D": "derived from published figures",
    "A": "assumed",
}
VECTOR_BYTES_PER_CYCLE = 256


@dataclass(frozen=True)
class RowCosts:
    """A vector instruction: cycles until its first result, and per repeat by the widest operand (1, 2, 4 bytes)."""

    startup: float
    cycles: tuple[float, float, float]


@dataclass(frozen=True)
class CostChip:
    """``values`` are what csrc/chip_values.inc names but for what depends on the Program, with ``gm_tb_s``,
    ``l2_tb_s``, ``gm_efficiency`` and ``launch_us``; ``sources`` says where each comes from."""

    soc: Soc
    clock_mhz: float
    values: Mapping[str, float]
    sources: Mapping[str, str]
    rows: Mapping[str, RowCosts]
    error: str

    def seconds(self, cycles: float) -> float:
        """Duration at the chip's clock."""
        return cycles / (self.clock_mhz * 1e6)

    def with_values(self, **values: float) -> CostChip:
        """The same chip with other numbers; SocError for a name it does not have."""
        unknown = [n for n in values if n not in self.values]
        if unknown:
            close = difflib.get_close_matches(unknown[0], self.values, n=1)
            nearest = ", ".join(sorted(self.values)) + (f"; nearest: {close[0]}" if close else "")
            raise SocError(describe("cost_chip", "number", ", ".join(unknown), nearest))
        return replace(
            self, values={**self.values, **values}, sources={**self.sources, **dict.fromkeys(values, "user")}
        )

    @property
    def gm_bytes_per_cycle(self) -> float:
        """What the chip moves from and to GM."""
        return self.values["gm_tb_s"] * 1e6 * self.values["gm_efficiency"] / self.clock_mhz

    @property
    def l2_bytes_per_cycle(self) -> float:
        """What L2 serves to all cores."""
        return self.values["l2_tb_s"] * 1e6 / self.clock_mhz

    def provenance(self) -> str:
        """How many of the numbers come from where."""
        count = {tag: 0 for tag in PROVENANCE}
        for source in self.sources.values():
            count[source[0]] = count.get(source[0], 0) + 1
        return ", ".join(f"{n} {PROVENANCE.get(tag, 'given by the caller')}" for tag, n in count.items() if n)


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(files("ms_custom_ops.cost").joinpath("chips.json").read_text())


@functools.cache
def cost_chip(name: str) -> CostChip:
    """Numbers of chip ``name``; SocError for a chip without them."""
    table, soc = _table(), get_soc(name)
    family = table["same"].get(soc.family, soc.family)
    if family not in table["families"]:
        raise SocError(describe("cost_chip", "soc", name, f"a chip of {', '.join(table['families'])}"))
    merged = {**table["base"], **table["families"][family], **table["chips"].get(soc.name, {})}
    error = merged.pop("error")
    clock = merged.pop("clock_mhz", [soc.clock_mhz, "V"])[0]
    rows = {
        name: RowCosts(float(line[0]), (float(line[1][0]), float(line[1][1]), float(line[1][2])))
        for name, line in table["rows"].items()
        if name != "note"
    }
    return CostChip(
        soc,
        float(clock),
        {n: float(v[0]) for n, v in merged.items()},
        {n: str(v[1]) for n, v in merged.items()},
        rows,
        error,
    )
