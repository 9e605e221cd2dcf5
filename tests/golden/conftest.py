# SPDX-License-Identifier: Apache-2.0
"""MindSpore's autograd, which goldens are compared with, runs op by op: compiled graphs take ten times as long."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def op_by_op() -> Iterator[None]:
    """PYNATIVE mode, MindSpore's default, whatever the tests before have left; a test may set another."""
    ms = sys.modules.get("mindspore")
    if ms is None:
        yield
        return
    before = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=before)
