# SPDX-License-Identifier: Apache-2.0
"""What the ops of the segment-sum family share."""
