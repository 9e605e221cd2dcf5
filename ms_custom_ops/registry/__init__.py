# SPDX-License-Identifier: Apache-2.0
"""The registry: op_info YAML files as checked, frozen OpSpecs. Imports neither MindSpore nor any kernel."""

from __future__ import annotations

from ms_custom_ops.registry.check import check_registry, resolve
from ms_custom_ops.registry.discovery import (
    OpPackage,
    get_op,
    list_ops,
    load_package,
    load_registry,
    package_of,
    packages,
)
from ms_custom_ops.registry.loader import Registry
from ms_custom_ops.registry.spec import ABSENT_DTYPE, ABSENT_SHAPE, OpSpec

__all__ = [
    "ABSENT_DTYPE",
    "ABSENT_SHAPE",
    "OpPackage",
    "OpSpec",
    "Registry",
    "check_registry",
    "get_op",
    "list_ops",
    "load_package",
    "load_registry",
    "package_of",
    "packages",
    "resolve",
]
