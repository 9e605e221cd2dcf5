# SPDX-License-Identifier: Apache-2.0
"""Where in the kernel's source a call of the front end came from."""

from __future__ import annotations

import os
import sys
from types import FrameType


def _here() -> None:
    """Only its code object is used: the path the interpreter gives to files of this folder."""


PACKAGE_PREFIX = os.path.dirname(_here.__code__.co_filename) + os.sep


def user_frame() -> FrameType | None:
    """The innermost stack frame outside this folder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE_PREFIX):
        frame = frame.f_back
    return frame


def user_location() -> str | None:
    """``file:line`` of :func:`user_frame`."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None
