# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_fused: bwd_dadt_cumsum and bwd_segsum_dadt in one kernel."""
