# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ms_custom_ops.cache
import ms_custom_ops.config


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "nightly: a long grid or property test; scripts/test.sh runs it only with -m nightly"
    )


@pytest.fixture(scope="module")
def program_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own for the program cache, during the tests of a module."""
    folder = tmp_path_factory.mktemp("programs")
    caches = ms_custom_ops.config.config, ms_custom_ops.cache.default_cache
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(folder))
        for each in caches:
            each.cache_clear()
        yield folder
    for each in caches:
        each.cache_clear()
