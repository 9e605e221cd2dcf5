# SPDX-License-Identifier: Apache-2.0
"""Verbs of the command line: one click command named ``command`` per file."""
