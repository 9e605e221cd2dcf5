# SPDX-License-Identifier: Apache-2.0
"""Lightning indexer: the top-K keys of every query row."""

from __future__ import annotations
