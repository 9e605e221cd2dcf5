# SPDX-License-Identifier: Apache-2.0
"""Which ops a run of the command line is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ms_custom_ops.registry import OpPackage, Registry


@dataclass(frozen=True)
class Scope:
    """``op_info``: a folder of op_info files that stands for everything; ``folders``: users' ops to add."""

    op_info: Path | None = None
    folders: tuple[Path, ...] = ()

    def packages(self) -> tuple[OpPackage, ...]:
        """The packages of ``folders``, every package without any."""
        from ms_custom_ops.registry import load_package, packages

        added = tuple(load_package(folder, "--ops") for folder in self.folders)
        return added or packages()

    def registry(self) -> Registry:
        """Every op there is, those of ``folders`` among them."""
        from ms_custom_ops.registry import load_registry  # not needed by every verb

        if self.op_info is not None:
            return load_registry(self.op_info)
        self.packages()
        return load_registry()

    def names(self) -> tuple[str, ...]:
        """Ops that a verb without names is about, broken ones included."""
        registries = [self.registry()] if self.op_info else [package.registry for package in self.packages()]
        return tuple(name for registry in registries for name in (*registry.ops, *registry.broken))


def current_folders() -> tuple[Path, ...]:
    """The current folder when it holds a user's ops; a checkout of this project holds its own."""
    here = Path.cwd()
    if not any(here.glob("op_info/*.yaml")) or (here / "ms_custom_ops" / "registry").is_dir():
        return ()
    return (here,)
