# SPDX-License-Identifier: Apache-2.0
"""Test files below are data: tests/unit/test_atk_forms.py runs them with the names that they import."""

collect_ignore_glob = ["atk/*"]
