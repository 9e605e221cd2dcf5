# SPDX-License-Identifier: Apache-2.0
"""Ascend C on any machine: build a kernel with the C++ compiler of this machine and run it on the engine.

::

    add = mco.ascendc.build("add_custom.cpp", entry="add_custom")
    add(8, x, y, z)

See docs/ascendc.md for what is there, what is checked and what is refused.
"""

from __future__ import annotations

from ms_custom_ops.ascendc.build import build
from ms_custom_ops.ascendc.compile import include_folder
from ms_custom_ops.ascendc.kernel import Kernel

__all__ = ["Kernel", "build", "include_folder"]
