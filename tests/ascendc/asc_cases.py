# SPDX-License-Identifier: Apache-2.0
"""What tests of Ascend C share."""

from __future__ import annotations

import shutil

import pytest

from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineMissingError


def need_ascendc() -> None:
    """Skip the module without the native engine or a C++ compiler."""
    try:
        native.library_path()
    except EngineMissingError:
        pytest.skip("no native engine", allow_module_level=True)
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        pytest.skip("no C++ compiler", allow_module_level=True)
