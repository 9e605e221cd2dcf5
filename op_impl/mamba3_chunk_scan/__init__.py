# SPDX-License-Identifier: Apache-2.0
"""mamba3_chunk_scan: the Mamba-3 scan (rank R, trapezoid rule), on the kernels of ssd_chunk_scan."""
