# SPDX-License-Identifier: Apache-2.0
"""What the ops of the sparse-attention family share."""
