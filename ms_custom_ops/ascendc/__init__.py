# SPDX-License-Identifier: Apache-2.0
"""Ascend C on any machine: build a kernel with the C++ compiler of this machine and run it on the engine.

::

    add = mco.ascendc.build("add_custom.cpp", entry="add_custom")
    add(8, x, y, z)
    ops = mco.ascendc.load_project("AddCustom")
    z = ops["AddCustom"](x, y)

See docs/ascendc.md for what is there, what is checked and what is refused.
"""

from __future__ import annotations

from ms_custom_ops.ascendc.build import build
from ms_custom_ops.ascendc.compile import host_include_folder, include_folder
from ms_custom_ops.ascendc.kernel import Kernel
from ms_custom_ops.ascendc.op import AscendcOp
from ms_custom_ops.ascendc.project import Project, load_project

__all__ = ["AscendcOp", "Kernel", "Project", "build", "host_include_folder", "include_folder", "load_project"]
