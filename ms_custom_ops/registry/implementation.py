# SPDX-License-Identifier: Apache-2.0
"""Which implementation of an op runs: a process default and a scoped override."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from ms_custom_ops.errors import OpArgumentError, describe

TIK, ASCENDC = "tik", "ascendc"

_default = TIK
_scoped: contextvars.ContextVar[str | None] = contextvars.ContextVar("ms_custom_ops_impl", default=None)


def current_impl() -> str:
    """The implementation in force: of :func:`use_impl`, else of :func:`set_impl`, else "tik"."""
    return _scoped.get() or _default


def set_impl(name: str) -> None:
    """Let ops run their ``name`` kernels, "tik" or "ascendc", in this process.

    An op without an Ascend C kernel of its own (``impl: ascendc:`` in its op_info), or without one for the chip, keeps
    its TIK kernel. Graphs that are compiled already stay as they are. OpArgumentError for another name.
    """
    global _default
    _default = _checked(name)


@contextlib.contextmanager
def use_impl(name: str) -> Iterator[str]:
    """:func:`set_impl` for the body of a ``with`` statement, in this thread only."""
    token = _scoped.set(_checked(name))
    try:
        yield name
    finally:
        _scoped.reset(token)


def _checked(name: str) -> str:
    if name not in (TIK, ASCENDC):
        raise OpArgumentError(describe("set_impl", "name", repr(name), f"{TIK}, {ASCENDC}"))
    return name
