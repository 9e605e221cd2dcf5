# SPDX-License-Identifier: Apache-2.0
"""``pytest -p ms_custom_ops.compat.pytest_plugin FILE`` runs a test file of an operator with the names served."""

from ms_custom_ops import compat

compat.install()
