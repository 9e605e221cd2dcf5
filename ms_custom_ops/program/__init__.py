# SPDX-License-Identifier: Apache-2.0
"""What a kernel said: the instruction table, the nodes of a Program, its text and its bytes. Knows no chip."""
