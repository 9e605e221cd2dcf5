# SPDX-License-Identifier: Apache-2.0
"""The chip that kernels are traced for: a process default and a scoped override."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from ms_custom_ops.soc.table import Soc, get_soc

_default: Soc | None = None
_scoped: contextvars.ContextVar[Soc | None] = contextvars.ContextVar("ms_custom_ops_soc", default=None)


def current_soc() -> Soc:
    """The chip in force: of :func:`use_soc`, else of :func:`set_soc`, else of the configuration."""
    scoped = _scoped.get()
    if scoped is not None:
        return scoped
    if _default is not None:
        return _default
    from ms_custom_ops.config import config

    return get_soc(config().soc)


def scoped_soc() -> Soc | None:
    """The chip of :func:`use_soc`, None outside of one."""
    return _scoped.get()


def set_soc(name: str) -> Soc:
    """Make ``name`` the chip of this process; SocError for an unknown chip."""
    global _default
    _default = get_soc(name)
    return _default


@contextlib.contextmanager
def use_soc(name: str) -> Iterator[Soc]:
    """The chip ``name`` for the body of a ``with`` statement, in this thread only."""
    token = _scoped.set(get_soc(name))
    try:
        yield _scoped.get()  # type: ignore[misc]
    finally:
        _scoped.reset(token)
