# SPDX-License-Identifier: Apache-2.0
"""bwd_segsum_dadt: gradient of da through the exponentials of segment sums."""
