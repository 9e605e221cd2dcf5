# SPDX-License-Identifier: Apache-2.0
"""KL loss between main attention and indexer, and its gradient."""

from __future__ import annotations
