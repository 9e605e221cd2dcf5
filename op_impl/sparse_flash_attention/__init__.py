# SPDX-License-Identifier: Apache-2.0
"""Sparse flash attention over selected key blocks, forward and backward."""

from __future__ import annotations
