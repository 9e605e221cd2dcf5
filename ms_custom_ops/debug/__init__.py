# SPDX-License-Identifier: Apache-2.0
"""The TIK debugger ``tik_instance.tikdb`` and ``tik_instance.printf``, on top of the reference engine."""

from __future__ import annotations

from ms_custom_ops.debug.debugger import Debugger
from ms_custom_ops.errors import DebuggerQuit

__all__ = ["Debugger", "DebuggerQuit"]
