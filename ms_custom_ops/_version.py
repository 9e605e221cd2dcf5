# SPDX-License-Identifier: Apache-2.0
"""The one place of the version: setup.cfg reads it without importing the package."""

from __future__ import annotations

__version__ = "0.1.0"
