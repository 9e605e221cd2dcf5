# SPDX-License-Identifier: Apache-2.0
"""The only folder that imports MindSpore: the glue around ``ops.Custom``, functions and Cells."""

from __future__ import annotations

from ms_custom_ops.mindspore.versions import check_versions

check_versions()
