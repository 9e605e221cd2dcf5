# SPDX-License-Identifier: Apache-2.0
"""Building blocks that several kernels share: tiles, vector loops, fractal layouts, cube products, row operations."""
