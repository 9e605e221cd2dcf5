# SPDX-License-Identifier: Apache-2.0
"""Status codes of the two-phase interface and the text of the last failure."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError, OpDtypeError, TilingError

#: Kinds of failure, as the ``status`` block of an op_info file names them, and aclnn's codes. An op's own block wins.
DEFAULT_STATUS: Mapping[str, int] = MappingProxyType(
    {"null_pointer": 161001, "invalid_parameter": 161002, "runtime": 361001, "tiling": 561002}
)
SUCCESS = 0


class StatusError(MsCustomOpsError):
    """A call that ends in a status code. ``kind`` is a key of :data:`DEFAULT_STATUS`; never leaves this package."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


def kind_of(error: Exception) -> str:
    """Kind of an error of the registry, of a tiling plan, of a kernel's trace or of the engine."""
    if isinstance(error, StatusError):
        return error.kind
    if isinstance(error, OpDtypeError):
        return "invalid_parameter"
    if isinstance(error, (OpArgumentError, TilingError)):
        return "tiling"
    return "runtime"  # no kernel for the chip, a failed trace, a failed run


_last = threading.local()


def get_recent_error() -> str:
    """Text of this thread's last two-phase call if it failed, "" if it succeeded: code, op, argument, what was given,
    what is accepted."""
    return getattr(_last, "text", "")


def succeed() -> int:
    """Forgets the last text."""
    _last.text = ""
    return SUCCESS


def fail(op: str, error: Exception, codes: Mapping[str, int]) -> int:
    """Keeps the text of ``error`` and returns its code. ``op`` goes in front unless the text starts with it; an error
    that is not the package's own keeps its type."""
    code, _last.text = told(op, error, codes)
    return code


def told(op: str, error: Exception, codes: Mapping[str, int]) -> tuple[int, str]:
    """Code and text of ``error``, as :func:`fail` keeps them."""
    kind = kind_of(error)
    code = codes.get(kind, DEFAULT_STATUS[kind])
    text = str(error) if isinstance(error, MsCustomOpsError) else f"{type(error).__name__}: {error}"
    named = text if text.partition(":")[0] == op else f"{op}: {text}"
    return code, f"{code} ({kind.replace('_', ' ')}): {named}"
