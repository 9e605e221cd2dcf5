# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_cumsum: gradient of da through the exponentials of running sums."""
