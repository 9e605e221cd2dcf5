# SPDX-License-Identifier: Apache-2.0
"""ssd_chunk_scan: the Mamba-2 state-space scan in chunks, forward and backward."""
