# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""
from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "nightly: a long grid or property test; scripts/test.sh runs it only with -m nightly")
