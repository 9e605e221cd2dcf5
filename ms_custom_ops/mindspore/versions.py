# SPDX-License-Identifier: Apache-2.0
"""Which MindSpore and NumPy go together; checked once, when MindSpore is first needed."""

from __future__ import annotations

import re
import warnings
from importlib import metadata

from ms_custom_ops.errors import MsCustomOpsError, describe

OLDEST_MINDSPORE = (2, 7, 2)
# Wheels whose parts were built against NumPy 1 and leave a Python exception pending under NumPy 2.
NUMPY_1_MINDSPORE = ((2, 10),)


class VersionError(MsCustomOpsError, ImportError):
    """MindSpore is missing or older than the glue supports."""


def _numbers(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: "2.10.0rc1" gives (2, 10, 0)."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in leading[0].split(".")) if leading else ()


def check(mindspore_version: str | None, numpy_version: str) -> str | None:
    """Warning text for a pair of versions, None when they go together; VersionError when MindSpore cannot be
    used."""
    accepted = "mindspore >= " + ".".join(map(str, OLDEST_MINDSPORE))
    if mindspore_version is None:
        raise VersionError(
            describe(
                "ms_custom_ops", "MindSpore", "not installed", f"{accepted} (pip install 'ms_custom_ops[mindspore]')"
            )
        )
    numbers = _numbers(mindspore_version)
    if numbers < OLDEST_MINDSPORE:
        raise VersionError(describe("ms_custom_ops", "MindSpore", mindspore_version, accepted))
    if _numbers(numpy_version) >= (2,) and numbers[:2] in NUMPY_1_MINDSPORE:
        return (
            f"ms_custom_ops: parts of MindSpore {mindspore_version} were built against NumPy 1; with NumPy "
            f"{numpy_version} some later, unrelated call fails once with 'SystemError: ... returned a "
            "result with an exception set'. Install 'numpy>=1.25,<2'."
        )
    return None


def _installed(*names: str) -> str | None:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def check_versions() -> None:
    """Checks what is installed; warns once about a pair that is known to misbehave."""
    text = check(_installed("mindspore", "mindspore-dev"), _installed("numpy") or "0")
    if text is not None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
