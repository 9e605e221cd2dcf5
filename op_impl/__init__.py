# SPDX-License-Identifier: Apache-2.0
"""Kernels and goldens of the ops, one folder per op."""

from __future__ import annotations

# The folder sits at the top of the checkout: a run from there would find it a second time under another name.
if __name__ == "op_impl":
    raise ImportError("import ms_custom_ops.op_impl: the folder op_impl is packaged under that name")
