# SPDX-License-Identifier: Apache-2.0
"""Where in the kernel's source a call of the front end came from."""

from __future__ import annotations

import contextlib
import dis
import os
import sys
from types import FrameType


def _here() -> None:
    """Only its code object is used: the path the interpreter gives to the files of this package."""


_PACKAGE = os.path.dirname(_here.__code__.co_filename) + os.sep
# Folders whose frames are never the user's, this file, and the helpers of `with` that open a scope for a kernel.
INTERNAL = (
    *(_PACKAGE + room + os.sep for room in ("tik", "program", "soc", "engine", "debug")),
    _here.__code__.co_filename,
    contextlib.contextmanager.__code__.co_filename,
)


# Folders of kernels written for an Ascend host (compat.load_kernel).
HOST_TREES: list[str] = []


def in_host_call(frame: FrameType | None) -> bool:
    """Whether ``frame`` lies in a kernel written for an Ascend host and waits in a call: of ``min``, ``max`` or
    ``sorted``, which ask for truth values without an ``if`` of the kernel's own."""
    if frame is None or not frame.f_code.co_filename.startswith(tuple(HOST_TREES)):
        return False
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL")


def user_frame() -> FrameType | None:
    """The innermost stack frame outside the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(INTERNAL):
        frame = frame.f_back
    return frame


def user_location() -> str | None:
    """``file:line`` of :func:`user_frame`."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None
