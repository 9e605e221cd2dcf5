# SPDX-License-Identifier: Apache-2.0
"""segsum_decay: exponentials of segment sums, with a gradient."""
