# SPDX-License-Identifier: Apache-2.0
"""Compiling many ops ahead of time, and packages of what was compiled."""
