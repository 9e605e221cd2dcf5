# SPDX-License-Identifier: Apache-2.0
"""Dprofile: sizes of a chip, by the architecture names of TIK."""

from __future__ import annotations

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.soc import Soc, current_soc, get_soc
from ms_custom_ops.tik.scopes import IR_SCOPE, scope_bytes
from ms_custom_ops.where import user_location

_ARCHITECTURES = {
    ("v100", "mini"): "Ascend310",
    ("v100", "cloud"): "Ascend910A",
    ("v200", "aic"): "Ascend310P1",
    ("v200", "vec"): "Ascend310P3",
}


class Dprofile:
    """Sizes of the current chip, or of the one that ``(ai_core_arch, ai_core_version)`` names; one name alone says no
    chip, so that the current one counts."""

    def __init__(
        self, ai_core_arch: str | None = None, ai_core_version: str | None = None, ddk_version: str | None = None
    ):
        self._soc: Soc | None = None
        if ai_core_arch is not None and ai_core_version is not None:
            name = _ARCHITECTURES.get((ai_core_arch, ai_core_version))
            if name is None:
                raise TikError(
                    describe(
                        "Dprofile",
                        "architecture",
                        f"({ai_core_arch!r}, {ai_core_version!r})",
                        ", ".join(map(str, _ARCHITECTURES)),
                    ),
                    user_location(),
                )
            self._soc = get_soc(name)

    @property
    def soc(self) -> Soc:
        """Row of the chip table."""
        return self._soc if self._soc is not None else current_soc()

    def get_aicore_num(self) -> int:
        """Number of cores a kernel is spread over."""
        return self.soc.core_count

    def get_unified_buffer_size(self) -> int:
        """UB bytes."""
        return self.soc.ub_bytes

    def get_l1_buffer_size(self) -> int:
        """L1 bytes."""
        return self.soc.l1_bytes

    def get_l0a_buffer_size(self) -> int:
        """L0A bytes."""
        return self.soc.l0a_bytes

    def get_l0b_buffer_size(self) -> int:
        """L0B bytes."""
        return self.soc.l0b_bytes

    def get_l0c_buffer_size(self) -> int:
        """L0C bytes."""
        return self.soc.l0c_bytes

    def get_product_name(self) -> str:
        """Chip family: mini, cloud, or the family name."""
        return {"310": "mini", "910A": "cloud", "310P": "aic"}.get(self.soc.family, self.soc.family)

    def buffer_size_query(self, buffer_scope: str | None = None) -> int | dict[str, int]:
        """Bytes of an on-chip buffer, or of all of them by scope constant."""
        sizes = scope_bytes(self.soc)
        table = {scope: sizes[kind] for scope, kind in IR_SCOPE.items() if kind in sizes}
        if buffer_scope is None:
            return table
        if buffer_scope not in table:
            raise TikError(
                describe("buffer_size_query", "buffer_scope", buffer_scope, ", ".join(table)), user_location()
            )
        return table[buffer_scope]
