# SPDX-License-Identifier: Apache-2.0
"""FlashAttention forward and backward, layout BNSD."""

from __future__ import annotations
