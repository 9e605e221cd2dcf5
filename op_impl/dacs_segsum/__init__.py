# SPDX-License-Identifier: Apache-2.0
"""dacs_segsum: running sums and segment sums inside chunks."""
