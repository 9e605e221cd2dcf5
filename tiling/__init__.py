# SPDX-License-Identifier: Apache-2.0
"""Tiling plans: pure functions from shapes, dtype and chip to frozen plans. Imports neither tik nor MindSpore."""

if __name__ == "tiling":
    raise ImportError("import ms_custom_ops.tiling; a plain 'import tiling' would make a second copy of the module")
